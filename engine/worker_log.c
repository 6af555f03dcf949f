/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_log.h"

#include "proto/err.h"

#include <math.h>
#include <string.h>
#include <time.h>

static void
print_head(FILE *out, const struct event *e)
{
    const time_t t = (time_t)(e->t_us / 1000000);
    struct tm tm;
    char text[32] = "";

    if (localtime_r(&t, &tm) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    fprintf(out, "%s iteration %lld: ", text, (long long)e->iteration);
}

static void
print_started(FILE *out, const struct event *e)
{
    if (e->u.started.checkpoint[0] != '\0')
        fprintf(out, "resumed from %s", e->u.started.checkpoint);
    else
        fprintf(out, "started");
    fprintf(out,
            "; %lld iterations, %lld an epoch; %lld parameters; "
            "%.1f MiB of state, %.1f MiB of activations\n",
            (long long)e->u.started.total_iterations,
            (long long)e->u.started.iterations_per_epoch,
            (long long)e->u.started.n_parameters,
            (double)e->u.started.state_bytes / 0x1p20,
            (double)e->u.started.activation_bytes / 0x1p20);
}

static void
print_incident(FILE *out, const struct event *e)
{
    fprintf(out, "first non-finite value: %s in %s %s",
            event_nonfinite_name(e->u.incident.what),
            event_pass_name(e->u.incident.pass), e->u.incident.tensor);
    fprintf(out, " [");
    for (int i = 0; i < e->u.incident.rank; i++)
        fprintf(out, "%s%lld", i > 0 ? "," : "",
                (long long)e->u.incident.index[i]);
    fprintf(out, "] (%s%s%s), scale %g", e->u.incident.op,
            e->u.incident.layer[0] != '\0' ? " of " : "", e->u.incident.layer,
            e->u.incident.scale);
    if (e->u.incident.sample >= 0)
        fprintf(out, ", sample %lld", (long long)e->u.incident.sample);
    fprintf(out, "\n");
}

static void
print_evaluation(FILE *out, const struct event *e)
{
    fprintf(out, "evaluation of %lld:", (long long)e->u.evaluation.n);
    if (e->u.evaluation.incomplete)
        fprintf(out, " not finished");
    else {
        if (!isnan(e->u.evaluation.loss))
            fprintf(out, " loss %.6g", e->u.evaluation.loss);
        if (!isnan(e->u.evaluation.accuracy))
            fprintf(out, " accuracy %.4f", e->u.evaluation.accuracy);
        if (!isnan(e->u.evaluation.top_k))
            fprintf(out, " top-k %.4f", e->u.evaluation.top_k);
        if (!isnan(e->u.evaluation.perplexity))
            fprintf(out, " perplexity %.6g", e->u.evaluation.perplexity);
        if (e->u.evaluation.ema)
            fprintf(out, " (averaged weights)");
    }
    fprintf(out, "%s\n", e->u.evaluation.best ? ", best so far" : "");
}

static void
print_finished(FILE *out, const struct event *e)
{
    fprintf(out, "%s after %lld updates and %lld skips%s%s\n",
            event_outcome_name(e->u.finished.outcome), (long long)e->updates,
            (long long)e->skips, e->u.finished.text[0] != '\0' ? ": " : "",
            e->u.finished.text);
}

static void
print_body(FILE *out, const struct event *e)
{
    switch (e->kind) {
    case EVENT_STARTED: print_started(out, e); break;
    case EVENT_INCIDENT: print_incident(out, e); break;
    case EVENT_EVALUATION: print_evaluation(out, e); break;
    case EVENT_CHECKPOINT:
        fprintf(out, "checkpoint %s (%s), %.1f MiB in %.0f ms\n",
                e->u.checkpoint.name,
                event_checkpoint_cause_name(e->u.checkpoint.cause),
                (double)e->u.checkpoint.bytes / 0x1p20,
                (double)e->u.checkpoint.duration_us / 1e3);
        break;
    case EVENT_CHECKPOINT_FAILED:
        if (e->u.checkpoint_failed.name[0] != '\0')
            fprintf(out, "not resumed from %s: %s\n",
                    e->u.checkpoint_failed.name, e->u.checkpoint_failed.text);
        else
            fprintf(out, "checkpoint failed: %s\n",
                    e->u.checkpoint_failed.text);
        break;
    case EVENT_WARNING: fprintf(out, "warning: %s\n", e->u.warning.text); break;
    case EVENT_GUARD:
        fprintf(out, "guard %lld (%s) fires: %s: %s\n",
                (long long)e->u.guard.rule, e->u.guard.condition,
                e->u.guard.text, event_action_name(e->u.guard.action));
        break;
    case EVENT_FINISHED: print_finished(out, e); break;
    case EVENT_STEP:
    case EVENT_SCALE:
    case EVENT_CHECKPOINT_PRUNED:
    case EVENT_INCIDENT_PRUNED: break;
    }
}

void
worker_log_event(FILE *out, const struct event *event)
{
    if (event->kind == EVENT_STEP || event->kind == EVENT_SCALE ||
        event->kind == EVENT_CHECKPOINT_PRUNED ||
        event->kind == EVENT_INCIDENT_PRUNED ||
        (event->kind == EVENT_INCIDENT && !event->u.incident.located))
        return;
    print_head(out, event);
    print_body(out, event);
    fflush(out);
}
