/* SPDX-License-Identifier: Apache-2.0 */
/* lines: one worker's life is one state machine; cutting it would spread its
 * fields over files. Starting, sweeping, reading events and the sentence at
 * the end have files of their own already. */
#include "daemon/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ingest.h"
#include "daemon/jobdir.h"
#include "daemon/log.h"
#include "daemon/logcap.h"
#include "daemon/procfs.h"
#include "daemon/reap.h"
#include "daemon/rollback.h"
#include "daemon/spawn.h"
#include "daemon/start_plan.h"
#include "daemon/worker_link.h"
#include "proto/spec_changes.h"

#define SUPERVISOR_MAGIC 0x53555056u
#define WORKER_MAGIC     0x574b5221u
#define TICK_MS          250
#define LOG_CHECK_MS     1000
#define TERM_GRACE_MS    2000
#define SWEEP_LIMIT_MS   10000
#define OVERSLEPT_MS     3000

enum phase {
    PHASE_PREPARED, /* the job's STARTING is on its way into the store */
    PHASE_PLANNING, /* which checkpoints to resume from */
    PHASE_SPAWNED,  /* runs, but has not been told what to do */
    PHASE_WORKING,  /* has its start frame */
    PHASE_SWEEPING, /* has exited; something of it may be left */
    PHASE_DRAINING  /* nothing is left but events to store */
};
/* How hard it has been asked to stop; only upwards. */
enum stage { STAGE_NONE, STAGE_STOP, STAGE_ABANDON, STAGE_TERM, STAGE_KILL };

struct worker {
    unsigned magic;
    struct worker *next;
    struct supervisor *supervisor;
    struct job *job;
    enum phase phase;
    enum stage stage;
    int64_t deadline_ms;     /* of the stage */
    const char *device_kind; /* constant */
    char device[16], cpus[256];
    char job_dir[JOBDIR_MAX], attempt_dir[JOBDIR_MAX];
    struct start_plan *plan; /* owned */
    uv_process_t process;
    bool has_process;
    int status_fd;
    struct worker_link *link; /* owned */
    struct ingest *ingest;    /* owned */
    int64_t last_beat_ms, last_log_check_ms, exited_ms;
    int64_t exited_ticks;
    bool begin_pending, checked_in, progress;
    char why_killed[200], start_error[ERR_SENTENCE_MAX],
        finished_text[EVENT_TEXT_MAX];
    struct obituary_facts facts;
    struct rollback_wish wish; /* owned */
};

struct supervisor {
    unsigned magic;
    struct supervisor_options o;
    struct supervisor_hooks hooks;
    struct worker *workers; /* owned */
    uv_timer_t tick;
    int64_t last_tick_ms;
};

static void on_tick(uv_timer_t *timer);

static int64_t
now_ms(const struct worker *w)
{
    return (int64_t)uv_now(w->supervisor->o.loop);
}

static int64_t
job_id(const struct worker *w)
{
    return w->job->row.view.id;
}

static bool
has_lived(const struct worker *w)
{
    return w->phase == PHASE_SPAWNED || w->phase == PHASE_WORKING;
}

/* ---- the end --------------------------------------------------------------*/

static void
on_process_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;

    w->magic = 0;
    free(w);
}

static void
unlink_worker(struct worker *w)
{
    struct worker **p = &w->supervisor->workers;

    while (*p != w)
        p = &(*p)->next;
    *p = w->next;
    if (w->supervisor->workers == NULL)
        uv_timer_stop(&w->supervisor->tick);
}

/* Everything that can be known is known. */
static void
finish(struct worker *w)
{
    struct supervisor *s = w->supervisor;
    struct job *job = w->job;

    w->facts.why_killed = w->why_killed;
    w->facts.start_error = w->start_error;
    w->facts.text = w->finished_text;
    ingest_destroy(&w->ingest);
    worker_link_destroy(&w->link);
    start_plan_destroy(&w->plan);
    unlink_worker(w);
    job->worker = NULL;
    w->facts.wish = &w->wish;
    s->hooks.ended(s->hooks.ctx, job, &w->facts, w->progress);
    rollback_wish_fini(&w->wish);
    if (w->has_process) {
        uv_close((uv_handle_t *)&w->process, on_process_closed);
    } else {
        w->magic = 0;
        free(w);
    }
}

