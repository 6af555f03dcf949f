/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "ctl/act.h"
#include "ctl/branches.h"
#include "ctl/chart.h"
#include "ctl/format.h"

/* A line "   label: text". */
__attribute__((format(printf, 3, 4))) static void
put(const struct session *s, const char *label, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    session_tell(s, "%14s: %s", label, text);
}

static void
put_times(const struct session *s, const struct view_job *job)
{
    char at[FORMAT_MAX], lasted[FORMAT_MAX];
    int64_t end_us = job->end_us;

    format_time(job->submit_us, s->out.utc, at, sizeof(at));
    put(s, "submitted", "%s by %s, priority %" PRId64, at, job->user,
        job->priority);
    if (job->start_us == 0)
        return;
    if (end_us == 0)
        end_us = (int64_t)time(NULL) * 1000000;
    format_time(job->start_us, s->out.utc, at, sizeof(at));
    format_duration((double)(end_us - job->start_us) / 1e6, lasted,
                    sizeof(lasted));
    if (job->end_us > 0)
        put(s, "started", "%s, ended %s later", at, lasted);
    else
        put(s, "started", "%s, %s ago", at, lasted);
}

static void
put_progress(const struct session *s, const struct view_job *job)
{
    char progress[FORMAT_MAX], left[FORMAT_MAX];

    layout_put_progress(job, progress, sizeof(progress));
    put(s, "iterations", "%s = %" PRId64 " updates + %" PRId64 " skips",
        progress, job->updates, job->skips);
    if (job->end_us == 0 && job->iterations_per_s > 0) {
        format_duration(job->eta_s, left, sizeof(left));
        put(s, "speed", "%.1f iterations/s, %s left", job->iterations_per_s,
            left);
    }
}

static void
put_numbers(const struct session *s, const struct view_job *job)
{
    char loss[FORMAT_MAX], lr[FORMAT_MAX], norm[FORMAT_MAX], scale[FORMAT_MAX];

    format_known(job->loss, loss, sizeof(loss));
    format_known(job->lr, lr, sizeof(lr));
    format_known(job->grad_norm, norm, sizeof(norm));
    if (!isnan(job->lr)) /* at least one iteration */
        put(s, "training", "loss %s, learning rate %s, gradient norm %s", loss,
            lr, norm);
    if (!isnan(job->scale)) {
        format_scale(job->scale, scale, sizeof(scale));
        put(s, "loss scale", "%s", scale);
    }
    if (!isnan(job->validation_loss)) {
        format_known(job->validation_loss, loss, sizeof(loss));
        put(s, "validation", "loss %s", loss);
    }
    if (!isnan(job->accuracy) && isnan(job->best_accuracy))
        put(s, "accuracy", "%.4f", job->accuracy);
    else if (!isnan(job->accuracy))
        put(s, "accuracy", "%.4f, best %.4f", job->accuracy,
            job->best_accuracy);
    if (!isnan(job->top_k))
        put(s, "top-k", "%.4f", job->top_k);
    if (!isnan(job->perplexity))
        put(s, "perplexity", "%.6g", job->perplexity);
}

void
summary_put_job(const struct session *s, const struct view_job *job)
{
    act_tell_job(s, job);
    put_times(s, job);
    put(s, "precision", "%s%s", job->dtype,
        job->policy_changed ? "; the policy changed between attempts" : "");
    if (job->difference[0] != '\0')
        put(s, "changed", "%s", job->difference);
    if (job->attempt > 0) {
        put(s, "attempt", "%" PRId64 "%s%s", job->attempt,
            job->device[0] != '\0' ? " on " : "", job->device);
        put_progress(s, job);
        put_numbers(s, job);
    }
    if (job->verdict[0] != '\0')
        put(s, "last incident", "%s (trainctl explain --job %" PRId64 ")",
            job->verdict, job->id);
    if (job->guard_rollbacks > 0)
        put(s, "rollbacks", "%" PRId64 ", %" PRId64 " of them by a guard",
            job->rollbacks, job->guard_rollbacks);
    else if (job->rollbacks > 0)
        put(s, "rollbacks", "%" PRId64, job->rollbacks);
    if (job->checkpoint[0] != '\0')
        put(s, "checkpoint", "%s (iteration %" PRId64 ")", job->checkpoint,
            job->checkpoint_iteration);
    if (job->exit_code >= 0)
        put(s, "exit code", "%" PRId64 "%s%s", job->exit_code,
            job->error[0] != '\0' ? ", error " : "", job->error);
    if (job->directory[0] != '\0')
        put(s, "files", "%s", job->directory);
}

static int
keep_attempt(void *ctx, const void *view, struct err *err)
{
    return branches_add_attempt(ctx, view)
               ? 0
               : err_set(err, ERR_NOMEM, "out of memory");
}

static int
keep_return(void *ctx, const void *view, struct err *err)
{
    return branches_add_return(ctx, view)
               ? 0
               : err_set(err, ERR_NOMEM, "out of memory");
}

/* What was changed, why, and what it cost: a job that mended itself says so. */
static int
put_changes(struct session *s, const char *ref, struct err *err)
{
    struct branches b = {0};
    struct view_job_ref job;
    struct view_query query;

    view_init(VIEW_ID_job_ref, &job);
    view_init(VIEW_ID_query, &query);
    job.job = query.job = ref;
    query.all_lines = true;
    int rc = session_many(s, MESSAGE_ID_attempts, &job, keep_attempt, &b, err);
    if (rc == 0)
        rc =
            session_many(s, MESSAGE_ID_rollbacks, &query, keep_return, &b, err);
    if (rc == 0)
        branches_report(&b, s->out.utf8, s->out.f);
    branches_fini(&b);
    return rc;
}

int
summary_put_result(struct session *s, const struct view_job *job,
                   struct err *err)
{
    struct view_query query;
    char ref[24];
    int rc;

    snprintf(ref, sizeof(ref), "%" PRId64, job->id);
    view_init(VIEW_ID_query, &query);
    query.job = ref;
    if (job->iteration > 0) {
        rc = chart_put_loss(s, &query, job, err);
        /* Without a scaler it is 1 all along. */
        if (rc == 0 && (job->scale != 1 || job->skips > 0))
            rc = chart_put_scale(s, &query, job, err);
        if (rc < 0)
            return rc;
    }
    summary_put_job(s, job);
    rc = job->policy_changed || job->guard_rollbacks > 0
             ? put_changes(s, ref, err)
             : 0;
    if (rc == 0)
        rc = session_link(s, err);
    if (rc == 0) {
        const struct view_hello *hello = client_hello(link_client(s->link));
        put(s, "database", "%s", hello->database);
    }
    return rc;
}
