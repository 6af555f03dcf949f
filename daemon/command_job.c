/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: ping, validate, submit, list, status, paths. */
#include "daemon/command.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/checkpoints.h"
#include "daemon/flow.h"
#include "daemon/http_api.h"
#include "daemon/jobdir.h"
#include "daemon/metrics.h"
#include "proto/spec.h"

void
command_ping(struct daemon *d, struct request *request,
             const struct command_target *target)
{
    struct view_pong pong;

    (void)target;
    view_init(VIEW_ID_pong, &pong);
    pong.version = TRAIND_VERSION;
    pong.pid = getpid();
    pong.uptime_s = ((int64_t)uv_now(d->loop) - d->start_ms) / 1000;
    pong.queued = jobs_count(&d->jobs, JOB_QUEUED);
    pong.running = jobs_count(&d->jobs, JOB_STARTING) +
                   jobs_count(&d->jobs, JOB_RUNNING) +
                   jobs_count(&d->jobs, JOB_STOPPING);
    pong.http = http_api_url(d->http);
    if (d->http != NULL && strcmp(d->conf.http_socket, "off") != 0)
        pong.http_socket = d->conf.http_socket;
    request_reply(request, &pong, 1, false);
}

/* ---- validate -------------------------------------------------------------*/

static void
fill_fault(struct view_fault *out, const struct spec_fault *fault)
{
    view_init(VIEW_ID_fault, out);
    out->line = fault->line;
    out->col = fault->col;
    out->path = fault->path;
    out->message = fault->message;
}

void
command_validate(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    const char *text = request->args.validate.spec;
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    struct view_fault *views;
    int rc;

    (void)d;
    (void)target;
    rc = spec_parse(text, strlen(text), &spec, &faults);
    views = calloc((size_t)faults.n + 1, sizeof(*views));
    if (views == NULL || (rc != 0 && rc != ERR_SPEC)) {
        command_refuse(request, ERR_NOMEM, "out of memory");
    } else {
        for (int i = 0; i < faults.n; i++)
            fill_fault(&views[i], &faults.list[i]);
        request_reply(request, views, faults.n, false);
    }
    free(views);
    spec_faults_fini(&faults);
    spec_destroy(&spec);
}

/* ---- submit ---------------------------------------------------------------*/

struct submission {
    struct daemon *d;
    struct request *request;
    struct job *job; /* owned until it is in the table */
};

static int
check_path(const char *key, const char *path, struct err *err)
{
    if (path == NULL || path[0] == '\0' || path[0] == '/')
        return 0;
    return err_set(err, ERR_SPEC,
                   "%s: %.200s: the client must send absolute paths", key,
                   path);
}

static int
check_spec(const struct spec *spec, struct err *err)
{
    const char *key, *path;
    int rc = 0;

    for (int i = 0; rc == 0 && spec_file_at(spec, i, &key, &path); i++)
        rc = check_path(key, path, err);
    return rc;
}

/* The account of a caller; NULL: none. */
static struct passwd *
find_account(uid_t uid, struct passwd *account, char *buf, size_t size)
{
    struct passwd *found = NULL;

    return getpwuid_r(uid, account, buf, size, &found) == 0 ? found : NULL;
}

/* May this caller have jobs here at all? */
static int
check_caller(const struct daemon *d, const struct request *request,
             struct err *err)
{
    int64_t priority = request->args.submit.priority;
    uid_t uid = request->peer.uid;
    struct passwd account;
    char buf[4096];

    if (d->draining)
        return err_set(err, ERR_AGAIN, "the daemon is going down");
    if (d->jobs.n >= d->conf.jobs_max_queued)
        return err_set(err, ERR_AGAIN, "%d jobs are queued, no more are taken",
                       d->jobs.n);
    if (priority < -COMMAND_PRIORITY_MOST || priority > COMMAND_PRIORITY_MOST)
        return err_set(err, ERR_USAGE, "priority is from -%d to %d",
                       COMMAND_PRIORITY_MOST, COMMAND_PRIORITY_MOST);
    /* A worker must open files with the submitter's rights, not with ours. */
    if (geteuid() != 0 && request->peer.uid != geteuid() &&
        request->peer.uid != 0)
        return err_set(err, ERR_DENIED,
                       "this traind runs as uid %u and cannot act for uid %u; "
                       "run your own: traind --user",
                       (unsigned)geteuid(), (unsigned)uid);
    if (geteuid() == 0 && uid != 0 &&
        find_account(uid, &account, buf, sizeof(buf)) == NULL)
        return err_set(err, ERR_DENIED,
                       "uid %u has no account here: no worker could take its "
                       "rights",
                       (unsigned)uid);
    return 0;
}

