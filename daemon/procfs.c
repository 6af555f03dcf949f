/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The environment of a process that is looked for; ours is near its start. */
#define ENV_MAX_BYTES (128 * 1024)

static ssize_t
read_file(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    if (fd < 0)
        return -1;
    while (n < size - 1 && (got = read(fd, buf + n, size - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    buf[n] = '\0';
    return (ssize_t)n;
}

void
procfs_boot_id(char out[PROCFS_BOOT_ID_MAX])
{
    if (read_file("/proc/sys/kernel/random/boot_id", out, PROCFS_BOOT_ID_MAX) <
        0)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

bool
procfs_stat(pid_t pid, struct procfs_stat *out)
{
    char path[64], buf[1024];
    const char *rest;
    int ppid, pgrp, session;
    long long ticks;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (read_file(path, buf, sizeof(buf)) <= 0)
        return false;
    /* The name, in parentheses, may hold anything; the last ')' ends it. */
    rest = strrchr(buf, ')');
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
               "%*d %*d %*d %lld",
               &out->state, &ppid, &pgrp, &session, &ticks) != 5)
        return false;
    out->pid = pid;
    out->ppid = ppid;
    out->pgrp = pgrp;
    out->session = session;
    out->start_ticks = ticks;
    return true;
}

int64_t
procfs_now_ticks(void)
{
    struct timespec t;
    long hz = sysconf(_SC_CLK_TCK);

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * hz + t.tv_nsec / (1000000000 / hz);
}

/* ---- this process ---------------------------------------------------------*/

static int64_t
count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int64_t n = -1; /* the one that counts them */

    if (dir == NULL)
        return -1;
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

void
procfs_own_usage(struct procfs_usage *out)
{
    struct timespec cpu;
    int64_t pages, resident;
    char buf[256];

    *out = (struct procfs_usage){.cpu_seconds = (double)NAN,
                                 .open_fds = count_fds(),
                                 .virtual_bytes = -1,
                                 .resident_bytes = -1};
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0)
        out->cpu_seconds = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    if (read_file("/proc/self/statm", buf, sizeof(buf)) > 0 &&
        sscanf(buf, "%" SCNd64 " %" SCNd64, &pages, &resident) == 2) {
        out->virtual_bytes = pages * sysconf(_SC_PAGESIZE);
        out->resident_bytes = resident * sysconf(_SC_PAGESIZE);
    }
}

int64_t
procfs_own_age_us(void)
{
    struct procfs_stat st;
    const int64_t hz = sysconf(_SC_CLK_TCK);

    if (!procfs_stat(getpid(), &st))
        return 0;
    return (procfs_now_ticks() - st.start_ticks) * (1000000 / hz);
}

/* ---- others ---------------------------------------------------------------*/

bool
procfs_is_alive(pid_t pid, int64_t start_ticks)
{
    struct procfs_stat st;

    return pid > 0 && procfs_stat(pid, &st) && st.start_ticks == start_ticks &&
           st.state != 'Z' && st.state != 'X';
}

bool
procfs_has_env(pid_t pid, const char *assignment)
{
    size_t want = strlen(assignment) + 1;
    char *buf = malloc(ENV_MAX_BYTES);
    bool found = false;
    char path[64];
    ssize_t n;

    if (buf == NULL)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    n = read_file(path, buf, ENV_MAX_BYTES);
    for (ssize_t i = 0; i < n && !found; i += (ssize_t)strlen(buf + i) + 1)
        found = strlen(buf + i) + 1 == want &&
                memcmp(buf + i, assignment, want) == 0;
    free(buf);
    return found;
}

void
procfs_each(procfs_fn *fn, void *ctx)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    struct procfs_stat st;

    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) &&
            procfs_stat((pid_t)atol(entry->d_name), &st))
            fn(ctx, &st);
    closedir(dir);
}