static void
on_drained(void *ctx, const struct err *err)
{
    struct worker *w = ctx;

    (void)err;
    assert(w->magic == WORKER_MAGIC && w->phase == PHASE_DRAINING);
    finish(w);
}

static void
drain(struct worker *w)
{
    w->phase = PHASE_DRAINING;
    if (w->begin_pending)
        return; /* on_begun() comes back here */
    if (w->ingest == NULL)
        finish(w);
    else
        ingest_drain(w->ingest);
}

/* One look; more follow with the ticks until nothing is left. */
static void
sweep(struct worker *w)
{
    int left = reap_sweep((pid_t)w->facts.pid, w->exited_ticks, w->attempt_dir,
                          supervisor_knows, w->supervisor);

    if (left > 0 && now_ms(w) - w->exited_ms < SWEEP_LIMIT_MS)
        return;
    if (left > 0)
        log_errx("job %" PRId64 ": worker %" PRId64
                 ": %d of its processes cannot be killed",
                 job_id(w), w->facts.pid, left);
    drain(w);
}

static void
on_exit_of_worker(uv_process_t *process, int64_t status, int signal)
{
    struct worker *w = process->data;

    assert(w->magic == WORKER_MAGIC && has_lived(w));
    w->facts.status_known = true;
    w->facts.exit_code = (int)status;
    w->facts.signal = signal;
    w->exited_ms = now_ms(w);
    w->exited_ticks = procfs_now_ticks();
    spawn_read_status(&w->status_fd, w->start_error, sizeof(w->start_error));
    w->phase = PHASE_SWEEPING;
    sweep(w);
}

/* ---- signals --------------------------------------------------------------*/

static void
send_signal(struct worker *w, int signal)
{
    w->facts.killed_by_us = signal;
    reap_signal((pid_t)w->facts.pid, signal);
}

static void
raise_stage(struct worker *w, enum stage stage, int64_t grace_ms)
{
    w->stage = stage;
    w->deadline_ms = now_ms(w) + grace_ms;
}

static void
enter_stage(struct worker *w, enum stage stage)
{
    const struct supervisor_options *o = &w->supervisor->o;

    /* Before it has been told what to do it has nothing to save. */
    if (w->phase == PHASE_SPAWNED)
        stage = STAGE_KILL;
    switch (stage) {
    case STAGE_NONE: break;
    case STAGE_STOP:
        raise_stage(w, stage, o->stop_grace_ms);
        worker_link_order(w->link, "stop", 0);
        break;
    case STAGE_ABANDON:
        raise_stage(w, stage, o->kill_grace_ms);
        worker_link_order(w->link, "abandon", 0);
        break;
    case STAGE_TERM:
        raise_stage(w, stage, TERM_GRACE_MS);
        log_warnx("job %" PRId64 ": worker %" PRId64 ": does not obey, SIGTERM",
                  job_id(w), w->facts.pid);
        send_signal(w, SIGTERM);
        break;
    case STAGE_KILL:
        raise_stage(w, stage, TERM_GRACE_MS);
        send_signal(w, SIGKILL);
        break;
    }
}

void
supervisor_stop(struct worker *w, bool abandon)
{
    enum stage stage = abandon ? STAGE_ABANDON : STAGE_STOP;

    assert(w->magic == WORKER_MAGIC);
    if (stage <= w->stage)
        return;
    if (w->phase == PHASE_PREPARED || w->phase == PHASE_PLANNING)
        w->stage = stage; /* seen before the next step */
    else if (has_lived(w))
        enter_stage(w, stage);
}

void
supervisor_kill(struct worker *w, const char *why)
{
    assert(w->magic == WORKER_MAGIC);
    if (!has_lived(w))
        return;
    log_errx("job %" PRId64 ": worker %" PRId64 ": %s", job_id(w), w->facts.pid,
             why);
    if (w->why_killed[0] == '\0')
        snprintf(w->why_killed, sizeof(w->why_killed), "%s", why);
    enter_stage(w, STAGE_KILL);
}

bool
supervisor_order(struct worker *w, const char *order)
{
    assert(w->magic == WORKER_MAGIC);
    return w->phase == PHASE_WORKING && worker_link_order(w->link, order, 0);
}

/* ---- what it says ---------------------------------------------------------*/

