/* SPDX-License-Identifier: Apache-2.0 */
/* Every condition at its edges, every change, and random runs against a twin
 * that looks at the whole history each time. */
#include "engine/run/guard.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_RULES 8

/* A run: rules, the guard, and what has been told it. */
struct run {
    struct spec spec;
    struct spec_guard rule[MAX_RULES];
    struct guard *guard;
    int64_t updates, position;
    double scale;
    struct guard_firing f;
};

static struct spec_guard *
add_rule(struct run *r, enum spec_condition condition, enum event_action action)
{
    struct spec_guard *g = &r->rule[r->spec.guard.n_rules++];

    *g = (struct spec_guard){
        .condition = condition,
        .action = action,
        .limit = 1,
        .iterations = 4,
        .above = NAN,
        .below = NAN,
    };
    return g;
}

static void
begin_run(struct run *r, enum dtype dtype)
{
    memset(r, 0, sizeof(*r));
    r->spec.amp.dtype = dtype;
    r->spec.amp.scaler = (struct spec_scaler){
        .enabled = dtype == DTYPE_F16, .dynamic = true, .min_scale = 1};
    r->spec.guard.rule = r->rule;
    r->spec.guard.max_rollbacks = 3;
    r->scale = 1024;
}

static void
open_run(struct run *r, int64_t rollbacks)
{
    const struct guard_options o = {&r->spec, rollbacks, r->scale};
    struct err err;

    assert_int_equal(guard_create(&o, &r->guard, &err), 0);
}

static bool
step(struct run *r, bool skipped, double loss)
{
    const struct guard_iteration it = {
        .updates = r->updates += !skipped,
        .data_position = r->position++,
        .skipped = skipped,
        .found_inf = skipped,
        .loss = loss,
        .scale = r->scale,
    };

    return guard_observe_iteration(r->guard, &it, &r->f);
}

static bool
ok(struct run *r)
{
    return step(r, false, 1);
}

static bool
miss(struct run *r)
{
    return step(r, true, NAN);
}

/* Tells of an incident in the iteration that comes next. */
static void
note(struct run *r, enum event_verdict verdict, const char *region)
{
    const struct guard_incident incident = {
        .diagnosed = true,
        .verdict = verdict,
        .layer = region != NULL ? region : "",
        .regions = &region,
        .n_regions = region != NULL,
        .data_position = r->position,
    };

    guard_note_incident(r->guard, &incident);
}

static bool
miss_with(struct run *r, enum event_verdict verdict, const char *region)
{
    note(r, verdict, region);
    return miss(r);
}

static void
expect(const struct run *r, int rule, enum event_action action,
       const char *text)
{
    assert_int_equal(r->f.rule, rule);
    assert_int_equal(r->f.action, action);
    assert_string_equal(r->f.text, text);
    assert_int_equal(r->f.condition, r->rule[rule].condition);
}

static void
close_run(struct run *r)
{
    guard_destroy(&r->guard);
    assert_null(r->guard);
}

/* ---- conditions -----------------------------------------------------------*/

static void
test_guard_consecutive_skips(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)->limit =
        3;
    open_run(&r, 0);
    assert_false(miss(&r));
    assert_false(miss(&r));
    assert_false(ok(&r));
    assert_false(miss(&r));
    assert_false(miss(&r));
    assert_true(miss(&r));
    expect(&r, 0, EVENT_ACTION_FAIL,
           "3 updates in a row were skipped; none was diagnosed");
    assert_true(r.f.value == 3 && r.f.bound == 3);
    assert_string_equal(r.f.to, "");
    assert_string_equal(r.f.change, "");
    assert_true(isnan(r.f.scale));
    assert_int_equal(r.f.n_skip_windows, 0);
    close_run(&r);
}

