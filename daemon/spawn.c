/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/reap.h"

#define MAX_ENV 4096

extern char **environ;

/* Never for a worker: what speaks for the daemon. */
static const char *const never[] = {
    "NOTIFY_SOCKET=",  "WATCHDOG_",      "LISTEN_",
    "JOURNAL_STREAM=", "INVOCATION_ID=", REAP_MARK "="};
/* With another user's rights: only these. */
static const char *const harmless[] = {
    "PATH=", "LANG=", "LC_",   "TZ=",           "OMP_",
    "DNNL_", "GOMP_", "ASAN_", "UBSAN_OPTIONS", "TRAIND_FAILPOINT="};

static bool
begins_with_one(const char *s, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(s, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Borrowed strings but for the last ones, which live in `own`. */
static void
fill_env(const struct spawn_args *a, const char **env, char own[3][2200])
{
    int n = 0;

    for (char **e = environ; *e != NULL && n < MAX_ENV - 5; e++)
        if (!begins_with_one(*e, never, sizeof(never) / sizeof(never[0])) &&
            (!a->change_user ||
             begins_with_one(*e, harmless,
                             sizeof(harmless) / sizeof(harmless[0]))))
            env[n++] = *e;
    snprintf(own[0], sizeof(own[0]), REAP_MARK "=%s", a->attempt_dir);
    env[n++] = own[0];
    if (a->change_user) {
        snprintf(own[1], sizeof(own[1]), "USER=%s", a->user);
        snprintf(own[2], sizeof(own[2]), "LOGNAME=%s", a->user);
        env[n++] = own[1];
        env[n++] = own[2];
    }
    env[n] = NULL;
}

static int
make_channels(int link[2], int status[2], struct err *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   link) != 0)
        return err_set_errno(err, ERR_IO, errno, "socketpair");
    /* The worker reads and writes as it likes: blocking on its side. */
    fcntl(link[1], F_SETFL, fcntl(link[1], F_GETFL) & ~O_NONBLOCK);
    if (pipe2(status, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set_errno(err, ERR_IO, errno, "pipe");
    return 0;
}

static int
run(const struct spawn_args *a, uv_process_t *process, int link, int status,
    struct err *err)
{
    char parent[24], uid[24], gid[24], job[24], attempt[24], own[3][2200];
    const char *env[MAX_ENV];
    const char *argv[] = {a->exec_path,
                          "--parent",
                          parent,
                          "--dir",
                          a->job_dir,
                          "--logs",
                          a->attempt_dir,
                          "--user",
                          a->change_user ? a->user : "",
                          "--uid",
                          uid,
                          "--gid",
                          gid,
                          "--cpus",
                          a->cpus,
                          "--",
                          a->worker_path,
                          "--job",
                          job,
                          "--attempt",
                          attempt,
                          NULL};
    uv_stdio_container_t stdio[5] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = link},
        {.flags = UV_INHERIT_FD, .data.fd = status}};
    uv_process_options_t options = {.exit_cb = a->on_exit,
                                    .file = a->exec_path,
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio_count = 5,
                                    .stdio = stdio};
    int rc;

    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    snprintf(uid, sizeof(uid), "%u", (unsigned)a->uid);
    snprintf(gid, sizeof(gid), "%u", (unsigned)a->gid);
    snprintf(job, sizeof(job), "%" PRId64, a->job);
    snprintf(attempt, sizeof(attempt), "%" PRId64, a->attempt);
    fill_env(a, env, own);
    /* libuv takes them without const and leaves them alone. */
    options.args = (char **)(uintptr_t)argv;
    options.env = (char **)(uintptr_t)env;
    rc = uv_spawn(a->loop, process, &options);
    if (rc != 0)
        return err_set(err, ERR_IO, "%s: %s", a->exec_path, uv_strerror(rc));
    return 0;
}

int
spawn_worker(const struct spawn_args *a, uv_process_t *process, int *link_fd,
             int *status_fd, struct err *err)
{
    int link[2] = {-1, -1}, status[2] = {-1, -1};
    int rc = make_channels(link, status, err);

    if (rc == 0)
        rc = run(a, process, link[1], status[1], err);
    else
        memset(process, 0, sizeof(*process));
    if (link[1] >= 0)
        close(link[1]);
    if (status[1] >= 0)
        close(status[1]);
    if (rc != 0) {
        if (link[0] >= 0)
            close(link[0]);
        if (status[0] >= 0)
            close(status[0]);
        link[0] = status[0] = -1;
    }
    *link_fd = link[0];
    *status_fd = status[0];
    return rc;
}

void
spawn_read_status(int *status_fd, char *out, size_t size)
{
    ssize_t n = -1;

    if (*status_fd >= 0) {
        n = read(*status_fd, out, size - 1);
        close(*status_fd);
    }
    *status_fd = -1;
    out[n > 0 ? n : 0] = '\0';
}
