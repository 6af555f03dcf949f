/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zlib.h>

#include "engine/data/idx.h"
#include "tests/support/bytes.h"

#define IMAGES "000008030000000200000002000000020001020304050607"
#define IMAGES_GZ                                                              \
    "1f8b08000000000002ff6360e06066606060826346266616563676003fd4821618000000"
#define IMAGES_GZ_BAD_CRC                                                      \
    "1f8b08000000000002ff6360e06066606060826346266616563676003ed4821618000000"

static int
parse(const char *hex, struct array *out, struct err *err)
{
    size_t n;
    uint8_t *bytes = bytes_from_hex(hex, &n);
    int rc = idx_parse(bytes, n, "f", out, err);

    free(bytes);
    return rc;
}

static void
check_refused(const char *hex, const char *sentence)
{
    struct array a;
    struct err err;

    err_clear(&err);
    assert_int_equal(parse(hex, &a, &err), ERR_DATA);
    assert_string_equal(err.msg, sentence);
    assert_null(a.memory);
}

static void
check_images(const char *hex)
{
    struct array a;
    struct err err;

    assert_int_equal(parse(hex, &a, &err), 0);
    assert_int_equal(a.desc.dtype, DTYPE_U8);
    assert_int_equal(a.desc.rank, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(a.desc.dim[i], 2);
    for (int i = 0; i < 8; i++)
        assert_int_equal(((const uint8_t *)a.data)[i], i);
    array_fini(&a);
}

/* case_c51: images */
static void
test_idx_images(void **state)
{
    (void)state;
    check_images(IMAGES);
}

/* case_c51: unpacked */
static void
test_idx_gzip(void **state)
{
    (void)state;
    check_images(IMAGES_GZ);
    /* A second empty member, then padding: still the same file. */
    check_images(IMAGES_GZ "1f8b080000000000000303000000000000000000"
                           "000000000000");
}

/* case_c51: the CRC, and more of the kind */
static void
test_idx_gzip_damaged(void **state)
{
    (void)state;
    check_refused(IMAGES_GZ_BAD_CRC,
                  "f: gzip CRC does not match the 24 unpacked bytes");
    check_refused("1f8b08000000000002ff6360e06066606060",
                  "f: gzip data end early, after 7 unpacked bytes");
    check_refused(IMAGES_GZ "31", "f: 1 bytes after the gzip data");
    check_refused("1f8b", "f: gzip data end early, after 0 unpacked bytes");
    check_refused("1f8bffffffffffffffffffffffffffff",
                  "f: gzip: unknown compression method after 0 unpacked "
                  "bytes");
}

/* case_c51: labels */
static void
test_idx_labels(void **state)
{
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse("00000801000000020703", &a, &err), 0);
    assert_int_equal(a.desc.rank, 1);
    assert_int_equal(a.n_elems, 2);
    assert_int_equal(((const uint8_t *)a.data)[0], 7);
    assert_int_equal(((const uint8_t *)a.data)[1], 3);
    array_fini(&a);
}

/* case_c51: int32 */
static void
test_idx_int32(void **state)
{
    static const int32_t want[] = {5, 4, 1002, -1, 0, 7};
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse("00000c0200000002000000030000000500000004000003ea"
                           "ffffffff0000000000000007",
                           &a, &err),
                     0);
    assert_int_equal(a.desc.dim[0], 2);
    assert_int_equal(a.desc.dim[1], 3);
    assert_memory_equal(a.data, want, sizeof(want));
    array_fini(&a);
}

static void
test_idx_other_dtypes(void **state)
{
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse("00000901000000"
                           "02ff80",
                           &a, &err),
                     0);
    assert_int_equal(((const int8_t *)a.data)[1], -128);
    array_fini(&a);
    assert_int_equal(parse("00000b0100000002ff000001", &a, &err), 0);
    assert_int_equal(((const int16_t *)a.data)[0], -256);
    assert_int_equal(((const int16_t *)a.data)[1], 1);
    array_fini(&a);
    assert_int_equal(parse("00000d01000000013fc00000", &a, &err), 0);
    assert_true(((const float *)a.data)[0] == 1.5f);
    array_fini(&a);
    assert_int_equal(parse("00000e0100000001c004000000000000", &a, &err), 0);
    assert_true(((const double *)a.data)[0] == -2.5);
    array_fini(&a);
}