/* What the streak was, as far as it was diagnosed. */
static void
test_guard_tells_verdicts(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)->limit =
        5;
    open_run(&r, 0);
    miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    ok(&r);
    miss_with(&r, EVENT_VERDICT_SCALE_OVERFLOW, NULL);
    miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    miss(&r);
    miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc2");
    assert_true(miss(&r));
    expect(&r, 0, EVENT_ACTION_FAIL,
           "5 updates in a row were skipped; of 3 that were diagnosed the last "
           "2 had verdict forward_overflow at fc2");
    close_run(&r);
}

/* The scale of the iteration counts, not the one after it: C19's sixteenth
 * skip brings the scale to its floor and was not made there. */
static void
test_guard_scale_at_floor(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_SCALE_AT_FLOOR, EVENT_ACTION_CONTINUE)->limit =
        2;
    open_run(&r, 0);
    r.scale = 2;
    assert_false(miss(&r));
    r.scale = 1;
    assert_false(miss(&r));
    assert_true(miss(&r));
    expect(&r, 0, EVENT_ACTION_CONTINUE,
           "2 updates in a row were skipped with the scale at its floor, 1");
    assert_false(miss(&r)); /* once */
    assert_false(ok(&r));
    assert_false(miss(&r));
    assert_true(miss(&r)); /* and again */
    close_run(&r);

    /* Without a floor, a scaler, or a scale that moves there is none. */
    for (int i = 0; i < 3; i++) {
        begin_run(&r, DTYPE_F16);
        add_rule(&r, SPEC_CONDITION_SCALE_AT_FLOOR, EVENT_ACTION_FAIL);
        if (i == 0)
            r.spec.amp.scaler.min_scale = 0;
        r.spec.amp.scaler.enabled = i != 1;
        r.spec.amp.scaler.dynamic = i != 2;
        open_run(&r, 0);
        r.scale = i == 0 ? 0 : 1;
        for (int k = 0; k < 4; k++)
            assert_false(miss(&r));
        close_run(&r);
    }
}

static void
test_guard_skip_share(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_SKIP_SHARE, EVENT_ACTION_CONTINUE)->above = 0.5;
    open_run(&r, 0);
    for (int i = 0; i < 3; i++)
        assert_false(miss(&r)); /* not full */
    assert_true(ok(&r));
    expect(&r, 0, EVENT_ACTION_CONTINUE,
           "3 of the last 4 updates were skipped, a share of 0.75; more than "
           "0.5");
    assert_true(r.f.value == 0.75 && r.f.bound == 0.5);
    assert_false(miss(&r)); /* 3 again: told */
    assert_false(ok(&r));   /* 2 of 4 are no more than a half */
    assert_false(ok(&r));
    assert_false(miss(&r));
    assert_false(miss(&r)); /* 2 */
    assert_true(miss(&r));  /* 3 */
    close_run(&r);
}

static void
test_guard_updates_below(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_UPDATES_BELOW, EVENT_ACTION_PAUSE)->limit = 2;
    open_run(&r, 0);
    ok(&r);
    ok(&r);
    assert_false(miss(&r));
    assert_false(miss(&r)); /* 2 of 4 */
    assert_true(miss(&r));
    expect(&r, 0, EVENT_ACTION_PAUSE,
           "1 of the last 4 iterations ended in an update; fewer than 2");
    close_run(&r);
}

static void
test_guard_loss_bounds(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F32);
    add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_CONTINUE)->above = 8;
    add_rule(&r, SPEC_CONDITION_LOSS_BELOW, EVENT_ACTION_CONTINUE)->below = -1;
    open_run(&r, 0);
    assert_false(step(&r, false, 8));
    assert_false(step(&r, false, -1));
    assert_false(step(&r, true, 1e9)); /* no update */
    assert_true(step(&r, false, 8.5));
    expect(&r, 0, EVENT_ACTION_CONTINUE,
           "the loss of an update was 8.5, above 8");
    assert_false(step(&r, false, 9));
    assert_false(step(&r, true, 0)); /* says nothing about it */
    assert_false(step(&r, false, 9));
    assert_true(step(&r, false, -2));
    expect(&r, 1, EVENT_ACTION_CONTINUE,
           "the loss of an update was -2, below -1");
    assert_true(step(&r, false, NAN)); /* outside of any bound */
    expect(&r, 0, EVENT_ACTION_CONTINUE, "the loss of an update was nan");
    close_run(&r);
}

