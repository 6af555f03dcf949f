/* SPDX-License-Identifier: Apache-2.0 */
/* Every condition at its edges, and every change. */
#include "tests/support/guards.h"

/* ---- conditions -----------------------------------------------------------*/

static void
test_guard_consecutive_skips(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)
        ->limit = 3;
    guards_open(&r, 0);
    assert_false(guards_miss(&r));
    assert_false(guards_miss(&r));
    assert_false(guards_ok(&r));
    assert_false(guards_miss(&r));
    assert_false(guards_miss(&r));
    assert_true(guards_miss(&r));
    guards_expect(&r, 0, EVENT_ACTION_FAIL,
                  "3 updates in a row were skipped; none was diagnosed");
    assert_true(r.f.value == 3 && r.f.bound == 3);
    assert_string_equal(r.f.to, "");
    assert_string_equal(r.f.change, "");
    assert_true(isnan(r.f.scale));
    assert_int_equal(r.f.n_skip_windows, 0);
    guards_close(&r);
}

/* What the streak was, as far as it was diagnosed. */
static void
test_guard_tells_verdicts(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)
        ->limit = 5;
    guards_open(&r, 0);
    guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    guards_ok(&r);
    guards_miss_with(&r, EVENT_VERDICT_SCALE_OVERFLOW, NULL);
    guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    guards_miss(&r);
    guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc2");
    assert_true(guards_miss(&r));
    guards_expect(
        &r, 0, EVENT_ACTION_FAIL,
        "5 updates in a row were skipped; of 3 that were diagnosed the last "
        "2 had verdict forward_overflow at fc2");
    guards_close(&r);
}

/* The scale of the iteration counts, not the one after it: C19's sixteenth
 * skip brings the scale to its floor and was not made there. */
static void
test_guard_scale_at_floor(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_SCALE_AT_FLOOR, EVENT_ACTION_CONTINUE)
        ->limit = 2;
    guards_open(&r, 0);
    r.scale = 2;
    assert_false(guards_miss(&r));
    r.scale = 1;
    assert_false(guards_miss(&r));
    assert_true(guards_miss(&r));
    guards_expect(
        &r, 0, EVENT_ACTION_CONTINUE,
        "2 updates in a row were skipped with the scale at its floor, 1");
    assert_false(guards_miss(&r)); /* once */
    assert_false(guards_ok(&r));
    assert_false(guards_miss(&r));
    assert_true(guards_miss(&r)); /* and again */
    guards_close(&r);

    /* Without a floor, a scaler, or a scale that moves there is none. */
    for (int i = 0; i < 3; i++) {
        guards_begin(&r, DTYPE_F16);
        guards_add_rule(&r, SPEC_CONDITION_SCALE_AT_FLOOR, EVENT_ACTION_FAIL);
        if (i == 0)
            r.spec.amp.scaler.min_scale = 0;
        r.spec.amp.scaler.enabled = i != 1;
        r.spec.amp.scaler.dynamic = i != 2;
        guards_open(&r, 0);
        r.scale = i == 0 ? 0 : 1;
        for (int k = 0; k < 4; k++)
            assert_false(guards_miss(&r));
        guards_close(&r);
    }
}

static void
test_guard_skip_share(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_SKIP_SHARE, EVENT_ACTION_CONTINUE)
        ->above = 0.5;
    guards_open(&r, 0);
    for (int i = 0; i < 3; i++)
        assert_false(guards_miss(&r)); /* not full */
    assert_true(guards_ok(&r));
    guards_expect(
        &r, 0, EVENT_ACTION_CONTINUE,
        "3 of the last 4 updates were skipped, a share of 0.75; more than "
        "0.5");
    assert_true(r.f.value == 0.75 && r.f.bound == 0.5);
    assert_false(guards_miss(&r)); /* 3 again: told */
    assert_false(guards_ok(&r));   /* 2 of 4 are no more than a half */
    assert_false(guards_ok(&r));
    assert_false(guards_miss(&r));
    assert_false(guards_miss(&r)); /* 2 */
    assert_true(guards_miss(&r));  /* 3 */
    guards_close(&r);
}

static void
test_guard_updates_below(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_UPDATES_BELOW, EVENT_ACTION_PAUSE)
        ->limit = 2;
    guards_open(&r, 0);
    guards_ok(&r);
    guards_ok(&r);
    assert_false(guards_miss(&r));
    assert_false(guards_miss(&r)); /* 2 of 4 */
    assert_true(guards_miss(&r));
    guards_expect(
        &r, 0, EVENT_ACTION_PAUSE,
        "1 of the last 4 iterations ended in an update; fewer than 2");
    guards_close(&r);
}

