/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reap: makes sure that nothing of a dead worker runs on.
 *
 * A worker is the leader of its session and carries a mark in its environment
 * (the attempt's directory), which its children inherit wherever they go. What
 * is in the session, in the process group, or bears the mark is killed; the
 * daemon is a subreaper (reap_adopt_orphans()), so that orphans come to it and
 * not to init. Bounded work on each call: the caller calls again until it says
 * 0.
 */
#ifndef DAEMON_REAP_H
#define DAEMON_REAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define REAP_MARK "TRAIND_ATTEMPT"

void reap_adopt_orphans(void);

/* Sends the signal to the worker and its process group. */
void reap_signal(pid_t leader, int signal);

/* Children that a process handle waits for: never collected here. */
typedef bool reap_known_fn(void *ctx, pid_t pid);

/* Kills what is left and collects dead orphans; how many live ones there were
 * still. In the leader's session: what began no later than ended_ticks, for
 * the leader's number may be another's by now (leader 0: no session). With
 * the mark "TRAIND_ATTEMPT=dir": everything. */
int reap_sweep(pid_t leader, int64_t ended_ticks, const char *attempt_dir,
               reap_known_fn *known, void *ctx);

#endif