static void
test_guard_loss_spike(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F32);
    add_rule(&r, SPEC_CONDITION_LOSS_SPIKE, EVENT_ACTION_CONTINUE)->factor = 2;
    open_run(&r, 0);
    /* 1 2 3 4: median 2.5, distances .5 .5 1.5 1.5, spread 1.4826 */
    for (int i = 1; i <= 3; i++)
        assert_false(step(&r, false, i));
    assert_false(step(&r, false, 4)); /* not full when it came */
    assert_false(step(&r, true, 1e9));
    assert_false(step(&r, false, INFINITY)); /* another rule's business */
    assert_true(step(&r, false, 2.5 + 2 * 1.4826 + 1e-9));
    assert_true(fabs(r.f.bound - (2.5 + 2 * 1.4826)) < 1e-12);
    assert_string_equal(r.f.text,
                        "the loss of an update was 5.4652, above 5.4652: the "
                        "median of the 4 before it, 2.5, and 2 times their "
                        "spread, 1.4826");
    close_run(&r);

    /* Equal losses have no spread, and the next one is no spike. */
    begin_run(&r, DTYPE_F32);
    add_rule(&r, SPEC_CONDITION_LOSS_SPIKE, EVENT_ACTION_CONTINUE)->factor = 2;
    open_run(&r, 0);
    for (int i = 0; i < 4; i++)
        assert_false(step(&r, false, 2));
    assert_false(step(&r, false, 2 + 1e-6));
    assert_true(step(&r, false, 2.1));
    close_run(&r);
}

static bool
evaluate(struct run *r, enum spec_metric metric, double value, bool at_end)
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
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F32);
    g = add_rule(&r, SPEC_CONDITION_METRIC, EVENT_ACTION_FAIL);
    g->metric = SPEC_METRIC_ACCURACY;
    g->below = 0.5;
    g->after_updates = 2;
    g = add_rule(&r, SPEC_CONDITION_METRIC, EVENT_ACTION_PAUSE);
    g->metric = SPEC_METRIC_ACCURACY;
    g->above = 0.75;
    open_run(&r, 0);
    ok(&r);
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.1, false));
    ok(&r);
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.5, false));
    assert_false(evaluate(&r, SPEC_METRIC_ACCURACY, 0.75, false));
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 0.25, false));
    expect(&r, 0, EVENT_ACTION_FAIL, "accuracy was 0.25, below 0.5");
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, NAN, false));
    expect(&r, 0, EVENT_ACTION_FAIL, "accuracy is not a number");
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 1, false));
    expect(&r, 1, EVENT_ACTION_PAUSE, "accuracy was 1, above 0.75");
    /* Nothing is left to pause. */
    assert_true(evaluate(&r, SPEC_METRIC_ACCURACY, 1, true));
    expect(&r, 1, EVENT_ACTION_CONTINUE, "accuracy was 1, above 0.75");
    close_run(&r);
}

static void
test_guard_non_finite(void **state)
{
    static const enum event_trigger part[] = {
        EVENT_TRIGGER_LOSS, EVENT_TRIGGER_METRIC, EVENT_TRIGGER_WEIGHTS};
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F32);
    for (int i = 0; i < 3; i++)
        add_rule(&r, SPEC_CONDITION_NON_FINITE, EVENT_ACTION_CONTINUE)
            ->trigger = part[i];
    open_run(&r, 0);
    assert_false(miss(&r)); /* its gradients are not finite */
    assert_true(step(&r, false, INFINITY));
    expect(&r, 0, EVENT_ACTION_CONTINUE,
           "the loss of an update was inf, and every gradient finite");
    assert_true(isnan(r.f.bound));
    assert_false(evaluate(&r, SPEC_METRIC_LOSS, 3, false));
    assert_true(evaluate(&r, SPEC_METRIC_LOSS, INFINITY, false));
    expect(&r, 1, EVENT_ACTION_CONTINUE, "the loss of an evaluation was inf");
    assert_false(guard_observe_weights(r.guard, r.updates, NULL, &r.f));
    assert_true(guard_observe_weights(r.guard, r.updates, "fc.weight", &r.f));
    expect(&r, 2, EVENT_ACTION_CONTINUE, "fc.weight is not finite any more");
    assert_false(guard_observe_weights(r.guard, r.updates, "fc.weight", &r.f));
    close_run(&r);
}

