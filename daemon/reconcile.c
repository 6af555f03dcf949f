/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reconcile.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/checkpoints.h"
#include "daemon/flow.h"
#include "daemon/ingest.h"
#include "daemon/jobdir.h"
#include "daemon/ledger.h"
#include "daemon/log.h"
#include "daemon/reap.h"
#include "daemon/rollback.h"

#define TICK_MS        50
#define KILL_WAIT_MS   5000 /* after SIGKILL */
#define SWEEP_LIMIT_MS 5000
#define EXTEND_MS      5000

/* A worker of an earlier daemon. */
struct old {
    struct old *next;
    struct reconcile *owner;
    struct job *job;
    bool killed, sweeping, draining;
    int64_t deadline_ms;
    char attempt_dir[JOBDIR_MAX];
    struct ingest *ingest; /* owned */
    struct flow_end end;
    char text[EVENT_TEXT_MAX];
    struct rollback_wish wish; /* owned */
};

struct reconcile {
    struct daemon *d;
    reconcile_fn *done;
    struct old *olds; /* owned */
    uv_timer_t tick;
    int64_t extended_ms;
};

/* ---- loading --------------------------------------------------------------*/

static void
load_job(void *ctx, const struct store_job *row)
{
    struct daemon *d = ctx;
    char directory[JOBDIR_MAX];
    struct job *job;

    if (job_state_parse(row->view.state) == JOB_STATE_COUNT) {
        log_errx("job %" PRId64 ": unknown state \"%s\", left alone",
                 row->view.id, row->view.state);
        return;
    }
    job = job_create(row, d->ledger);
    if (job == NULL) {
        log_errx("job %" PRId64 ": out of memory, left alone", row->view.id);
        return;
    }
    jobdir_path(directory, d->state_dir, row->view.id);
    job_set_text(&job->row.view.directory, directory);
    if (!jobs_add_take(&d->jobs, job))
        log_errx("job %" PRId64 ": out of memory, left alone", row->view.id);
}

int
reconcile_load(struct daemon *d, struct err *err)
{
    return store_load_jobs(d->store, load_job, d, err);
}

/* ---- one old worker -------------------------------------------------------*/

static int64_t
now_ms(const struct old *o)
{
    return (int64_t)uv_now(o->owner->d->loop);
}

static bool
no_children(void *ctx, pid_t pid)
{
    (void)ctx;
    (void)pid;
    return false;
}

static bool
is_alive(const struct old *o)
{
    const struct store_job *row = &o->job->row;

    return row->pid > 1 && strcmp(row->boot_id, o->owner->d->boot_id) == 0 &&
           procfs_is_alive((pid_t)row->pid, row->start_ticks);
}

static void
remove_old(struct old *o)
{
    struct old **p = &o->owner->olds;

    while (*p != o)
        p = &(*p)->next;
    *p = o->next;
    ingest_destroy(&o->ingest);
    rollback_wish_fini(&o->wish);
    free(o);
}

static void
on_event(void *ctx, const struct event *event, bool replay)
{
    struct old *o = ctx;

    (void)replay;
    job_apply_event(o->job, event, now_ms(o));
    if (event->kind == EVENT_STARTED)
        flow_started(o->job);
    if (event->kind == EVENT_CHECKPOINT) {
        o->end.progress = true;
        flow_checkpointed(o->job);
    }
    if (event->kind == EVENT_FINISHED) {
        o->end.facts.finished = true;
        o->end.facts.outcome = event->u.finished.outcome;
        o->end.facts.error = event->u.finished.error;
        snprintf(o->text, sizeof(o->text), "%s", event->u.finished.text);
        rollback_wish_keep(&o->wish, event);
    }
}

static void
decide(struct old *o)
{
    const struct store_job *row = &o->job->row;
    struct daemon *d = o->owner->d;
    struct job *job = o->job;
    int64_t iteration, attempt;
    struct flow_end end;

    if (checkpoints_parse_name(row->view.checkpoint, &iteration, &attempt) &&
        attempt == row->view.attempt)
        o->end.progress = true;
    o->end.facts.pid = row->pid;
    o->end.facts.why_killed = "";
    o->end.facts.start_error = "";
    o->end.facts.text = o->text;
    o->end.facts.wish = &o->wish;
    o->end.shutdown =
        job->state == JOB_STOPPING && job->intent == JOB_INTENT_NONE;
    o->end.requeue = d->conf.jobs_requeue_on_restart;
    end = o->end;
    flow_attempt_ended(d, job, &end);
    remove_old(o);
}

static void
on_drained(void *ctx, const struct err *err)
{
    (void)err;
    decide(ctx);
}

