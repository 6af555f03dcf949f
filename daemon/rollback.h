/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollback: how a job goes back, by a person or by a guard.
 *
 * A goal is set in the job's row when it is decided (with the order to stop,
 * or with what the worker's end means), and carried out when no worker is
 * left: then the row stands at the goal, and one record says so. Both are one
 * write, so that a daemon that dies in between does it once. Loop's thread.
 */
#ifndef DAEMON_ROLLBACK_H
#define DAEMON_ROLLBACK_H

#include "daemon/change.h"
#include "daemon/checkpoints.h"
#include "daemon/daemon.h"

/* What a worker's last event asks for: a copy of its own. */
struct rollback_wish {
    bool to_best;
    char *change; /* owned; NULL: none */
    double scale;
    int64_t *windows; /* owned */
    int n_windows;    /* numbers */
};
/* Of EVENT_FINISHED. */
void rollback_wish_keep(struct rollback_wish *wish, const struct event *event);
void rollback_wish_fini(struct rollback_wish *wish);

/* to NULL: the start. Nothing of it is written yet. */
void rollback_set_goal(struct job *job, const struct checkpoints_item *to,
                       const struct change *change);
/* It comes to nothing: the row is as before the goal was set. */
void rollback_forget_goal(struct job *job);
/* The job stands at its goal from now on. Out goes into the transition or the
 * update that says so; its strings live as long as *latest. */
struct spec_changes_entry;
void rollback_carry_out(struct job *job, struct spec_changes_entry *latest,
                        struct store_rollback *out);

/* What a guard's wish comes to, if it comes to something: where the job goes
 * back to, and what changes. */
struct rollback_plan {
    int rc; /* 0, or why not: why.msg */
    struct err why;
    bool from_start;
    struct checkpoints_item to;
    struct change change;
    int64_t max_rollbacks;
};
/* The plan is borrowed during the call; its job is still there. */
typedef void rollback_plan_fn(void *ctx, struct job *job,
                              const struct rollback_plan *plan);
/* A person's, when the worker has ended: is the goal still good? One that was
 * asked for as the last or the best one is chosen anew. rc ERR_CKPT: it is not. */
void rollback_check_goal(struct daemon *d, struct job *job,
                         rollback_plan_fn *done, void *ctx);
/* Asks the store for checkpoints; done comes later. Text: the guard's
 * sentence. */
void rollback_plan_make(struct daemon *d, struct job *job,
                        const struct rollback_wish *wish, const char *text,
                        rollback_plan_fn *done, void *ctx);

#endif
