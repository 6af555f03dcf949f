/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/flow.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http_api.h"
#include "daemon/jobdir.h"
#include "daemon/lineage.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/prune.h"
#include "daemon/rollback.h"
#include "proto/spec_changes.h"

#define SCHEDULE_SOON_MS 10
#define ASK_AGAIN_MS     5000

static int64_t
now_ms(const struct daemon *d)
{
    return (int64_t)uv_now(d->loop);
}

/* ---- the queue ------------------------------------------------------------*/

static void
on_starting(void *ctx, struct job *job)
{
    (void)ctx;
    assert(job->worker != NULL);
    supervisor_launch(job->worker);
}

static void
start_job(struct daemon *d, struct job *job, int device)
{
    struct job_change change = {
        .reason = "", .actor_uid = -1, .after = on_starting, .ctx = d};

    job->row.view.attempt++;
    job_set_text(&job->row.view.device, d->devices.v[device].name);
    if (supervisor_prepare(d->supervisor, job, &d->devices.v[device]) == NULL) {
        job->row.view.attempt--;
        return;
    }
    device_lease(&d->devices, device, job->row.view.id);
    job_transition(job, JOB_STARTING, &change);
}

static bool
may_start(const struct job *job)
{
    return job->state == JOB_QUEUED && job->writes == 0;
}

/* Sets reasons and starts what can start; ms until a job's back-off ends. */
static int64_t
run_queue(struct daemon *d, struct job **jobs, struct schedule_job *list, int n,
          struct schedule_choice *choices)
{
    struct schedule_device devices[DEVICE_MAX];
    int64_t soonest = 0;

    device_list(&d->devices, devices);
    if (!schedule_run(list, n, devices, d->devices.n, d->draining, choices))
        return ASK_AGAIN_MS;
    for (int i = 0; i < n; i++) {
        if (choices[i].device >= 0)
            start_job(d, jobs[i], choices[i].device);
        else if (list[i].not_before_ms == 0) /* else: why it waits, kept */
            job_set_text(&jobs[i]->row.view.reason, choices[i].reason);
        if (list[i].not_before_ms > 0 &&
            (soonest == 0 || list[i].not_before_ms < soonest))
            soonest = list[i].not_before_ms;
    }
    return soonest;
}

static void
on_schedule(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    size_t max = (size_t)d->jobs.n + 1;
    struct job **jobs = calloc(max, sizeof(struct job *));
    struct schedule_job *list = calloc(max, sizeof(*list));
    struct schedule_choice *choices = calloc(max, sizeof(*choices));
    int64_t again = ASK_AGAIN_MS;
    int n = 0;

    if (jobs != NULL && list != NULL && choices != NULL) {
        for (int i = 0; i < d->jobs.n; i++) {
            struct job *job = d->jobs.v[i];
            int64_t wait = job->not_before_ms - now_ms(d);

            if (!may_start(job))
                continue;
            jobs[n] = job;
            list[n++] =
                (struct schedule_job){job->row.view.id, job->row.view.priority,
                                      "cpu", wait > 0 ? wait : 0};
        }
        again = run_queue(d, jobs, list, n, choices);
    }
    free(jobs);
    free(list);
    free(choices);
    if (again > 0)
        uv_timer_start(&d->schedule, on_schedule, (uint64_t)again, 0);
}

void
flow_schedule_soon(struct daemon *d)
{
    uv_handle_t *timer = (uv_handle_t *)&d->schedule;

    if (!d->ready)
        return;
    /* Never later than it was already due: a stream of requests must not put
     * it off for ever. */
    if (!uv_is_active(timer) ||
        uv_timer_get_due_in(&d->schedule) > SCHEDULE_SOON_MS)
        uv_timer_start(&d->schedule, on_schedule, SCHEDULE_SOON_MS, 0);
}

void
flow_init(struct daemon *d)
{
    uv_timer_init(d->loop, &d->schedule);
    d->schedule.data = d;
}

/* ---- committed changes ----------------------------------------------------*/

static void
tell_manager(struct daemon *d)
{
    notify_send(&d->notify, "STATUS=%d running, %d queued",
                jobs_count(&d->jobs, JOB_RUNNING) +
                    jobs_count(&d->jobs, JOB_STARTING) +
                    jobs_count(&d->jobs, JOB_STOPPING),
                jobs_count(&d->jobs, JOB_QUEUED));
}

static void
on_changed(void *ctx, struct job *job, enum job_state from)
{
    struct daemon *d = ctx;

    (void)from;
    metrics_job_changed(d->metrics, job);
    subscribe_changed(&d->subscribe, job);
    http_api_changed(d->http, job);
    if (d->ready && !d->draining)
        tell_manager(d);
    flow_schedule_soon(d);
}

static void
on_written(void *ctx, struct job *job)
{
    struct daemon *d = ctx;

    waiters_changed(&d->waiters, job);
    if (job->state == JOB_QUEUED && job->writes == 0)
        flow_schedule_soon(d);
}

