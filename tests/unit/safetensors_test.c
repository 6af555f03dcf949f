/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>

#include "engine/base/digest.h"
#include "engine/base/failpoint.h"
#include "engine/data/safetensors.h"
#include "tests/support/bytes.h"

static int
parse(const void *bytes, size_t n, struct safetensors **out, struct err *err)
{
    err_clear(err);
    return safetensors_parse(bytes, n, "f", out, err);
}

static void
check_refused_hex(const char *hex, const char *sentence)
{
    struct safetensors *f;
    struct err err;
    size_t n;
    uint8_t *bytes = bytes_from_hex(hex, &n);

    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    assert_null(f);
    assert_string_equal(err.msg, sentence);
    free(bytes);
}

/* A file from its JSON and n_data zeros. */
static uint8_t *
make(const char *json, size_t n_data, size_t *n)
{
    const size_t n_json = strlen(json);
    uint8_t *bytes = calloc(8 + n_json + n_data, 1);

    assert_non_null(bytes);
    bytes[0] = (uint8_t)n_json;
    bytes[1] = (uint8_t)(n_json >> 8);
    memcpy(bytes + 8, json, n_json);
    *n = 8 + n_json + n_data;
    return bytes;
}

static void
check_refused(const char *json, size_t n_data, const char *sentence)
{
    struct safetensors *f;
    struct err err;
    size_t n;
    uint8_t *bytes = make(json, n_data, &n);

    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    assert_null(f);
    assert_string_equal(err.msg, sentence);
    free(bytes);
}

static float
value_at(const struct safetensors_entry *e, int i)
{
    float v;

    memcpy(&v, (const uint8_t *)e->data + 4 * i, 4);
    return v;
}

/* case_c48: all but its good file */
static void
test_safetensors_header_length(void **state)
{
    (void)state;
    check_refused_hex("ffffffffffffffff7b7d",
                      "f: header length 18446744073709551615 exceeds file "
                      "size 10; not a safetensors file, or cut");
    check_refused_hex("00000000000100007b7d",
                      "f: header length 1099511627776 exceeds file size 10; "
                      "not a safetensors file, or cut");
    check_refused_hex("00000000000000", "f: 7 bytes, shorter than 8 bytes");
    check_refused_hex("76657273696f6e2068747470733a2f2f6769742d6c66732e676974"
                      "6875622e636f6d2f737065632f76310a",
                      "f: not a safetensors file but the pointer of Git LFS");
    check_refused_hex("0200000000000000"
                      "5b5d",
                      "f: not a safetensors file, no '{' at byte 8");
    check_refused_hex("0000000000000000"
                      "7b7d",
                      "f: not a safetensors file, no '{' at byte 8");
}

/* The cap holds even where the file is long enough. */
static void
test_safetensors_header_cap(void **state)
{
    const size_t n = SAFETENSORS_MAX_HEADER_BYTES + 64;
    uint8_t *bytes = calloc(n, 1);
    struct safetensors *f;
    struct err err;

    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, "\x01\0\0\x01\0\0\0\0{", 9);
    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    assert_string_equal(err.msg, "f: header length 16777217, at most 16777216");
    free(bytes);
}