static void
on_checkin(void *ctx, const struct view_checkin *c)
{
    struct worker *w = ctx;

    w->last_beat_ms = now_ms(w);
    if (c->job != job_id(w) || c->attempt != w->job->row.view.attempt ||
        c->pid != w->facts.pid) {
        supervisor_kill(w, "it checked in as another worker");
        return;
    }
    w->checked_in = true;
    log_info("job %" PRId64 ": worker %" PRId64 ": checked in, version %s",
             job_id(w), w->facts.pid, c->version);
}

static void
on_beat(void *ctx, const struct view_beat *beat)
{
    struct worker *w = ctx;

    (void)beat; /* progress is believed from stored events only */
    w->last_beat_ms = now_ms(w);
    if (w->ingest != NULL)
        ingest_poll(w->ingest);
}

static void
on_garbage(void *ctx, const struct err *err)
{
    supervisor_kill(ctx, err->msg);
}

static void
on_event(void *ctx, const struct event *event, bool replay)
{
    struct worker *w = ctx;
    struct supervisor *s = w->supervisor;

    (void)replay;
    if (event->kind == EVENT_CHECKPOINT)
        w->progress = true;
    if (event->kind == EVENT_FINISHED) {
        w->facts.finished = true;
        w->facts.outcome = event->u.finished.outcome;
        w->facts.error = event->u.finished.error;
        snprintf(w->finished_text, sizeof(w->finished_text), "%s",
                 event->u.finished.text);
        rollback_wish_keep(&w->wish, event);
    }
    s->hooks.event(s->hooks.ctx, w->job, event);
}

static void
on_events_broken(void *ctx, const struct err *err)
{
    supervisor_kill(ctx, err->msg);
}

/* ---- the start ------------------------------------------------------------*/

static void
fail_start(struct worker *w, const struct err *err)
{
    snprintf(w->start_error, sizeof(w->start_error), "%s", err->msg);
    w->facts.start_code = err->code;
    log_errx("job %" PRId64 ": worker not started: %s", job_id(w), err->msg);
    finish(w);
}

/* The attempt is in the database: its events have a place to go. */
static void
tell_start(struct worker *w, int rc, const struct err *err)
{
    struct view_start start;

    if (rc != 0) {
        supervisor_kill(w, err->msg);
        return;
    }
    start_plan_fill(w->plan, w->job, w->job_dir, w->device_kind, &start);
    w->phase = PHASE_WORKING;
    worker_link_start(w->link, &start);
}

static void
on_begun(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct worker *w = ctx;

    (void)id;
    assert(w->magic == WORKER_MAGIC && w->begin_pending);
    w->begin_pending = false;
    if (w->phase == PHASE_DRAINING)
        drain(w);
    else if (w->phase == PHASE_SPAWNED && w->stage == STAGE_NONE)
        tell_start(w, rc, err);
}

static int
describe_user(const struct job *job, struct spawn_args *a,
              struct passwd *account, char *buf, size_t size, struct err *err)
{
    uid_t uid = (uid_t)job->row.view.uid;
    struct passwd *found = NULL;

    a->uid = uid;
    a->gid = getegid();
    a->user = "";
    a->change_user = geteuid() == 0 && uid != 0;
    if (!a->change_user)
        return 0;
    if (getpwuid_r(uid, account, buf, size, &found) != 0 || found == NULL)
        return err_set(err, ERR_DENIED, "uid %u has no account", (unsigned)uid);
    a->gid = found->pw_gid;
    a->user = found->pw_name;
    return 0;
}

static int
make_process(struct worker *w, struct err *err)
{
    const struct supervisor_options *o = &w->supervisor->o;
    struct spawn_args a = {.loop = o->loop,
                           .exec_path = o->exec_path,
                           .worker_path = o->worker_path,
                           .job_dir = w->job_dir,
                           .attempt_dir = w->attempt_dir,
                           .job = job_id(w),
                           .attempt = w->job->row.view.attempt,
                           .cpus = w->cpus,
                           .on_exit = on_exit_of_worker};
    const struct worker_link_hooks hooks = {on_checkin, on_beat, on_garbage, w};
    struct jobdir_owner owner;
    struct passwd account;
    char buf[4096];
    int link_fd, rc;

    rc = describe_user(w->job, &a, &account, buf, sizeof(buf), err);
    if (rc != 0)
        return rc;
    owner = (struct jobdir_owner){a.change_user, a.uid, a.gid};
    rc = jobdir_make(w->job_dir, a.attempt, w->job->row.spec, &owner, err);
    if (rc != 0)
        return rc;
    w->has_process = true;
    w->process.data = w;
    rc = spawn_worker(&a, &w->process, &link_fd, &w->status_fd, err);
    if (rc != 0) {
        w->has_process = w->process.type == UV_PROCESS;
        return rc;
    }
    w->facts.pid = w->process.pid;
    w->phase = PHASE_SPAWNED;
    w->supervisor->hooks.started(w->supervisor->hooks.ctx, w->job);
    w->link = worker_link_create_take(o->loop, link_fd, &hooks, err);
    if (w->link == NULL)
        supervisor_kill(w, err->msg); /* its exit goes the usual way */
    return 0;
}

