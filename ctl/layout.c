/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/layout.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ctl/format.h"

/* CELL(name, view) { ... } defines put_name, which writes one cell from the
 * record `v`. */
#define CELL(name, view)                                                       \
    static void write_##name(const struct view_##view *v,                      \
                             const struct output *o, char *cell, size_t n);    \
    static void put_##name(const struct output *o, const void *record,         \
                           char *cell, size_t n)                               \
    {                                                                          \
        write_##name(record, o, cell, n);                                      \
    }                                                                          \
    static void write_##name(const struct view_##view *v,                      \
                             __attribute__((unused)) const struct output *o,   \
                             char *cell, size_t n)

#define CELL_I64(name, view, field)                                            \
    CELL(name, view)                                                           \
    {                                                                          \
        snprintf(cell, n, "%" PRId64, v->field);                               \
    }
#define CELL_STR(name, view, field)                                            \
    CELL(name, view)                                                           \
    {                                                                          \
        snprintf(cell, n, "%s", v->field);                                     \
    }
#define CELL_REAL(name, view, field)                                           \
    CELL(name, view)                                                           \
    {                                                                          \
        format_real(v->field, cell, n);                                        \
    }
#define CELL_KNOWN(name, view, field)                                          \
    CELL(name, view)                                                           \
    {                                                                          \
        if (!isnan(v->field))                                                  \
            format_real(v->field, cell, n);                                    \
    }
#define CELL_SCALE(name, view, field)                                          \
    CELL(name, view)                                                           \
    {                                                                          \
        format_scale(v->field, cell, n);                                       \
    }
#define CELL_TIME(name, view, field)                                           \
    CELL(name, view)                                                           \
    {                                                                          \
        format_time(v->field, o->utc, cell, n);                                \
    }
#define CELL_LINE(name, view)                                                  \
    CELL(name, view)                                                           \
    {                                                                          \
        snprintf(cell, n, "%s", v->live ? "" : "abandoned");                   \
    }