/* case_c48: the good file */
static void
test_safetensors_good(void **state)
{
    struct safetensors *f;
    struct err err;
    size_t n;
    uint8_t *bytes = bytes_from_hex(
        "36000000000000007b2277223a7b226474797065223a22463332222c227368617065"
        "223a5b325d2c22646174615f6f666673657473223a5b302c385d7d7d0000803f0000"
        "0040",
        &n);
    const struct safetensors_entry *e;

    (void)state;
    assert_int_equal(parse(bytes, n, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 1);
    e = safetensors_find(f, "w");
    assert_non_null(e);
    assert_int_equal(e->desc.rank, 1);
    assert_int_equal(e->desc.dim[0], 2);
    assert_true(value_at(e, 0) == 1.0f && value_at(e, 1) == 2.0f);
    assert_null(safetensors_find(f, "x"));
    safetensors_close(&f);
    free(bytes);
}

/* case_c50: the truncated file */
static void
test_safetensors_truncated(void **state)
{
    (void)state;
    check_refused_hex(
        "37000000000000007b2277223a7b226474797065223a22463332222c227368617065"
        "223a5b345d2c22646174615f6f666673657473223a5b302c31365d7d7d0000803f00"
        "000040",
        "f: data 8 bytes, header declares 16");
}

/* case_c50: empty, scalar and bfloat16 */
static void
test_safetensors_zero_scalar_bf16(void **state)
{
    struct safetensors *f;
    struct err err;
    size_t n;
    uint8_t *bytes = bytes_from_hex(
        "a2000000000000007b226d223a7b226474797065223a22463332222c227368617065"
        "223a5b302c335d2c22646174615f6f666673657473223a5b302c305d7d2c2273223a"
        "7b226474797065223a22463332222c227368617065223a5b5d2c22646174615f6f66"
        "6673657473223a5b302c345d7d2c2262223a7b226474797065223a2242463136222c"
        "227368617065223a5b325d2c22646174615f6f666673657473223a5b342c385d7d7d"
        "0000e040803f00c0",
        &n);
    const struct safetensors_entry *e;

    (void)state;
    assert_int_equal(parse(bytes, n, &f, &err), 0);
    e = safetensors_find(f, "m");
    assert_int_equal(e->desc.rank, 2);
    assert_int_equal(e->desc.dim[0], 0);
    assert_int_equal(e->desc.dim[1], 3);
    e = safetensors_find(f, "s");
    assert_int_equal(e->desc.rank, 0);
    assert_true(value_at(e, 0) == 7.0f);
    e = safetensors_find(f, "b");
    assert_int_equal(e->desc.dtype, DTYPE_BF16);
    assert_memory_equal(e->data, "\x80\x3f\x00\xc0", 4); /* 1, -2 */
    safetensors_close(&f);
    free(bytes);
}

#define T(name, dtype, shape, offsets)                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape                   \
    ",\"data_offsets\":" offsets "}"

static void
test_safetensors_refused_tensors(void **state)
{
    (void)state;
    check_refused("{" T("w", "F32", "[2]", "[4,12]") "}", 12,
                  "f: tensor w: data_offsets leave a gap or overlap");
    check_refused("{" T("v", "F32", "[2]", "[0,8]") "," T("w", "F32", "[2]",
                                                          "[4,12]") "}",
                  12, "f: tensor w: data_offsets leave a gap or overlap");
    check_refused("{" T("w", "F32", "[2]", "[0,8]") "}", 9,
                  "f: data 9 bytes, header declares 8");
    check_refused("{" T("w", "F32", "[3]", "[0,8]") "}", 8,
                  "f: tensor w: data_offsets span 8 bytes, its shape needs "
                  "12");
    check_refused("{" T("w", "F32", "[2]", "[8,0]") "}", 8,
                  "f: tensor w: data_offsets run backwards");
    check_refused("{" T("w", "F32", "[-2]", "[0,8]") "}", 8,
                  "f: tensor w: shape holds something not a size");
    check_refused("{" T("w", "F32", "2", "[0,8]") "}", 8,
                  "f: tensor w: shape is not an array");
    check_refused("{" T("w", "F32", "[2]", "[0,8.0]") "}", 8,
                  "f: tensor w: data_offsets are not two integers");
    check_refused("{" T("w", "F32", "[2]", "[0,4,8]") "}", 8,
                  "f: tensor w: data_offsets are not two integers");
    check_refused("{" T("w", "C64", "[1]", "[0,8]") "}", 8,
                  "f: tensor w: dtype C64 is not supported");
    check_refused("{" T("w", "F32", "[4294967296,4294967296]", "[0,8]") "}", 8,
                  "f: tensor w: shape too large");
    check_refused("{" T("w", "F32", "[1,1,1,1,1,1,1]", "[0,4]") "}", 4,
                  "f: tensor w: more than 6 dimensions");
    check_refused("{\"w\":1}", 0,
                  "f: tensor w: not {dtype, shape, data_offsets}");
    check_refused("{\"__metadata__\":{\"a\":1}}", 0,
                  "f: tensor __metadata__: a value is not a string");
    check_refused("{\"__metadata__\":[]}", 0,
                  "f: tensor __metadata__: not an object");
}

static void
test_safetensors_refused_json(void **state)
{
    struct safetensors *f;
    struct err err;
    size_t n;
    uint8_t *bytes = make(
        "{" T("w", "F32", "[1]", "[0,4]") "," T("w", "F32", "[1]", "[0,4]") "}",
        4, &n);

    (void)state;
    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    assert_non_null(strstr(err.msg, "f: header: duplicate object key"));
    free(bytes);
    bytes = make("{\"w\":", 0, &n);
    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    assert_non_null(strstr(err.msg, "f: header: "));
    free(bytes);
    bytes = make("{} x", 0, &n);
    assert_int_equal(parse(bytes, n, &f, &err), ERR_DATA);
    free(bytes);
}

/* ---- writing ------------------------------------------------------------ */

static const float w_data[] = {1, 2, 3, 4, 5, 6};
static const int64_t i_data = 1234567890123;
static const uint16_t h_data[] = {0x3c00, 0xc000, 0x7bff};

static void
make_entries(struct safetensors_entry e[4])
{
    const int64_t two_three[] = {2, 3}, three[] = {3}, none[] = {0, 5};

    e[0] = (struct safetensors_entry){"h \"quoted\" \xc3\xa4",
                                      tensor_make(DTYPE_F16, 1, three), h_data};
    e[1] = (struct safetensors_entry){"z", tensor_make(DTYPE_F32, 2, two_three),
                                      w_data};
    e[2] = (struct safetensors_entry){"n", tensor_make(DTYPE_I64, 0, NULL),
                                      &i_data};
    e[3] =
        (struct safetensors_entry){"a", tensor_make(DTYPE_F32, 2, none), NULL};
}

static void
write_entries(const char *path, char digest[33])
{
    const struct safetensors_pair metadata[] = {
        {"format", "pt"}, {"policy", "{\"a\": \"b\\n\"}"}};
    struct safetensors_entry e[4];
    struct err err;
    int64_t n_bytes = 0;
    struct stat st;
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    assert_true(fd >= 0);
    make_entries(e);
    assert_int_equal(
        safetensors_write(fd, e, 4, metadata, 2, digest, &n_bytes, &err), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, n_bytes);
    close(fd);
}

static void
test_safetensors_write_and_read(void **state)
{
    char dir[64], path[96], digest[33], again[33];
    const struct safetensors_entry *e;
    struct safetensors *f;
    struct err err;
    uint8_t *bytes;
    size_t n;

    (void)state;
    bytes_make_dir(dir);
    snprintf(path, sizeof(path), "%s/f", dir);
    write_entries(path, digest);
    bytes = bytes_read_file(path, &n);
    digest_of(bytes, n, again);
    assert_string_equal(digest, again);
    assert_int_equal(bytes[0] % 8, 0); /* data are aligned in the file */

    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 4);
    /* Widest dtype first, then by name. */
    assert_string_equal(safetensors_at(f, 0)->name, "n");
    assert_string_equal(safetensors_at(f, 1)->name, "a");
    assert_string_equal(safetensors_at(f, 2)->name, "z");
    e = safetensors_find(f, "z");
    assert_memory_equal(e->data, w_data, sizeof(w_data));
    e = safetensors_find(f, "h \"quoted\" \xc3\xa4");
    assert_memory_equal(e->data, h_data, sizeof(h_data));
    e = safetensors_find(f, "n");
    assert_memory_equal(e->data, &i_data, sizeof(i_data));
    assert_string_equal(safetensors_metadata(f, "format"), "pt");
    assert_string_equal(safetensors_metadata(f, "policy"), "{\"a\": \"b\\n\"}");
    assert_null(safetensors_metadata(f, "none"));
    safetensors_close(&f);

    /* Every shorter file is refused. */
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *shorter = malloc(cut > 0 ? cut : 1);

        memcpy(shorter, bytes, cut);
        assert_int_equal(parse(shorter, cut, &f, &err), ERR_DATA);
        free(shorter);
    }
    free(bytes);
    bytes_remove_dir(dir);
}

