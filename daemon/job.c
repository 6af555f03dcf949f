/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/job.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ledger.h"
#include "daemon/log.h"

#define JOB_MAGIC 0x4a4f4231u

/* ---- the table of states -------------------------------------------------- */

static const struct {
    const char *name;
    bool final;
} states[JOB_STATE_COUNT] = {
#define STATE(id, name, final, doc) [JOB_##id] = {name, final},
#define EDGE(from, to, why)
#include "daemon/job_states.def"
#undef STATE
#undef EDGE
};

static const struct {
    enum job_state from, to;
} edges[] = {
#define STATE(id, name, final, doc)
#define EDGE(from, to, why) {JOB_##from, JOB_##to},
#include "daemon/job_states.def"
#undef STATE
#undef EDGE
};

static const char *const intents[JOB_INTENT_COUNT] = {
    [JOB_INTENT_NONE] = "",
    [JOB_INTENT_PAUSE] = "pause",
    [JOB_INTENT_CANCEL] = "cancel",
    [JOB_INTENT_ROLLBACK] = "rollback",
};

const char *
job_state_name(enum job_state state)
{
    assert(state < JOB_STATE_COUNT);
    return states[state].name;
}

enum job_state
job_state_parse(const char *name)
{
    int i = 0;

    while (i < JOB_STATE_COUNT && strcmp(states[i].name, name) != 0)
        i++;
    return (enum job_state)i;
}

bool
job_state_is_final(enum job_state state)
{
    assert(state < JOB_STATE_COUNT);
    return states[state].final;
}

bool
job_edge_is_legal(enum job_state from, enum job_state to)
{
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        if (edges[i].from == from && edges[i].to == to)
            return true;
    return false;
}

const char *
job_intent_name(enum job_intent intent)
{
    assert(intent < JOB_INTENT_COUNT);
    return intents[intent];
}

enum job_intent
job_intent_parse(const char *name)
{
    int i = 0;

    while (i < JOB_INTENT_COUNT && strcmp(intents[i], name) != 0)
        i++;
    return (enum job_intent)(i == JOB_INTENT_COUNT ? 0 : i);
}

static int64_t
wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- one job -------------------------------------------------------------- */

/* Every string of the row, so that copying and freeing forget none. */
static const size_t text_fields[] = {
    offsetof(struct store_job, view.name),
    offsetof(struct store_job, view.user),
    offsetof(struct store_job, view.state),
    offsetof(struct store_job, view.reason),
    offsetof(struct store_job, view.device),
    offsetof(struct store_job, view.dtype),
    offsetof(struct store_job, view.checkpoint),
    offsetof(struct store_job, view.error),
    offsetof(struct store_job, view.directory),
    offsetof(struct store_job, view.difference),
    offsetof(struct store_job, view.verdict),
    offsetof(struct store_job, spec),
    offsetof(struct store_job, idempotency_key),
    offsetof(struct store_job, origin),
    offsetof(struct store_job, intent),
    offsetof(struct store_job, changes),
    offsetof(struct store_job, skip_windows),
    offsetof(struct store_job, boot_id),
};
#define N_TEXT_FIELDS (sizeof(text_fields) / sizeof(text_fields[0]))

static const char **
text_field(struct store_job *row, size_t i)
{
    return (const char **)(void *)((char *)row + text_fields[i]);
}

static void
free_text(const char *s)
{
    /* The one place that knows that these const strings are owned. */
    free((void *)(uintptr_t)s);
}

void
job_set_text(const char **field, const char *value)
{
    char *copy;

    if (value == NULL)
        value = "";
    if (*field != NULL && strcmp(*field, value) == 0)
        return;
    copy = strdup(value);
    if (copy == NULL)
        return;
    free_text(*field);
    *field = copy;
}