#define LAYOUT(name, view)                                                     \
    const struct output_layout layout_##name = {                               \
        VIEW_ID_##view, name##_columns,                                        \
        (int)(sizeof(name##_columns) / sizeof(name##_columns[0]))}

static void
put_list(const struct view_i64s *list, int shown, char *cell, size_t n)
{
    size_t len = 0;

    for (int i = 0; i < list->n && i < shown && len < n; i++)
        len += (size_t)snprintf(cell + len, n - len, "%s%" PRId64,
                                i > 0 ? " " : "", list->v[i]);
    if (list->n > shown && len < n)
        snprintf(cell + len, n - len, " +%d more", list->n - shown);
}

/* ---- jobs ----------------------------------------------------------------*/

void
layout_put_progress(const struct view_job *job, char *cell, size_t n)
{
    if (job->iteration == 0 && job->attempt == 0)
        snprintf(cell, n, "%s", "");
    else if (job->total_iterations > 0)
        snprintf(
            cell, n, "%d%% %" PRId64 "/%" PRId64,
            (int)((double)job->iteration * 100 / (double)job->total_iterations),
            job->iteration, job->total_iterations);
    else
        snprintf(cell, n, "%" PRId64, job->iteration);
}

CELL_I64(job_id, job, id)
CELL_STR(job_name, job, name)
CELL_STR(job_user, job, user)
CELL_STR(job_state, job, state)
CELL_STR(job_dtype, job, dtype)
CELL(job_progress, job)
{
    layout_put_progress(v, cell, n);
}
CELL(job_skips, job)
{
    if (v->attempt > 0)
        snprintf(cell, n, "%" PRId64, v->skips);
}
CELL_KNOWN(job_loss, job, loss)
CELL_KNOWN(job_accuracy, job, accuracy)
CELL_KNOWN(job_perplexity, job, perplexity)
CELL(job_left, job)
{
    if (v->end_us == 0 && v->eta_s > 0)
        format_duration(v->eta_s, cell, n);
}
CELL_STR(job_reason, job, reason)

static const struct output_column jobs_columns[] = {
    {"ID", true, put_job_id},
    {"NAME", false, put_job_name},
    {"USER", false, put_job_user},
    {"STATE", false, put_job_state},
    {"DTYPE", false, put_job_dtype},
    {"PROGRESS", true, put_job_progress},
    {"SKIPS", true, put_job_skips},
    {"LOSS", true, put_job_loss},
    {"ACCURACY", true, put_job_accuracy},
    {"PERPLEXITY", true, put_job_perplexity},
    {"LEFT", true, put_job_left},
    {"REASON", false, put_job_reason},
};
LAYOUT(jobs, job);

/* ---- attempts ------------------------------------------------------------*/

/* Its worker has said where it begins; before that nobody knows. */
static bool
has_begun(const struct view_attempt *a)
{
    return a->policy[0] != '\0';
}

CELL_I64(attempt_n, attempt, attempt)
CELL_STR(attempt_state, attempt, state)
CELL(attempt_from, attempt)
{
    if (has_begun(v))
        snprintf(cell, n, "%s",
                 v->resumed_from[0] != '\0' ? v->resumed_from : "scratch");
}
CELL(attempt_start, attempt)
{
    if (has_begun(v))
        snprintf(cell, n, "%" PRId64, v->start_iteration);
}
CELL(attempt_end, attempt)
{
    if (has_begun(v))
        snprintf(cell, n, "%" PRId64, v->end_iteration);
}
CELL_TIME(attempt_began, attempt, start_us)
CELL(attempt_lasted, attempt)
{
    if (v->start_us > 0 && v->end_us >= v->start_us)
        format_duration((double)(v->end_us - v->start_us) / 1e6, cell, n);
}
CELL_I64(attempt_pid, attempt, pid)
CELL(attempt_policy, attempt)
{
    snprintf(cell, n, "%s", v->policy_changed ? "changed" : "");
}
CELL_STR(attempt_obituary, attempt, obituary)

static const struct output_column attempts_columns[] = {
    {"ATTEMPT", true, put_attempt_n},
    {"STATE", false, put_attempt_state},
    {"RESUMED FROM", false, put_attempt_from},
    {"AT", true, put_attempt_start},
    {"UP TO", true, put_attempt_end},
    {"BEGAN", false, put_attempt_began},
    {"LASTED", true, put_attempt_lasted},
    {"PID", true, put_attempt_pid},
    {"POLICY", false, put_attempt_policy},
    {"END", false, put_attempt_obituary},
};
LAYOUT(attempts, attempt);

/* ---- metrics -------------------------------------------------------------*/

CELL_I64(metric_iteration, metric, iteration)
CELL_I64(metric_updates, metric, updates)
CELL_I64(metric_attempt, metric, attempt)
CELL_REAL(metric_loss, metric, loss)
CELL_SCALE(metric_scale, metric, scale)
CELL_REAL(metric_lr, metric, lr)
CELL_REAL(metric_norm, metric, grad_norm)
CELL(metric_ms, metric)
{
    /* Of one iteration, as all else in the row. */
    snprintf(cell, n, "%.1f",
             (double)v->step_us / 1000 / (double)(v->n > 1 ? v->n : 1));
}
CELL(metric_stands, metric)
{
    if (v->n > 1)
        snprintf(cell, n, "%" PRId64, v->n);
}
CELL(metric_skips, metric)
{
    if (v->n > 1 && v->n_skipped > 0)
        snprintf(cell, n, "%" PRId64, v->n_skipped);
    else if (v->skipped)
        snprintf(cell, n, "skipped");
}
CELL_LINE(metric_line, metric)

static const struct output_column metrics_columns[] = {
    {"ITERATION", true, put_metric_iteration},
    {"UPDATES", true, put_metric_updates},
    {"LOSS", true, put_metric_loss},
    {"SCALE", true, put_metric_scale},
    {"LR", true, put_metric_lr},
    {"GRAD NORM", true, put_metric_norm},
    {"MS", true, put_metric_ms},
    {"STANDS FOR", true, put_metric_stands},
    {"SKIPS", true, put_metric_skips},
    {"ATTEMPT", true, put_metric_attempt},
    {"LINE", false, put_metric_line},
};
LAYOUT(metrics, metric);

/* ---- scale and skips -----------------------------------------------------*/

CELL_I64(scale_iteration, scale, iteration)
CELL_I64(scale_updates, scale, updates)
CELL_I64(scale_attempt, scale, attempt)
CELL_STR(scale_cause, scale, cause)
CELL_SCALE(scale_before, scale, before)
CELL_SCALE(scale_after, scale, after)
CELL_TIME(scale_time, scale, t_us)
CELL(scale_samples, scale)
{
    put_list(&v->samples, 8, cell, n);
}
CELL_STR(scale_optimizers, scale, optimizers)
CELL(scale_partial, scale)
{
    snprintf(cell, n, "%s", v->partial ? "stepped" : "");
}
CELL_LINE(scale_line, scale)

static const struct output_column scale_columns[] = {
    {"ITERATION", true, put_scale_iteration},
    {"UPDATES", true, put_scale_updates},
    {"CAUSE", false, put_scale_cause},
    {"OPTIMIZERS", false, put_scale_optimizers},
    {"BEFORE", true, put_scale_before},
    {"AFTER", true, put_scale_after},
    {"ATTEMPT", true, put_scale_attempt},
    {"TIME", false, put_scale_time},
    {"LINE", false, put_scale_line},
};
LAYOUT(scale, scale);

static const struct output_column skips_columns[] = {
    {"ITERATION", true, put_scale_iteration},
    {"UPDATES", true, put_scale_updates},
    {"OPTIMIZERS", false, put_scale_optimizers},
    {"OTHERS", false, put_scale_partial},
    {"BEFORE", true, put_scale_before},
    {"AFTER", true, put_scale_after},
    {"ATTEMPT", true, put_scale_attempt},
    {"TIME", false, put_scale_time},
    {"SAMPLES", false, put_scale_samples},
    {"LINE", false, put_scale_line},
};
LAYOUT(skips, scale);

/* ---- incidents -----------------------------------------------------------*/

CELL_I64(incident_id, incident, id)
CELL_I64(incident_iteration, incident, iteration)
CELL_STR(incident_pass, incident, pass)
CELL_STR(incident_layer, incident, layer)
CELL(incident_op, incident)
{
    if (!v->replayed)
        snprintf(cell, n, "(not replayed)");
    else if (!v->located)
        snprintf(cell, n, "(the replay was finite)");
    else
        snprintf(cell, n, "%s", v->op);
}
CELL_STR(incident_tensor, incident, tensor)
CELL_STR(incident_dtype, incident, dtype)
CELL(incident_index, incident)
{
    if (v->located) {
        snprintf(cell, n, "[");
        put_list(&v->index, 16, cell + 1, n - 2);
        for (char *blank = cell; (blank = strchr(blank, ' ')) != NULL;)
            *blank = ',';
        strcat(cell, "]");
    }
}
CELL(incident_what, incident)
{
    snprintf(cell, n, "%s", v->located ? v->what : "");
}
CELL_SCALE(incident_scale, incident, scale)
CELL(incident_sample, incident)
{
    if (v->located && v->sample >= 0)
        snprintf(cell, n, "%" PRId64, v->sample);
}
CELL_STR(incident_verdict, incident, verdict)
/* In a word; "explain" has it whole. */
CELL(incident_cure, incident)
{
    if (v->regions[0] != '\0')
        snprintf(cell, n, "fp32: %s", v->regions);
    else if (v->cure[0] != '\0')
        snprintf(cell, n, "%s", v->cure);
    else if (strcmp(v->verdict, "scale_overflow") == 0)
        snprintf(cell, n, "backoff");
}
CELL(incident_kept, incident)
{
    snprintf(cell, n, "%s", v->name[0] != '\0' ? "yes" : "");
}
CELL_LINE(incident_line, incident)

static const struct output_column incidents_columns[] = {
    {"ID", true, put_incident_id},
    {"ITERATION", true, put_incident_iteration},
    {"PASS", false, put_incident_pass},
    {"LAYER", false, put_incident_layer},
    {"OP", false, put_incident_op},
    {"TENSOR", false, put_incident_tensor},
    {"DTYPE", false, put_incident_dtype},
    {"INDEX", false, put_incident_index},
    {"WHAT", false, put_incident_what},
    {"SCALE", true, put_incident_scale},
    {"SAMPLE", true, put_incident_sample},
    {"VERDICT", false, put_incident_verdict},
    {"CURE", false, put_incident_cure},
    {"KEPT", false, put_incident_kept},
    {"LINE", false, put_incident_line},
};
LAYOUT(incidents, incident);

/* ---- guards, findings ----------------------------------------------------*/

CELL_I64(guard_iteration, guard, iteration)
CELL_I64(guard_attempt, guard, attempt)
CELL_STR(guard_condition, guard, condition)
CELL_STR(guard_action, guard, action)
CELL_STR(guard_change, guard, change)
CELL_STR(guard_text, guard, text)
CELL_LINE(guard_line, guard)

static const struct output_column guards_columns[] = {
    {"ITERATION", true, put_guard_iteration},
    {"ATTEMPT", true, put_guard_attempt},
    {"GUARD", false, put_guard_condition},
    {"ACTION", false, put_guard_action},
    {"CHANGE", false, put_guard_change},
    {"SEEN", false, put_guard_text},
    {"LINE", false, put_guard_line},
};
LAYOUT(guards, guard);

CELL_I64(back_attempt, went_back, attempt)
CELL_I64(back_from, went_back, from_iteration)
CELL_I64(back_to, went_back, to_iteration)
CELL_STR(back_checkpoint, went_back, checkpoint)
CELL_STR(back_difference, went_back, difference)
CELL_STR(back_cause, went_back, cause)

static const struct output_column rollbacks_columns[] = {
    {"ATTEMPT", true, put_back_attempt},
    {"FROM", true, put_back_from},
    {"TO", true, put_back_to},
    {"CHECKPOINT", false, put_back_checkpoint},
    {"CHANGE", false, put_back_difference},
    {"CAUSE", false, put_back_cause},
};
LAYOUT(rollbacks, went_back);

CELL_STR(finding_table, finding, table)
CELL_I64(finding_job, finding, job)
CELL_I64(finding_row, finding, row)
CELL_STR(finding_text, finding, text)

static const struct output_column findings_columns[] = {
    {"TABLE", false, put_finding_table},
    {"JOB", true, put_finding_job},
    {"ROW", true, put_finding_row},
    {"FINDING", false, put_finding_text},
};
LAYOUT(findings, finding);

/* ---- evaluations ---------------------------------------------------------*/

CELL_I64(evaluation_iteration, evaluation, iteration)
CELL_I64(evaluation_updates, evaluation, updates)
CELL_I64(evaluation_attempt, evaluation, attempt)
CELL_KNOWN(evaluation_loss, evaluation, loss)
CELL_KNOWN(evaluation_accuracy, evaluation, accuracy)
CELL_KNOWN(evaluation_top_k, evaluation, top_k)
CELL_KNOWN(evaluation_perplexity, evaluation, perplexity)
CELL_I64(evaluation_n, evaluation, n)
CELL(evaluation_weights, evaluation)
{
    snprintf(cell, n, "%s", v->ema ? "averaged" : "");
}
CELL(evaluation_state, evaluation)
{
    snprintf(cell, n, "%s", v->incomplete ? "stopped half way" : "");
}
CELL_TIME(evaluation_time, evaluation, t_us)
CELL_LINE(evaluation_line, evaluation)

static const struct output_column evaluations_columns[] = {
    {"ITERATION", true, put_evaluation_iteration},
    {"UPDATES", true, put_evaluation_updates},
    {"LOSS", true, put_evaluation_loss},
    {"ACCURACY", true, put_evaluation_accuracy},
    {"TOP-K", true, put_evaluation_top_k},
    {"PERPLEXITY", true, put_evaluation_perplexity},
    {"N", true, put_evaluation_n},
    {"WEIGHTS", false, put_evaluation_weights},
    {"STATE", false, put_evaluation_state},
    {"ATTEMPT", true, put_evaluation_attempt},
    {"TIME", false, put_evaluation_time},
    {"LINE", false, put_evaluation_line},
};
LAYOUT(evaluations, evaluation);

/* ---- checkpoints ---------------------------------------------------------*/

CELL_I64(checkpoint_id, checkpoint, id)
CELL_STR(checkpoint_name, checkpoint, name)
CELL_I64(checkpoint_iteration, checkpoint, iteration)
CELL_I64(checkpoint_updates, checkpoint, updates)
CELL_I64(checkpoint_skips, checkpoint, skips)
CELL_STR(checkpoint_state, checkpoint, state)
CELL_STR(checkpoint_cause, checkpoint, cause)
CELL(checkpoint_best, checkpoint)
{
    snprintf(cell, n, "%s", v->best ? "best" : "");
}
CELL_KNOWN(checkpoint_metric, checkpoint, metric)
CELL(checkpoint_bytes, checkpoint)
{
    format_bytes(v->bytes, cell, n);
}
CELL_TIME(checkpoint_time, checkpoint, t_us)
CELL_LINE(checkpoint_line, checkpoint)

static const struct output_column checkpoints_columns[] = {
    {"ID", true, put_checkpoint_id},
    {"NAME", false, put_checkpoint_name},
    {"ITERATION", true, put_checkpoint_iteration},
    {"UPDATES", true, put_checkpoint_updates},
    {"SKIPS", true, put_checkpoint_skips},
    {"STATE", false, put_checkpoint_state},
    {"CAUSE", false, put_checkpoint_cause},
    {"METRIC", true, put_checkpoint_metric},
    {"BEST", false, put_checkpoint_best},
    {"SIZE", true, put_checkpoint_bytes},
    {"TIME", false, put_checkpoint_time},
    {"LINE", false, put_checkpoint_line},
};
LAYOUT(checkpoints, checkpoint);

/* ---- what text shows in words of its own ---------------------------------*/

CELL_I64(fault_line, fault, line)
CELL_I64(fault_col, fault, col)
CELL_STR(fault_path, fault, path)
CELL_STR(fault_message, fault, message)

static const struct output_column faults_columns[] = {
    {"LINE", true, put_fault_line},
    {"COL", true, put_fault_col},
    {"KEY", false, put_fault_path},
    {"MESSAGE", false, put_fault_message},
};
LAYOUT(faults, fault);

CELL_STR(notice_kind, notice, kind)
CELL_I64(notice_iteration, notice, iteration)
CELL_STR(notice_text, notice, text)

static const struct output_column notices_columns[] = {
    {"KIND", false, put_notice_kind},
    {"ITERATION", true, put_notice_iteration},
    {"TEXT", false, put_notice_text},
};
LAYOUT(notices, notice);

CELL_I64(event_seq, event, seq)
CELL_TIME(event_time, event, t_us)
CELL_I64(event_job, event, job)
CELL_STR(event_kind, event, kind)
CELL_STR(event_text, event, text)

static const struct output_column events_columns[] = {
    {"NUMBER", true, put_event_seq}, {"TIME", false, put_event_time},
    {"JOB", true, put_event_job},    {"KIND", false, put_event_kind},
    {"TEXT", false, put_event_text},
};
LAYOUT(events, event);

/* ---- the daemon's own ----------------------------------------------------*/

CELL_STR(device_name, device, name)
CELL_STR(device_kind, device, kind)
CELL_STR(device_cpus, device, cpus)
CELL(device_job, device)
{
    if (v->job > 0)
        snprintf(cell, n, "%" PRId64, v->job);
    else
        snprintf(cell, n, "%s", v->busy ? "another's" : "free");
}

static const struct output_column devices_columns[] = {
    {"DEVICE", false, put_device_name},
    {"KIND", false, put_device_kind},
    {"JOB", true, put_device_job},
    {"PROCESSORS", false, put_device_cpus},
};
LAYOUT(devices, device);

CELL_I64(token_id, token, id)
CELL_STR(token_user, token, user)
CELL_STR(token_name, token, name)
CELL(token_scopes, token)
{
    size_t len = 0;

    for (int i = 0; i < v->scopes.n && len < n; i++)
        len += (size_t)snprintf(cell + len, n - len, "%s%s", i > 0 ? "," : "",
                                v->scopes.v[i]);
}
CELL_TIME(token_created, token, created_us)
CELL(token_state, token)
{
    char when[FORMAT_MAX];

    format_time(v->revoked_us > 0 ? v->revoked_us : v->expires_us, o->utc, when,
                sizeof(when));
    if (v->revoked_us > 0)
        snprintf(cell, n, "revoked %s", when);
    else if (v->expires_us > 0)
        snprintf(cell, n, "until %s", when);
    else
        snprintf(cell, n, "%s", "good");
}
CELL(token_used, token)
{
    if (v->last_used_us > 0)
        format_time(v->last_used_us, o->utc, cell, n);
}

static const struct output_column tokens_columns[] = {
    {"NUMBER", true, put_token_id},       {"USER", false, put_token_user},
    {"NAME", false, put_token_name},      {"SCOPES", false, put_token_scopes},
    {"MADE", false, put_token_created},   {"STATE", false, put_token_state},
    {"LAST USED", false, put_token_used},
};
LAYOUT(tokens, token);
