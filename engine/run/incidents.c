/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/incidents.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t
now_us(const struct incidents *i)
{
    return clock_mono_us(&i->report->clock);
}

void
incidents_begin(struct incidents *i)
{
    memset(&i->at, 0, sizeof(i->at));
    memset(&i->last, 0, sizeof(i->last));
    i->at.start_us = now_us(i);
}

/* ---- the budget -----------------------------------------------------------*/

static bool
may_replay(const struct incidents *i)
{
    const int64_t elapsed_us = now_us(i) - i->at.start_us;
    const double room_us = i->spec->diagnose.replay_share * (double)elapsed_us;

    if (i->at.n < i->spec->diagnose.max_replays)
        return true;
    return !i->at.in_streak && i->spec->diagnose.replay_share > 0 &&
           (double)(i->at.spent_us + i->at.last_cost_us) <= room_us;
}

/* Runs the diagnosis of what is now an incident, if it may. */
static void
diagnose(struct incidents *i, const struct rerun_case *c, double lr)
{
    const int64_t start_us = now_us(i);

    i->now.replayed = false;
    i->now.cost_us = 0;
    memset(&i->now.kept, 0, sizeof(i->now.kept));
    err_clear(&i->now.failure);
    if (!may_replay(i))
        return;
    i->now.replayed =
        diagnosis_run(i->rerun, c, lr, &i->diagnosis, &i->now.failure) == 0;
    i->now.cost_us = now_us(i) - start_us;
    i->at.last_cost_us = i->now.cost_us;
    i->at.spent_us += i->now.cost_us;
}

/* ---- what others may know -------------------------------------------------*/

static void
remember(struct incidents *i, int64_t iteration)
{
    struct incidents_last *last = &i->last;
    const enum event_verdict verdict = i->diagnosis.verdict.verdict;
    const bool goes_on =
        i->at.in_streak &&
        (!i->now.replayed || last->in_row == 0 || verdict == last->verdict);

    last->iteration = iteration;
    last->data_position = i->now.data_position;
    last->trigger = i->now.trigger;
    last->replayed = i->now.replayed;
    if (i->now.replayed)
        last->verdict = verdict;
    last->in_row = goes_on ? last->in_row + 1 : 1;
}

const struct incidents_last *
incidents_last(const struct incidents *i)
{
    return &i->last;
}

const struct diagnosis *
incidents_diagnosis(const struct incidents *i)
{
    return &i->diagnosis;
}

/* ---- events ---------------------------------------------------------------*/

static void
say_not_replayed(const struct incidents *i, char text[EVENT_TEXT_MAX])
{
    snprintf(text, EVENT_TEXT_MAX,
             "not replayed: after the first %lld of an attempt only the first "
             "of each streak is, within %.3g %% of the time",
             (long long)i->spec->diagnose.max_replays,
             100 * i->spec->diagnose.replay_share);
}

/* text is where a sentence may lie. */
static void
fill(const struct incidents *i, const struct diagnosis *d, double scale,
     char text[EVENT_TEXT_MAX], struct event *e)
{
    *e = (struct event){.kind = EVENT_INCIDENT};
    e->u.incident.layer = e->u.incident.op = e->u.incident.tensor = "";
    e->u.incident.cure = e->u.incident.regions = "";
    e->u.incident.name = i->now.kept.name;
    e->u.incident.kept_bytes = i->now.kept.n_bytes;
    e->u.incident.sample = -1;
    e->u.incident.finite_scale = e->u.incident.fp32_value = (double)NAN;
    e->u.incident.trigger = i->now.trigger;
    e->u.incident.scale = scale;
    e->u.incident.data_position = i->now.data_position;
    e->u.incident.cost_us = i->now.cost_us;
    if (i->now.replayed) {
        diagnosis_fill_event(d, e);
    } else if (i->now.failure.code != 0) {
        e->u.incident.sentence = i->now.failure.msg;
    } else {
        say_not_replayed(i, text);
        e->u.incident.sentence = text;
    }
}

static int
emit(const struct incidents *i, const struct diagnosis *d, double scale,
     struct err *err)
{
    char text[EVENT_TEXT_MAX];
    struct event e;

    fill(i, d, scale, text, &e);
    int rc = report_emit(i->report, &e, err);
    if (rc == 0 && i->now.failure.code != 0)
        rc = report_warning(i->report, i->now.failure.msg, err);
    if (rc == 0 && i->now.kept.failure.code != 0)
        rc = report_warning(i->report, i->now.kept.failure.msg, err);
    return rc;
}

/* ---- a step ---------------------------------------------------------------*/

