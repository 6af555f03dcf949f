/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/data/npy.h"
#include "tests/support/bytes.h"

/* Files as NumPy writes them: version 1, header padded to 128 bytes. */
#define FORTRAN_2X3                                                            \
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e"   \
    "5f6f72646572273a20547275652c20277368617065273a2028322c2033292c207d2020"   \
    "2020202020202020202020202020202020202020202020202020202020202020202020"   \
    "202020202020202020202020202020202020202020200a0000803f0000804000000040"   \
    "0000a040000040400000c040"
#define BIG_ENDIAN_3                                                           \
    "934e554d5059010076007b276465736372273a20273e6634272c2027666f727472616e"   \
    "5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d202020"   \
    "2020202020202020202020202020202020202020202020202020202020202020202020"   \
    "202020202020202020202020202020202020202020200a3f80000040000000c0600000"
#define TRUNCATED_4X2                                                          \
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e"   \
    "5f6f72646572273a2046616c73652c20277368617065273a2028342c2032292c207d20"   \
    "2020202020202020202020202020202020202020202020202020202020202020202020"   \
    "202020202020202020202020202020202020202020200a000000000000803f00000040"   \
    "0000404000008040"
#define SHAPE_OVERFLOW                                                         \
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e"   \
    "5f6f72646572273a2046616c73652c20277368617065273a2028343239343936373239"   \
    "362c2034323934393637323936292c207d202020202020202020202020202020202020"   \
    "202020202020202020202020202020202020202020200a"
#define TRAILING_2                                                             \
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e"   \
    "5f6f72646572273a2046616c73652c20277368617065273a2028312c292c207d202020"   \
    "2020202020202020202020202020202020202020202020202020202020202020202020"   \
    "202020202020202020202020202020202020202020200a0000803f5858"
#define HEADER_LONGER_THAN_FILE                                                \
    "934e554d50590100ffff7b276465736372273a20273c663427"

static int
parse_hex(const char *hex, struct array *out, struct err *err)
{
    size_t n;
    uint8_t *bytes = bytes_from_hex(hex, &n);
    int rc = npy_parse(bytes, n, "f", out, err);

    free(bytes);
    return rc;
}

/* A file from the text of its dict and its data, unpadded. */
static int
parse_text(int version, const char *dict, const void *data, size_t n_data,
           struct array *out, struct err *err)
{
    const size_t n = strlen(dict), at = version == 1 ? 10 : 12;
    uint8_t *bytes = malloc(at + n + n_data);
    int rc;

    assert_non_null(bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t)version;
    bytes[7] = 0;
    memset(bytes + 8, 0, at - 8);
    bytes[8] = (uint8_t)n;
    bytes[9] = (uint8_t)(n >> 8);
    memcpy(bytes + at, dict, n);
    memcpy(bytes + at + n, data, n_data);
    rc = npy_parse(bytes, at + n + n_data, "f", out, err);
    free(bytes);
    return rc;
}

static void
check_refused_hex(const char *hex, const char *sentence)
{
    struct array a;
    struct err err;

    err_clear(&err);
    assert_int_equal(parse_hex(hex, &a, &err), ERR_DATA);
    assert_string_equal(err.msg, sentence);
    assert_null(a.memory);
}

static void
check_refused(const char *dict, const char *sentence)
{
    struct array a;
    struct err err;

    err_clear(&err);
    assert_int_equal(parse_text(1, dict, "abcd", 4, &a, &err), ERR_DATA);
    assert_string_equal(err.msg, sentence);
    assert_null(a.memory);
}

/* case_c44 */
static void
test_npy_fortran_order(void **state)
{
    static const float want[] = {1, 2, 3, 4, 5, 6};
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse_hex(FORTRAN_2X3, &a, &err), 0);
    assert_int_equal(a.desc.rank, 2);
    assert_int_equal(a.desc.dim[0], 2);
    assert_int_equal(a.desc.dim[1], 3);
    assert_memory_equal(a.data, want, sizeof(want));
    array_fini(&a);
}

/* Element (i, j, k) is 100 i + 10 j + k, the first index fastest in the file,
 * and big-endian besides. */
static void
test_npy_fortran_order_rank_3(void **state)
{
    uint8_t data[2 * 3 * 4 * 2];
    struct array a;
    struct err err;
    int at = 0;

    (void)state;
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++, at += 2) {
                data[at] = 0;
                data[at + 1] = (uint8_t)(100 * i + 10 * j + k);
            }
    assert_int_equal(parse_text(1,
                                "{'descr': '>i2', 'fortran_order': True, "
                                "'shape': (2, 3, 4)}",
                                data, sizeof(data), &a, &err),
                     0);
    at = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                assert_int_equal(((const int16_t *)a.data)[at++],
                                 100 * i + 10 * j + k);
    array_fini(&a);
}

