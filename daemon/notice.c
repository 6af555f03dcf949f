/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notice.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void
fill(struct notice *n, const struct job *job, const char *kind)
{
    struct view_job view;

    job_view(job, &view);
    n->kind = kind;
    n->state = job_state_name(job->stored);
    n->text[0] = '\0';
    n->iteration = view.iteration;
    n->updates = view.updates;
    n->skips = view.skips;
    n->total_iterations = view.total_iterations;
    n->loss = view.loss;
    n->scale = view.scale;
    n->lr = view.lr;
    n->accuracy = view.accuracy;
    n->iterations_per_s = view.iterations_per_s;
    n->eta_s = view.eta_s;
}

void
notice_from_state(struct notice *n, const struct job *job)
{
    const char *reason = job->row.view.reason;

    fill(n, job, job_state_is_final(job->stored) ? "end" : "state");
    /* "paused" needs no reason that says so once more. */
    if (strcmp(reason, n->state) == 0)
        reason = "";
    snprintf(n->text, sizeof(n->text), "%s%s%s", n->state,
             reason[0] != '\0' ? ": " : "", reason);
}

void
notice_from_progress(struct notice *n, const struct job *job)
{
    fill(n, job, "progress");
    int len =
        snprintf(n->text, sizeof(n->text), "iteration %" PRId64 " of %" PRId64,
                 n->iteration, n->total_iterations);
    if (!isnan(n->loss))
        snprintf(n->text + len, sizeof(n->text) - (size_t)len, ", loss %.6g",
                 n->loss);
}

/* "2^22", or six digits where it is no power of two. */
static const char *
format_scale(char text[32], double scale)
{
    int exponent;

    if (scale > 0 && isfinite(scale) && frexp(scale, &exponent) == 0.5)
        snprintf(text, 32, "2^%d", exponent - 1);
    else
        snprintf(text, 32, "%g", scale);
    return text;
}

static bool
from_scale(struct notice *n, const struct event *e)
{
    char before[32], after[32];

    format_scale(before, e->u.scale.before);
    format_scale(after, e->u.scale.after);
    switch (e->u.scale.cause) {
    case EVENT_SCALE_SKIP:
        n->kind = "skip";
        snprintf(n->text, sizeof(n->text),
                 "iteration %" PRId64 ": update skipped%s%.64s, scale %s -> %s",
                 e->iteration, e->u.scale.partial ? " by optimizer " : "",
                 e->u.scale.partial ? e->u.scale.optimizers : "", before,
                 after);
        return true;
    case EVENT_SCALE_GROWTH:
    case EVENT_SCALE_SET:
        n->kind = "growth";
        snprintf(n->text, sizeof(n->text),
                 "iteration %" PRId64 ": scale %s -> %s", e->iteration, before,
                 after);
        return true;
    }
    return false;
}

/* "[6,2]"; "" for a scalar. */
static const char *
format_index(char text[128], const struct event *e)
{
    size_t len = 0;

    text[0] = '\0';
    for (int i = 0; i < e->u.incident.rank && len < 100; i++)
        len += (size_t)snprintf(text + len, 128 - len, "%c%" PRId64,
                                i == 0 ? '[' : ',', e->u.incident.index[i]);
    if (len > 0)
        snprintf(text + len, 128 - len, "]");
    return text;
}

static bool
from_incident(struct notice *n, const struct event *e)
{
    char index[128];

    n->kind = "incident";
    if (e->u.incident.verdict != EVENT_VERDICT_NONE)
        snprintf(n->text, sizeof(n->text), "iteration %" PRId64 ": %s: %.400s",
                 e->iteration, event_verdict_name(e->u.incident.verdict),
                 e->u.incident.sentence);
    else if (!e->u.incident.located)
        snprintf(n->text, sizeof(n->text),
                 "iteration %" PRId64 ": non-finite, %s", e->iteration,
                 e->u.incident.replayed ? "but the replay was finite"
                                        : "not replayed");
    else
        snprintf(n->text, sizeof(n->text),
                 "iteration %" PRId64 ": first %s in %s: %s%s of %s",
                 e->iteration, event_nonfinite_name(e->u.incident.what),
                 event_pass_name(e->u.incident.pass), e->u.incident.tensor,
                 format_index(index, e), e->u.incident.op);
    return true;
}