/* case_c51: truncated, and more of the kind */
static void
test_idx_wrong_length(void **state)
{
    (void)state;
    check_refused("000008030000000200000002000000020001020304",
                  "f: 21 bytes, expected 24");
    check_refused(IMAGES "00", "f: 25 bytes, expected 24");
    check_refused("", "f: 0 bytes, too short for IDX");
    check_refused("00000803000000", "f: 7 bytes, the header needs 16");
}

static void
test_idx_wrong_header(void **state)
{
    (void)state;
    check_refused("89504e470d0a1a0a",
                  "f: not an IDX file, it starts with 89504e47");
    check_refused("00000f0100000000",
                  "f: not an IDX file, it starts with 00000f01");
    check_refused("00000800", "f: 0 dimensions, allowed 1..6");
    check_refused("000008ff", "f: 255 dimensions, allowed 1..6");
    check_refused("00000806ffffffffffffffffffffffffffffffffffffffffffffffff",
                  "f: shape too large");
    /* 2^60 elements: a length, but nothing is allocated for it. */
    check_refused("000008034000000040000000"
                  "0000000100",
                  "f: 17 bytes, expected 1152921504606846992");
}

/* A bomb: 16 MiB of zeros in 16 KiB behind a header that declares 8 bytes. */
static void
test_idx_gzip_more_than_declared(void **state)
{
    const size_t n = 16 << 20;
    uint8_t *plain = calloc(n, 1), *packed = malloc(n);
    z_stream z = {0};
    struct array a;
    struct err err;

    (void)state;
    assert_true(plain != NULL && packed != NULL);
    memcpy(plain, "\0\0\x08\x01\0\0\0\x08", 8);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY),
                     Z_OK);
    z.next_in = plain;
    z.avail_in = (uInt)n;
    z.next_out = packed;
    z.avail_out = (uInt)n;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(idx_parse(packed, z.total_out, "f", &a, &err), ERR_DATA);
    assert_string_equal(err.msg, "f: 16777216 bytes, expected 16");
    deflateEnd(&z);
    free(plain);
    free(packed);
}

static void
test_idx_open_refuses(void **state)
{
    char dir[64], path[96], want[256];
    struct array a;
    struct err err;

    (void)state;
    bytes_make_dir(dir);
    assert_int_equal(idx_open(dir, &a, &err), ERR_IO);
    snprintf(want, sizeof(want), "%s: not a regular file", dir);
    assert_string_equal(err.msg, want);
    snprintf(path, sizeof(path), "%s/none", dir);
    assert_int_equal(idx_open(path, &a, &err), ERR_IO);
    snprintf(want, sizeof(want), "%s: No such file or directory", path);
    assert_string_equal(err.msg, want);
    snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(idx_open(path, &a, &err), ERR_IO); /* and returns */
    snprintf(path, sizeof(path), "%s/empty", dir);
    bytes_write_file(path, "", 0);
    assert_int_equal(idx_open(path, &a, &err), ERR_DATA);
    bytes_remove_dir(dir);
}

static void
test_idx_open_reads(void **state)
{
    static const char *const hex[] = {IMAGES, IMAGES_GZ};
    char dir[64], path[96];
    struct array a;
    struct err err;

    (void)state;
    bytes_make_dir(dir);
    snprintf(path, sizeof(path), "%s/f", dir);
    for (int i = 0; i < 2; i++) {
        size_t n;
        uint8_t *bytes = bytes_from_hex(hex[i], &n);

        bytes_write_file(path, bytes, n);
        assert_int_equal(idx_open(path, &a, &err), 0);
        assert_int_equal(((const uint8_t *)a.data)[7], 7);
        array_fini(&a);
        free(bytes);
    }
    bytes_remove_dir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_images),
        cmocka_unit_test(test_idx_gzip),
        cmocka_unit_test(test_idx_gzip_damaged),
        cmocka_unit_test(test_idx_labels),
        cmocka_unit_test(test_idx_int32),
        cmocka_unit_test(test_idx_other_dtypes),
        cmocka_unit_test(test_idx_wrong_length),
        cmocka_unit_test(test_idx_wrong_header),
        cmocka_unit_test(test_idx_gzip_more_than_declared),
        cmocka_unit_test(test_idx_open_refuses),
        cmocka_unit_test(test_idx_open_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
