/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device: what jobs run on, and who holds it.
 *
 * Here: slots of the processors ("cpu0", "cpu1", ...), each with its share of
 * them. A lease goes with a worker from before it starts until nothing of it
 * is left. Never opens a device. Owned by struct daemon.
 */
#ifndef DAEMON_DEVICE_H
#define DAEMON_DEVICE_H

#include "daemon/schedule.h"

#define DEVICE_MAX 64

struct device {
    char name[16];
    const char *kind;
    int64_t job;    /* 0 = free */
    char cpus[256]; /* "0,1,5": processors to bind to; "" = all */
};
struct devices {
    struct device v[DEVICE_MAX];
    int n;
};

/* `slots` slots of `threads` processors each (0: all of them, shared). More
 * than there are: slots share, in turn. */
void device_init(struct devices *devices, int slots, int threads);
void device_lease(struct devices *devices, int i, int64_t job);
/* Gives back what the job holds, if anything. */
void device_release(struct devices *devices, int64_t job);
/* The view that schedule_run() takes. */
void device_list(const struct devices *devices, struct schedule_device *out);

#endif