static void on_stopping(void *ctx, struct job *job);

/* The one thing that is done before it is written down: an order to stop is
 * obeyed on a full disk, too. If the daemon dies before it can be written, the
 * job goes on, and nobody was told otherwise. */
static void
on_refused(void *ctx, struct job *job)
{
    if (job->state == JOB_STOPPING)
        on_stopping(ctx, job);
}

static void
on_gone(void *ctx, struct job *job)
{
    struct daemon *d = ctx;

    prune_abandoned(d, job);
    jobs_remove(&d->jobs, job);
}

/* The daemon is made before the hooks' context exists: main.c fills it in. */
const struct ledger_hooks flow_ledger_hooks = {.changed = on_changed,
                                               .written = on_written,
                                               .refused = on_refused,
                                               .gone = on_gone};

/* ---- what a worker says ---------------------------------------------------*/

void
flow_started(struct job *job)
{
    /* Unless another rollback is under way. */
    if (job->intent == JOB_INTENT_ROLLBACK)
        return;
    job->row.resume_checkpoint = 0;
}

void
flow_checkpointed(struct job *job)
{
    if (job->intent != JOB_INTENT_ROLLBACK)
        job->row.start_scale = (double)NAN;
}

static void
on_started(struct daemon *d, struct job *job)
{
    const struct job_change change = {.reason = "", .actor_uid = -1};

    if (job->row.view.attempt > 1 && job->last_started != job->row.view.attempt)
        lineage_refresh(d, job);
    job->last_started = job->row.view.attempt;
    flow_started(job);
    if (job->state == JOB_STARTING)
        job_transition(job, JOB_RUNNING, &change);
}

static void
on_event(void *ctx, struct job *job, const struct event *event)
{
    const struct job_change quiet = {.reason = "", .actor_uid = -1};
    struct daemon *d = ctx;

    job_apply_event(job, event, now_ms(d));
    metrics_job_event(d->metrics, job, event);
    if (event->kind == EVENT_STARTED)
        on_started(d, job);
    if (event->kind == EVENT_CHECKPOINT)
        flow_checkpointed(job);
    if (event->kind == EVENT_CHECKPOINT && job->writes == 0)
        job_update(job, "", &quiet); /* numbers that survive a crash */
    waiters_event(&d->waiters, d->store, job, event);
    subscribe_event(&d->subscribe, job, event);
    http_api_changed(d->http, job);
}

static void
on_worker(void *ctx, struct job *job)
{
    struct daemon *d = ctx;

    (void)job;
    metrics_worker_started(d->metrics);
}

static void
on_ended(void *ctx, struct job *job, const struct obituary_facts *facts,
         bool progress)
{
    struct daemon *d = ctx;
    struct flow_end end = {*facts, progress, d->draining, true};

    device_release(&d->devices, job->row.view.id);
    metrics_worker_ended(d->metrics, job, facts);
    flow_attempt_ended(d, job, &end);
}

const struct supervisor_hooks flow_supervisor_hooks = {on_worker, on_event,
                                                       on_ended, NULL};

/* ---- orders of a person ---------------------------------------------------*/

static int
refuse_state(const struct job *job, const char *what, struct err *err)
{
    return err_set(err, ERR_STATE, "job %" PRId64 " is %s: %s",
                   job->row.view.id, job_state_name(job->state), what);
}

static void
on_stopping(void *ctx, struct job *job)
{
    bool abandon =
        job->intent == JOB_INTENT_CANCEL || job->intent == JOB_INTENT_ROLLBACK;

    (void)ctx;
    if (job->worker != NULL)
        supervisor_stop(job->worker, abandon);
}

/* The worker is stopped, and what then becomes of the job is written down. */
static void
stop_job(struct daemon *d, struct job *job, enum job_intent intent, int64_t uid,
         const char *reason)
{
    const struct job_change change = {
        .reason = reason, .actor_uid = uid, .after = on_stopping, .ctx = d};

    job->intent = intent;
    if (job->state == JOB_STOPPING) {
        job_set_text(&job->row.view.reason, reason);
        job_update(job, job_intent_name(intent), &change);
    } else {
        job_transition(job, JOB_STOPPING, &change);
    }
}

int
flow_pause(struct daemon *d, struct job *job, int64_t uid, struct err *err)
{
    const struct job_change at_once = {.reason = "paused before it started",
                                       .actor_uid = uid};

    switch (job->state) {
    case JOB_QUEUED: job_transition(job, JOB_PAUSED, &at_once); return 0;
    case JOB_STARTING:
    case JOB_RUNNING:
        stop_job(d, job, JOB_INTENT_PAUSE, uid, "is being paused");
        return 0;
    case JOB_PAUSED: return 0;
    case JOB_STOPPING:
        if (job->intent == JOB_INTENT_PAUSE)
            return 0;
        if (job->intent == JOB_INTENT_NONE && d->draining)
            return err_set(err, ERR_AGAIN, "the daemon is going down");
        return refuse_state(job, "too late to pause it", err);
    case JOB_COMPLETED:
    case JOB_FAILED:
    case JOB_CANCELLED:
    case JOB_INTERRUPTED:
    case JOB_STATE_COUNT: break;
    }
    return refuse_state(job, "nothing is left to pause", err);
}

