/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/loop.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- orders ---------------------------------------------------------------*/

static unsigned
look_for_orders(struct loop *l)
{
    l->at.orders |= report_orders(l->report);
    return l->at.orders;
}

static bool
must_end(void *ctx)
{
    return (look_for_orders(ctx) & (REPORT_STOP | REPORT_ABANDON)) != 0;
}

/* ---- gradients that half made zero ----------------------------------------*/

struct flushed {
    bool here;
    int64_t us;
    struct err failure;
    struct flush_result result;
};

static void
measure_flush(struct loop *l, const struct prefetch_window *window,
              const struct step_result *r, struct flushed *flushed)
{
    const int64_t start_us = clock_mono_us(&l->report->clock);
    const int64_t updates = l->state->count.updates;

    memset(flushed, 0, sizeof(*flushed));
    if (!l->measures_flush || r->found_inf ||
        (l->at.flush_known &&
         updates < l->at.flush_updates + FLUSH_EVERY_UPDATES))
        return;
    flushed->here = flush_measure(l->incidents.rerun, l->state, window,
                                  &flushed->result, &flushed->failure) == 0;
    flushed->us = clock_mono_us(&l->report->clock) - start_us;
    l->at.flush_known = true;
    l->at.flush_updates = updates;
}

static int
emit_flush(const struct loop *l, const struct flushed *flushed, struct err *err)
{
    const int64_t n = flushed->result.n_nonzero;
    const double share =
        n > 0 ? (double)flushed->result.n_flushed / (double)n : 0;
    char text[EVENT_TEXT_MAX];

    if (flushed->failure.code != 0)
        return report_warning(l->report, flushed->failure.msg, err);
    if (!flushed->here)
        return 0;
    snprintf(text, sizeof(text),
             "float16 without a loss scale: %.3g %% of the gradient elements "
             "are 0 that are not in float32 (%lld of %lld)",
             100 * share, (long long)flushed->result.n_flushed, (long long)n);
    return report_warning_value(l->report, text, share, err);
}

/* ---- events of a step -----------------------------------------------------*/

static int
emit_step(const struct loop *l, const struct prefetch_window *window,
          const struct step_result *r, int64_t step_us, struct err *err)
{
    struct event e = {.kind = EVENT_STEP};

    e.u.step.skipped = r->skipped;
    e.u.step.loss = r->loss;
    e.u.step.grad_norm = r->grad_norm;
    e.u.step.lr = r->lr;
    e.u.step.scale = r->scale;
    e.u.step.samples = window->at.n_samples;
    e.u.step.step_us = step_us;
    return report_emit(l->report, &e, err);
}

/* Of several optimizers those that did not step: "0 sgd, 2 adam". */
static void
name_held(const struct loop *l, const struct step_result *r,
          char text[EVENT_NAME_MAX])
{
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; l->spec->n_optim > 1 && i < l->spec->n_optim; i++)
        if (r->held[i])
            n += (size_t)snprintf(text + n, EVENT_NAME_MAX - n, "%s%d %s",
                                  n > 0 ? ", " : "", i,
                                  spec_optimizer_name(l->spec->optim[i].kind));
}

static int
emit_scale(const struct loop *l, const struct prefetch_window *window,
           const struct step_result *r, struct err *err)
{
    struct event e = {.kind = EVENT_SCALE};
    char held[EVENT_NAME_MAX];

    if (r->n_held == 0 && r->change != SCALER_GREW)
        return 0;
    e.u.scale.cause = r->n_held > 0 ? EVENT_SCALE_SKIP : EVENT_SCALE_GROWTH;
    e.u.scale.before = r->scale;
    e.u.scale.after = r->scale_after;
    e.u.scale.growth_tracker = r->growth_tracker;
    name_held(l, r, held);
    e.u.scale.optimizers = held;
    e.u.scale.partial = r->n_held > 0 && !r->skipped;
    if (r->n_held > 0) {
        e.u.scale.samples = window->ids;
        e.u.scale.n_samples = (int)window->at.n_samples;
    }
    return report_emit(l->report, &e, err);
}