/* case_c45 */
static void
test_npy_big_endian(void **state)
{
    static const float want[] = {1.0f, 2.0f, -3.5f};
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse_hex(BIG_ENDIAN_3, &a, &err), 0);
    assert_int_equal(a.desc.rank, 1);
    assert_int_equal(a.n_elems, 3);
    assert_memory_equal(a.data, want, sizeof(want));
    array_fini(&a);
}

/* case_c47: and more of the kind */
static void
test_npy_wrong_length(void **state)
{
    (void)state;
    check_refused_hex(TRUNCATED_4X2, "f: data 20 bytes, expected 32");
    check_refused_hex(SHAPE_OVERFLOW, "f: shape too large");
    check_refused_hex(TRAILING_2, "f: 2 extra bytes after the data");
    check_refused_hex(HEADER_LONGER_THAN_FILE,
                      "f: header length 65535 beyond end of file");
    check_refused_hex("934e554d50590200ffffff00",
                      "f: header length 16777215 beyond end of file");
    check_refused_hex("934e554d50590100", "f: not an .npy file");
    check_refused_hex("934e554d505902000000", "f: 10 bytes, too short for "
                                              ".npy");
    check_refused_hex("504b0304140000000000", "f: not an .npy file");
    check_refused_hex("934e554d505904000000",
                      "f: .npy version 4.0, known are 1..3");
}

static void
test_npy_versions(void **state)
{
    static const char dict[] =
        "{'shape': (1L,), \"fortran_order\" : False,'descr':'=i4' ,}  \n";
    const int32_t v = -7;
    struct array a;
    struct err err;

    (void)state;
    for (int version = 1; version <= 3; version++) {
        assert_int_equal(parse_text(version, dict, &v, sizeof(v), &a, &err), 0);
        assert_int_equal(a.desc.dtype, DTYPE_I32);
        assert_int_equal(((const int32_t *)a.data)[0], -7);
        assert_int_equal((uintptr_t)a.data % sizeof(int32_t), 0);
        array_fini(&a);
    }
}

static void
test_npy_header_cap(void **state)
{
    const size_t n = 70000;
    uint8_t *bytes = malloc(12 + n);
    struct array a;
    struct err err;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, ' ', 12 + n);
    memcpy(bytes, "\x93NUMPY\x02\0\x70\x11\x01\0{", 13);
    assert_int_equal(npy_parse(bytes, 12 + n, "f", &a, &err), ERR_DATA);
    assert_string_equal(err.msg, "f: header length 70000, at most 65536");
    free(bytes);
}

#define DICT(descr)                                                            \
    "{'descr': " descr ", 'fortran_order': False, 'shape': (1,)}"

static void
check_value(const char *dict, const void *data, size_t n, enum dtype dtype,
            double want)
{
    struct array a;
    struct err err;
    float f;

    assert_int_equal(parse_text(1, dict, data, n, &a, &err), 0);
    assert_int_equal(a.desc.dtype, dtype);
    assert_true(array_get_double(&a, 0) == want);
    array_to_f32(&a, 0, 1, &f);
    assert_true(f == (float)want);
    array_fini(&a);
}

static void
test_npy_dtypes(void **state)
{
    (void)state;
    check_value(DICT("'<f2'"), "\x00\xc2", 2, DTYPE_F16, -3.0);
    check_value(DICT("'>f2'"), "\xc2\x00", 2, DTYPE_F16, -3.0);
    check_value(DICT("'<f4'"), "\0\0\x20\x40", 4, DTYPE_F32, 2.5);
    check_value(DICT("'<f8'"), "\x9a\x99\x99\x99\x99\x99\xb9\x3f", 8, DTYPE_F64,
                0.1);
    check_value(DICT("'|i1'"), "\xfe", 1, DTYPE_I8, -2);
    check_value(DICT("'<i2'"), "\xfe\xff", 2, DTYPE_I16, -2);
    check_value(DICT("'>i4'"), "\xff\xff\xff\xfe", 4, DTYPE_I32, -2);
    check_value(DICT("'<i8'"), "\xfe\xff\xff\xff\xff\xff\xff\xff", 8, DTYPE_I64,
                -2);
    check_value(DICT("'|u1'"), "\xfe", 1, DTYPE_U8, 254);
    check_value(DICT("'<u2'"), "\xfe\xff", 2, DTYPE_U16, 65534);
    check_value(DICT("'<u4'"), "\xfe\xff\xff\xff", 4, DTYPE_U32, 4294967294.0);
    check_value(DICT("'<u8'"), "\0\0\0\0\0\0\0\x40", 8, DTYPE_I64, 0x1p62);
    check_value(DICT("'|b1'"), "\x01", 1, DTYPE_BOOL, 1);
}

