/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics: the figures of the daemon, for those who watch many of them.
 *
 * Owns the counters behind metrics.def. It is told: one call where something
 * happens, which only adds. What others hold anyway (the table of jobs, open
 * connections) it looks at through one callback when a scrape comes. Nothing
 * is asked of the database and nothing blocks. Loop's thread.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "daemon/jobs.h"
#include "daemon/obituary.h"

struct metrics; /* the registry */

/* What is looked at when a scrape comes. */
struct metrics_live {
    const struct jobs *jobs; /* NULL: none yet */
    int db_backlog, ctl_clients, http_connections;
    int64_t events_dropped;
    int64_t free_bytes, size_bytes; /* of the state directory; -1: unknown */
};
typedef void metrics_look_fn(void *ctx, struct metrics_live *out);
struct metrics_options {
    metrics_look_fn *look;
    void *ctx;
    int64_t (*wall_us)(void); /* NULL: the real clock */
};
/* NULL: no memory. */
struct metrics *metrics_create(const struct metrics_options *options);
void metrics_destroy(struct metrics **m);

enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS };
/* Whole exposition in one malloc'd text. NULL: no memory. */
char *metrics_render(struct metrics *m, enum metrics_format format,
                     size_t *len);

/* ---- what it is told ------------------------------------------------------*/

/* Final jobs that the database held at the start. */
void metrics_jobs_found(struct metrics *m, enum job_state state, int64_t n);
void metrics_job_submitted(struct metrics *m);
/* Committed; job->stored is the new state. */
void metrics_job_changed(struct metrics *m, const struct job *job);
/* A stored event of a running attempt, after the job took it in. With its
 * start the job's own figures begin; it is borrowed until they end. */
void metrics_job_event(struct metrics *m, const struct job *job,
                       const struct event *event);
/* uid: who asked; -1: a guard. */
void metrics_rollback(struct metrics *m, int64_t uid);

void metrics_worker_started(struct metrics *m);
/* The attempt is over: the job's own figures end. */
void metrics_worker_ended(struct metrics *m, const struct job *job,
                          const struct obituary_facts *facts);

/* metrics_db_commit() is a store_commit_fn, metrics_db_error() a
 * store_trouble_fn; ctx: the registry. */
void metrics_db_commit(void *ctx, const struct store_commit *commit);
void metrics_db_error(void *ctx, int code);

/* One request. route is the pattern ("/v1/jobs/{id}"), a constant, never the
 * URL; status 0: the client left before it was answered. */
void metrics_http_request(struct metrics *m, const char *route,
                          const char *method, int status, double seconds);
/* err_code 0: it was answered. */
void metrics_ctl_request(struct metrics *m, enum message_id message,
                         int err_code);

#endif