static int
run_iteration(struct loop *l, struct step_result *r, struct err *err)
{
    const int64_t start_us = clock_mono_us(&l->report->clock);
    const int64_t position =
        prefetch_pass_over(l->prefetch, l->state->count.data_position);
    const struct prefetch_window *window =
        prefetch_window_at(l->prefetch, position);
    struct flushed flushed;
    int64_t diagnosis_us = 0;

    l->state->count.data_position = position;
    int rc = step_compute(l->step, window, r, err);
    if (rc != 0)
        return rc;
    rc = incidents_look(&l->incidents, window, r, &diagnosis_us, err);
    if (rc != 0)
        return rc;
    watch_look(&l->watch);
    measure_flush(l, window, r, &flushed);
    rc = step_commit(l->step, window, r, err);
    if (rc != 0)
        return rc;
    const int64_t step_us = clock_mono_us(&l->report->clock) - start_us;
    if (!r->skipped && isfinite(r->loss)) {
        l->at.loss_sum += r->loss;
        l->at.n_losses++;
    }
    rc = emit_step(l, window, r, step_us - diagnosis_us - flushed.us, err);
    if (rc == 0)
        rc = emit_scale(l, window, r, err);
    if (rc == 0)
        rc = incidents_tell(&l->incidents, r, err);
    if (rc == 0)
        rc = emit_flush(l, &flushed, err);
    return rc != 0 ? rc : watch_iteration(&l->watch, r, position, err);
}

/* ---- evaluation and checkpoints -------------------------------------------*/

struct evaluation {
    bool incomplete;
    bool best; /* the value beats the best one so far */
};

static int
emit_evaluation(const struct loop *l, const struct evaluate_result *result,
                bool best, bool ema, struct err *err)
{
    const bool *asked = l->spec->evaluate.metric;
    struct event e = {.kind = EVENT_EVALUATION};

    e.u.evaluation.loss = asked[SPEC_METRIC_LOSS] ? result->loss : NAN;
    e.u.evaluation.accuracy =
        asked[SPEC_METRIC_ACCURACY] ? result->accuracy : NAN;
    e.u.evaluation.top_k = asked[SPEC_METRIC_TOP_K] ? result->top_k : NAN;
    e.u.evaluation.perplexity =
        asked[SPEC_METRIC_PERPLEXITY] ? result->perplexity : NAN;
    e.u.evaluation.n = result->n;
    e.u.evaluation.incomplete = result->incomplete;
    e.u.evaluation.best = best;
    e.u.evaluation.ema = ema;
    if (asked[SPEC_METRIC_CONFUSION]) {
        e.u.evaluation.n_classes = result->n_classes;
        e.u.evaluation.confusion = result->confusion;
    }
    return report_emit(l->report, &e, err);
}

static int
evaluate(struct loop *l, bool at_end, struct evaluation *out, struct err *err)
{
    const bool ema = l->spec->train.ema_evaluate && l->state->ema != NULL;
    struct evaluate_result result;

    out->incomplete = out->best = false;
    if (l->evaluate == NULL)
        return 0;
    if (ema)
        state_swap_ema(l->state);
    evaluate_run(l->evaluate, must_end, l, &result);
    int rc = incidents_evaluated(&l->incidents, l->evaluate, &result, err);
    if (ema)
        state_swap_ema(l->state);
    if (rc != 0)
        return rc;
    out->incomplete = result.incomplete;
    if (!result.incomplete) {
        l->at.has_metric = l->spec->checkpoint.has_best;
        l->at.metric = evaluate_metric(&result, l->spec->checkpoint.best);
        l->at.metric_updates = l->state->count.updates;
        out->best = keeper_is_better(l->keeper, l->at.metric);
    }
    rc = emit_evaluation(l, &result, out->best, ema, err);
    if (rc != 0 || result.incomplete)
        return rc;
    return watch_evaluation(&l->watch, &result,
                            evaluate_bad_window(l->evaluate) != NULL, at_end,
                            err);
}

static int
checkpoint(struct loop *l, enum event_checkpoint_cause cause, bool best,
           struct err *failure, struct err *err)
{
    const bool current = l->at.metric_updates == l->state->count.updates;
    struct keeper_request q = {
        .cause = cause,
        .has_metric = l->at.has_metric && current,
        .metric = l->at.metric,
        .best = best,
    };

    /* Whoever asked for one is told by the cause. */
    if ((l->at.orders & REPORT_CHECKPOINT) != 0)
        q.cause = EVENT_CHECKPOINT_DEMAND;
    l->at.orders &= ~(unsigned)REPORT_CHECKPOINT;
    const int rc =
        keeper_save(l->keeper, l->report, l->state, &q, failure, err);
    if (rc == 0 && failure->code == 0)
        watch_checkpoint(&l->watch);
    return rc;
}

static bool
is_due(int64_t every, const struct loop *l, const struct step_result *r)
{
    return every > 0 && !r->skipped && l->state->count.updates % every == 0;
}

/* A guard has ended the run, and not for a pause: this state is not kept. */
static bool
is_lost(const struct loop *l)
{
    return l->watch.fired && l->watch.firing.action != EVENT_ACTION_PAUSE;
}

