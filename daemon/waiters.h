/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiters: requests that are answered when something has happened to a job.
 *
 * Owns them until then; a client that goes takes its own away. Called by
 * flow.c on every committed change and stored event. Starts nothing itself.
 */
#ifndef DAEMON_WAITERS_H
#define DAEMON_WAITERS_H

#include "daemon/job.h"
#include "daemon/request.h"

enum waiters_kind {
    WAITERS_UNTIL,      /* the state `until`, or final */
    WAITERS_PAUSED,     /* paused, or final */
    WAITERS_CHECKPOINT, /* a checkpoint on demand, or the end of running */
    WAITERS_ROLLBACK    /* queued again */
};

struct waiter;
struct waiters {
    struct waiter *head; /* owned */
};

struct waiters_ask {
    enum waiters_kind kind;
    int64_t job;
    enum job_state until;
    struct view_rolled_back rolled_back; /* its strings are copied */
};

/* The request waits from now on. */
void waiters_add(struct waiters *waiters, const struct waiters_ask *ask,
                 struct request *request);
/* Is somebody waiting for a checkpoint of this job? */
bool waiters_want_checkpoint(const struct waiters *waiters, int64_t job);

void waiters_changed(struct waiters *waiters, const struct job *job);
void waiters_event(struct waiters *waiters, struct store *store,
                   const struct job *job, const struct event *event);
/* The daemon goes down: everybody is told to try again. */
void waiters_fini(struct waiters *waiters);

#endif
