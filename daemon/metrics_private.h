/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_private: the registry as its own files see it.
 *
 * metrics.c is told and counts, metrics_job.c does so for running jobs,
 * metrics_render.c writes everything out. Included by these only.
 */
#ifndef DAEMON_METRICS_PRIVATE_H
#define DAEMON_METRICS_PRIVATE_H

#include "daemon/exposition.h"
#include "daemon/metrics.h"

enum metrics_id {
#define METRIC(id, type, unit, labels, name, help) METRICS_ID_##id,
#include "daemon/metrics.def"
#undef METRIC
    METRICS_ID_COUNT
};
extern const struct exposition_family metrics_families[METRICS_ID_COUNT];

#define METRICS_VERDICTS   (EVENT_VERDICT_OPTIMIZER + 1)
#define METRICS_ACTIONS    (EVENT_ACTION_ROLLBACK + 1)
#define METRICS_ERRORS     64 /* above every number in errors.def */
#define METRICS_ROUTES_MAX 64
#define METRICS_KINDS_MAX  512 /* of HTTP requests */

/* A job whose worker trains; made by the event that says so. */
struct metrics_job {
    struct metrics_job *next;
    const struct job *job; /* borrowed until it ends */
    char id[24];
    int64_t start_us, progress_us, checkpoint_us; /* 0: not yet */
    int64_t at_updates, at_skips;                 /* of its last event */
    int64_t unexplained; /* skips that no incident has told of */
    double scale_floor;  /* NaN: none */
    uint64_t updates, skips, samples, growths, backoffs, failures;
    uint64_t incidents[METRICS_VERDICTS];
};

struct metrics_request_kind {
    const char *route, *method; /* constants */
    int status;
    uint64_t n;
};
struct metrics_route {
    const char *route; /* constant */
    struct exposition_histogram seconds;
};

struct metrics {
    struct metrics_options o;
    int64_t start_us, process_start_us;
    struct metrics_job *jobs; /* owned, ascending ids */
    /* the queue */
    uint64_t final[JOB_STATE_COUNT]; /* in the database */
    uint64_t finished[JOB_STATE_COUNT], submitted;
    struct exposition_histogram wait, run;
    uint64_t starts, exits[OBITUARY_CATEGORY_COUNT];
    /* training */
    uint64_t updates, samples, growths, backoffs, checkpoints, failures;
    uint64_t skipped[METRICS_VERDICTS], incidents[METRICS_VERDICTS];
    uint64_t guards[METRICS_ACTIONS], rollbacks[2]; /* person, guard */
    /* the database */
    int64_t db_bytes, wal_bytes; /* -1: unknown */
    struct exposition_histogram commit;
    uint64_t db_errors[METRICS_ERRORS];
    /* those who ask */
    struct metrics_request_kind kinds[METRICS_KINDS_MAX];
    struct metrics_route routes[METRICS_ROUTES_MAX];
    int n_kinds, n_routes;
    uint64_t ctl[MESSAGE_ID_COUNT][METRICS_ERRORS];
};

int64_t metrics_now_us(const struct metrics *m);
/* "none" where the diagnosis has no word. */
const char *metrics_verdict_name(int verdict);
void metrics_job_end(struct metrics *m, const struct job *job);
void metrics_job_render(const struct metrics *m, struct exposition *e);

#endif