static void
test_guard_loss_bounds(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F32);
    guards_add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_CONTINUE)
        ->above = 8;
    guards_add_rule(&r, SPEC_CONDITION_LOSS_BELOW, EVENT_ACTION_CONTINUE)
        ->below = -1;
    guards_open(&r, 0);
    assert_false(guards_step(&r, false, 8));
    assert_false(guards_step(&r, false, -1));
    assert_false(guards_step(&r, true, 1e9)); /* no update */
    assert_true(guards_step(&r, false, 8.5));
    guards_expect(&r, 0, EVENT_ACTION_CONTINUE,
                  "the loss of an update was 8.5, above 8");
    assert_false(guards_step(&r, false, 9));
    assert_false(guards_step(&r, true, 0)); /* says nothing about it */
    assert_false(guards_step(&r, false, 9));
    assert_true(guards_step(&r, false, -2));
    guards_expect(&r, 1, EVENT_ACTION_CONTINUE,
                  "the loss of an update was -2, below -1");
    assert_true(guards_step(&r, false, NAN)); /* outside of any bound */
    guards_expect(&r, 0, EVENT_ACTION_CONTINUE,
                  "the loss of an update was nan");
    guards_close(&r);
}

static void
test_guard_loss_spike(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F32);
    guards_add_rule(&r, SPEC_CONDITION_LOSS_SPIKE, EVENT_ACTION_CONTINUE)
        ->factor = 2;
    guards_open(&r, 0);
    /* 1 2 3 4: median 2.5, distances .5 .5 1.5 1.5, spread 1.4826 */
    for (int i = 1; i <= 3; i++)
        assert_false(guards_step(&r, false, i));
    assert_false(guards_step(&r, false, 4)); /* not full when it came */
    assert_false(guards_step(&r, true, 1e9));
    assert_false(
        guards_step(&r, false, INFINITY)); /* another rule's business */
    assert_true(guards_step(&r, false, 2.5 + 2 * 1.4826 + 1e-9));
    assert_true(fabs(r.f.bound - (2.5 + 2 * 1.4826)) < 1e-12);
    assert_string_equal(r.f.text,
                        "the loss of an update was 5.4652, above 5.4652: the "
                        "median of the 4 before it, 2.5, and 2 times their "
                        "spread, 1.4826");
    guards_close(&r);

    /* Equal losses have no spread, and the next one is no spike. */
    guards_begin(&r, DTYPE_F32);
    guards_add_rule(&r, SPEC_CONDITION_LOSS_SPIKE, EVENT_ACTION_CONTINUE)
        ->factor = 2;
    guards_open(&r, 0);
    for (int i = 0; i < 4; i++)
        assert_false(guards_step(&r, false, 2));
    assert_false(guards_step(&r, false, 2 + 1e-6));
    assert_true(guards_step(&r, false, 2.1));
    guards_close(&r);
}

static bool
evaluate(struct guards *r, enum spec_metric metric, double value, bool at_end)
{
    struct guard_evaluation e = {.updates = r->updates, .at_end = at_end};

    for (int i = 0; i < SPEC_METRIC_COUNT; i++)
        e.value[i] = NAN;
    e.value[SPEC_METRIC_LOSS] = 1;
    e.value[metric] = value;
    return guard_observe_evaluation(r->guard, &e, &r->f);
}

static void
test_guard_metric(void **state)
{
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F32);
    g = guards_add_rule(&r, SPEC_CONDITION_METRIC, EVENT_ACTION_FAIL);
    g->metric = SPEC_METRIC_ACCURACY;
    g->below = 0.5;
    g->after_updates = 2;
    g = guards_add_rule(&r, SPEC_CONDITION_METRIC, EVENT_ACTION_PAUSE);
    g->metric = SPEC_METRIC_ACCURACY;
    g->above = 0.75;
    guards_open(&r, 0);
    guards_ok(&r);
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.1, false));
    guards_ok(&r);
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.5, false));
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.75, false));
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 0.25, false));
    guards_expect(&r, 0, EVENT_ACTION_FAIL, "accuracy was 0.25, below 0.5");
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, NAN, false));
    guards_expect(&r, 0, EVENT_ACTION_FAIL, "accuracy is not a number");
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 1, false));
    guards_expect(&r, 1, EVENT_ACTION_PAUSE, "accuracy was 1, above 0.75");
    /* Nothing is left to pause. */
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 1, true));
    guards_expect(&r, 1, EVENT_ACTION_CONTINUE, "accuracy was 1, above 0.75");
    guards_close(&r);
}