/* Incidents in a row, whatever lies between; those that were not diagnosed
 * count for nothing and end nothing. */
static void
test_guard_verdict(void **state)
{
    const struct guard_incident unknown = {
        .verdict = EVENT_VERDICT_NONE, .layer = "", .data_position = -1};
    struct spec_guard *g;
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    g = add_rule(&r, SPEC_CONDITION_VERDICT, EVENT_ACTION_CONTINUE);
    g->verdict = EVENT_VERDICT_DIVERGENCE;
    g->limit = 2;
    g->after_updates = 1;
    open_run(&r, 0);
    assert_false(miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    assert_false(miss_with(&r, EVENT_VERDICT_SCALE_OVERFLOW, NULL));
    assert_false(miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    guard_note_incident(r.guard, &unknown);
    assert_false(miss(&r));
    assert_false(miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL)); /* too early */
    assert_false(ok(&r)); /* not too early, but nothing new */
    assert_true(miss_with(&r, EVENT_VERDICT_DIVERGENCE, "fc"));
    expect(&r, 0, EVENT_ACTION_CONTINUE,
           "3 diagnosed incidents in a row had verdict divergence, the last at "
           "fc");
    assert_false(miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    assert_false(miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL));
    assert_false(miss_with(&r, EVENT_VERDICT_DIVERGENCE, NULL));
    note(&r, EVENT_VERDICT_DIVERGENCE, NULL);
    assert_true(ok(&r)); /* a loss that is not finite is an incident too */
    close_run(&r);
}

/* ---- actions --------------------------------------------------------------*/

/* The first that acts, not the first that is listed. */
static void
test_guard_order(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_CONTINUE);
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_CONTINUE);
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_PAUSE)->limit =
        2;
    add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_FAIL)->limit =
        2;
    open_run(&r, 0);
    assert_true(miss(&r));
    assert_int_equal(r.f.rule, 0);
    assert_true(miss(&r));
    assert_int_equal(r.f.rule, 2);
    assert_int_equal(r.f.action, EVENT_ACTION_PAUSE);
    close_run(&r);
}

static struct spec_guard *
add_ladder(struct run *r)
{
    struct spec_guard *g = NULL;

    for (int i = 0; i < 3; i++) {
        g = add_rule(r, SPEC_CONDITION_VERDICT, EVENT_ACTION_ROLLBACK);
        g->verdict = EVENT_VERDICT_FORWARD_OVERFLOW;
        g->limit = 2;
        g->with.kind = i == 0 ? SPEC_CHANGE_FP32_REGION : SPEC_CHANGE_DTYPE;
        g->with.dtype = i == 1 ? DTYPE_BF16 : DTYPE_F32;
    }
    return g;
}

