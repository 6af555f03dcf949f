/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/format.h"

typedef void real_fn(double v, char *out, size_t n);

static void
assert_real(real_fn *fn, double v, const char *wanted)
{
    char text[FORMAT_MAX];

    fn(v, text, sizeof(text));
    assert_string_equal(text, wanted);
}

static void
test_format_duration(void **state)
{
    (void)state;
    assert_real(format_duration, 0, "0:00");
    assert_real(format_duration, 37.4, "0:37");
    assert_real(format_duration, 59.6, "1:00");
    assert_real(format_duration, 3723, "1:02:03");
    assert_real(format_duration, 2 * 86400 + 3 * 3600 + 240, "2d 03:04");
    assert_real(format_duration, -1, "-");
    assert_real(format_duration, NAN, "-");
    assert_real(format_duration, INFINITY, "-");
    assert_real(format_duration, 1e300, "-");
}

static void
test_format_bytes(void **state)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},           {1023, "1023 B"},     {1024, "1.0 KiB"},
        {1048575, "1.0 MiB"}, {1258291, "1.2 MiB"}, {INT64_MAX, "8192.0 PiB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[FORMAT_MAX];
        format_bytes(cases[i].bytes, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

static void
test_format_numbers(void **state)
{
    (void)state;
    assert_real(format_scale, 65536, "65536");
    assert_real(format_scale, 16777216, "2^24");
    assert_real(format_scale, 0.125, "2^-3");
    assert_real(format_scale, 3.5, "3.5");
    assert_real(format_scale, NAN, "-");
    assert_real(format_real, -NAN, "nan");
    assert_real(format_real, 0.12345678, "0.1235");
    assert_real(format_known, NAN, "-");
    assert_real(format_exact, 0.1, "0.1");
    assert_real(format_exact, 1.0 / 3, "0.3333333333333333");
    assert_real(format_exact, NAN, "NaN");
    assert_real(format_exact, -INFINITY, "-Infinity");
    assert_real(format_exact, 5e-324, "4.94065645841247e-324");
    assert_real(format_exact, 0.1f, "0.10000000149011612");
    assert_real(format_exact, 1e22, "1e+22");
}

static void
test_format_time(void **state)
{
    char text[FORMAT_MAX];

    (void)state;
    format_time(0, true, text, sizeof(text));
    assert_string_equal(text, "-");
    format_time(1700000000999999, true, text, sizeof(text));
    assert_string_equal(text, "2023-11-14T22:13:20Z");
    setenv("TZ", "XYZ-5:30", 1);
    tzset();
    format_time(1700000000000000, false, text, sizeof(text));
    assert_string_equal(text, "2023-11-15T03:43:20+05:30");
}

static void
assert_safe(const char *s, bool utf8, const char *wanted)
{
    char *safe = format_safe(s, utf8);

    assert_non_null(safe);
    assert_string_equal(safe, wanted);
    free(safe);
}

static void
test_format_safe(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_safe("plain \\ text", true, "plain \\ text");
    assert_safe("\033[2J\a\n\t\x7f", true, "\\x1b[2J\\x07\\n\\t\\x7f");
    assert_safe("caf\xc3\xa9 \xe2\x9c\x93", true, "caf\xc3\xa9 \xe2\x9c\x93");
    assert_safe("\xe2\x80\xae"
                "cod",
                true, "\\u202ecod");
    assert_safe("\xc2\x9b"
                "31m",
                true, "\\u009b31m"); /* C1's CSI */
    assert_safe("\xff\xc3", true, "\\xff\\xc3");
    assert_safe("\xf3\xa0\x80\x81", true, "\\U000e0001");
    assert_safe("caf\xc3\xa9", false, "caf\\xc3\\xa9");
}

static void
test_format_width(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    assert_int_equal(format_width("caf\xc3\xa9", true), 4);
    assert_int_equal(format_width("\xe6\x97\xa5\xe6\x9c\xac", true), 4);
    assert_int_equal(format_width("caf\\xc3\\xa9", false), 11);
}

static void
assert_json(const char *s, const char *wanted)
{
    char text[256] = "";
    FILE *f = fmemopen(text, sizeof(text), "w");

    assert_non_null(f);
    format_put_json(f, s);
    fclose(f);
    assert_string_equal(text, wanted);
}

static void
test_format_json(void **state)
{
    (void)state;
    assert_json("a\"b\\c\n", "\"a\\\"b\\\\c\\u000a\"");
    assert_json("caf\xc3\xa9", "\"caf\xc3\xa9\"");
    assert_json(
        "\xff|\xc0\x80|\xed\xa0\x80", /* not UTF-8, overlong, surrogate */
        "\"\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\"");
    assert_true(format_is_utf8("\xf0\x9f\x98\x80"));
    assert_false(format_is_utf8("\xf4\x90\x80\x80")); /* above U+10FFFF */
    assert_false(format_is_utf8("\xe2\x82"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format_duration),
        cmocka_unit_test(test_format_bytes),
        cmocka_unit_test(test_format_numbers),
        cmocka_unit_test(test_format_time),
        cmocka_unit_test(test_format_safe),
        cmocka_unit_test(test_format_width),
        cmocka_unit_test(test_format_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
