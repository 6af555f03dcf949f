/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct turn {
    const struct schedule_job *job;
    int index;
};

static int
compare_turns(const void *a, const void *b)
{
    const struct schedule_job *x = ((const struct turn *)a)->job;
    const struct schedule_job *y = ((const struct turn *)b)->job;

    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int
find_free(const char *kind, const struct schedule_device *devices, int n,
          const bool *taken)
{
    for (int i = 0; i < n; i++)
        if (devices[i].job == 0 && !taken[i] &&
            strcmp(devices[i].kind, kind) == 0)
            return i;
    return -1;
}

/* Who holds the devices of a kind: "cpu0 is held by job 3". */
static void
describe_holders(const char *kind, const struct schedule_device *devices, int n,
                 char *out, size_t size)
{
    const char *first = "";
    int of_kind = 0, held = 0;
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (strcmp(devices[i].kind, kind) != 0)
            continue;
        if (of_kind++ == 0)
            first = devices[i].name;
        if (devices[i].job == 0)
            continue;
        if (++held <= 2)
            len += (size_t)snprintf(
                out + len, size - len, "%s%s is held by job %" PRId64,
                held > 1 ? ", " : "", devices[i].name, devices[i].job);
    }
    if (of_kind == 0)
        snprintf(out, size, "there is no device of kind %.32s", kind);
    else if (held == 0)
        snprintf(out, size, "%s is taken by a job ahead", first);
    else if (held > 2)
        snprintf(out + len, size - len, " and %d more are held", held - 2);
}

static void
explain_wait(int ahead, const char *holders, char *reason)
{
    if (ahead == 0)
        snprintf(reason, SCHEDULE_REASON_MAX, "next; %s", holders);
    else
        snprintf(reason, SCHEDULE_REASON_MAX, "%d job%s ahead; %s", ahead,
                 ahead == 1 ? "" : "s", holders);
}

static void
choose(const struct turn *turns, int n_jobs,
       const struct schedule_device *devices, int n_devices, bool draining,
       bool *taken, struct schedule_choice *choices)
{
    int ahead = 0;

    for (int i = 0; i < n_jobs; i++) {
        const struct schedule_job *job = turns[i].job;
        struct schedule_choice *c = &choices[turns[i].index];
        char holders[SCHEDULE_REASON_MAX - 32];
        int free;

        c->device = -1;
        c->reason[0] = '\0';
        if (draining) {
            snprintf(c->reason, sizeof(c->reason),
                     "the daemon is going down; it starts no job");
            continue;
        }
        free = find_free(job->kind, devices, n_devices, taken);
        if (free >= 0)
            taken[free] = true;
        if (job->not_before_ms > 0) {
            snprintf(c->reason, sizeof(c->reason),
                     "its worker died; it starts again in %.1f s",
                     (double)job->not_before_ms / 1000);
            ahead++;
            continue;
        }
        c->device = free;
        if (free >= 0)
            continue;
        describe_holders(job->kind, devices, n_devices, holders,
                         sizeof(holders));
        explain_wait(ahead++, holders, c->reason);
    }
}

bool
schedule_run(const struct schedule_job *jobs, int n_jobs,
             const struct schedule_device *devices, int n_devices,
             bool draining, struct schedule_choice *choices)
{
    struct turn *turns = calloc((size_t)n_jobs + 1, sizeof(*turns));
    bool *taken = calloc((size_t)n_devices + 1, sizeof(*taken));
    bool ok = turns != NULL && taken != NULL;

    if (ok) {
        for (int i = 0; i < n_jobs; i++)
            turns[i] = (struct turn){&jobs[i], i};
        qsort(turns, (size_t)n_jobs, sizeof(*turns), compare_turns);
        choose(turns, n_jobs, devices, n_devices, draining, taken, choices);
    }
    free(turns);
    free(taken);
    return ok;
}