static void
on_broken(void *ctx, const struct err *err)
{
    struct old *o = ctx;

    log_errx("job %" PRId64 ": %s", o->job->row.view.id, err->msg);
}

static void
read_events(struct old *o)
{
    const struct ingest_hooks hooks = {on_event, on_drained, on_broken, o};
    const struct store_job *row = &o->job->row;
    struct daemon *d = o->owner->d;
    char path[JOBDIR_MAX];

    o->draining = true;
    /* Without a row of the attempt it was never told to begin. */
    if (row->pid == 0) {
        decide(o);
        return;
    }
    jobdir_attempt_path(path, row->view.directory, row->view.attempt,
                        "events.jsonl");
    o->ingest = ingest_create(d->loop, d->store, path, row->view.id,
                              row->view.attempt, row->events_offset, &hooks);
    if (o->ingest == NULL) {
        decide(o);
        return;
    }
    ingest_rewind(o->ingest);
    ingest_drain(o->ingest);
}

static void
wait_for_death(struct old *o)
{
    pid_t pid = (pid_t)o->job->row.pid;

    if (!is_alive(o)) {
        o->sweeping = true;
        o->deadline_ms = now_ms(o) + SWEEP_LIMIT_MS;
    } else if (now_ms(o) >= o->deadline_ms && !o->killed) {
        log_warnx("job %" PRId64 ": worker %d of an earlier daemon does not "
                  "end, SIGKILL",
                  o->job->row.view.id, (int)pid);
        o->killed = true;
        o->deadline_ms = now_ms(o) + KILL_WAIT_MS;
        reap_signal(pid, SIGKILL);
    } else if (now_ms(o) >= o->deadline_ms) {
        log_errx("job %" PRId64 ": worker %d cannot be killed",
                 o->job->row.view.id, (int)pid);
        o->sweeping = true;
    }
}

static void
look_at(struct old *o)
{
    if (!o->sweeping)
        wait_for_death(o);
    if (o->sweeping &&
        (reap_sweep(0, 0, o->attempt_dir, no_children, NULL) == 0 ||
         now_ms(o) >= o->deadline_ms))
        read_events(o);
}

static void
add_old(struct reconcile *r, struct job *job)
{
    struct old *o = calloc(1, sizeof(*o));

    assert(o != NULL);
    o->owner = r;
    o->job = job;
    o->deadline_ms =
        (int64_t)uv_now(r->d->loop) + r->d->conf.daemon_shutdown_grace;
    jobdir_attempt_path(o->attempt_dir, job->row.view.directory,
                        job->row.view.attempt, "");
    o->next = r->olds;
    r->olds = o;
    if (is_alive(o)) {
        log_info("job %" PRId64 ": worker %" PRId64
                 " of an earlier daemon still lives; waiting for it",
                 job->row.view.id, job->row.pid);
        reap_signal((pid_t)job->row.pid, SIGTERM);
    }
}

/* ---- all of them ----------------------------------------------------------*/

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void
on_tick(uv_timer_t *timer)
{
    struct reconcile *r = timer->data;
    struct daemon *d = r->d;
    int64_t now = (int64_t)uv_now(d->loop);
    struct old *o, *next;

    for (o = r->olds; o != NULL; o = next) {
        next = o->next;
        if (!o->draining)
            look_at(o);
    }
    if (now - r->extended_ms >= EXTEND_MS) {
        r->extended_ms = now;
        notify_send(&d->notify, "EXTEND_TIMEOUT_USEC=30000000\n"
                                "STATUS=Reconciling jobs");
    }
    /* A database that cannot be written now must not keep clients out. */
    if (r->olds != NULL || d->background > 0 ||
        (ledger_pending(d->ledger) > 0 && ledger_trouble(d->ledger)[0] == '\0'))
        return;
    uv_timer_stop(timer);
    uv_close((uv_handle_t *)timer, on_closed);
    r->done(d);
}

void
reconcile_start(struct daemon *d, reconcile_fn *done)
{
    struct reconcile *r = calloc(1, sizeof(*r));
    int n = 0;

    assert(r != NULL);
    r->d = d;
    r->done = done;
    uv_timer_init(d->loop, &r->tick);
    r->tick.data = r;
    for (int i = 0; i < d->jobs.n; i++) {
        struct job *job = d->jobs.v[i];

        if (job->state == JOB_STARTING || job->state == JOB_RUNNING ||
            job->state == JOB_STOPPING) {
            add_old(r, job);
            n++;
        }
    }
    if (n > 0)
        log_info("reconciling %d of %d jobs", n, d->jobs.n);
    uv_timer_start(&r->tick, on_tick, 1, TICK_MS);
}