static int
after_iteration(struct loop *l, const struct step_result *r, struct err *err)
{
    struct evaluation evaluation = {0};
    struct err failure;
    int rc = 0;

    if (l->state->count.iteration >= l->total_iterations)
        return 0; /* finish() does it */
    if (is_due(l->spec->evaluate.every_updates, l, r) && !must_end(l))
        rc = evaluate(l, false, &evaluation, err);
    if (rc != 0 || is_lost(l) || (look_for_orders(l) & REPORT_ABANDON) != 0)
        return rc;
    if (!evaluation.best && (l->at.orders & REPORT_CHECKPOINT) == 0 &&
        !is_due(l->spec->checkpoint.every_updates, l, r))
        return 0;
    return checkpoint(l, EVENT_CHECKPOINT_PERIODIC, evaluation.best, &failure,
                      err);
}

/* What a stop cut off is made up for, or the best model might be missed. */
static int
catch_up(struct loop *l, struct err *err)
{
    struct evaluation evaluation;
    struct err failure;
    int rc;

    if (!l->owes_evaluation || must_end(l) ||
        l->state->count.iteration >= l->total_iterations)
        return 0; /* finish() evaluates */
    rc = evaluate(l, true, &evaluation, err);
    if (rc != 0 || is_lost(l) || !evaluation.best ||
        (look_for_orders(l) & REPORT_ABANDON) != 0)
        return rc;
    return checkpoint(l, EVENT_CHECKPOINT_PERIODIC, true, &failure, err);
}

/* A pause, a signal, a daemon that is gone. */
static int
stop(struct loop *l, enum event_outcome *outcome, struct err *err)
{
    struct err failure;
    int rc;

    *outcome = l->watch.fired ? EVENT_OUTCOME_PAUSED : EVENT_OUTCOME_STOPPED;
    if ((l->at.orders & REPORT_ABANDON) != 0 ||
        keeper_saved_iteration(l->keeper) == l->state->count.iteration)
        return 0;
    rc = checkpoint(l, EVENT_CHECKPOINT_STOP, false, &failure, err);
    if (rc == 0 && failure.code != 0)
        *err = failure;
    return rc;
}

/* As the guard that fired says. */
static int
obey(struct loop *l, enum event_outcome *outcome, struct err *err)
{
    char text[EVENT_TEXT_MAX];

    switch (l->watch.firing.action) {
    case EVENT_ACTION_PAUSE: return stop(l, outcome, err);
    case EVENT_ACTION_ROLLBACK: *outcome = EVENT_OUTCOME_GO_BACK; return 0;
    case EVENT_ACTION_FAIL:
    case EVENT_ACTION_CONTINUE: break;
    }
    *outcome = EVENT_OUTCOME_FAILED;
    watch_format(&l->watch, text, sizeof(text));
    return err_set(err, ERR_NUMERICS, "%s", text);
}

/* All iterations are done. *done false: told to end before it was kept. */
static int
finish(struct loop *l, bool *done, struct err *err)
{
    struct evaluation evaluation;
    struct err failure;
    int rc = evaluate(l, true, &evaluation, err);

    *done =
        !evaluation.incomplete && (look_for_orders(l) & REPORT_ABANDON) == 0;
    if (rc != 0 || is_lost(l) || !*done)
        return rc;
    if (!evaluation.best &&
        keeper_saved_iteration(l->keeper) == l->state->count.iteration)
        return 0;
    rc = checkpoint(l, EVENT_CHECKPOINT_END, evaluation.best, &failure, err);
    if (rc == 0 && failure.code != 0) {
        /* A model that could not be kept is no completed job. */
        *err = failure;
        rc = failure.code;
    }
    return rc;
}

int
loop_run(struct loop *loop, enum event_outcome *outcome, struct err *err)
{
    const struct state_counters *count = &loop->state->count;
    struct step_result result;
    bool done = false;
    int rc = 0;

    err_clear(err);
    incidents_begin(&loop->incidents);
    loop->at.metric_updates = -1;
    rc = catch_up(loop, err);
    while (rc == 0) {
        if (loop->watch.fired)
            return obey(loop, outcome, err);
        if (must_end(loop))
            return stop(loop, outcome, err);
        if (count->iteration >= loop->total_iterations) {
            rc = finish(loop, &done, err);
            if (rc != 0 || (done && !loop->watch.fired))
                break;
            continue;
        }
        rc = run_iteration(loop, &result, err);
        if (rc == 0 && !loop->watch.fired)
            rc = after_iteration(loop, &result, err);
    }
    *outcome = rc == 0 ? EVENT_OUTCOME_COMPLETED : EVENT_OUTCOME_FAILED;
    return rc;
}

double
loop_mean_loss(const struct loop *loop)
{
    return loop->at.n_losses > 0 ? loop->at.loss_sum / (double)loop->at.n_losses
                                 : NAN;
}