int
flow_resume(struct daemon *d, struct job *job, int64_t uid, struct err *err)
{
    const struct job_change change = {.reason = "resumed", .actor_uid = uid};

    (void)d;
    if (job->state != JOB_PAUSED)
        return refuse_state(job, "only a paused job can be resumed", err);
    job->row.lost_attempts = 0;
    job->not_before_ms = 0;
    job_transition(job, JOB_QUEUED, &change);
    return 0;
}

int
flow_cancel(struct daemon *d, struct job *job, int64_t uid, const char *reason,
            struct err *err)
{
    char text[ERR_SENTENCE_MAX];
    struct job_change change = {.reason = text, .actor_uid = uid};

    if (uid == job->row.view.uid)
        snprintf(text, sizeof(text), "cancelled by %.60s%s%.300s",
                 job->row.view.user, reason[0] != '\0' ? ": " : "", reason);
    else
        snprintf(text, sizeof(text), "cancelled by uid %" PRId64 "%s%.300s",
                 uid, reason[0] != '\0' ? ": " : "", reason);
    switch (job->state) {
    case JOB_QUEUED:
    case JOB_PAUSED: job_transition(job, JOB_CANCELLED, &change); return 0;
    case JOB_STARTING:
    case JOB_RUNNING:
    case JOB_STOPPING:
        if (job->intent != JOB_INTENT_CANCEL)
            stop_job(d, job, JOB_INTENT_CANCEL, uid, text);
        return 0;
    case JOB_COMPLETED:
    case JOB_FAILED:
    case JOB_CANCELLED:
    case JOB_INTERRUPTED:
    case JOB_STATE_COUNT: break;
    }
    return refuse_state(job, "nothing is left to cancel", err);
}

int
flow_checkpoint(struct daemon *d, struct job *job, struct err *err)
{
    if (job->state != JOB_RUNNING || job->worker == NULL)
        return refuse_state(job, "only a running job makes checkpoints", err);
    /* One order is enough for all who wait for it. */
    if (waiters_want_checkpoint(&d->waiters, job->row.view.id))
        return 0;
    if (!supervisor_order(job->worker, "checkpoint"))
        return err_set(err, ERR_AGAIN,
                       "job %" PRId64 ": its worker does not listen now",
                       job->row.view.id);
    return 0;
}

int
flow_rollback(struct daemon *d, struct job *job, int64_t uid,
              const struct checkpoints_item *to, const struct change *with,
              struct err *err)
{
    char reason[128] = "goes back to the start";
    struct spec_changes_entry latest = {.memory = NULL};
    struct store_rollback back;
    struct job_change change = {
        .reason = reason, .actor_uid = uid, .rollback = &back};

    if (to != NULL)
        snprintf(reason, sizeof(reason),
                 "goes back to checkpoint %" PRId64 " (%s)", to->id, to->name);
    switch (job->state) {
    case JOB_QUEUED:
    case JOB_PAUSED:
        rollback_set_goal(job, to, with);
        rollback_carry_out(job, &latest, &back);
        metrics_rollback(d->metrics, back.uid);
        if (job->state == JOB_PAUSED)
            job_transition(job, JOB_QUEUED, &change);
        else
            job_update(job, "rollback", &change);
        spec_changes_fini(&latest);
        return 0;
    case JOB_STARTING:
    case JOB_RUNNING:
        rollback_set_goal(job, to, with);
        stop_job(d, job, JOB_INTENT_ROLLBACK, uid, reason);
        return 0;
    case JOB_STOPPING:
        return refuse_state(job, "wait until it has stopped", err);
    case JOB_COMPLETED:
    case JOB_FAILED:
    case JOB_CANCELLED:
    case JOB_INTERRUPTED:
    case JOB_STATE_COUNT: break;
    }
    return refuse_state(job, "a final state never changes", err);
}

/* ---- going down -----------------------------------------------------------*/

void
flow_drain(struct daemon *d)
{
    if (d->draining)
        return;
    d->draining = true;
    for (int i = 0; i < d->jobs.n; i++) {
        struct job *job = d->jobs.v[i];

        if (job->worker != NULL &&
            (job->state == JOB_STARTING || job->state == JOB_RUNNING))
            stop_job(d, job, JOB_INTENT_NONE, -1, "the daemon goes down");
    }
    flow_schedule_soon(d);
}

void
flow_hurry(struct daemon *d, bool kill)
{
    for (int i = 0; i < d->jobs.n; i++) {
        struct job *job = d->jobs.v[i];

        if (job->worker == NULL)
            continue;
        if (kill)
            supervisor_kill(job->worker, "the daemon was told to hurry");
        else
            supervisor_stop(job->worker, true);
    }
}
