/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn: starts traind-exec, which becomes a worker.
 *
 * The child is the leader of a session of its own, with a socketpair on fd 3
 * and a pipe on fd 4 over which traind-exec tells what went wrong before the
 * worker ran; the pipe closes when it does run. The environment is the
 * daemon's without what the service manager put there; when the worker gets
 * another user's rights, only what is known to be harmless. Decides nothing.
 */
#ifndef DAEMON_SPAWN_H
#define DAEMON_SPAWN_H

#include "proto/err.h"

#include <stdbool.h>
#include <uv.h>

struct spawn_args {
    uv_loop_t *loop;
    const char *exec_path, *worker_path;
    const char *job_dir, *attempt_dir;
    int64_t job, attempt;
    bool change_user;
    const char *user; /* account name, for its groups */
    uid_t uid;
    gid_t gid;
    const char *cpus; /* "0,2"; "" = all */
    uv_exit_cb on_exit;
};

/* Initializes *process (close it even on failure). link_fd and status_fd are
 * the caller's to close. */
int spawn_worker(const struct spawn_args *args, uv_process_t *process,
                 int *link_fd, int *status_fd, struct err *err);

/* What traind-exec said, "" if nothing. Closes the descriptor. */
void spawn_read_status(int *status_fd, char *out, size_t size);

#endif