static void
test_npy_u64_beyond_int64(void **state)
{
    static const uint8_t data[16] = {1, 0, 0, 0, 0, 0, 0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0x80};
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(parse_text(1,
                                "{'descr': '<u8', 'fortran_order': False, "
                                "'shape': (2,)}",
                                data, sizeof(data), &a, &err),
                     ERR_DATA);
    assert_string_equal(err.msg, "f: row 2 value 9223372036854775808, at most "
                                 "9223372036854775807");
    assert_null(a.memory);
}

static void
test_npy_refused_dtypes(void **state)
{
    static const char listed[] = "; allowed are f2 f4 f8 i1..i8 u1..u8 b1";
    static const char *const descr[] = {"<c8",  "<U4", "|S3", "<M8",
                                        "|V4",  "|f4", "<f3", "f4",
                                        "<f16", "x",   "<i3"};
    char dict[128], want[160];

    (void)state;
    check_refused(DICT("'|O'"), "f: object arrays (pickles) are not read");
    check_refused(DICT("[('a', '<f4')]"), "f: structured arrays are not read");
    for (size_t i = 0; i < sizeof(descr) / sizeof(descr[0]); i++) {
        snprintf(dict, sizeof(dict),
                 "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}",
                 descr[i]);
        snprintf(want, sizeof(want), "f: dtype '%s' is not supported%s",
                 descr[i], listed);
        check_refused(dict, want);
    }
}

#define F4(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape "}"

static void
test_npy_refused_headers(void **state)
{
    (void)state;
    check_refused("", "f: header: not a dict");
    check_refused("[]", "f: header: not a dict");
    check_refused("{", "f: header: not a dict of strings");
    check_refused("{'descr'", "f: header: not a dict of strings");
    check_refused("{'descr", "f: header: not a dict of strings");
    check_refused("{'descr':", "f: header: descr is not a string");
    check_refused("{'descr': '<f4'}",
                  "f: header: descr, fortran_order or shape is missing");
    check_refused("{'descr': '<f4' 'shape': (1,)}",
                  "f: header: not a dict of strings");
    check_refused("{'descr': '<f4', 'descr': '<f4'}",
                  "f: header: a key stands twice");
    check_refused("{'order': 'C'}", "f: header: unknown key");
    check_refused("{'fortran_order': 0}",
                  "f: header: fortran_order is neither True nor False");
    check_refused(F4("(1,)") " x", "f: header: something follows the dict");
    check_refused(F4("1"), "f: header: shape is not a tuple of sizes");
    check_refused(F4("(1)"), "f: header: shape is not a tuple of sizes");
    check_refused(F4("(-1,)"), "f: header: shape is not a tuple of sizes");
    check_refused(F4("(1 1)"), "f: header: shape is not a tuple of sizes");
    check_refused(F4("(1.0,)"), "f: header: shape is not a tuple of sizes");
    check_refused(F4("(99999999999999999999,)"), "f: header: shape too large");
    check_refused(F4("(1,1,1,1,1,1,1)"), "f: header: more than 6 dimensions");
    check_refused(F4("(2305843009213693952,)"), "f: shape too large");
}

/* With a zero dimension too the others must be sizes one can multiply. */
static void
test_npy_empty_and_scalar(void **state)
{
    struct array a;
    struct err err;

    (void)state;
    assert_int_equal(
        parse_text(1, F4("(4294967296, 0, 4294967295)"), "", 0, &a, &err),
        ERR_DATA);
    assert_string_equal(err.msg, "f: shape too large");
    assert_int_equal(parse_text(1, F4("(65536, 0, 65536)"), "", 0, &a, &err),
                     0);
    assert_int_equal(a.n_elems, 0);
    array_fini(&a);
    assert_int_equal(parse_text(1, F4("()"), "\0\0\xe0\x40", 4, &a, &err), 0);
    assert_int_equal(a.desc.rank, 0);
    assert_true(array_get_double(&a, 0) == 7.0);
    array_fini(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_fortran_order),
        cmocka_unit_test(test_npy_fortran_order_rank_3),
        cmocka_unit_test(test_npy_big_endian),
        cmocka_unit_test(test_npy_wrong_length),
        cmocka_unit_test(test_npy_versions),
        cmocka_unit_test(test_npy_header_cap),
        cmocka_unit_test(test_npy_dtypes),
        cmocka_unit_test(test_npy_u64_beyond_int64),
        cmocka_unit_test(test_npy_refused_dtypes),
        cmocka_unit_test(test_npy_refused_headers),
        cmocka_unit_test(test_npy_empty_and_scalar),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
