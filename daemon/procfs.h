/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfs: who a process is, read from /proc.
 *
 * A pid alone is no identity: it is reused. (pid, start ticks, boot id) is
 * one. Reads only; keeps nothing. A process that vanishes in between counts
 * as not there.
 */
#ifndef DAEMON_PROCFS_H
#define DAEMON_PROCFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCFS_BOOT_ID_MAX 40

/* "" when the kernel does not tell. */
void procfs_boot_id(char out[PROCFS_BOOT_ID_MAX]);

struct procfs_stat {
    pid_t pid, ppid, pgrp, session;
    int64_t start_ticks;
    char state; /* 'R', 'S', 'D', 'Z', ... */
};
bool procfs_stat(pid_t pid, struct procfs_stat *out);

/* The clock that start_ticks is read from. */
int64_t procfs_now_ticks(void);

/* What this process has used so far; -1, and NaN: the kernel does not tell. */
struct procfs_usage {
    double cpu_seconds;
    int64_t open_fds, virtual_bytes, resident_bytes;
};
void procfs_own_usage(struct procfs_usage *out);
/* How long ago this process began; 0: unknown. */
int64_t procfs_own_age_us(void);

/* Is this very process still there (a zombie is not)? */
bool procfs_is_alive(pid_t pid, int64_t start_ticks);

/* Does the process's environment hold this NAME=value? */
bool procfs_has_env(pid_t pid, const char *assignment);

/* Calls fn for every process there is. */
typedef void procfs_fn(void *ctx, const struct procfs_stat *stat);
void procfs_each(procfs_fn *fn, void *ctx);

#endif