static void
test_safetensors_write_is_deterministic(void **state)
{
    char dir[64], path[96], digest[2][33];

    (void)state;
    bytes_make_dir(dir);
    snprintf(path, sizeof(path), "%s/f", dir);
    write_entries(path, digest[0]);
    write_entries(path, digest[1]);
    assert_string_equal(digest[0], digest[1]);
    bytes_remove_dir(dir);
}

static void
test_safetensors_write_errors(void **state)
{
    struct safetensors_entry e[4];
    struct err err;
    char digest[33];
    int64_t n_bytes;
    const int full = open("/dev/full", O_WRONLY);

    (void)state;
    make_entries(e);
    assert_true(full >= 0);
    assert_int_equal(
        safetensors_write(full, e, 4, NULL, 0, digest, &n_bytes, &err),
        ERR_NOSPACE);
    close(full);
    assert_int_equal(
        safetensors_write(-1, e, 4, NULL, 0, digest, &n_bytes, &err), ERR_IO);
}

/* What `xxh128sum` prints for these bytes. */
static void
test_safetensors_digest(void **state)
{
    char text[33];

    (void)state;
    digest_of("", 0, text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
}

static void
test_safetensors_failpoint_text(void **state)
{
    (void)state;
    assert_false(failpoint_arm(NULL));
    assert_false(failpoint_arm(""));
    assert_false(failpoint_arm("a:"));
    assert_false(failpoint_arm("a:0"));
    assert_false(failpoint_arm("a:2x"));
    assert_false(failpoint_arm("a=ENOTHING"));
    assert_true(failpoint_arm("a.b:3=EIO"));
    assert_int_equal(failpoint_hit("a.c"), 0);
    assert_int_equal(failpoint_hit("a.b"), 0);
    assert_int_equal(failpoint_hit("a.b"), 0);
    assert_int_equal(failpoint_hit("a.b"), EIO);
    assert_int_equal(failpoint_hit("a.b"), 0);
    failpoint_arm(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_header_length),
        cmocka_unit_test(test_safetensors_header_cap),
        cmocka_unit_test(test_safetensors_good),
        cmocka_unit_test(test_safetensors_truncated),
        cmocka_unit_test(test_safetensors_zero_scalar_bf16),
        cmocka_unit_test(test_safetensors_refused_tensors),
        cmocka_unit_test(test_safetensors_refused_json),
        cmocka_unit_test(test_safetensors_write_and_read),
        cmocka_unit_test(test_safetensors_write_is_deterministic),
        cmocka_unit_test(test_safetensors_write_errors),
        cmocka_unit_test(test_safetensors_digest),
        cmocka_unit_test(test_safetensors_failpoint_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
