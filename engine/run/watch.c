/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/watch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- what fires -----------------------------------------------------------*/

/* The first that ends the run stays; after it nothing is worth telling. */
static int
tell(struct watch *w, const struct guard_firing *f, struct err *err)
{
    struct event e = {.kind = EVENT_GUARD};

    e.u.guard.rule = f->rule;
    e.u.guard.condition = spec_guard_condition_name(f->condition);
    e.u.guard.text = f->text;
    e.u.guard.value = f->value;
    e.u.guard.bound = f->bound;
    e.u.guard.action = f->action;
    e.u.guard.change = f->change;
    if (f->action != EVENT_ACTION_CONTINUE) {
        w->fired = true;
        w->firing = *f;
    }
    return report_emit(w->report, &e, err);
}

void
watch_format(const struct watch *w, char *text, size_t size)
{
    const struct guard_firing *f = &w->firing;

    assert(w->fired);
    snprintf(text, size, "guard %d (%s): %s", f->rule,
             spec_guard_condition_name(f->condition), f->text);
}

/* ---- incidents ------------------------------------------------------------*/

static void
note(struct watch *w)
{
    const struct diagnosis *d = incidents_diagnosis(w->incidents);
    const struct evidence *e = &d->evidence;
    const char *regions[VERDICT_MAX_REGIONS];
    const struct guard_incident incident = {
        .diagnosed = w->incidents->now.replayed,
        .verdict = d->verdict.verdict,
        .layer = e->where.layer,
        .regions = regions,
        .n_regions = e->n_regions,
        .data_position = w->incidents->now.data_position,
    };

    for (int i = 0; i < e->n_regions; i++)
        regions[i] = e->region[i];
    guard_note_incident(w->guard, &incident);
}

void
watch_look(struct watch *w)
{
    if (w->incidents->now.here)
        note(w);
}

/* ---- a step ---------------------------------------------------------------*/

/* Looked at now and then; an incident of weights is told when they turn bad,
 * and is then the last one. */
static int
watch_weights(struct watch *w, const struct step_result *r, struct err *err)
{
    const struct incidents_last *last = incidents_last(w->incidents);
    const struct state_counters *count = &w->state->count;
    const char *tensor = NULL;
    struct guard_firing f;

    if (w->fired || r->skipped ||
        count->updates % INCIDENTS_WEIGHT_CHECK_UPDATES != 0)
        return 0;
    if (w->incidents->at.weights_bad) {
        const bool now = last->trigger == EVENT_TRIGGER_WEIGHTS &&
                         last->iteration == count->iteration;
        tensor = now ? incidents_diagnosis(w->incidents)->evidence.where.tensor
                     : "a weight";
        if (now)
            note(w);
    }
    if (!guard_observe_weights(w->guard, count->updates, tensor, &f))
        return 0;
    return tell(w, &f, err);
}

int
watch_iteration(struct watch *w, const struct step_result *r, int64_t position,
                struct err *err)
{
    const struct guard_iteration it = {
        .updates = w->state->count.updates,
        .data_position = position,
        .skipped = r->skipped,
        .found_inf = r->found_inf,
        .loss = r->loss,
        .scale = r->scale,
    };
    struct guard_firing f;
    int rc = 0;

    if (guard_observe_iteration(w->guard, &it, &f))
        rc = tell(w, &f, err);
    return rc != 0 ? rc : watch_weights(w, r, err);
}

/* ---- evaluation and checkpoints -------------------------------------------*/

int
watch_evaluation(struct watch *w, const struct evaluate_result *result,
                 bool bad, bool at_end, struct err *err)
{
    struct guard_evaluation e = {
        .updates = w->state->count.updates,
        .at_end = at_end,
    };
    struct guard_firing f;

    for (int m = 0; m < SPEC_METRIC_COUNT; m++)
        e.value[m] = evaluate_metric(result, (enum spec_metric)m);
    if (bad)
        note(w);
    if (!guard_observe_evaluation(w->guard, &e, &f))
        return 0;
    return tell(w, &f, err);
}

void
watch_checkpoint(struct watch *w)
{
    guard_note_checkpoint(w->guard, (double)w->state->scaler.scale);
}
