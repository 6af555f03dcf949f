/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_plan: what an attempt is told to begin with.
 *
 * Asks the store for the job's checkpoints and makes of them the lists of the
 * start frame: which to resume from, newest first (after a rollback exactly
 * the one that was named, and never from scratch, or from scratch alone), which
 * count for retention, and the best one; and the spec with the job's changes.
 * Owns the names. Loop's thread.
 */
#ifndef DAEMON_START_PLAN_H
#define DAEMON_START_PLAN_H

#include "daemon/checkpoints.h"
#include "daemon/job.h"

struct start_plan;

struct start_plan *start_plan_create(void);
void start_plan_destroy(struct start_plan **plan);

/* rc ERR_CKPT: the rollback's target is gone. */
typedef void start_plan_fn(void *ctx, int rc, const struct err *err);
void start_plan_make(struct start_plan *plan, struct store *store,
                     const struct job *job, start_plan_fn *done, void *ctx);

/* The spec and the windows that the job's changes come to; part of make. */
void start_plan_read(struct start_plan *plan, const struct job *job);

/* The pure part: lists out of rows. target 0 = no rollback, STORE_FROM_START =
 * none of them; smaller: of two
 * metrics the smaller is better. */
int start_plan_choose(struct start_plan *plan, const struct checkpoints *list,
                      int64_t target, bool smaller, struct err *err);

/* Strings are borrowed from plan and job. */
void start_plan_fill(const struct start_plan *plan, const struct job *job,
                     const char *directory, const char *device,
                     struct view_start *out);

#endif