static void
record_process(struct worker *w)
{
    struct supervisor *s = w->supervisor;
    struct procfs_stat st = {0};
    struct store_attempt a = {.job = job_id(w),
                              .attempt = w->job->row.view.attempt,
                              .pid = w->facts.pid,
                              .boot_id = s->o.boot_id,
                              .device = w->device,
                              .cause = "",
                              .change = ""};
    struct spec_changes_entry latest;

    if (procfs_stat((pid_t)w->facts.pid, &st))
        a.start_ticks = st.start_ticks;
    spec_changes_last(w->job->row.changes, &latest);
    if (w->job->row.resume_checkpoint != 0) {
        /* It has not said that it goes on from there yet. */
        a.cause = latest.cause;
        a.change = latest.difference[0] != '\0' ? latest.change : "";
    }
    w->begin_pending = true;
    store_begin_attempt(s->o.store, &a, on_begun, w);
    spec_changes_fini(&latest);
}

static void
on_planned(void *ctx, int rc, const struct err *err)
{
    struct worker *w = ctx;
    struct supervisor *s = w->supervisor;
    const struct ingest_hooks hooks = {on_event, on_drained, on_events_broken,
                                       w};
    char events[JOBDIR_MAX];
    struct err why = *err;

    assert(w->magic == WORKER_MAGIC && w->phase == PHASE_PLANNING);
    if (w->stage != STAGE_NONE) {
        finish(w);
        return;
    }
    if (rc == ERR_CKPT || rc == ERR_SPEC) {
        /* Trying again would not bring it back, nor mend it. */
        w->facts.finished = true;
        w->facts.outcome = EVENT_OUTCOME_FAILED;
        w->facts.error = rc;
        snprintf(w->finished_text, sizeof(w->finished_text), "%s", why.msg);
        finish(w);
        return;
    }
    if (rc == 0) {
        jobdir_attempt_path(events, w->job_dir, w->job->row.view.attempt,
                            "events.jsonl");
        rc = make_process(w, &why);
    }
    if (rc != 0) {
        fail_start(w, &why);
        return;
    }
    w->ingest = ingest_create(s->o.loop, s->o.store, events, job_id(w),
                              w->job->row.view.attempt, 0, &hooks);
    if (w->ingest == NULL)
        supervisor_kill(w, "no memory for its events");
    w->last_beat_ms = now_ms(w);
    log_info("job %" PRId64 ": worker %" PRId64 ": attempt %" PRId64 " on %s",
             job_id(w), w->facts.pid, w->job->row.view.attempt, w->device);
    record_process(w);
}

void
supervisor_launch(struct worker *w)
{
    assert(w->magic == WORKER_MAGIC && w->phase == PHASE_PREPARED);
    if (w->stage != STAGE_NONE) {
        finish(w);
        return;
    }
    w->phase = PHASE_PLANNING;
    start_plan_make(w->plan, w->supervisor->o.store, w->job, on_planned, w);
}

struct worker *
supervisor_prepare(struct supervisor *s, struct job *job,
                   const struct device *device)
{
    struct worker *w = calloc(1, sizeof(*w));

    assert(s->magic == SUPERVISOR_MAGIC && job->worker == NULL);
    if (w != NULL)
        w->plan = start_plan_create();
    if (w == NULL || w->plan == NULL) {
        free(w);
        return NULL;
    }
    w->magic = WORKER_MAGIC;
    w->supervisor = s;
    w->job = job;
    w->status_fd = -1;
    w->device_kind = device->kind;
    snprintf(w->device, sizeof(w->device), "%s", device->name);
    snprintf(w->cpus, sizeof(w->cpus), "%s", device->cpus);
    snprintf(w->job_dir, sizeof(w->job_dir), "%s", job->row.view.directory);
    jobdir_attempt_path(w->attempt_dir, w->job_dir, job->row.view.attempt, "");
    if (s->workers == NULL) {
        s->last_tick_ms = (int64_t)uv_now(s->o.loop);
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    }
    w->next = s->workers;
    s->workers = w;
    job->worker = w;
    return w;
}