/* The rungs of guard: auto, each where the one before is in effect. */
static void
test_guard_ladder(void **state)
{
    const char *regions[] = {"block", "he\"ad"};
    static const struct {
        enum dtype dtype;
        int n_regions;
        const char *diagnosed;
        int rule; /* that acts */
        const char *change;
    } rungs[] = {
        {DTYPE_F16, 0, "fc1", 0, "{\"amp\":{\"fp32_regions\":[\"fc1\"]}}"},
        {DTYPE_F16, 2, "fc1", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"he\\\"ad\",\"fc1\"]}}"},
        {DTYPE_F16, 1, "block.0", 1,
         "{\"amp\":{\"dtype\":\"bfloat16\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_F16, 1, "blocks", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"blocks\"]}}"},
        {DTYPE_F16, 0, NULL, 1,
         "{\"amp\":{\"dtype\":\"bfloat16\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_BF16, 1, "fc1", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"fc1\"]}}"},
        {DTYPE_BF16, 1, "block", 2,
         "{\"amp\":{\"dtype\":\"float32\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_F32, 0, "fc1", -1, NULL},
    };
    struct run r;

    (void)state;
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++) {
        begin_run(&r, rungs[i].dtype);
        add_ladder(&r);
        r.spec.amp.fp32_regions = regions;
        r.spec.amp.n_fp32_regions = rungs[i].n_regions;
        open_run(&r, 2);
        assert_false(
            miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, rungs[i].diagnosed));
        assert_true(
            miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, rungs[i].diagnosed));
        if (rungs[i].rule < 0) {
            expect(&r, 0, EVENT_ACTION_FAIL,
                   "2 diagnosed incidents in a row had verdict "
                   "forward_overflow, the last at fc1; going back would change "
                   "nothing: all layers run in float32 already");
            assert_string_equal(r.f.to, "");
        } else {
            assert_int_equal(r.f.rule, rungs[i].rule);
            assert_int_equal(r.f.action, EVENT_ACTION_ROLLBACK);
            assert_string_equal(r.f.change, rungs[i].change);
            assert_string_equal(r.f.to, "last");
            assert_true(isnan(r.f.scale) && r.f.n_skip_windows == 0);
        }
        close_run(&r);
    }
}

static void
test_guard_rollbacks_are_bounded(void **state)
{
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    add_ladder(&r);
    open_run(&r, 3);
    miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    assert_true(miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    expect(&r, 0, EVENT_ACTION_FAIL,
           "2 diagnosed incidents in a row had verdict forward_overflow, the "
           "last at fc1; guards went back 3 times, and guard.max_rollbacks "
           "allows 3");
    assert_string_equal(r.f.change, "");
    close_run(&r);
}

/* The diagnosis of a streak that is over cures another one no more. */
static void
test_guard_cure_of_the_streak(void **state)
{
    struct spec_guard *g;
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    g = add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_ROLLBACK);
    g->limit = 2;
    g->with.kind = SPEC_CHANGE_FP32_REGION;
    open_run(&r, 0);
    assert_false(miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    assert_false(ok(&r));
    assert_false(miss(&r));
    assert_true(miss(&r));
    expect(&r, 0, EVENT_ACTION_FAIL,
           "2 updates in a row were skipped; none was diagnosed; going back "
           "would change nothing: no diagnosis names layers for float32");
    assert_false(ok(&r));
    assert_false(miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    assert_true(miss(&r));
    assert_int_equal(r.f.action, EVENT_ACTION_ROLLBACK);
    assert_string_equal(r.f.change, "{\"amp\":{\"fp32_regions\":[\"fc1\"]}}");
    close_run(&r);
}

static void
test_guard_named_regions(void **state)
{
    const char *regions[] = {"a", "b"};
    struct spec_guard *g;
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    g = add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_ROLLBACK);
    g->above = 2;
    g->to_best = true;
    g->with.kind = SPEC_CHANGE_FP32_REGION;
    g->with.regions = regions;
    g->with.n_regions = 2;
    r.spec.amp.fp32_regions = regions;
    r.spec.amp.n_fp32_regions = 1;
    open_run(&r, 0);
    assert_true(step(&r, false, 3));
    assert_string_equal(r.f.change,
                        "{\"amp\":{\"fp32_regions\":[\"a\",\"b\"]}}");
    assert_string_equal(r.f.to, "best");
    r.spec.amp.n_fp32_regions = 2;
    assert_true(step(&r, false, 3));
    expect(&r, 0, EVENT_ACTION_FAIL,
           "the loss of an update was 3, above 2; going back would change "
           "nothing: a and others run in float32 already");
    close_run(&r);
}

static void
test_guard_skip_batches(void **state)
{
    struct spec_guard *g;
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    g = add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_ROLLBACK);
    g->limit = 3;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    g = add_rule(&r, SPEC_CONDITION_VERDICT, EVENT_ACTION_ROLLBACK);
    g->verdict = EVENT_VERDICT_BAD_INPUT;
    g->limit = 4;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    g = add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_ROLLBACK);
    g->above = 2;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    open_run(&r, 0);
    ok(&r);
    r.position = 7;
    miss(&r);
    r.position = 9; /* 8 was passed over */
    miss(&r);
    assert_true(miss(&r));
    assert_int_equal(r.f.n_skip_windows, 2);
    assert_true(r.f.skip_windows[0] == 7 && r.f.skip_windows[1] == 4);
    assert_string_equal(r.f.change, "");
    ok(&r);
    r.position = 20;
    miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    ok(&r);
    miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    assert_true(miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL));
    assert_int_equal(r.f.rule, 1);
    assert_int_equal(r.f.n_skip_windows, 4);
    assert_true(r.f.skip_windows[0] == 20 && r.f.skip_windows[1] == 2 &&
                r.f.skip_windows[2] == 23 && r.f.skip_windows[3] == 2);
    r.position = 40;
    assert_true(step(&r, false, 3));
    assert_int_equal(r.f.n_skip_windows, 2);
    assert_true(r.f.skip_windows[0] == 40 && r.f.skip_windows[1] == 1);
    close_run(&r);
}