/* What was not asked for is not told. */
static void
add_metric(struct notice *n, const char *name, int digits, double value)
{
    const size_t len = strlen(n->text);

    if (!isnan(value))
        snprintf(n->text + len, sizeof(n->text) - len, "%s %s %.*g",
                 len > 0 && n->text[len - 1] != ':' ? "," : "", name, digits,
                 value);
}

static bool
from_evaluation(struct notice *n, const struct event *e)
{
    n->kind = "evaluation";
    snprintf(n->text, sizeof(n->text), "iteration %" PRId64 ":%s", e->iteration,
             e->u.evaluation.incomplete ? " the evaluation was not finished"
                                        : "");
    if (e->u.evaluation.incomplete)
        return true;
    add_metric(n, "validation loss", 6, e->u.evaluation.loss);
    add_metric(n, "accuracy", 4, e->u.evaluation.accuracy);
    add_metric(n, "top-k", 4, e->u.evaluation.top_k);
    add_metric(n, "perplexity", 6, e->u.evaluation.perplexity);
    return true;
}

static bool
from_started(struct notice *n, const struct event *e)
{
    n->kind = "state";
    if (e->u.started.checkpoint[0] != '\0')
        snprintf(n->text, sizeof(n->text),
                 "resumed from %s at iteration %" PRId64,
                 e->u.started.checkpoint, e->iteration);
    else
        snprintf(n->text, sizeof(n->text), "started from scratch");
    return true;
}

bool
notice_from_event(struct notice *n, const struct job *job,
                  const struct event *e)
{
    fill(n, job, "");
    n->iteration = e->iteration;
    n->updates = e->updates;
    n->skips = e->skips;
    switch (e->kind) {
    case EVENT_STARTED: return from_started(n, e);
    case EVENT_SCALE: return from_scale(n, e);
    case EVENT_INCIDENT: return from_incident(n, e);
    case EVENT_EVALUATION: return from_evaluation(n, e);
    case EVENT_CHECKPOINT:
        n->kind = "checkpoint";
        snprintf(n->text, sizeof(n->text), "%s written (%s)%s",
                 e->u.checkpoint.name,
                 event_checkpoint_cause_name(e->u.checkpoint.cause),
                 e->u.checkpoint.best ? ", best so far" : "");
        return true;
    case EVENT_CHECKPOINT_FAILED:
        n->kind = "warning";
        snprintf(n->text, sizeof(n->text), "%s%.64s: %.150s",
                 e->u.checkpoint_failed.name[0] != '\0' ? "not resumed from "
                                                        : "checkpoint failed",
                 e->u.checkpoint_failed.name, e->u.checkpoint_failed.text);
        return true;
    case EVENT_WARNING:
        n->kind = "warning";
        snprintf(n->text, sizeof(n->text), "%.230s", e->u.warning.text);
        return true;
    case EVENT_GUARD:
        n->kind = "guard";
        snprintf(n->text, sizeof(n->text), "%.40s: %.150s: %s",
                 e->u.guard.condition, e->u.guard.text,
                 event_action_name(e->u.guard.action));
        return true;
    case EVENT_STEP:
    case EVENT_CHECKPOINT_PRUNED:
    case EVENT_INCIDENT_PRUNED:
    case EVENT_FINISHED: return false; /* the state's change says it */
    }
    return false;
}

void
notice_view(const struct notice *n, struct view_notice *out)
{
    view_init(VIEW_ID_notice, out);
    out->kind = n->kind;
    out->text = n->text;
    out->iteration = n->iteration;
    out->updates = n->updates;
    out->skips = n->skips;
    out->total_iterations = n->total_iterations;
    out->loss = n->loss;
    out->scale = n->scale;
    out->lr = n->lr;
    out->accuracy = n->accuracy;
    out->iterations_per_s = n->iterations_per_s;
    out->eta_s = n->eta_s;
    out->state = n->state;
}