/* ---- ticks ----------------------------------------------------------------*/

static void
check_logs(struct worker *w)
{
    const struct supervisor_options *o = &w->supervisor->o;
    static const char *const file[] = {"stdout", "stderr"};
    struct err err;

    if (now_ms(w) - w->last_log_check_ms < LOG_CHECK_MS)
        return;
    w->last_log_check_ms = now_ms(w);
    for (int i = 0; i < 2; i++)
        if (logcap_check(w->attempt_dir, file[i], o->log_piece_bytes,
                         o->log_pieces, &err) != 0)
            log_warnx("job %" PRId64 ": %s", job_id(w), err.msg);
}

static void
check_heartbeat(struct worker *w)
{
    char why[100];
    int64_t silent_ms = now_ms(w) - w->last_beat_ms;

    if (silent_ms < w->supervisor->o.heartbeat_timeout_ms ||
        w->why_killed[0] != '\0')
        return;
    snprintf(why, sizeof(why), "no sign of life for %.1f s",
             (double)silent_ms / 1000);
    log_errx("job %" PRId64 ": worker %" PRId64 ": %s", job_id(w), w->facts.pid,
             why);
    snprintf(w->why_killed, sizeof(w->why_killed), "%s", why);
    /* SIGABRT: whoever looks into it gets a core or a stack, if allowed. */
    send_signal(w, SIGABRT);
    raise_stage(w, STAGE_TERM, TERM_GRACE_MS);
}

static void
check_deadline(struct worker *w)
{
    if (w->stage == STAGE_NONE || now_ms(w) < w->deadline_ms)
        return;
    enter_stage(w, w->stage == STAGE_KILL ? STAGE_KILL
                                          : (enum stage)(w->stage + 1));
}

static void
on_tick(uv_timer_t *timer)
{
    struct supervisor *s = timer->data;
    int64_t now = (int64_t)uv_now(s->o.loop);
    bool overslept = now - s->last_tick_ms > OVERSLEPT_MS;
    struct worker *w, *next;

    s->last_tick_ms = now;
    for (w = s->workers; w != NULL; w = next) {
        next = w->next;
        /* If the daemon itself stood still, beats are waiting to be read. */
        if (overslept)
            w->last_beat_ms = now;
        if (w->phase == PHASE_SWEEPING) {
            sweep(w);
        } else if (has_lived(w)) {
            if (w->ingest != NULL)
                ingest_poll(w->ingest);
            check_logs(w);
            check_heartbeat(w);
            check_deadline(w);
        }
    }
}

int
supervisor_count(const struct supervisor *s)
{
    int n = 0;

    for (const struct worker *w = s->workers; w != NULL; w = w->next)
        n++;
    return n;
}

int
supervisor_count_alive(const struct supervisor *s)
{
    int n = 0;

    for (const struct worker *w = s->workers; w != NULL; w = w->next)
        n += has_lived(w) || w->phase == PHASE_SWEEPING;
    return n;
}

bool
supervisor_knows(void *supervisor, pid_t pid)
{
    const struct supervisor *s = supervisor;

    assert(s->magic == SUPERVISOR_MAGIC);
    for (const struct worker *w = s->workers; w != NULL; w = w->next)
        if (has_lived(w) && w->facts.pid == pid)
            return true;
    return false;
}

struct supervisor *
supervisor_create(const struct supervisor_options *o,
                  const struct supervisor_hooks *hooks)
{
    struct supervisor *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->magic = SUPERVISOR_MAGIC;
    s->o = *o;
    s->hooks = *hooks;
    uv_timer_init(o->loop, &s->tick);
    s->tick.data = s;
    return s;
}

static void
on_tick_closed(uv_handle_t *handle)
{
    struct supervisor *s = handle->data;

    s->magic = 0;
    free(s);
}

void
supervisor_destroy(struct supervisor **sp)
{
    struct supervisor *s = *sp;

    if (s == NULL)
        return;
    assert(s->magic == SUPERVISOR_MAGIC && s->workers == NULL);
    *sp = NULL;
    uv_close((uv_handle_t *)&s->tick, on_tick_closed);
}
