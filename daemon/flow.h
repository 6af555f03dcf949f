/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow: what follows when something happens to a job.
 *
 * The only place where states, workers, devices, store and clients meet: a
 * person's orders, what workers report, how they end, and the queue. Every
 * step is committed before the next acts on it (ledger.h). Loop's thread.
 */
#ifndef DAEMON_FLOW_H
#define DAEMON_FLOW_H

#include "daemon/change.h"
#include "daemon/checkpoints.h"
#include "daemon/daemon.h"
#include "daemon/ledger.h"
#include "daemon/supervisor.h"

/* For ledger_create() and supervisor_create(); ctx is the daemon. */
extern const struct ledger_hooks flow_ledger_hooks;
extern const struct supervisor_hooks flow_supervisor_hooks;

/* The queue is looked at in a moment. */
void flow_schedule_soon(struct daemon *d);
void flow_init(struct daemon *d);

/* A person's orders. 0: it is under way, or done already; else a sentence.
 * uid: who asks. */
int flow_pause(struct daemon *d, struct job *job, int64_t uid, struct err *err);
int flow_resume(struct daemon *d, struct job *job, int64_t uid,
                struct err *err);
int flow_cancel(struct daemon *d, struct job *job, int64_t uid,
                const char *reason, struct err *err);
int flow_checkpoint(struct daemon *d, struct job *job, struct err *err);
/* to NULL: the start. */
int flow_rollback(struct daemon *d, struct job *job, int64_t uid,
                  const struct checkpoints_item *to, const struct change *with,
                  struct err *err);

/* An attempt has said that it has begun: what was kept for it is used up. */
void flow_started(struct job *job);
/* There is a checkpoint of it: a loss scale that was set is kept in that, and
 * no further attempt begins with it. */
void flow_checkpointed(struct job *job);

/* How an attempt ended: by a worker of ours, or found at a restart. */
struct flow_end {
    struct obituary_facts facts; /* strings are borrowed during the call */
    bool progress;
    bool shutdown; /* the daemon was or is going down */
    bool requeue;
};
void flow_attempt_ended(struct daemon *d, struct job *job,
                        const struct flow_end *end);

/* The daemon goes down: no more starts, every worker checkpoints and stops. */
void flow_drain(struct daemon *d);
/* Somebody is in a hurry: no checkpoints; a second time: SIGKILL. */
void flow_hurry(struct daemon *d, bool kill);

#endif
