/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs: the table of jobs that are not final, by number.
 *
 * Owns the jobs in it. Final ones live in the store only; a job leaves when
 * its last write is committed. Loop's thread.
 */
#ifndef DAEMON_JOBS_H
#define DAEMON_JOBS_H

#include "daemon/job.h"

struct jobs {
    struct job **v; /* owned, ascending ids */
    int n, cap;
};

/* The job is the table's from then on. Ids mostly ascend. */
bool jobs_add_take(struct jobs *jobs, struct job *job);
struct job *jobs_find(const struct jobs *jobs, int64_t id);
/* Removes and destroys it. */
void jobs_remove(struct jobs *jobs, struct job *job);
int jobs_count(const struct jobs *jobs, enum job_state stored);
void jobs_fini(struct jobs *jobs);

#endif
