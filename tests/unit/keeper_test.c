/* SPDX-License-Identifier: Apache-2.0 */
/* Case C39: a NaN metric is never the best, and hides no better one. */
#include "engine/run/keeper.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Index of the best of n metrics, taken one by one as evaluations come, each
 * time as a new attempt would that was told what is best so far; -1: none. */
static int
best_of(enum spec_metric rule, const double *metric, int n)
{
    struct spec spec = {.checkpoint = {.keep = 1, .has_best = true}};
    struct keeper_options options = {.spec = &spec,
                                     .directory = "no-such-directory",
                                     .attempt = 1,
                                     .policy = "",
                                     .best = "",
                                     .best_metric = (double)NAN,
                                     .resumed_from = ""};
    int best = -1;

    spec.checkpoint.best = rule;
    for (int i = 0; i < n; i++) {
        struct keeper *k = NULL;
        struct err err;

        assert_int_equal(keeper_create(&options, &k, &err), 0);
        if (keeper_is_better(k, metric[i])) {
            best = i;
            options.best = "it000000001-a1";
            options.best_metric = metric[i];
        }
        keeper_destroy(&k);
    }
    return best;
}

static void
test_keeper_c39_nan_is_never_best(void **state)
{
    const double nan = (double)NAN;
    const double metrics[] = {nan, 0.5, 0.7, nan, 0.6}, none[] = {nan, nan};

    (void)state;
    assert_int_equal(best_of(SPEC_METRIC_ACCURACY, metrics, 5), 2);
    assert_int_equal(best_of(SPEC_METRIC_LOSS, metrics, 5), 1);
    assert_int_equal(best_of(SPEC_METRIC_ACCURACY, none, 2), -1);
    assert_int_equal(best_of(SPEC_METRIC_LOSS, none, 2), -1);
}

/* Of every metric that may choose: which way is better (traind-spec(5)). */
static void
test_keeper_direction_of_each_metric(void **state)
{
    const double metrics[] = {0.5, 0.7, 0.6};

    (void)state;
    assert_int_equal(best_of(SPEC_METRIC_LOSS, metrics, 3), 0);
    assert_int_equal(best_of(SPEC_METRIC_PERPLEXITY, metrics, 3), 0);
    assert_int_equal(best_of(SPEC_METRIC_ACCURACY, metrics, 3), 1);
    assert_int_equal(best_of(SPEC_METRIC_TOP_K, metrics, 3), 1);
}

/* Infinite losses are numbers that compare; equal ones change nothing. */
static void
test_keeper_ties_and_infinity(void **state)
{
    const double inf = (double)INFINITY;
    const double metrics[] = {inf, 2, 2, inf}, equal[] = {0.5, 0.5};

    (void)state;
    assert_int_equal(best_of(SPEC_METRIC_LOSS, metrics, 4), 1);
    assert_int_equal(best_of(SPEC_METRIC_ACCURACY, equal, 2), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeper_c39_nan_is_never_best),
        cmocka_unit_test(test_keeper_direction_of_each_metric),
        cmocka_unit_test(test_keeper_ties_and_infinity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