struct job *
job_create(const struct store_job *row, struct ledger *ledger)
{
    struct job *job = calloc(1, sizeof(*job));
    bool ok = job != NULL;

    if (!ok)
        return NULL;
    job->magic = JOB_MAGIC;
    job->row = *row;
    job->ledger = ledger;
    for (size_t i = 0; i < N_TEXT_FIELDS; i++) {
        const char **field = text_field(&job->row, i);
        const char *value = *field;

        *field = strdup(value == NULL ? "" : value);
        ok = ok && *field != NULL;
    }
    if (!ok) {
        job_destroy(&job);
        return NULL;
    }
    job->state = job_state_parse(job->row.view.state);
    job->stored = job->state;
    job->intent = job_intent_parse(job->row.intent);
    job->queued_us = row->view.attempt == 0 && row->view.submit_us > 0
                         ? row->view.submit_us
                         : wall_us();
    assert(job->state < JOB_STATE_COUNT);
    return job;
}

void
job_destroy(struct job **jobp)
{
    struct job *job = *jobp;

    if (job == NULL)
        return;
    assert(job->magic == JOB_MAGIC && job->worker == NULL);
    for (size_t i = 0; i < N_TEXT_FIELDS; i++)
        free_text(*text_field(&job->row, i));
    free(job->rollback.old_changes);
    free(job->rollback.old_windows);
    job->magic = 0;
    free(job);
    *jobp = NULL;
}

void
job_view(const struct job *job, struct view_job *out)
{
    assert(job->magic == JOB_MAGIC);
    *out = job->row.view;
    out->state = job_state_name(job->stored);
    if (!job_state_is_final(job->stored)) {
        /* Decided, perhaps, but nobody is told before it is committed. */
        out->exit_code = -1;
        out->end_us = 0;
        out->error = "";
    }
    if (job->stored != JOB_RUNNING && job->stored != JOB_STOPPING)
        out->iterations_per_s = out->eta_s = (double)NAN;
}

/* ---- the door ------------------------------------------------------------- */

static int
exit_code_of(enum job_state state, int error)
{
    switch (state) {
    case JOB_COMPLETED: return 0;
    case JOB_FAILED: return err_exit_code(error != 0 ? error : ERR_FAILED);
    case JOB_CANCELLED: return err_exit_code(ERR_CANCELLED);
    case JOB_INTERRUPTED: return err_exit_code(ERR_INTERRUPTED);
    case JOB_QUEUED:
    case JOB_STARTING:
    case JOB_RUNNING:
    case JOB_STOPPING:
    case JOB_PAUSED:
    case JOB_STATE_COUNT: return -1;
    }
    return -1;
}

static void
enter_final(struct job *job, const struct job_change *change)
{
    struct view_job *view = &job->row.view;
    int error = change->error;

    if (job->state == JOB_CANCELLED)
        error = ERR_CANCELLED;
    else if (job->state == JOB_INTERRUPTED)
        error = ERR_INTERRUPTED;
    else if (job->state == JOB_FAILED && error == 0)
        error = ERR_FAILED;
    job->error = error;
    view->end_us = wall_us();
    view->exit_code = exit_code_of(job->state, error);
    job_set_text(&view->error, error == 0 ? "" : err_name(error));
    job_set_text(&view->device, "");
    job->intent = JOB_INTENT_NONE;
}

void
job_transition(struct job *job, enum job_state to,
               const struct job_change *change)
{
    enum job_state from = job->state;

    assert(job->magic == JOB_MAGIC);
    assert(job_edge_is_legal(from, to));
    job->state = to;
    job_set_text(&job->row.view.state, job_state_name(to));
    job_set_text(&job->row.view.reason, change->reason);
    if (to == JOB_STARTING && job->row.view.start_us == 0)
        job->row.view.start_us = wall_us();
    if (to == JOB_QUEUED)
        job->queued_us = wall_us();
    if (to == JOB_QUEUED || to == JOB_PAUSED)
        job_set_text(&job->row.view.device, "");
    if (job_state_is_final(to))
        enter_final(job, change);
    job_set_text(&job->row.intent, job_intent_name(job->intent));
    log_info("job %" PRId64 ": %s -> %s%s%s", job->row.view.id,
             job_state_name(from), job_state_name(to),
             change->reason != NULL && change->reason[0] != '\0' ? ": " : "",
             change->reason != NULL ? change->reason : "");
    ledger_write(job->ledger, job, true, job_state_name(to), change);
}

void
job_update(struct job *job, const char *kind, const struct job_change *change)
{
    assert(job->magic == JOB_MAGIC && !job_state_is_final(job->state));
    job_set_text(&job->row.intent, job_intent_name(job->intent));
    ledger_write(job->ledger, job, false, kind, change);
}

