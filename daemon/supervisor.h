/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor: worker processes, one per attempt, from start to obituary.
 *
 * Owns the processes, their sockets, their events files and their end. It is
 * told to launch, to stop, to pass an order on; it tells, through its hooks,
 * what a worker's stored events say and how the worker ended, once nothing of
 * it is left and every event of it is stored. What becomes of the job is
 * flow.c's business. Silence is noticed by heartbeats; progress is another
 * matter and never a reason to kill. Loop's thread.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/device.h"
#include "daemon/job.h"
#include "daemon/obituary.h"

struct supervisor;
struct worker;

struct supervisor_options {
    uv_loop_t *loop;
    struct store *store;
    const char *exec_path, *worker_path; /* borrowed for good */
    const char *boot_id;
    int64_t stop_grace_ms, kill_grace_ms, heartbeat_timeout_ms;
    int64_t log_piece_bytes;
    int log_pieces;
};
struct supervisor_hooks {
    /* There is a process for the job's attempt. */
    void (*started)(void *ctx, struct job *job);
    /* A stored event of the running attempt. */
    void (*event)(void *ctx, struct job *job, const struct event *event);
    /* The attempt is over: job->worker is NULL again. progress: it made a
     * checkpoint. */
    void (*ended)(void *ctx, struct job *job,
                  const struct obituary_facts *facts, bool progress);
    void *ctx;
};

struct supervisor *supervisor_create(const struct supervisor_options *options,
                                     const struct supervisor_hooks *hooks);
/* Only without workers. */
void supervisor_destroy(struct supervisor **supervisor);

/* A worker for the job's attempt (row.view.attempt), not yet started; sets
 * job->worker. NULL: no memory. */
struct worker *supervisor_prepare(struct supervisor *supervisor,
                                  struct job *job, const struct device *device);
/* The decision to start it is committed: start it. */
void supervisor_launch(struct worker *worker);

/* Orders it to stop: abandon or (checkpoint and) stop, then signals, each
 * after its grace. A later call can only make it harder. */
void supervisor_stop(struct worker *worker, bool abandon);
/* Ends it at once, for a reason that goes into the obituary. */
void supervisor_kill(struct worker *worker, const char *why);
/* Passes an order on; false: the worker is not there to hear it. */
bool supervisor_order(struct worker *worker, const char *order);

int supervisor_count(const struct supervisor *supervisor);
/* Those of them of which a process may still live; the others only wait for
 * the store. */
int supervisor_count_alive(const struct supervisor *supervisor);

/* Is this one of our children with a process handle? (reap_known_fn) */
bool supervisor_knows(void *supervisor, pid_t pid);

#endif
