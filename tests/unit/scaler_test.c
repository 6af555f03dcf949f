/* SPDX-License-Identifier: Apache-2.0 */
/* Bit-exact trajectories of numerics, section 2 (T1-T13), and the cases C18,
 * C20, C25. */
#include "engine/run/scaler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct scaler
make(double scale, double growth, double backoff, int64_t interval)
{
    const struct spec_scaler settings = {
        .enabled = true,
        .dynamic = true,
        .init_scale = scale,
        .growth_factor = growth,
        .backoff_factor = backoff,
        .growth_interval = interval,
    };
    struct scaler s;

    scaler_init(&s, &settings);
    return s;
}

static struct scaler
make_default(double scale, int64_t interval)
{
    return make(scale, 2.0, 0.5, interval);
}

static enum scaler_change
run_one(struct scaler *s, bool found_inf)
{
    enum scaler_change change = SCALER_KEPT;
    bool apply = false;
    struct err err;

    err_clear(&err);
    assert_int_equal(scaler_unscaled(s, 0, found_inf, &err), 0);
    assert_int_equal(scaler_step(s, 0, &apply, &err), 0);
    assert_int_equal(apply, !found_inf);
    assert_int_equal(scaler_update(s, &change, &err), 0);
    return change;
}

static void
run_many(struct scaler *s, bool found_inf, int n)
{
    for (int i = 0; i < n; i++)
        run_one(s, found_inf);
}

static void
assert_bits(float a, float b)
{
    uint32_t x, y;

    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    assert_int_equal(x, y);
}

struct expected {
    float scale;
    int64_t tracker;
};

/* outcomes: 'o' finite, 'X' not; one expected pair each. */
static void
follow(struct scaler s, const char *outcomes, const struct expected *e)
{
    for (size_t i = 0; outcomes[i] != '\0'; i++) {
        run_one(&s, outcomes[i] == 'X');
        assert_bits(s.scale, e[i].scale);
        assert_int_equal(s.growth_tracker, e[i].tracker);
    }
}

static void
test_scaler_t1_backoff_quarter(void **unused)
{
    const struct expected e[] = {{4, 1}, {8, 0}, {2, 0}};

    (void)unused;
    follow(make(4, 2, 0.25, 2), "ooX", e);
}

static void
test_scaler_t2_default_backs_off(void **unused)
{
    const struct expected e[] = {{4, 1}, {2, 0}, {2, 1}, {1, 0}};

    (void)unused;
    follow(make_default(4, 2000), "oXoX", e);
}

static void
test_scaler_t3_interval_one(void **unused)
{
    const struct expected e[] = {{256, 0}, {512, 0}, {256, 0}, {512, 0}};

    (void)unused;
    follow(make_default(128, 1), "ooXo", e);
}

static void
test_scaler_t5_never_grows_to_inf(void **unused)
{
    const struct expected e[] = {{1e38f, 0}};

    (void)unused;
    follow(make(1e38, 16, 0.5, 1), "o", e);
}

static void
test_scaler_t6_stays_at_largest_power(void **unused)
{
    const struct expected e[] = {
        {0x1p127f, 1}, {0x1p127f, 0}, {0x1p127f, 1}, {0x1p127f, 0}};

    (void)unused;
    follow(make_default(0x1p127, 2), "oooo", e);
}

static void
test_scaler_t7_defaults_over_thousands(void **unused)
{
    struct scaler s = make_default(65536, 2000);
    const float down[] = {32768, 16384, 8192, 4096};

    (void)unused;
    for (int i = 0; i < 4; i++) {
        run_one(&s, true);
        assert_bits(s.scale, down[i]);
        assert_int_equal(s.growth_tracker, 0);
    }
    run_many(&s, false, 1999);
    assert_bits(s.scale, 4096);
    assert_int_equal(run_one(&s, false), SCALER_GREW);
    assert_bits(s.scale, 8192);
    assert_int_equal(s.growth_tracker, 0);
    run_many(&s, false, 1999);
    assert_bits(s.scale, 8192);
    assert_int_equal(s.growth_tracker, 1999);
    assert_int_equal(run_one(&s, true), SCALER_BACKED_OFF);
    assert_bits(s.scale, 4096);
    assert_int_equal(s.growth_tracker, 0);
    run_many(&s, false, 2000);
    assert_bits(s.scale, 8192);
    assert_int_equal(s.growth_tracker, 0);
}

