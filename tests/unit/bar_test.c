/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "ctl/bar.h"
#include "ctl/format.h"

static const struct bar_state half = {
    .state = "running",
    .iteration = 1005,
    .updates = 1003,
    .skips = 2,
    .total_iterations = 2345,
    .loss = 0.3122,
    .scale = 65536,
    .iterations_per_s = 36.1,
    .eta_s = 37,
};

static void
assert_bar(const struct bar_state *state, int width, bool utf8,
           const char *wanted)
{
    char line[BAR_MAX];

    bar_format(state, width, utf8, line, sizeof(line));
    assert_string_equal(line, wanted);
}

static void
test_bar_text(void **state)
{
    struct bar_state s = half;

    (void)state;
    assert_bar(&s, 105, false,
               " 42% [#####        ]  1005/2345 it  1003 updates  2 skips  "
               "loss 0.3122  scale 65536  36.1 it/s  ETA 0:37");
    assert_bar(&s, 37, true,
               " 42% [\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88"
               "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x8d        ]  1005/2345 it");
    s.iteration = s.total_iterations;
    s.skips = 1;
    s.loss = s.eta_s = NAN;
    assert_bar(&s, 70, false,
               "100% [################]  2345/2345 it  1 skip  scale 65536  "
               "36.1 it/s");
    s.state = "paused";
    s.iteration = s.total_iterations - 1; /* 100% is not said too early */
    assert_bar(&s, 40, false, "paused   99% [######### ]  2344/2345 it");
    s.total_iterations = 0;
    assert_bar(&s, 40, false, "paused  2344 it  1 skip  scale 65536");
}

/* Whatever the numbers, the line fits: a longer one would scroll. */
static void
test_bar_fits(void **state)
{
    struct bar_state big = half;

    (void)state;
    setlocale(LC_CTYPE, "C.UTF-8");
    big.iteration = big.updates = big.skips = INT64_MAX;
    big.total_iterations = 1;
    big.loss = -1.234e-300;
    big.scale = 0x1p-140;
    big.iterations_per_s = 1e6;
    big.eta_s = 1e9;
    for (int width = 60; width < 300; width++) {
        char line[BAR_MAX];
        bar_format(&big, width, true, line, sizeof(line));
        assert_true(format_width(line, true) <= width);
        bar_format(&half, width - 45, true, line, sizeof(line));
        assert_true(format_width(line, true) <= width - 45);
    }
}

static void
test_bar_plain_lines_are_rare(void **state)
{
    char text[4096] = "";
    FILE *f = fmemopen(text, sizeof(text), "w");
    struct bar bar;
    int lines = 0;

    (void)state;
    assert_non_null(f);
    bar_init(&bar, f, false, false);
    for (int64_t ms = 0; ms < 2 * BAR_PLAIN_MS; ms += 100)
        bar_update(&bar, &half, 80, ms, false);
    bar_clear(&bar);
    fclose(f);
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n';
        assert_true(*c != '\033' && *c != '\r');
    }
    assert_int_equal(lines, 2);
}

static void
test_bar_redraws_in_place(void **state)
{
    char text[4096] = "", once[1024];
    FILE *f = fmemopen(text, sizeof(text), "w");
    struct bar bar;

    (void)state;
    assert_non_null(f);
    bar_init(&bar, f, true, false);
    bar_update(&bar, &half, 80, 0, false);
    bar_update(&bar, &half, 80, 1, false); /* too soon */
    bar_clear(&bar);
    bar_clear(&bar);
    bar_update(&bar, &half, 80, 2, false); /* it was cleared: at once */
    fclose(f);
    char line[BAR_MAX];
    bar_format(&half, 79, false, line, sizeof(line));
    snprintf(once, sizeof(once), "\r%.500s\033[K\r\033[K\r%.400s\033[K", line,
             line);
    assert_string_equal(text, once);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bar_text),
        cmocka_unit_test(test_bar_fits),
        cmocka_unit_test(test_bar_plain_lines_are_rare),
        cmocka_unit_test(test_bar_redraws_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
