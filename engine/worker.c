/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker: program traind-worker, one process per attempt.
 *
 *   traind-worker --job ID --attempt N     started by the daemon, fd 3 is it
 *   traind-worker --check SPEC             see worker_check.h
 *   traind-worker --check-data SPEC        see worker_check.h
 *   traind-worker --sample WEIGHTS --spec SPEC ...   see worker_sample.h
 *   traind-worker --replay DIR ...                   see worker_replay.h
 *   traind-worker --ranges CHECKPOINT --spec SPEC    see worker_replay.h
 *
 * Ties the engine to its three neighbours: the link (orders in, beats out),
 * the events file, and the exit status. An outcome is reported in this order:
 * FINISHED event on stable storage, exit.json, exit status.
 */
#include "engine/engine.h"
#include "engine/worker_check.h"
#include "engine/worker_events.h"
#include "engine/worker_exit.h"
#include "engine/worker_link.h"
#include "engine/worker_log.h"
#include "engine/worker_replay.h"
#include "engine/worker_sample.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_FD      3
#define EXIT_STOPPED 75

#define REPLAY_OPTION 256 /* of getopt_long(): its name says which */

struct attempt {
    struct worker_link *link;     /* owned */
    struct worker_events *events; /* owned */
    struct codec_doc *doc;        /* owned: what start points into */
    struct view_start start;
    struct spec *spec;     /* owned */
    struct engine *engine; /* owned; what a guard said points into it */
    struct clock clock;
    char directory[PATH_MAX]; /* of the attempt */
    struct event last;        /* counters of the last event */
};

/* ---- hooks of the engine --------------------------------------------------*/

static int
on_event(void *ctx, const struct event *event, struct err *err)
{
    struct attempt *a = ctx;
    const int64_t before = worker_events_bytes(a->events);
    const int rc = worker_events_put(a->events, event, err);
    const int64_t after = worker_events_bytes(a->events);

    a->last.iteration = event->iteration;
    a->last.updates = event->updates;
    a->last.skips = event->skips;
    worker_link_progress(a->link, event->iteration, after, after != before);
    worker_log_event(stdout, event);
    return rc;
}

static int
on_sync(void *ctx, struct err *err)
{
    struct attempt *a = ctx;

    return worker_events_sync(a->events, err);
}

static unsigned
on_orders(void *ctx)
{
    struct attempt *a = ctx;

    if (worker_events_tick(a->events))
        worker_link_progress(a->link, a->last.iteration,
                             worker_events_bytes(a->events), true);
    return worker_link_orders(a->link);
}

/* ---- an attempt -----------------------------------------------------------*/

static int
parse_spec(struct attempt *a, struct err *err)
{
    struct spec_faults faults = {0};
    const int rc =
        spec_parse(a->start.spec, strlen(a->start.spec), &a->spec, &faults);

    if (rc == ERR_SPEC && faults.n > 0)
        err_set(err, rc, "spec:%d:%d: %s: %s%s", faults.list[0].line,
                faults.list[0].col, faults.list[0].path, faults.list[0].message,
                faults.n > 1 ? " (and more)" : "");
    else if (rc != 0)
        err_set(err, rc, "spec: %s", err_line(rc));
    spec_faults_fini(&faults);
    return rc;
}

static int
train(struct attempt *a, enum event_outcome *outcome, struct err *err)
{
    const struct view_start *s = &a->start;
    struct engine_options o = {
        .backend = s->device[0] != '\0' ? s->device : "cpu",
        .directory = s->directory[0] != '\0' ? s->directory : ".",
        .attempt = s->attempt,
        .threaded = true,
        .clock = a->clock,
        .hooks = {a, on_event, on_sync, on_orders},
        .resume = s->resume.v,
        .n_resume = s->resume.n,
        .resume_required = s->resume_required,
        .keep = s->keep.v,
        .n_keep = s->keep.n,
        .best = s->best,
        .best_metric = s->best_metric,
        .scale = s->scale,
        .skip_windows = s->skip_windows.v,
        .n_skip_windows = s->skip_windows.n,
        .guard_rollbacks = s->guard_rollbacks,
        .policy_history = s->changes,
    };
    int rc = parse_spec(a, err);

    *outcome = EVENT_OUTCOME_FAILED;
    if (rc != 0)
        return rc;
    o.threads = worker_check_threads(a->spec);
    rc = engine_open(a->spec, &o, &a->engine, err);
    return rc != 0 ? rc : engine_run(a->engine, outcome, err);
}

/* Why a guard paused the run or sends it back, and what is to be changed on
 * the way. */
