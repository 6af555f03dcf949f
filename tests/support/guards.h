/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guards: a guard with rules of a test's own, and a run that it watches.
 *
 * Header only; a failing call fails the running CMocka test.
 */
#ifndef TESTS_SUPPORT_GUARDS_H
#define TESTS_SUPPORT_GUARDS_H

#include "engine/run/guard.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GUARDS_UNUSED    __attribute__((unused))
#define GUARDS_MAX_RULES 8

/* A run: rules, the guard, and what has been told it. */
struct guards {
    struct spec spec;
    struct spec_guard rule[GUARDS_MAX_RULES];
    struct guard *guard;
    int64_t updates, position;
    double scale;
    struct guard_firing f;
};

static GUARDS_UNUSED struct spec_guard *
guards_add_rule(struct guards *r, enum spec_condition condition,
                enum event_action action)
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

static GUARDS_UNUSED void
guards_begin(struct guards *r, enum dtype dtype)
{
    memset(r, 0, sizeof(*r));
    r->spec.amp.dtype = dtype;
    r->spec.amp.scaler = (struct spec_scaler){
        .enabled = dtype == DTYPE_F16, .dynamic = true, .min_scale = 1};
    r->spec.guard.rule = r->rule;
    r->spec.guard.max_rollbacks = 3;
    r->scale = 1024;
}

static GUARDS_UNUSED void
guards_open(struct guards *r, int64_t rollbacks)
{
    const struct guard_options o = {&r->spec, rollbacks, r->scale};
    struct err err;

    assert_int_equal(guard_create(&o, &r->guard, &err), 0);
}

static GUARDS_UNUSED bool
guards_step(struct guards *r, bool skipped, double loss)
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

/* Tells of an incident in the iteration that comes next. */
static GUARDS_UNUSED void
guards_note(struct guards *r, enum event_verdict verdict, const char *region)
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

static GUARDS_UNUSED void
guards_close(struct guards *r)
{
    guard_destroy(&r->guard);
    assert_null(r->guard);
}

static GUARDS_UNUSED bool
guards_ok(struct guards *r)
{
    return guards_step(r, false, 1);
}

static GUARDS_UNUSED bool
guards_miss(struct guards *r)
{
    return guards_step(r, true, NAN);
}

static GUARDS_UNUSED bool
guards_miss_with(struct guards *r, enum event_verdict verdict,
                 const char *region)
{
    guards_note(r, verdict, region);
    return guards_miss(r);
}

static GUARDS_UNUSED void
guards_expect(const struct guards *r, int rule, enum event_action action,
              const char *text)
{
    assert_int_equal(r->f.rule, rule);
    assert_int_equal(r->f.action, action);
    assert_string_equal(r->f.text, text);
    assert_int_equal(r->f.condition, r->rule[rule].condition);
}

#endif
