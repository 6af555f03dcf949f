/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen: the listening control socket, taken over from a dead daemon or from
 * the service manager.
 *
 * Owns the file at the socket's path, if it made it: mode, group, removal at
 * the end. Removes nothing but a socket that refuses connections, and never
 * one of another device and inode than it bound. Knows no frame and no client;
 * control.c accepts. The caller holds the lock (lock.h) already.
 */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "proto/err.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>

#define LISTEN_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path))

struct listen {
    int fd;         /* bound, not yet listening, non-blocking */
    bool inherited; /* from the service manager: not ours to remove */
    char path[LISTEN_PATH_MAX];
    dev_t dev; /* with ino and mtime: which file it is, for numbers of */
    ino_t ino; /* removed files are used again */
    struct timespec mtime;
};

struct listen_options {
    const char *path;
    mode_t mode;
    const char *group; /* "" = leave */
};

/* ERR_CONFIG: path too long, no such group, something else at the path.
 * ERR_AGAIN: another daemon answers there. ERR_IO. */
int listen_open(const struct listen_options *options, struct listen *out,
                struct err *err);

/* Takes a socket of $LISTEN_FDS: the one named "ctl", else the first. 0 with
 * out->fd -1 when there is none. Clears the variables. */
int listen_inherit(struct listen *out, struct err *err);

/* Closes nothing (libuv owns the descriptor by then): removes the file if it
 * is still the one that was bound. */
void listen_remove(const struct listen *l);

#endif
