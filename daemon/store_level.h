/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_level: the coarser levels of a job's metrics, as they are written.
 *
 * Level 0 is table metric, one row an iteration. A row of level l in table
 * metric_level stands for the iterations of one attempt, on one line, within
 * one bucket: 16^l consecutive iterations. It is written when its bucket is
 * full, out of the rows of level l - 1. An attempt that ends amid a bucket
 * leaves its part to be written when the next attempt starts; until then
 * readers take that part from finer levels. When a line is cut amid a bucket,
 * the bucket is written anew: live and abandoned parts are rows of their own.
 *
 * Old rows of level l go as their number passes a bound; table metric_gone
 * says up to which iteration, always a multiple of 16^(l + 1): of the live
 * line, which a rollback shortens, and of abandoned ones. Buckets with a
 * checkpoint that one may still go back to are kept, so that lines can be cut
 * there exactly.
 *
 * Called on the writer's thread inside an op. Private to daemon/store_*.c.
 */
#ifndef DAEMON_STORE_LEVEL_H
#define DAEMON_STORE_LEVEL_H

#include "daemon/store_private.h"

#define STORE_LEVELS 7 /* 16^7 is 268 million iterations */
#define STORE_BUCKET 16

/* Iterations of a bucket of level l. */
int64_t store_level_width(int level);

/* Columns of metric as a view_metric; the columns' order is fixed. */
#define STORE_METRIC_COLUMNS                                                   \
    "id, iteration, updates, attempt, live, skipped, loss, loss_flag,"         \
    " grad_norm, grad_norm_flag, lr, scale, samples, step_us, t_us"
#define STORE_LEVEL_COLUMNS                                                    \
    "id, last, updates, attempt, live, n_skipped, loss, loss_flag, grad_norm," \
    " grad_norm_flag, lr, scale, samples, step_us, t_us, first, n, n_bad,"     \
    " n_bad_norm, loss_min, loss_max, grad_norm_min, grad_norm_max,"           \
    " scale_min, scale_max"
/* Reads either; level 0: of metric. Rows of other levels get negative row
 * numbers. */
void store_level_read(sqlite3_stmt *s, int level, struct view_metric *v);

/* An iteration of an attempt has its row: the buckets that it fills are
 * written, and old rows go. keep: rows of each level, 0 = all. */
bool store_level_step(struct store_op *op, struct store_conn *conn, int64_t job,
                      int64_t attempt, int64_t iteration, int64_t keep);
/* The buckets with iteration `at` in them are written anew, at all levels. */
bool store_level_settle(struct store_op *op, struct store_conn *conn,
                        int64_t job, int64_t at);

/* Rows beyond `iteration` of attempts before `attempt` leave the live line;
 * rows of one up to there join it. What straddles is settled afterwards. */
bool store_level_abandon(struct store_op *op, struct store_conn *conn,
                         int64_t job, int64_t attempt, int64_t iteration);
bool store_level_revive(struct store_op *op, struct store_conn *conn,
                        int64_t job, int64_t attempt, int64_t iteration);

/* Up to which iteration rows of each level are gone; 0 = none. */
struct store_gone {
    int64_t live[STORE_LEVELS + 1], abandoned[STORE_LEVELS + 1];
};
bool store_level_gone(struct store_op *op, struct store_conn *conn, int64_t job,
                      struct store_gone *gone);
/* An attempt goes on from `iteration`; switched: of a line that was abandoned
 * before. */
bool store_level_cut(struct store_op *op, struct store_conn *conn, int64_t job,
                     int64_t iteration, bool switched);

/* Writes all levels of all jobs, for a store that had none: a migration. */
int store_level_build_all(struct store_conn *conn, struct err *err);

#endif