/* The smaller one of what the checkpoint has and what there is now. */
static void
test_guard_lower_scale(void **state)
{
    struct spec_guard *g;
    struct run r;

    (void)state;
    begin_run(&r, DTYPE_F16);
    g = add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS, EVENT_ACTION_ROLLBACK);
    g->with.kind = SPEC_CHANGE_LOWER_SCALE;
    g->with.factor = 0.25;
    open_run(&r, 0); /* begins at 1024 */
    r.scale = 4096;
    assert_true(miss(&r));
    assert_true(r.f.scale == 256);
    assert_string_equal(r.f.change, "");
    guard_note_checkpoint(r.guard, 2048);
    assert_true(miss(&r));
    assert_true(r.f.scale == 512);
    g->to_best = true; /* which may be the first one */
    assert_true(miss(&r));
    assert_true(r.f.scale == 256);
    r.scale = 2;
    assert_true(miss(&r));
    assert_true(r.f.scale == 1); /* the floor, but lower */
    r.scale = 1;
    assert_true(miss(&r));
    assert_int_equal(r.f.action, EVENT_ACTION_FAIL);
    assert_non_null(strstr(r.f.text, "the scale is at its floor, 1"));
    r.spec.amp.scaler.dynamic = false;
    r.scale = 512;
    assert_true(miss(&r));
    assert_true(isnan(r.f.scale));
    assert_string_equal(r.f.change,
                        "{\"amp\":{\"scaler\":{\"init_scale\":128.0}}}");
    r.spec.amp.scaler.enabled = false;
    assert_true(miss(&r));
    assert_non_null(strstr(r.f.text, "there is no loss scale"));
    close_run(&r);
}

/* ---- the twin -------------------------------------------------------------*/

#define TWIN_STEPS 400

struct twin_step {
    bool skipped, found_inf, incident;
    double loss, scale;
    enum event_verdict verdict;
    int64_t updates;
};

static uint64_t
next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
middle(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    return v[(n - 1) / 2] / 2 + v[n / 2] / 2;
}