static void
test_scaler_t8_interval_four(void **unused)
{
    const struct expected e[] = {
        {32768, 0}, {16384, 0}, {16384, 1}, {16384, 2}, {16384, 3}, {32768, 0},
        {16384, 0}, {16384, 1}, {16384, 2}, {16384, 3}, {32768, 0}, {32768, 1},
        {32768, 2}, {32768, 3}, {65536, 0}, {65536, 1}};

    (void)unused;
    follow(make_default(65536, 4), "XXooooXooooooooo", e);
}

static void
test_scaler_t9_interval_three(void **unused)
{
    const struct expected e[] = {
        {65536, 1}, {65536, 2}, {131072, 0}, {131072, 1}, {131072, 2},
        {65536, 0}, {65536, 1}, {65536, 2},  {131072, 0}, {65536, 0},
        {32768, 0}, {32768, 1}, {32768, 2},  {65536, 0}};

    (void)unused;
    follow(make_default(65536, 3), "oooooXoooXXooo", e);
}

static void
test_scaler_t11_without_floor_reaches_zero(void **unused)
{
    struct scaler s = make_default(65536, 2000);

    (void)unused;
    for (int i = 1; i <= 166; i++) {
        run_one(&s, true);
        if (i == 16)
            assert_bits(s.scale, 1.0f);
        if (i == 17)
            assert_bits(s.scale, 0.5f);
        if (i == 142)
            assert_bits(s.scale, 0x1p-126f);
        if (i == 143) {
            assert_bits(s.scale, 0x1p-127f);
            assert_bits(scaler_inverse(&s), 0x1p127f);
        }
        if (i == 144) {
            assert_bits(s.scale, 0x1p-128f);
            assert_true(isinf(scaler_inverse(&s)));
        }
        if (i == 165)
            assert_bits(s.scale, 0x1p-149f);
    }
    assert_bits(s.scale, 0.0f);
}

static void
test_scaler_t12_odd_factors_round_once(void **unused)
{
    const struct expected e[] = {{1000.0f, 1},
                                 {1001.0f, 0},
                                 {700.7000122070312f, 0},
                                 {700.7000122070312f, 1},
                                 {701.4006958007812f, 0}};

    (void)unused;
    follow(make(1000, 1.001, 0.7, 2), "ooXoo", e);
}

static void
test_scaler_t13_inverse_bits(void **unused)
{
    const struct {
        float scale;
        uint32_t bits;
    } row[] = {{65536.0f, 0x37800000},
               {3.0f, 0x3eaaaaab},
               {7.0f, 0x3e124925},
               {1e38f, 0x006ce3ef}};

    (void)unused;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        const struct scaler s = make_default((double)row[i].scale, 2000);
        const float inverse = scaler_inverse(&s);
        uint32_t bits;
        memcpy(&bits, &inverse, sizeof(bits));
        assert_int_equal(bits, row[i].bits);
    }
}

static void
test_scaler_c18_schedule(void **unused)
{
    const struct expected e[] = {{8, 1}, {8, 2}, {4, 0}, {4, 1}, {4, 2},
                                 {8, 0}, {8, 1}, {8, 2}, {16, 0}};
    struct scaler s = make_default(65536, 2000);

    (void)unused;
    follow(make_default(8, 3), "ooXoooooo", e);
    run_many(&s, true, 3);
    run_many(&s, false, 2000);
    assert_bits(s.scale, 16384);
    s = make_default(65536, 2000);
    run_many(&s, false, 1999);
    assert_bits(s.scale, 65536);
    run_one(&s, false);
    assert_bits(s.scale, 131072);
}

static void
test_scaler_c19_floor_holds(void **unused)
{
    struct scaler s = make_default(65536, 2000);

    (void)unused;
    s.min_scale = 1.0;
    for (int i = 1; i <= 20; i++) {
        const enum scaler_change change = run_one(&s, true);
        assert_bits(s.scale, i < 16 ? ldexpf(65536.0f, -i) : 1.0f);
        assert_int_equal(change, i <= 16 ? SCALER_BACKED_OFF : SCALER_KEPT);
    }
}

