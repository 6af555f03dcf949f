/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job: a job that is not final, in memory, and the one door to its states.
 *
 * The table of jobs is owned by main's struct daemon and lives on the loop's
 * thread. job_transition() is the only way to another state: it checks the
 * table of edges (job_states.def), writes row and event through the store
 * before anything acts on the new state, logs one line and tells subscribers.
 * Leaves processes and sockets to supervisor.c and control.c.
 */
#ifndef DAEMON_JOB_H
#define DAEMON_JOB_H

#include "daemon/store.h"

enum job_state {
#define STATE(id, name, final, doc) JOB_##id,
#define EDGE(from, to, why)
#include "daemon/job_states.def"
#undef STATE
#undef EDGE
    JOB_STATE_COUNT
};

const char *job_state_name(enum job_state state);
enum job_state job_state_parse(const char *name); /* JOB_STATE_COUNT: none */
bool job_state_is_final(enum job_state state);
bool job_edge_is_legal(enum job_state from, enum job_state to);

#endif
