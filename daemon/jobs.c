/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first job whose id is not below `id`. */
static int
lower_bound(const struct jobs *jobs, int64_t id)
{
    int low = 0, high = jobs->n;

    while (low < high) {
        int mid = low + (high - low) / 2;

        if (jobs->v[mid]->row.view.id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool
jobs_add_take(struct jobs *jobs, struct job *job)
{
    int at = lower_bound(jobs, job->row.view.id);

    if (jobs->n == jobs->cap) {
        int cap = jobs->cap == 0 ? 64 : jobs->cap * 2;
        struct job **v = realloc(jobs->v, (size_t)cap * sizeof(struct job *));

        if (v == NULL) {
            job_destroy(&job);
            return false;
        }
        jobs->v = v;
        jobs->cap = cap;
    }
    assert(at == jobs->n || jobs->v[at]->row.view.id != job->row.view.id);
    memmove(jobs->v + at + 1, jobs->v + at,
            (size_t)(jobs->n - at) * sizeof(struct job *));
    jobs->v[at] = job;
    jobs->n++;
    return true;
}

struct job *
jobs_find(const struct jobs *jobs, int64_t id)
{
    int at = lower_bound(jobs, id);

    return at < jobs->n && jobs->v[at]->row.view.id == id ? jobs->v[at] : NULL;
}

void
jobs_remove(struct jobs *jobs, struct job *job)
{
    int at = lower_bound(jobs, job->row.view.id);

    assert(at < jobs->n && jobs->v[at] == job);
    memmove(jobs->v + at, jobs->v + at + 1,
            (size_t)(jobs->n - at - 1) * sizeof(struct job *));
    jobs->n--;
    job_destroy(&job);
}

int
jobs_count(const struct jobs *jobs, enum job_state stored)
{
    int n = 0;

    for (int i = 0; i < jobs->n; i++)
        n += jobs->v[i]->stored == stored;
    return n;
}

void
jobs_fini(struct jobs *jobs)
{
    for (int i = 0; i < jobs->n; i++)
        job_destroy(&jobs->v[i]);
    free(jobs->v);
    memset(jobs, 0, sizeof(*jobs));
}
