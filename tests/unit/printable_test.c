/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ctl/printable.h"

/* Cut after every byte, and not at all: the same comes out. */
static void
expect(const char *bytes, size_t n, const char *want)
{
    for (size_t step = 1; step <= n; step += n > 1 ? n - 1 : 1) {
        struct printable p = {{0}, 0, 0};
        char out[64];
        size_t made = 0;

        for (size_t at = 0; at < n; at += step)
            made += printable_filter(&p, bytes + at,
                                     n - at < step ? n - at : step, out + made);
        made += printable_finish(&p, out + made);
        out[made] = '\0';
        assert_string_equal(out, want);
    }
}

#define EXPECT(bytes, want) expect(bytes, sizeof(bytes) - 1, want)

static void
test_printable_keeps_text(void **state)
{
    (void)state;
    EXPECT("In the beginning\n\tGod", "In the beginning\n\tGod");
    EXPECT("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80.",
           "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80.");
    EXPECT("\xc2\xa0", "\xc2\xa0"); /* the first that is no control */
}

static void
test_printable_stops_controls(void **state)
{
    (void)state;
    EXPECT("\x1b[31mred\x1b[0m", "?[31mred?[0m");
    EXPECT("a\0b\rc\x7f", "a?b?c?");
    EXPECT("\xc2\x9b"
           "31m",
           "??31m"); /* CSI as one character */
}

static void
test_printable_stops_what_is_no_text(void **state)
{
    (void)state;
    EXPECT("\xff\x80x", "??x");
    EXPECT("\xc0\xaf", "??");           /* overlong */
    EXPECT("\xe0\x80\xaf", "???");      /* overlong */
    EXPECT("\xed\xa0\x80", "???");      /* a surrogate */
    EXPECT("\xf4\x90\x80\x80", "????"); /* above U+10FFFF */
    EXPECT("\xe2\x82", "??");           /* the end came first */
    EXPECT("\xe2\x82"
           "A\xc3\xa9",
           "??A\xc3\xa9");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable_keeps_text),
        cmocka_unit_test(test_printable_stops_controls),
        cmocka_unit_test(test_printable_stops_what_is_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
