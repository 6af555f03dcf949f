/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/lrate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-15)

static struct lrate
make(enum spec_schedule kind, int64_t warmup, int64_t total)
{
    const struct spec spec = {.schedule = {.kind = kind,
                                           .warmup_updates = warmup,
                                           .step_size = 3,
                                           .gamma = 0.5,
                                           .total_updates = total,
                                           .min_lr = 0}};
    struct lrate l;

    lrate_init(&l, &spec, 50);
    return l;
}

static void
test_lrate_constant_after_warmup(void **unused)
{
    const struct lrate l = make(SPEC_SCHEDULE_CONSTANT, 4, 0);

    (void)unused;
    NEAR(lrate_at(&l, 0.1, 0), 0.025);
    NEAR(lrate_at(&l, 0.1, 2), 0.075);
    NEAR(lrate_at(&l, 0.1, 3), 0.1);
    NEAR(lrate_at(&l, 0.1, 4), 0.1);
    NEAR(lrate_at(&l, 0.1, 1000000), 0.1);
}

static void
test_lrate_step_counts_updates(void **unused)
{
    const struct lrate l = make(SPEC_SCHEDULE_STEP, 0, 0);

    (void)unused;
    NEAR(lrate_at(&l, 0.8, 2), 0.8);
    NEAR(lrate_at(&l, 0.8, 3), 0.4);
    NEAR(lrate_at(&l, 0.8, 5), 0.4);
    NEAR(lrate_at(&l, 0.8, 9), 0.1);
}

/* C22: 0.1 (1 - t/10). */
static void
test_lrate_linear_c22(void **unused)
{
    const struct lrate l = make(SPEC_SCHEDULE_LINEAR, 0, 10);

    (void)unused;
    NEAR(lrate_at(&l, 0.1, 0), 0.1);
    NEAR(lrate_at(&l, 0.1, 1), 0.09);
    NEAR(lrate_at(&l, 0.1, 2), 0.08);
    NEAR(lrate_at(&l, 0.1, 10), 0.0);
    NEAR(lrate_at(&l, 0.1, 11), 0.0);
}

static void
test_lrate_cosine_ends_at_floor(void **unused)
{
    struct lrate l = make(SPEC_SCHEDULE_COSINE, 10, 0);

    (void)unused;
    l.min_lr = 0.01;
    assert_int_equal(l.total_updates, 50);
    NEAR(lrate_at(&l, 1.0, 9), 1.0);
    NEAR(lrate_at(&l, 1.0, 10), 1.0);
    NEAR(lrate_at(&l, 1.0, 30), 0.505);
    NEAR(lrate_at(&l, 1.0, 50), 0.01);
    NEAR(lrate_at(&l, 1.0, 5000), 0.01);
}

static void
test_lrate_warmup_longer_than_run(void **unused)
{
    const struct lrate l = make(SPEC_SCHEDULE_COSINE, 100, 50);

    (void)unused;
    NEAR(lrate_at(&l, 1.0, 49), 0.5);
    assert_true(isfinite(lrate_at(&l, 1.0, 100)));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lrate_constant_after_warmup),
        cmocka_unit_test(test_lrate_step_counts_updates),
        cmocka_unit_test(test_lrate_linear_c22),
        cmocka_unit_test(test_lrate_cosine_ends_at_floor),
        cmocka_unit_test(test_lrate_warmup_longer_than_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