static void
fill_fired(const struct attempt *a, enum event_outcome outcome,
           char text[EVENT_TEXT_MAX], struct event *e)
{
    const struct guard_firing *f =
        a->engine != NULL ? engine_fired(a->engine) : NULL;

    e->u.finished.to = e->u.finished.change = "";
    e->u.finished.scale = (double)NAN;
    if (f == NULL ||
        (outcome != EVENT_OUTCOME_PAUSED && outcome != EVENT_OUTCOME_GO_BACK))
        return;
    snprintf(text, EVENT_TEXT_MAX, "guard %d (%s): %s%s%s", f->rule,
             spec_guard_condition_name(f->condition), f->text,
             e->u.finished.error != 0 ? "; no checkpoint was made: " : "",
             e->u.finished.text);
    e->u.finished.text = text;
    if (outcome == EVENT_OUTCOME_PAUSED)
        return;
    e->u.finished.to = f->to;
    e->u.finished.change = f->change;
    e->u.finished.scale = f->scale;
    e->u.finished.skip_windows = f->skip_windows;
    e->u.finished.n_skip_windows = f->n_skip_windows;
}

/* Returns the exit status. */
static int
report_end(struct attempt *a, enum event_outcome outcome, const struct err *end)
{
    struct event e = {.kind = EVENT_FINISHED};
    char text[EVENT_TEXT_MAX];
    struct err err;
    int rc;

    e.t_us = clock_wall_us(&a->clock);
    e.iteration = a->last.iteration;
    e.updates = a->last.updates;
    e.skips = a->last.skips;
    e.u.finished.outcome = outcome;
    e.u.finished.error = end->code;
    e.u.finished.text = end->msg;
    fill_fired(a, outcome, text, &e);
    err_clear(&err);
    rc = on_event(a, &e, &err);
    if (rc == 0)
        rc = worker_events_sync(a->events, &err);
    if (rc == 0)
        rc = worker_exit_write(a->directory, a->start.attempt, &e, &err);
    if (end->code != 0)
        fprintf(stderr, "traind-worker: %s\n", end->msg);
    if (rc != 0) {
        fprintf(stderr, "traind-worker: %s\n", err.msg);
        return err_exit_code(rc);
    }
    return worker_exit_code(&e);
}

static int
check_numbers(const struct attempt *a, int64_t job, int64_t attempt,
              struct err *err)
{
    if (a->start.job == job && a->start.attempt == attempt)
        return 0;
    return err_set(err, ERR_PROTO,
                   "fd 3: start is for job %lld attempt %lld, not %lld %lld",
                   (long long)a->start.job, (long long)a->start.attempt,
                   (long long)job, (long long)attempt);
}

static int
begin(struct attempt *a, int64_t job, int64_t attempt, struct err *err)
{
    struct view_checkin checkin;
    char path[PATH_MAX + 16];
    int rc = worker_link_open(LINK_FD, &a->link, err);

    if (rc == 0)
        rc = worker_link_wait_start(a->link, &a->start, &a->doc, err);
    if (rc == 0)
        rc = check_numbers(a, job, attempt, err);
    if (rc != 0)
        return rc;
    snprintf(a->directory, sizeof(a->directory), "%s/attempts/%lld",
             a->start.directory[0] != '\0' ? a->start.directory : ".",
             (long long)attempt);
    snprintf(path, sizeof(path), "%s/events.jsonl", a->directory);
    rc = worker_events_open(path, &a->clock, &a->events, err);
    if (rc != 0)
        return rc;
    view_init(VIEW_ID_checkin, &checkin);
    checkin.job = job;
    checkin.attempt = attempt;
    checkin.pid = getpid();
    checkin.version = TRAIND_VERSION;
    return worker_link_checkin(a->link, &checkin, err);
}

static int
run_attempt(int64_t job, int64_t attempt)
{
    struct attempt a = {.clock = clock_system()};
    enum event_outcome outcome;
    struct err err, broken;
    int status;

    err_clear(&err);
    if (begin(&a, job, attempt, &err) != 0) {
        fprintf(stderr, "traind-worker: %s\n", err.msg);
        status = err.code == ERR_INTERRUPTED ? EXIT_STOPPED
                                             : err_exit_code(err.code);
    } else {
        train(&a, &outcome, &err);
        /* A stop that garbage on the socket led to is no stop as ordered. */
        if (outcome == EVENT_OUTCOME_STOPPED &&
            worker_link_error(a.link, &broken) != 0) {
            outcome = EVENT_OUTCOME_FAILED;
            err = broken;
        }
        status = report_end(&a, outcome, &err);
    }
    engine_close(&a.engine);
    worker_link_close(&a.link);
    worker_events_close(&a.events);
    spec_destroy(&a.spec);
    codec_doc_close(&a.doc);
    return status;
}

/* libgomp reads its environment before main(), hence once more from the start.
 * Its threads spin for seconds by default, which on a shared machine makes a
 * step ten times slower as soon as anybody else runs (MLP of bench/step in
 * bfloat16, 2 cores, alone / beside one busy process: default 10.9 / 125 ms,
 * passive 13.1 / 24, 10000 spins 11.1 / 40). Whoever sets a policy keeps it. */