static void
test_scaler_c20_cap_holds(void **unused)
{
    struct scaler s = make_default(65536, 1);

    (void)unused;
    run_many(&s, false, 111);
    assert_bits(s.scale, 0x1p127f);
    run_many(&s, false, 9);
    assert_bits(s.scale, 0x1p127f);
    s = make_default(65536, 1);
    s.max_scale = 16777216;
    run_many(&s, false, 120);
    assert_bits(s.scale, 16777216.0f);
}

static void
test_scaler_grows_when_interval_shrinks(void **unused)
{
    struct scaler s = make_default(65536, 2000);

    (void)unused;
    run_many(&s, false, 50);
    s.growth_interval = 10;
    assert_int_equal(run_one(&s, false), SCALER_GREW);
    assert_bits(s.scale, 131072);
}

static void
test_scaler_c25_misuse_is_refused(void **unused)
{
    struct scaler s = make_default(1024, 2000);
    enum scaler_change change;
    bool apply = true;
    struct err err;

    (void)unused;
    assert_int_equal(scaler_update(&s, &change, &err), ERR_MISUSE);
    assert_int_equal(scaler_step(&s, 0, &apply, &err), ERR_MISUSE);
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), 0);
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), ERR_MISUSE);
    assert_non_null(strstr(err.msg, "unscaled already"));
    assert_int_equal(scaler_may_save(&s, &err), ERR_MISUSE);
    assert_int_equal(scaler_step(&s, 0, &apply, &err), 0);
    assert_int_equal(scaler_step(&s, 0, &apply, &err), ERR_MISUSE);
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), ERR_MISUSE);
    assert_non_null(strstr(err.msg, "after its step"));
    assert_int_equal(scaler_may_save(&s, &err), ERR_MISUSE);
    assert_int_equal(scaler_update(&s, &change, &err), 0);
    assert_int_equal(scaler_may_save(&s, &err), 0);
    assert_bits(s.scale, 1024);
    assert_int_equal(s.growth_tracker, 1);
}

/* A guard that skips the step for a reason of its own leaves no half state. */
static void
test_scaler_c25_update_without_step(void **unused)
{
    struct scaler s = make_default(1024, 2000);
    enum scaler_change change;
    struct err err;

    (void)unused;
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), 0);
    assert_int_equal(scaler_update(&s, &change, &err), 0);
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), 0);
    assert_bits(s.scale, 1024);
}

static void
test_scaler_joins_optimizers(void **unused)
{
    struct scaler s = make_default(1024, 2000);
    enum scaler_change change;
    bool apply[2];
    struct err err;

    (void)unused;
    assert_int_equal(scaler_unscaled(&s, 0, false, &err), 0);
    assert_int_equal(scaler_unscaled(&s, 1, true, &err), 0);
    assert_int_equal(scaler_step(&s, 0, &apply[0], &err), 0);
    assert_int_equal(scaler_step(&s, 1, &apply[1], &err), 0);
    assert_true(apply[0]);
    assert_false(apply[1]);
    assert_int_equal(scaler_update(&s, &change, &err), 0);
    assert_int_equal(change, SCALER_BACKED_OFF);
    assert_bits(s.scale, 512);
}

static void
test_scaler_disabled_still_checks(void **unused)
{
    struct scaler s = make_default(1024, 1);
    struct err err;

    (void)unused;
    s.enabled = false;
    assert_int_equal(scaler_load(&s, 1024.0f, 2, 0.5, 2000, 3, &err), 0);
    assert_bits(s.scale, 1);
    assert_bits(scaler_inverse(&s), 1);
    assert_int_equal(run_one(&s, true), SCALER_KEPT);
    assert_int_equal(run_one(&s, false), SCALER_KEPT);
    assert_bits(s.scale, 1);
}