static void
test_guard_non_finite(void **state)
{
    static const enum event_trigger part[] = {
        EVENT_TRIGGER_LOSS, EVENT_TRIGGER_METRIC, EVENT_TRIGGER_WEIGHTS};
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F32);
    for (int i = 0; i < 3; i++)
        guards_add_rule(&r, SPEC_CONDITION_NON_FINITE, EVENT_ACTION_CONTINUE)
            ->trigger = part[i];
    guards_open(&r, 0);
    assert_false(guards_miss(&r)); /* its gradients are not finite */
    assert_true(guards_step(&r, false, INFINITY));
    guards_expect(&r, 0, EVENT_ACTION_CONTINUE,
                  "the loss of an update was inf, and every gradient finite");
    assert_true(isnan(r.f.bound));
    assert_false(evaluate(&r, SPEC_METRIC_LOSS, 3, false));
    assert_true(evaluate(&r, SPEC_METRIC_LOSS, INFINITY, false));
    guards_expect(&r, 1, EVENT_ACTION_CONTINUE,
                  "the loss of an evaluation was inf");
    assert_false(guard_observe_weights(r.guard, r.updates, NULL, &r.f));
    assert_true(guard_observe_weights(r.guard, r.updates, "fc.weight", &r.f));
    guards_expect(&r, 2, EVENT_ACTION_CONTINUE,
                  "fc.weight is not finite any more");
    assert_false(guard_observe_weights(r.guard, r.updates, "fc.weight", &r.f));
    guards_close(&r);
}

/* Incidents in a row, whatever lies between; those that were not diagnosed
 * count for nothing and end nothing. */
static void
test_guard_verdict(void **state)
{
    const struct guard_incident unknown = {
        .verdict = EVENT_VERDICT_NONE, .layer = "", .data_position = -1};
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    g = guards_add_rule(&r, SPEC_CONDITION_VERDICT, EVENT_ACTION_CONTINUE);
    g->verdict = EVENT_VERDICT_DIVERGENCE;
    g->limit = 2;
    g->after_updates = 1;
    guards_open(&r, 0);
    assert_false(guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    assert_false(guards_miss_with(&r, EVENT_VERDICT_SCALE_OVERFLOW, NULL));
    assert_false(guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    guard_note_incident(r.guard, &unknown);
    assert_false(guards_miss(&r));
    assert_false(
        guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL)); /* too early */
    assert_false(guards_ok(&r)); /* not too early, but nothing new */
    assert_true(guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, "fc"));
    guards_expect(
        &r, 0, EVENT_ACTION_CONTINUE,
        "3 diagnosed incidents in a row had verdict divergence, the last at "
        "fc");
    assert_false(guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    assert_false(guards_miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL));
    assert_false(guards_miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    guards_note(&r, EVENT_VERDICT_DIVERGENCE, NULL);
    assert_true(
        guards_ok(&r)); /* a loss that is not finite is an incident too */
    guards_close(&r);
}

/* ---- actions --------------------------------------------------------------*/

/* The first that acts, not the first that is listed. */
static void
test_guard_order(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS,
                    EVENT_ACTION_CONTINUE);
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS,
                    EVENT_ACTION_CONTINUE);
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_PAUSE)
        ->limit = 2;
    guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)
        ->limit = 2;
    guards_open(&r, 0);
    assert_true(guards_miss(&r));
    assert_int_equal(r.f.rule, 0);
    assert_true(guards_miss(&r));
    assert_int_equal(r.f.rule, 2);
    assert_int_equal(r.f.action, EVENT_ACTION_PAUSE);
    guards_close(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_consecutive_skips),
        cmocka_unit_test(test_guard_tells_verdicts),
        cmocka_unit_test(test_guard_scale_at_floor),
        cmocka_unit_test(test_guard_skip_share),
        cmocka_unit_test(test_guard_updates_below),
        cmocka_unit_test(test_guard_loss_bounds),
        cmocka_unit_test(test_guard_loss_spike),
        cmocka_unit_test(test_guard_metric),
        cmocka_unit_test(test_guard_non_finite),
        cmocka_unit_test(test_guard_verdict),
        cmocka_unit_test(test_guard_order),
    };

    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
