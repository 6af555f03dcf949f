/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics_private.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/procfs.h"

#define ERR(name, number, exit_code, http, line)                               \
    _Static_assert((number) < METRICS_ERRORS, #name);
#include "proto/errors.def"
#undef ERR

static const double wait_bounds[] = {0.1, 1,    5,     15,    60,    300,
                                     900, 3600, 14400, 43200, 86400, 259200};
static const double run_bounds[] = {1,    10,    60,    300,   900,    3600,
                                    7200, 14400, 43200, 86400, 259200, 604800};
static const double commit_bounds[] = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5};
static const double http_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,   0.25,   0.5,   1,    5,     30};

#define BOUNDS(v)                                                              \
    {                                                                          \
        .le = (v), .n = (int)(sizeof(v) / sizeof((v)[0]))                      \
    }

/* ---- life -----------------------------------------------------------------*/

static int64_t
wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t
metrics_now_us(const struct metrics *m)
{
    return m->o.wall_us != NULL ? m->o.wall_us() : wall_us();
}

struct metrics *
metrics_create(const struct metrics_options *options)
{
    struct metrics *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return NULL;
    m->o = *options;
    m->start_us = metrics_now_us(m);
    m->process_start_us = m->start_us - procfs_own_age_us();
    m->db_bytes = m->wal_bytes = -1;
    m->wait = (struct exposition_histogram)BOUNDS(wait_bounds);
    m->run = (struct exposition_histogram)BOUNDS(run_bounds);
    m->commit = (struct exposition_histogram)BOUNDS(commit_bounds);
    return m;
}

void
metrics_destroy(struct metrics **mp)
{
    struct metrics *m = *mp;

    if (m == NULL)
        return;
    while (m->jobs != NULL) {
        struct metrics_job *j = m->jobs;

        m->jobs = j->next;
        free(j);
    }
    free(m);
    *mp = NULL;
}

/* ---- jobs -----------------------------------------------------------------*/

void
metrics_jobs_found(struct metrics *m, enum job_state state, int64_t n)
{
    assert(job_state_is_final(state));
    m->final[state] += (uint64_t)n;
}

void
metrics_job_submitted(struct metrics *m)
{
    m->submitted++;
}

void
metrics_job_changed(struct metrics *m, const struct job *job)
{
    const struct view_job *view = &job->row.view;

    if (job->stored == JOB_STARTING)
        exposition_observe(
            &m->wait,
            fmax(0, (double)(metrics_now_us(m) - job->queued_us) / 1e6));
    if (!job_state_is_final(job->stored))
        return;
    m->final[job->stored]++;
    m->finished[job->stored]++;
    if (view->start_us > 0)
        exposition_observe(
            &m->run, fmax(0, (double)(view->end_us - view->start_us) / 1e6));
}

void
metrics_rollback(struct metrics *m, int64_t uid)
{
    m->rollbacks[uid < 0]++;
}

void
metrics_worker_started(struct metrics *m)
{
    m->starts++;
}

void
metrics_worker_ended(struct metrics *m, const struct job *job,
                     const struct obituary_facts *facts)
{
    m->exits[obituary_categorize(facts)]++;
    metrics_job_end(m, job);
}

/* ---- the database ---------------------------------------------------------*/

void
metrics_db_commit(void *ctx, const struct store_commit *commit)
{
    struct metrics *m = ctx;

    exposition_observe(&m->commit, commit->seconds);
    m->db_bytes = commit->db_bytes;
    m->wal_bytes = commit->wal_bytes;
}

static int
error_index(int code)
{
    return code <= 0 && code > -METRICS_ERRORS ? -code : -ERR_INTERNAL;
}

void
metrics_db_error(void *ctx, int code)
{
    struct metrics *m = ctx;

    m->db_errors[error_index(code)]++;
}

/* ---- those who ask --------------------------------------------------------*/

/* Whatever a client makes up is one word. */
static const char *
known_method(const char *method)
{
    static const char *const known[] = {"GET",    "POST", "PATCH",
                                        "DELETE", "PUT",  "OPTIONS"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(method, known[i]) == 0)
            return known[i];
    return "other";
}

/* The last place stands for all that have none. */
static struct metrics_request_kind *
find_kind(struct metrics *m, const char *route, const char *method, int status)
{
    struct metrics_request_kind *k = m->kinds;

    for (; k < m->kinds + m->n_kinds; k++)
        if (k->status == status && strcmp(k->method, method) == 0 &&
            strcmp(k->route, route) == 0)
            return k;
    if (m->n_kinds == METRICS_KINDS_MAX)
        return k - 1;
    *k = (struct metrics_request_kind){route, method, status, 0};
    m->n_kinds++;
    return k;
}

static struct metrics_route *
find_route(struct metrics *m, const char *route)
{
    struct metrics_route *r = m->routes;

    for (; r < m->routes + m->n_routes; r++)
        if (strcmp(r->route, route) == 0)
            return r;
    if (m->n_routes == METRICS_ROUTES_MAX)
        return r - 1;
    *r = (struct metrics_route){route, BOUNDS(http_bounds)};
    m->n_routes++;
    return r;
}

void
metrics_http_request(struct metrics *m, const char *route, const char *method,
                     int status, double seconds)
{
    find_kind(m, route, known_method(method), status)->n++;
    exposition_observe(&find_route(m, route)->seconds, seconds);
}

void
metrics_ctl_request(struct metrics *m, enum message_id message, int err_code)
{
    assert(message < MESSAGE_ID_COUNT);
    m->ctl[message][error_index(err_code)]++;
}