/* What was diagnosed, with all that it takes to run it again. */
static int
keep(struct incidents *i, const struct prefetch_window *window,
     const struct step_result *r, struct err *err)
{
    const int64_t start_us = now_us(i);
    char text[EVENT_TEXT_MAX];
    struct event e;
    const struct incident_file_args args = {
        .attempt = i->origin.attempt,
        .spec = i->spec,
        .data = i->origin.data,
        .backend = i->origin.backend,
        .policy = i->origin.policy,
        .threads = i->origin.threads,
        .state = i->state,
        .window = window,
        .loss = (float)r->loss,
        .diagnosis = &e,
    };

    if (i->keep == NULL || !i->now.replayed)
        return 0;
    fill(i, &i->diagnosis, r->scale, text, &e);
    const int rc =
        incident_keep_put(i->keep, &args, i->report, &i->now.kept, err);
    const int64_t took_us = now_us(i) - start_us;
    i->now.cost_us += took_us;
    i->at.last_cost_us += took_us;
    i->at.spent_us += took_us;
    return rc;
}

int
incidents_look(struct incidents *i, const struct prefetch_window *window,
               const struct step_result *r, int64_t *cost_us, struct err *err)
{
    i->now.here = r->found_inf || !isfinite(r->loss);
    i->now.cost_us = *cost_us = 0;
    if (!i->now.here)
        return 0;
    i->now.trigger = r->found_inf ? EVENT_TRIGGER_SKIP : EVENT_TRIGGER_LOSS;
    i->now.data_position = i->state->count.data_position;
    const struct rerun_case c = rerun_window(i->state, window);
    diagnose(i, &c, r->lr);
    const int rc = keep(i, window, r, err);
    *cost_us = i->now.cost_us;
    return rc;
}

/* Gradients decide about the update, as in PyTorch; a loss that is not finite
 * with finite gradients is applied, but not in silence. */
static int
warn_loss(struct incidents *i, const struct step_result *r, struct err *err)
{
    const bool odd = !isfinite(r->loss) && !r->found_inf;
    const bool first = odd && !i->at.loss_warned;

    i->at.loss_warned = odd;
    if (!first)
        return 0;
    return report_warning(i->report,
                          "the loss is not finite, but every gradient is: "
                          "the update was applied",
                          err);
}

/* Now and then: an update that blew the weights up is an incident of its own,
 * told once. */
static int
check_weights(struct incidents *i, const struct step_result *r, struct err *err)
{
    struct diagnosis d;

    if (r->skipped ||
        i->state->count.updates % INCIDENTS_WEIGHT_CHECK_UPDATES != 0)
        return 0;
    diagnosis_check_state(i->rerun, i->state, r->lr, &d);
    const bool first = d.evidence.where.located && !i->at.weights_bad;
    i->at.weights_bad = d.evidence.where.located;
    if (!first)
        return 0;
    i->diagnosis = d;
    i->now.trigger = EVENT_TRIGGER_WEIGHTS;
    i->now.replayed = true;
    i->now.cost_us = 0;
    i->now.data_position = i->state->count.data_position - 1;
    memset(&i->now.kept, 0, sizeof(i->now.kept));
    err_clear(&i->now.failure);
    remember(i, i->state->count.iteration);
    return emit(i, &i->diagnosis, r->scale, err);
}

int
incidents_tell(struct incidents *i, const struct step_result *r,
               struct err *err)
{
    int rc = 0;

    if (i->now.here) {
        i->at.n++;
        remember(i, i->state->count.iteration);
        rc = emit(i, &i->diagnosis, r->scale, err);
    }
    i->at.in_streak = i->now.here;
    if (rc == 0)
        rc = check_weights(i, r, err);
    return rc != 0 ? rc : warn_loss(i, r, err);
}

/* ---- an evaluation --------------------------------------------------------*/

int
incidents_evaluated(struct incidents *i, struct evaluate *evaluate,
                    const struct evaluate_result *result, struct err *err)
{
    const struct prefetch_window *w = evaluate_bad_window(evaluate);

    (void)result;
    if (w == NULL)
        return 0;
    const struct rerun_case c = {
        .mode = BUILD_EVAL,
        .state = i->state,
        .batch = w->batch,
        .n_batches = 1,
        .n_count = w->n_count,
        .scale = 1.0f,
    };
    const bool in_streak = i->at.in_streak;
    i->now.trigger = EVENT_TRIGGER_METRIC;
    i->now.data_position = -1;
    i->at.in_streak = false;
    diagnose(i, &c, 0);
    i->at.n++;
    remember(i, i->state->count.iteration);
    i->at.in_streak = in_streak;
    return emit(i, &i->diagnosis, (double)i->state->scaler.scale, err);
}