static const char *
describe_dtype(const struct spec *spec)
{
    return dtype_name(spec->amp.dtype);
}

static int64_t
wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct job *
make_job(struct daemon *d, const struct request *request,
         const struct spec *spec)
{
    const struct view_submit *args = &request->args.submit;
    struct store_job row = {0};
    struct passwd account, *found;
    char buf[4096], number[24];

    found = find_account(request->peer.uid, &account, buf, sizeof(buf));
    snprintf(number, sizeof(number), "%u", (unsigned)request->peer.uid);
    view_init(VIEW_ID_job, &row.view);
    row.view.name = spec->name != NULL ? spec->name : "";
    row.view.uid = request->peer.uid;
    row.view.user = found != NULL ? found->pw_name : number;
    row.view.state = job_state_name(JOB_QUEUED);
    row.view.reason = "submitted a moment ago";
    row.view.priority = args->priority;
    row.view.dtype = describe_dtype(spec);
    row.view.submit_us = wall_us();
    row.view.exit_code = -1;
    row.spec = args->spec;
    row.idempotency_key = args->idempotency_key;
    row.origin = args->origin;
    row.intent = "";
    row.boot_id = "";
    row.changes = row.skip_windows = "[]";
    row.start_scale = (double)NAN;
    return job_create(&row, d->ledger);
}

/* The same key again: the answer is the job of the first time. */
static void
on_known(void *ctx, int rc, const void *items, int n, bool more,
         const struct err *err)
{
    struct submission *s = ctx;
    const struct store_job *row = items;
    struct job *job = n > 0 ? jobs_find(&s->d->jobs, row->view.id) : NULL;
    struct view_job view;

    (void)more;
    s->d->background--;
    if (rc != 0) {
        request_refuse(s->request, err, NULL);
    } else if (n == 0) {
        command_refuse(s->request, ERR_INTERNAL, "the job is not there");
    } else {
        view = row->view;
        if (job != NULL)
            job_view(job, &view);
        request_reply(s->request, &view, 1, false);
    }
    free(s);
}

static void
on_inserted(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct submission *s = ctx;
    struct daemon *d = s->d;
    char directory[JOBDIR_MAX];
    struct view_job view;
    struct job *job = s->job;

    if (rc == ERR_EXISTS && id > 0) {
        job_destroy(&s->job);
        store_find_job(d->store, id, on_known, s);
        return;
    }
    d->background--;
    if (rc == 0)
        metrics_job_submitted(d->metrics);
    if (rc != 0) {
        job_destroy(&s->job);
        request_refuse(s->request, err, NULL);
        free(s);
        return;
    }
    job->row.view.id = id;
    jobdir_path(directory, d->state_dir, id);
    job_set_text(&job->row.view.directory, directory);
    job_view(job, &view);
    if (jobs_add_take(&d->jobs, job))
        request_reply(s->request, &view, 1, false);
    else
        command_refuse(s->request, ERR_NOMEM,
                       "job %" PRId64 " is stored but will start only after "
                       "a restart: out of memory",
                       id);
    flow_schedule_soon(d);
    free(s);
}

void
command_submit(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    const char *text = request->args.submit.spec;
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    struct submission *s = NULL;
    struct err err;
    int rc;

    (void)target;
    err_clear(&err);
    rc = check_caller(d, request, &err);
    if (rc == 0) {
        rc = spec_parse(text, strlen(text), &spec, &faults);
        if (rc != 0)
            err_set(&err, rc, "the spec has %d fault%s", faults.n,
                    faults.n == 1 ? "" : "s");
    }
    if (rc == 0)
        rc = check_spec(spec, &err);
    if (rc != 0) {
        request_refuse(request, &err, faults.n > 0 ? &faults : NULL);
        goto out;
    }
    s = calloc(1, sizeof(*s));
    if (s != NULL)
        s->job = make_job(d, request, spec);
    if (s == NULL || s->job == NULL) {
        free(s);
        command_refuse(request, ERR_NOMEM, "out of memory");
        goto out;
    }
    s->d = d;
    s->request = request;
    d->background++;
    store_insert_job(d->store, &s->job->row, on_inserted, s);
out:
    spec_faults_fini(&faults);
    spec_destroy(&spec);
}

/* ---- list, status ---------------------------------------------------------*/

struct listing {
    struct daemon *d;
    struct request *request;
};