/* ---- live numbers --------------------------------------------------------- */

#define SPEED_SPACING_MS 500

/* Speed over the last JOB_SPEED_POINTS points: recent, and calm. */
static void
note_speed(struct job *job, int64_t iteration, int64_t now_ms)
{
    struct view_job *view = &job->row.view;
    int newest = (job->n_speed - 1) % JOB_SPEED_POINTS;
    int oldest =
        job->n_speed <= JOB_SPEED_POINTS ? 0 : job->n_speed % JOB_SPEED_POINTS;
    int64_t ms, n;

    if (job->n_speed == 0 ||
        now_ms - job->speed[newest].at_ms >= SPEED_SPACING_MS) {
        newest = job->n_speed++ % JOB_SPEED_POINTS;
        job->speed[newest].at_ms = now_ms;
        job->speed[newest].iteration = iteration;
        if (job->n_speed > 1000 * JOB_SPEED_POINTS)
            job->n_speed -= 500 * JOB_SPEED_POINTS;
        return;
    }
    ms = now_ms - job->speed[oldest].at_ms;
    n = iteration - job->speed[oldest].iteration;
    if (ms <= 0 || n <= 0)
        return;
    view->iterations_per_s = (double)n * 1000 / (double)ms;
    if (view->total_iterations > iteration)
        view->eta_s = (double)(view->total_iterations - iteration) /
                      view->iterations_per_s;
    else
        view->eta_s = view->total_iterations > 0 ? 0 : (double)NAN;
}

static void
apply_evaluation(struct view_job *view, const struct event *event)
{
    if (event->u.evaluation.incomplete)
        return; /* numbers of a part of the set */
    view->validation_loss = event->u.evaluation.loss;
    view->accuracy = event->u.evaluation.accuracy;
    view->top_k = event->u.evaluation.top_k;
    view->perplexity = event->u.evaluation.perplexity;
    if (!isnan(view->accuracy) &&
        (isnan(view->best_accuracy) || view->accuracy > view->best_accuracy))
        view->best_accuracy = view->accuracy;
}

static void
apply_started(struct job *job, const struct event *event)
{
    struct view_job *view = &job->row.view;

    view->total_iterations = event->u.started.total_iterations;
    view->iterations_per_epoch = event->u.started.iterations_per_epoch;
    job_set_text(&view->checkpoint, event->u.started.checkpoint);
    view->checkpoint_iteration =
        view->checkpoint[0] != '\0' ? event->iteration : 0;
    job->n_speed = 0;
}

void
job_apply_event(struct job *job, const struct event *event, int64_t now_ms)
{
    struct view_job *view = &job->row.view;

    assert(job->magic == JOB_MAGIC);
    /* The store leaves such an event out, too. */
    if (event->iteration != event->updates + event->skips)
        return;
    view->iteration = event->iteration;
    view->updates = event->updates;
    view->skips = event->skips;
    switch (event->kind) {
    case EVENT_STARTED: apply_started(job, event); break;
    case EVENT_STEP:
        if (!event->u.step.skipped)
            view->loss = event->u.step.loss;
        view->grad_norm = event->u.step.grad_norm;
        view->lr = event->u.step.lr;
        view->scale = event->u.step.scale;
        note_speed(job, event->iteration, now_ms);
        break;
    case EVENT_SCALE: view->scale = event->u.scale.after; break;
    case EVENT_EVALUATION:
        apply_evaluation(view, event);
        job->n_evaluations++;
        break;
    case EVENT_CHECKPOINT:
        job_set_text(&view->checkpoint, event->u.checkpoint.name);
        view->checkpoint_iteration = event->iteration;
        break;
    case EVENT_INCIDENT:
        if (event->u.incident.verdict != EVENT_VERDICT_NONE)
            job_set_text(&view->verdict,
                         event_verdict_name(event->u.incident.verdict));
        break;
    case EVENT_CHECKPOINT_FAILED:
    case EVENT_CHECKPOINT_PRUNED:
    case EVENT_WARNING:
    case EVENT_GUARD:
    case EVENT_INCIDENT_PRUNED:
    case EVENT_FINISHED: break;
    }
}
