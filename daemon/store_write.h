/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write: rows that more than one of the store's files writes.
 *
 * Called on the writer's thread inside an op. Private to daemon/store_*.c.
 */
#ifndef DAEMON_STORE_WRITE_H
#define DAEMON_STORE_WRITE_H

#include "daemon/store_private.h"

/* Appends to table event; uid -1 is the daemon. false: op->rc says why. */
bool store_write_event(struct store_op *op, struct store_conn *conn,
                       int64_t job, int64_t attempt, int64_t uid,
                       const char *kind, const char *text);

/* One row of table checkpoint, unless its name is there already. */
bool store_write_checkpoint(struct store_op *op, struct store_conn *conn,
                            const struct view_checkpoint *c);

/* store_incident.c: rows of an attempt's events. */
bool store_write_incident(struct store_op *op, struct store_conn *conn,
                          int64_t job, int64_t attempt, const struct event *e);
bool store_write_guard(struct store_op *op, struct store_conn *conn,
                       int64_t job, int64_t attempt, const struct event *e);
/* What was kept on disk is not there any more. */
bool store_forget_incident(struct store_op *op, struct store_conn *conn,
                           int64_t job, const char *name);

/* store_line.c: an attempt begins at `iteration` of the checkpoint named `from`
 * ("": at the start): rows join and leave the live line, at all levels. */
bool store_line_set(struct store_op *op, struct store_conn *conn, int64_t job,
                    int64_t attempt, const char *from, int64_t iteration);

/* store_best.c: marks the best good checkpoint of the live line by the job's
 * own rule, and no other. A job without such a rule keeps its marks. */
bool store_choose_best(struct store_op *op, struct store_conn *conn,
                       int64_t job);

#endif
