/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule: which queued job gets which device.
 *
 * A pure function of two lists: higher priority first, then the lower number,
 * each the first free device of its kind. A job that waits gets a sentence
 * that says for what. Nobody overtakes a job that could use the same device:
 * one that may not start yet (its worker died a moment ago) keeps its place,
 * and the device with it.
 */
#ifndef DAEMON_SCHEDULE_H
#define DAEMON_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_REASON_MAX 160

struct schedule_job {
    int64_t id, priority;
    const char *kind;      /* of device */
    int64_t not_before_ms; /* how long it must still wait; 0 = not at all */
};
struct schedule_device {
    const char *name, *kind;
    int64_t job; /* 0 = free */
};
struct schedule_choice {
    int device; /* index, -1: waits */
    char reason[SCHEDULE_REASON_MAX];
};

/* choices has one element for each job, in the order of jobs. draining: no
 * job starts. false: no memory, nothing was chosen. */
bool schedule_run(const struct schedule_job *jobs, int n_jobs,
                  const struct schedule_device *devices, int n_devices,
                  bool draining, struct schedule_choice *choices);

#endif
