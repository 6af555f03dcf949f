/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "engine/run/sampler.h"

#define N     5
#define DRAWS 20000

static const float scores[N] = {0.0f, 2.0f, -1.0f, 2.0f, 1.0f};

/* How often each id comes when u runs evenly over [0, 1). */
static void
count_choices(double temperature, int64_t top_k, double share[N])
{
    double scratch[N];

    for (int i = 0; i < N; i++)
        share[i] = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int64_t id = sampler_choose(scores, N, temperature, top_k,
                                          ((double)i + 0.5) / DRAWS, scratch);

        assert_in_range(id, 0, N - 1);
        share[id] += 1.0 / DRAWS;
    }
}

static void
assert_softmax(const double share[N], double temperature, const bool kept[N])
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        if (kept[i])
            sum += exp((double)scores[i] / temperature);
    for (int i = 0; i < N; i++) {
        const double want =
            kept[i] ? exp((double)scores[i] / temperature) / sum : 0;

        assert_true(fabs(share[i] - want) <= 1.0 / DRAWS + 1e-9);
    }
}

static void
test_sampler_draws_softmax(void **state)
{
    double share[N];

    (void)state;
    for (double t = 0.5; t < 3; t *= 2) {
        count_choices(t, 0, share);
        assert_softmax(share, t, (bool[N]){1, 1, 1, 1, 1});
    }
}

static void
test_sampler_top_k(void **state)
{
    double share[N];

    (void)state;
    count_choices(1.0, 3, share);
    assert_softmax(share, 1.0, (bool[N]){0, 1, 0, 1, 1});
    /* Of two equal scores at the bound, the lower id. */
    count_choices(1.0, 1, share);
    assert_softmax(share, 1.0, (bool[N]){0, 1, 0, 0, 0});
    count_choices(1.0, N, share);
    assert_softmax(share, 1.0, (bool[N]){1, 1, 1, 1, 1});
    count_choices(1.0, 1000, share);
    assert_softmax(share, 1.0, (bool[N]){1, 1, 1, 1, 1});
}

static void
test_sampler_greedy(void **state)
{
    double scratch[N];

    (void)state;
    for (double u = 0; u < 1; u += 0.09)
        assert_int_equal(sampler_choose(scores, N, 0, 0, u, scratch), 1);
}

/* The ends of the range of u, scores that exp() cannot hold, infinities. */
static void
test_sampler_extremes(void **state)
{
    const float large[3] = {1e30f, -1e30f, 1e30f};
    const float inf[3] = {0, INFINITY, 1};
    const float holes[3] = {-INFINITY, -3, -INFINITY};
    const float nan[3] = {0, NAN, 1};
    double scratch[N];

    (void)state;
    assert_int_equal(sampler_choose(large, 3, 1, 0, 0, scratch), 0);
    assert_int_equal(sampler_choose(large, 3, 1, 0, 0x1.fffffp-1, scratch), 2);
    assert_int_equal(sampler_choose(inf, 3, 1, 0, 0.9, scratch), 1);
    assert_int_equal(sampler_choose(holes, 3, 1, 0, 0.99, scratch), 1);
    assert_int_equal(sampler_choose(holes, 3, 1, 2, 0, scratch), 1);
    assert_int_equal(sampler_choose(nan, 3, 1, 0, 0.5, scratch), -1);
    assert_int_equal(sampler_choose(nan, 3, 0, 0, 0.5, scratch), -1);
    assert_int_equal(sampler_choose(scores, 1, 1, 0, 0.5, scratch), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_draws_softmax),
        cmocka_unit_test(test_sampler_top_k),
        cmocka_unit_test(test_sampler_greedy),
        cmocka_unit_test(test_sampler_extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
