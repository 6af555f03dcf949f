/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/device.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* The n-th processor that this process may use, counted round. */
static int
nth_cpu(const cpu_set_t *set, int n)
{
    int count = CPU_COUNT(set), seen = 0;

    if (count == 0)
        return 0;
    n %= count;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, set) && seen++ == n)
            return i;
    return 0;
}

static void
assign_cpus(struct device *d, int slot, int threads)
{
    cpu_set_t set;
    size_t len = 0;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0 ||
        threads >= CPU_COUNT(&set))
        return;
    for (int i = 0; i < threads && len + 8 < sizeof(d->cpus); i++)
        len += (size_t)snprintf(d->cpus + len, sizeof(d->cpus) - len, "%s%d",
                                i > 0 ? "," : "",
                                nth_cpu(&set, slot * threads + i));
}

void
device_init(struct devices *devices, int slots, int threads)
{
    assert(slots > 0 && slots <= DEVICE_MAX);
    memset(devices, 0, sizeof(*devices));
    devices->n = slots;
    for (int i = 0; i < slots; i++) {
        struct device *d = &devices->v[i];

        snprintf(d->name, sizeof(d->name), "cpu%d", i);
        d->kind = "cpu";
        if (threads > 0)
            assign_cpus(d, i, threads);
    }
}

void
device_lease(struct devices *devices, int i, int64_t job)
{
    assert(i >= 0 && i < devices->n && job > 0);
    assert(devices->v[i].job == 0);
    devices->v[i].job = job;
}

void
device_release(struct devices *devices, int64_t job)
{
    for (int i = 0; i < devices->n; i++)
        if (devices->v[i].job == job)
            devices->v[i].job = 0;
}

void
device_list(const struct devices *devices, struct schedule_device *out)
{
    for (int i = 0; i < devices->n; i++)
        out[i] = (struct schedule_device){
            devices->v[i].name, devices->v[i].kind, devices->v[i].job};
}
