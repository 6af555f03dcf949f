/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/pool.h"
#include "proto/text.h"
#include "proto/utf8.h"

static void
check_real(double v, const char *wanted)
{
    struct text t = {0};
    char *s;
    double back = 0;

    text_json_real(&t, v);
    s = text_take(&t, NULL);
    if (wanted != NULL)
        assert_string_equal(s, wanted);
    if (isfinite(v)) {
        assert_true(text_parse_real(s, strlen(s), &back));
        assert_memory_equal(&back, &v, sizeof(v));
    }
    free(s);
}

/* The fewest digits that give the same bits, always recognisably a real. */
static void
test_text_real(void **state)
{
    (void)state;
    check_real(0.1, "0.1");
    check_real(1e-8, "1e-08");
    check_real(65536, "65536.0");
    check_real(-0.0, "-0.0");
    check_real(DBL_MAX, NULL);
    check_real(5e-324, NULL);
    check_real(1.0 / 3, "0.3333333333333333");
    check_real((double)0.1f, NULL);
    check_real(NAN, "\"NaN\"");
    check_real(HUGE_VAL, "\"Infinity\"");
    check_real(-HUGE_VAL, "\"-Infinity\"");
    srand(1);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits =
            (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
        double v;

        memcpy(&v, &bits, sizeof(v));
        check_real(v, NULL);
    }
}

static void
test_text_parse_real(void **state)
{
    static const char *const bad[] = {"",     "x",     "nan",    "inf",
                                      "0x10", "1e",    " 1",     "1 ",
                                      "1,5",  "1e999", "-1e999", "1.5.2"};
    double v = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(text_parse_real(bad[i], strlen(bad[i]), &v));
    assert_true(v == 7);
    assert_true(text_parse_real("1.25e1xyz", 6, &v));
    assert_true(v == 12.5);
}

static void
test_text_string(void **state)
{
    struct text t = {0};
    char *s;

    (void)state;
    text_json_string(&t, "a\"\\\b\f\n\r\t\x01\x7f\xc3\xa9\xff\xc3");
    s = text_take(&t, NULL);
    assert_string_equal(s, "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\xc3\xa9"
                           "\xef\xbf\xbd\xef\xbf\xbd\"");
    free(s);
}

static void
test_utf8_length(void **state)
{
    static const struct {
        const char *s;
        size_t n;
    } rows[] = {
        {"a", 1},
        {"\xc2\x80", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},
        {"\xc0\x80", 0},
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xe2\x82", 0},
        {"\xc3\x28", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(utf8_length(rows[i].s, strlen(rows[i].s)), rows[i].n);
    assert_int_equal(utf8_length("", 0), 0);
    /* Bytes beyond n are not looked at. */
    assert_int_equal(utf8_length("\xe2\x82\xac", 2), 0);
}

static void
test_utf8_encode(void **state)
{
    (void)state;
    for (uint32_t c = 1; c <= 0x10ffff; c += 7) {
        char s[4];

        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        assert_int_equal(utf8_length(s, utf8_encode(c, s)), utf8_encode(c, s));
    }
}

static void
test_utf8_cut(void **state)
{
    const char *s = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8d";
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

    (void)state;
    for (size_t n = 0; n <= 10; n++)
        assert_int_equal(utf8_cut(s, n), want[n]);
}

static void
test_pool_alloc(void **state)
{
    struct pool *pool = pool_create();
    char *a, *b;

    (void)state;
    for (size_t n = 0; n < 3000; n += 7) {
        a = pool_alloc(pool, n, 3);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < 3 * n; i++)
            assert_int_equal(a[i], 0);
        memset(a, 0xff, 3 * n);
    }
    b = pool_copy(pool, "abcdef", 3);
    assert_string_equal(b, "abc");
    assert_false(pool_failed(pool));
    assert_null(pool_alloc(pool, SIZE_MAX / 2, 16));
    assert_true(pool_failed(pool));
    pool_destroy(&pool);
    assert_null(pool);
    pool_destroy(&pool);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_real),
        cmocka_unit_test(test_text_parse_real),
        cmocka_unit_test(test_text_string),
        cmocka_unit_test(test_utf8_length),
        cmocka_unit_test(test_utf8_encode),
        cmocka_unit_test(test_utf8_cut),
        cmocka_unit_test(test_pool_alloc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