/* 1: holds after step t, 0: does not, -1: t does not say. */
static int
twin_holds(const struct spec_guard *g, const struct twin_step *s, int t)
{
    int64_t n = 0, m = 0;
    double v[TWIN_STEPS], median, width;
    int i;

    switch (g->condition) {
    case SPEC_CONDITION_CONSECUTIVE_SKIPS:
        for (i = t; i >= 0 && s[i].skipped; i--)
            n++;
        return n >= g->limit;
    case SPEC_CONDITION_SCALE_AT_FLOOR:
        for (i = t; i >= 0 && s[i].skipped && s[i].scale <= 1; i--)
            n++;
        return n >= g->limit;
    case SPEC_CONDITION_SKIP_SHARE:
    case SPEC_CONDITION_UPDATES_BELOW:
        for (i = t; i >= 0 && m < g->iterations; i--, m++)
            n += s[i].skipped == (g->condition == SPEC_CONDITION_SKIP_SHARE);
        if (m < g->iterations)
            return 0;
        return g->condition == SPEC_CONDITION_SKIP_SHARE
                   ? (double)n / (double)m > g->above
                   : n < g->limit;
    case SPEC_CONDITION_LOSS_ABOVE:
        return s[t].skipped ? -1
                            : !(s[t].loss <= g->above) || !isfinite(s[t].loss);
    case SPEC_CONDITION_LOSS_BELOW:
        return s[t].skipped ? -1
                            : !(s[t].loss >= g->below) || !isfinite(s[t].loss);
    case SPEC_CONDITION_LOSS_SPIKE:
        if (s[t].skipped || !isfinite(s[t].loss))
            return -1;
        for (i = t - 1; i >= 0 && n < g->iterations; i--)
            if (!s[i].skipped && isfinite(s[i].loss))
                v[n++] = s[i].loss;
        if (n < g->iterations)
            return 0;
        median = middle(v, (int)n);
        for (i = 0; i < n; i++)
            v[i] = fabs(v[i] - median);
        width = 1.4826 * middle(v, (int)n);
        return s[t].loss >
               median + g->factor * fmax(width, 1e-6 * fabs(median));
    case SPEC_CONDITION_NON_FINITE:
        return !isfinite(s[t].loss) && !s[t].found_inf;
    case SPEC_CONDITION_VERDICT:
        for (i = t; i >= 0; i--) {
            if (!s[i].incident)
                continue;
            if (s[i].verdict != g->verdict)
                break;
            n++;
        }
        if (n >= g->limit)
            return s[t].incident ? 1 : -1;
        return 0;
    case SPEC_CONDITION_METRIC:
    case SPEC_CONDITION_COUNT: break;
    }
    return -1;
}

/* What fires after step t: the rule, or -1. */
static int
twin_fires(const struct run *r, const struct twin_step *s, int t, bool *quiet)
{
    int acts = -1, tells = -1;

    for (int i = 0; i < r->spec.guard.n_rules; i++) {
        const struct spec_guard *g = &r->rule[i];
        const int holds = twin_holds(g, s, t);

        if (holds == 0)
            quiet[i] = false;
        if (holds != 1 || quiet[i] || s[t].updates < g->after_updates)
            continue;
        if (g->action != EVENT_ACTION_CONTINUE && acts < 0)
            acts = i;
        if (g->action == EVENT_ACTION_CONTINUE && tells < 0)
            tells = i;
    }
    if (acts < 0 && tells >= 0)
        quiet[tells] = true;
    return acts >= 0 ? acts : tells;
}

