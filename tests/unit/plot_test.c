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

#include "ctl/format.h"
#include "ctl/plot.h"

#define N 40

static const double skips[] = {17, 600, 601};
static const struct plot_point scale_points[] = {
    {1, 65536, NAN, NAN},
    {17, 32768, NAN, NAN},
    {600, 16384, NAN, NAN},
    {1200, 32768, NAN, NAN},
};

static const struct plot scale_plot = {
    .title = "loss scale",
    .x_title = "iteration",
    .points = scale_points,
    .n_points = 4,
    .steps = true,
    .axis = PLOT_LOG2,
    .x_min = 1,
    .x_max = 2345,
    .marks = skips,
    .n_marks = 3,
    .marks_title = "skips",
};

static void
assert_plot(const struct plot *plot, const struct plot_style *style,
            const char *wanted)
{
    char *text = plot_render(plot, style);

    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

/* Powers of two have sums that are exact everywhere. */
static void
fill_decay(struct plot_point *p, int n)
{
    double y = 2;

    for (int i = 0; i < n; i++) {
        p[i] = (struct plot_point){1 + i, y + 0.25, NAN, NAN};
        if (i % 4 == 3)
            y /= 2;
    }
    p[10].y = NAN; /* a skip */
    p[20].lo = 0.125;
    p[20].hi = 1;
}

static void
test_plot_scale_ascii(void **state)
{
    (void)state;
    assert_plot(&scale_plot, &(struct plot_style){.width = 50, .height = 5},
                "loss scale\n"
                "65536 |*\n"
                "      |*\n"
                "32768 |************         **********************\n"
                "      |           *         *\n"
                "16384 |           ***********\n"
                "      +-------------------------------------------\n"
                "       1              iteration               2345\n"
                "skips  ^          ^\n");
}

static void
test_plot_scale_utf8(void **state)
{
    (void)state;
    assert_plot(&scale_plot,
                &(struct plot_style){.width = 50, .height = 5, .utf8 = true},
                "loss scale\n"
                "65536 │⢹\n"
                "      │⢸\n"
                "32768 │⠸⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⡄         ⢠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤\n"
                "      │           ⡇         ⢸\n"
                "16384 │           ⣇⣀⣀⣀⣀⣀⣀⣀⣀⣀⣸\n"
                "      └───────────────────────────────────────────\n"
                "       1              iteration               2345\n"
                "skips  ▲          ▲\n");
}

static void
test_plot_loss(void **state)
{
    struct plot_point p[N];
    struct plot plot = {.title = "training loss",
                        .x_title = "iteration",
                        .points = p,
                        .n_points = N,
                        .axis = PLOT_AUTO};

    (void)state;
    fill_decay(p, N);
    assert_plot(&plot, &(struct plot_style){.width = 48, .height = 7},
                "training loss\n"
                " 2.25 |*****\n"
                "      |    *\n"
                "      |    *\n"
                "1.188 |    *****\n"
                "      |        *****        *\n"
                "      |            **************\n"
                "0.125 |                     *   ****************\n"
                "      +-----------------------------------------\n"
                "       1              iteration               40\n");
    assert_plot(&plot,
                &(struct plot_style){.width = 48, .height = 7, .utf8 = true},
                "training loss\n"
                " 2.25 │⠉⠉⠉⢹\n"
                "      │   ⢸⡀\n"
                "      │    ⡇\n"
                "1.188 │    ⠓⠒⠒⠒⡆\n"
                "      │        ⢹⣀⣀⣀⡀        ⡇\n"
                "      │            ⠳⠤⠤⠤⣄    ⡇\n"
                "0.125 │                ⠈⠉⠉⠉⠙⡗⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒\n"
                "      └─────────────────────────────────────────\n"
                "       1              iteration               40\n");
}

static void
test_plot_logarithmic(void **state)
{
    static const struct plot_point p[] = {
        {1, 1000, NAN, NAN}, {2, 10, NAN, NAN}, {3, 0.1, NAN, NAN}};
    struct plot plot = {.title = "loss",
                        .x_title = "iteration",
                        .points = p,
                        .n_points = 3,
                        .axis = PLOT_AUTO};

    (void)state;
    assert_plot(&plot, &(struct plot_style){.width = 27, .height = 5},
                "loss (logarithmic)\n"
                "1000 |****\n"
                "     |   ******\n"
                "  10 |        ******\n"
                "     |             ******\n"
                " 0.1 |                  ***\n"
                "     +---------------------\n"
                "      1     iteration     3\n");
}

static void
test_plot_flat_and_empty(void **state)
{
    static const struct plot_point one[] = {{1, 0.5, 0.5, 0.5}};
    static const struct plot_point none[] = {
        {1, NAN, NAN, NAN}, {2, INFINITY, NAN, NAN}, {NAN, 1, NAN, NAN}};
    struct plot plot = {
        .title = "loss", .x_title = "iteration", .points = one, .n_points = 1};

    (void)state;
    assert_plot(&plot, &(struct plot_style){.width = 20, .height = 3},
                "loss\n"
                "0.75 |\n"
                " 0.5 |*\n"
                "0.25 |\n"
                "     +--------------\n"
                "      1 iteration  1\n");
    plot.points = none;
    plot.n_points = 3;
    assert_plot(&plot, &(struct plot_style){.width = 20, .height = 3},
                "loss: nothing to draw yet\n");
    plot.n_points = 0;
    assert_plot(&plot, &(struct plot_style){.width = 20, .height = 3},
                "loss: nothing to draw yet\n");
}

/* Nonsense in, something bounded out: no line is wider than it may be. */
static void
test_plot_hostile_numbers(void **state)
{
    static const double odd[] = {NAN,   INFINITY, -INFINITY, 0,  -0.0,
                                 1e308, -1e308,   5e-324,    -1, 65536};
    enum { ODD = sizeof(odd) / sizeof(odd[0]) };
    struct plot_point p[ODD * ODD];

    (void)state;
    setlocale(LC_CTYPE, "C.UTF-8");
    for (int i = 0; i < ODD * ODD; i++)
        p[i] = (struct plot_point){odd[i % ODD], odd[i / ODD],
                                   odd[(i + 3) % ODD], odd[(i + 5) % ODD]};
    for (int axis = PLOT_LINEAR; axis <= PLOT_LOG2; axis++) {
        struct plot plot = {.title = "x",
                            .x_title = "iteration",
                            .points = p,
                            .n_points = ODD * ODD,
                            .axis = (enum plot_axis)axis,
                            .marks = odd,
                            .n_marks = ODD,
                            .marks_title = "skips"};
        char *text = plot_render(
            &plot,
            &(struct plot_style){.width = 60, .height = 6, .utf8 = true});
        assert_non_null(text);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            assert_true(format_width(line, true) <= 60);
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plot_scale_ascii),
        cmocka_unit_test(test_plot_scale_utf8),
        cmocka_unit_test(test_plot_loss),
        cmocka_unit_test(test_plot_logarithmic),
        cmocka_unit_test(test_plot_flat_and_empty),
        cmocka_unit_test(test_plot_hostile_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