static void
test_scaler_load_checks_and_resets(void **unused)
{
    struct scaler s = make_default(1024, 2000);
    struct err err;

    (void)unused;
    assert_int_equal(scaler_unscaled(&s, 0, true, &err), 0);
    assert_int_equal(scaler_load(&s, INFINITY, 2, 0.5, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, NAN, 2, 0.5, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, -1, 2, 0.5, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, 8, 1, 0.5, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, 8, 2, 1, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, 8, 2, 0, 4, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, 8, 2, 0.5, 0, 0, &err), ERR_CKPT);
    assert_int_equal(scaler_load(&s, 8, 2, 0.5, 4, -1, &err), ERR_CKPT);
    assert_bits(s.scale, 1024);
    assert_int_equal(scaler_load(&s, 8, 2, 0.5, 4, 3, &err), 0);
    assert_int_equal(scaler_may_save(&s, &err), 0);
    assert_int_equal(run_one(&s, false), SCALER_GREW);
    assert_bits(s.scale, 16);
    assert_int_equal(s.growth_tracker, 0);
}

static void
test_scaler_init_keeps_bounds(void **unused)
{
    struct spec_scaler settings = {.enabled = true,
                                   .dynamic = true,
                                   .init_scale = 0x1p30,
                                   .growth_factor = 2,
                                   .backoff_factor = 0.5,
                                   .growth_interval = 1,
                                   .min_scale = 1,
                                   .max_scale = 0x1p24};
    struct scaler s;

    (void)unused;
    scaler_init(&s, &settings);
    assert_bits(s.scale, 0x1p24f);
    settings.init_scale = 0.25;
    scaler_init(&s, &settings);
    assert_bits(s.scale, 1.0f);
}

/* Never moves, neither does the tracker; checks and skips as ever. */
static void
test_scaler_static(void **unused)
{
    const struct spec_scaler settings = {.enabled = true,
                                         .init_scale = 1024,
                                         .growth_factor = 2,
                                         .backoff_factor = 0.5,
                                         .growth_interval = 1};
    enum scaler_change change;
    struct scaler s;
    struct err err;
    bool apply;

    (void)unused;
    scaler_init(&s, &settings);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(scaler_unscaled(&s, 0, i % 2 == 1, &err), 0);
        assert_int_equal(scaler_step(&s, 0, &apply, &err), 0);
        assert_int_equal(apply, i % 2 == 0);
        assert_int_equal(scaler_update(&s, &change, &err), 0);
        assert_int_equal(change, SCALER_KEPT);
        assert_bits(s.scale, 1024.0f);
        assert_int_equal(s.growth_tracker, 0);
    }
    assert_int_equal(scaler_update(&s, &change, &err), ERR_MISUSE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaler_t1_backoff_quarter),
        cmocka_unit_test(test_scaler_t2_default_backs_off),
        cmocka_unit_test(test_scaler_t3_interval_one),
        cmocka_unit_test(test_scaler_t5_never_grows_to_inf),
        cmocka_unit_test(test_scaler_t6_stays_at_largest_power),
        cmocka_unit_test(test_scaler_t7_defaults_over_thousands),
        cmocka_unit_test(test_scaler_t8_interval_four),
        cmocka_unit_test(test_scaler_t9_interval_three),
        cmocka_unit_test(test_scaler_t11_without_floor_reaches_zero),
        cmocka_unit_test(test_scaler_t12_odd_factors_round_once),
        cmocka_unit_test(test_scaler_t13_inverse_bits),
        cmocka_unit_test(test_scaler_c18_schedule),
        cmocka_unit_test(test_scaler_c19_floor_holds),
        cmocka_unit_test(test_scaler_c20_cap_holds),
        cmocka_unit_test(test_scaler_grows_when_interval_shrinks),
        cmocka_unit_test(test_scaler_c25_misuse_is_refused),
        cmocka_unit_test(test_scaler_c25_update_without_step),
        cmocka_unit_test(test_scaler_joins_optimizers),
        cmocka_unit_test(test_scaler_disabled_still_checks),
        cmocka_unit_test(test_scaler_load_checks_and_resets),
        cmocka_unit_test(test_scaler_init_keeps_bounds),
        cmocka_unit_test(test_scaler_static),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