/* Others' jobs, where they are listed at all: that they are there. */
static void
redact(struct view_job *view)
{
    view->name = view->reason = view->directory = view->error = "";
    view->checkpoint = "";
    view->loss = view->scale = view->lr = view->grad_norm = (double)NAN;
    view->validation_loss = view->accuracy = view->best_accuracy = (double)NAN;
    view->top_k = view->perplexity = (double)NAN;
}

static void
on_listed(void *ctx, int rc, const void *items, int n, bool more,
          const struct err *err)
{
    struct listing *l = ctx;
    struct view_job *views = NULL;

    if (rc != 0) {
        request_refuse(l->request, err, NULL);
        free(l);
        return;
    }
    views = calloc((size_t)n + 1, sizeof(*views));
    assert(views != NULL);
    if (n > 0)
        memcpy(views, items, (size_t)n * sizeof(*views));
    for (int i = 0; i < n; i++) {
        const struct job *job = jobs_find(&l->d->jobs, views[i].id);

        if (job != NULL)
            job_view(job, &views[i]);
        if (auth_role(&l->request->peer, views[i].uid) == AUTH_OTHER)
            redact(&views[i]);
    }
    request_reply(l->request, views, n, more);
    free(views);
    free(l);
}

void
command_list(struct daemon *d, struct request *request,
             const struct command_target *target)
{
    bool everybody =
        request->peer.admin || d->conf.control_visibility == CONF_PUBLIC;
    struct listing *l = calloc(1, sizeof(*l));

    (void)target;
    assert(l != NULL);
    l->d = d;
    l->request = request;
    store_list_jobs(d->store, everybody ? -1 : (int64_t)request->peer.uid,
                    &request->args.list, on_listed, l);
}

void
command_status(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    (void)d;
    request_reply(request, &target->view, 1, false);
}

/* ---- devices --------------------------------------------------------------*/

void
command_devices(struct daemon *d, struct request *request,
                const struct command_target *target)
{
    struct view_device views[DEVICE_MAX];

    (void)target;
    for (int i = 0; i < d->devices.n; i++) {
        const struct device *device = &d->devices.v[i];
        const struct job *job = jobs_find(&d->jobs, device->job);

        view_init(VIEW_ID_device, &views[i]);
        views[i].name = device->name;
        views[i].kind = device->kind;
        views[i].cpus = device->cpus;
        views[i].busy = device->job != 0;
        if (job != NULL &&
            auth_role(&request->peer, job->row.view.uid) != AUTH_OTHER)
            views[i].job = device->job;
    }
    request_reply(request, views, d->devices.n, false);
}

/* ---- paths ----------------------------------------------------------------*/

struct path_answer {
    struct request *request;
    int64_t job, attempt;
    const char *state; /* constant */
    char directory[JOBDIR_MAX];
};

static void
on_checkpoints(void *ctx, int rc, const struct checkpoints *list,
               const struct err *err)
{
    struct path_answer *a = ctx;
    const struct checkpoints_item *last;
    char out[JOBDIR_MAX] = "", errs[JOBDIR_MAX] = "";
    char events[JOBDIR_MAX] = "", checkpoint[JOBDIR_MAX] = "";
    struct view_paths view;

    if (rc != 0) {
        request_refuse(a->request, err, NULL);
        free(a);
        return;
    }
    view_init(VIEW_ID_paths, &view);
    view.job = a->job;
    view.attempt = a->attempt;
    view.state = a->state;
    if (a->attempt > 0) {
        jobdir_attempt_path(out, a->directory, a->attempt, "stdout");
        jobdir_attempt_path(errs, a->directory, a->attempt, "stderr");
        jobdir_attempt_path(events, a->directory, a->attempt, "events.jsonl");
    }
    last = checkpoints_last(list);
    if (last != NULL) {
        jobdir_checkpoint_path(checkpoint, a->directory, last->name);
        view.checkpoint_name = last->name;
    }
    view.stdout_path = out;
    view.stderr_path = errs;
    view.events_path = events;
    view.checkpoint_path = checkpoint;
    request_reply(a->request, &view, 1, false);
    free(a);
}

void
command_paths(struct daemon *d, struct request *request,
              const struct command_target *target)
{
    struct path_answer *a = calloc(1, sizeof(*a));

    assert(a != NULL);
    a->request = request;
    a->job = target->id;
    a->attempt = target->view.attempt;
    a->state = job_state_name(job_state_parse(target->view.state));
    snprintf(a->directory, sizeof(a->directory), "%s", target->view.directory);
    checkpoints_gather(d->store, target->id, on_checkpoints, a);
}