static void
draw_rules(struct run *r, uint64_t *random)
{
    static const enum spec_condition kinds[] = {
        SPEC_CONDITION_CONSECUTIVE_SKIPS,
        SPEC_CONDITION_SCALE_AT_FLOOR,
        SPEC_CONDITION_SKIP_SHARE,
        SPEC_CONDITION_UPDATES_BELOW,
        SPEC_CONDITION_LOSS_ABOVE,
        SPEC_CONDITION_LOSS_BELOW,
        SPEC_CONDITION_LOSS_SPIKE,
        SPEC_CONDITION_NON_FINITE,
        SPEC_CONDITION_VERDICT};
    const int n = 1 + (int)(next(random) % MAX_RULES);

    for (int i = 0; i < n; i++) {
        struct spec_guard *g = add_rule(
            r, kinds[next(random) % 9],
            next(random) % 20 == 0 ? EVENT_ACTION_FAIL : EVENT_ACTION_CONTINUE);
        g->iterations = 2 + (int64_t)(next(random) % 30);
        g->limit = 1 + (int64_t)(next(random) % 6);
        g->after_updates =
            next(random) % 3 == 0 ? (int64_t)(next(random) % 100) : 0;
        g->above = g->condition == SPEC_CONDITION_SKIP_SHARE
                       ? (double)(next(random) % 8) / 8
                       : 3;
        g->below = -3;
        g->factor = 1 + (double)(next(random) % 8);
        g->trigger = EVENT_TRIGGER_LOSS;
        g->verdict = (enum event_verdict)(1 + next(random) % 3);
    }
}

/* Calm and bad weather in turns. */
static struct twin_step
draw_step(uint64_t *random, int t)
{
    const unsigned bad = t / 40 % 2 == 0 ? 20 : 2;
    struct twin_step s = {.skipped = next(random) % bad == 0};

    s.loss = (double)(next(random) >> 40) * 0x1p-22 - 2;
    if (next(random) % 25 == 0)
        s.loss *= 10;
    if (next(random) % 40 == 0)
        s.loss = next(random) % 2 == 0 ? NAN : INFINITY;
    s.found_inf = s.skipped || next(random) % 30 == 0; /* one of several */
    s.incident = s.skipped && next(random) % 3 != 0;
    s.verdict = (enum event_verdict)(1 + next(random) % 3);
    s.scale = next(random) % 3 == 0 ? 8 : 1;
    return s;
}

static void
test_guard_twin(void **state)
{
    int64_t fired = 0, by_kind[SPEC_CONDITION_COUNT] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15u;
        struct twin_step s[TWIN_STEPS];
        bool quiet[MAX_RULES] = {false};
        struct run r;

        begin_run(&r, DTYPE_F16);
        draw_rules(&r, &random);
        open_run(&r, 0);
        for (int t = 0; t < TWIN_STEPS; t++) {
            s[t] = draw_step(&random, t);
            s[t].updates = r.updates + !s[t].skipped;
            r.scale = s[t].scale;
            if (s[t].incident)
                note(&r, s[t].verdict, NULL);
            const struct guard_iteration it = {
                .updates = r.updates += !s[t].skipped,
                .data_position = r.position++,
                .skipped = s[t].skipped,
                .found_inf = s[t].found_inf,
                .loss = s[t].loss,
                .scale = s[t].scale,
            };
            const int want = twin_fires(&r, s, t, quiet);
            const bool got = guard_observe_iteration(r.guard, &it, &r.f);
            if (got != (want >= 0) || (got && r.f.rule != want))
                fail_msg("seed %llu, step %d: rule %d, not %d",
                         (unsigned long long)seed, t, got ? r.f.rule : -1,
                         want);
            if (!got)
                continue;
            assert_int_equal(r.f.action, r.rule[want].action);
            fired++;
            by_kind[r.rule[want].condition]++;
            if (r.f.action != EVENT_ACTION_CONTINUE)
                break;
        }
        close_run(&r);
    }
    /* The streams made every kind fire, many times. */
    assert_true(fired > 4000);
    for (int i = 0; i < SPEC_CONDITION_COUNT; i++)
        assert_true(i == SPEC_CONDITION_METRIC || by_kind[i] > 50);
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
        cmocka_unit_test(test_guard_ladder),
        cmocka_unit_test(test_guard_rollbacks_are_bounded),
        cmocka_unit_test(test_guard_cure_of_the_streak),
        cmocka_unit_test(test_guard_named_regions),
        cmocka_unit_test(test_guard_skip_batches),
        cmocka_unit_test(test_guard_lower_scale),
        cmocka_unit_test(test_guard_twin),
    };

    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