static void
bound_spinning(char **argv)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0 || getenv("GOMP_SPINCOUNT") != NULL ||
        getenv("OMP_WAIT_POLICY") != NULL)
        return;
    self[n] = '\0';
    if (setenv("GOMP_SPINCOUNT", "10000", 1) == 0)
        execv(self, argv); /* not to be had: train as it is */
}

/* ---- the command line -----------------------------------------------------*/

static int
usage(FILE *out, int status)
{
    fprintf(out, "usage: traind-worker --job ID --attempt N   (fd 3: traind)\n"
                 "       traind-worker --check SPEC\n"
                 "       traind-worker --check-data SPEC\n"
                 "       traind-worker --sample WEIGHTS --spec SPEC\n"
                 "           [--tokens N] [--temperature T] [--top-k K] "
                 "[--seed S]\n"
                 "       traind-worker --replay DIR [--amp DTYPE] "
                 "[--fp32-region PATH]...\n"
                 "           [--scale X] [--threads N] [--backend B]\n"
                 "       traind-worker --ranges CHECKPOINT --spec SPEC "
                 "[the same]\n"
                 "       traind-worker --version\n");
    return status;
}

static int64_t
parse_number(const char *text)
{
    char *end;

    errno = 0;
    const long long v = strtoll(text, &end, 10);
    return errno != 0 || end == text || *end != '\0' || v < 1 ? -1 : v;
}

/* A number of --sample, 0 or more. */
static double
parse_real(const char *text)
{
    char *end;
    const double v = strtod(text, &end);

    return end == text || *end != '\0' || !(v >= 0) || v > 1e15 ? -1 : v;
}

static bool
take_sample_option(struct worker_sample_args *s, int c, const char *text)
{
    const double v = c == 's' || c == 'p' ? 0 : parse_real(text);

    switch (c) {
    case 's': s->weights = text; break;
    case 'p': s->spec = text; break;
    case 'n': s->n_tokens = (int64_t)v; break;
    case 't': s->temperature = v; break;
    case 'k': s->top_k = (int64_t)v; break;
    case 'r': s->seed = (uint64_t)v; break;
    default: return false;
    }
    return v >= 0;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        {"job", required_argument, NULL, 'j'},
        {"attempt", required_argument, NULL, 'a'},
        {"check", required_argument, NULL, 'c'},
        {"check-data", required_argument, NULL, 'd'},
        {"sample", required_argument, NULL, 's'},
        {"spec", required_argument, NULL, 'p'},
        {"tokens", required_argument, NULL, 'n'},
        {"temperature", required_argument, NULL, 't'},
        {"top-k", required_argument, NULL, 'k'},
        {"seed", required_argument, NULL, 'r'},
        {"replay", required_argument, NULL, REPLAY_OPTION},
        {"ranges", required_argument, NULL, REPLAY_OPTION},
        {"amp", required_argument, NULL, REPLAY_OPTION},
        {"fp32-region", required_argument, NULL, REPLAY_OPTION},
        {"scale", required_argument, NULL, REPLAY_OPTION},
        {"threads", required_argument, NULL, REPLAY_OPTION},
        {"backend", required_argument, NULL, REPLAY_OPTION},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct worker_sample_args sample = {.n_tokens = 256, .temperature = 1};
    struct worker_replay_args replay = {0};
    int64_t job = -1, attempt = -1;
    int c, at = 0;

    while ((c = getopt_long(argc, argv, "h", options, &at)) != -1) {
        switch (c) {
        case REPLAY_OPTION:
            if (!worker_replay_take(&replay, options[at].name, optarg))
                return usage(stderr, err_exit_code(ERR_USAGE));
            break;
        case 'j': job = parse_number(optarg); break;
        case 'a': attempt = parse_number(optarg); break;
        case 'c': return worker_check(optarg);
        case 'd': return worker_check_data(optarg);
        case 'V': printf("traind-worker %s\n", TRAIND_VERSION); return 0;
        case 'h': return usage(stdout, 0);
        default:
            if (!take_sample_option(&sample, c, optarg))
                return usage(stderr, err_exit_code(ERR_USAGE));
        }
    }
    if (sample.weights != NULL && sample.spec != NULL && optind == argc) {
        bound_spinning(argv);
        return worker_sample(&sample);
    }
    replay.spec = sample.spec;
    if (optind == argc &&
        (replay.incident != NULL ||
         (replay.checkpoint != NULL && replay.spec != NULL))) {
        bound_spinning(argv);
        return worker_replay(&replay);
    }
    if (job < 1 || attempt < 1 || optind != argc)
        return usage(stderr, err_exit_code(ERR_USAGE));
    bound_spinning(argv);
    return run_attempt(job, attempt);
}
