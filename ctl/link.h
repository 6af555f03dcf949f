/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link: the socket to the daemon.
 *
 * Finds the socket, connects, and moves bytes for proto/client; with main.c
 * the only place of trainctl that knows about sockets. Blocks, but never
 * beyond a deadline: a daemon that accepts and then says nothing is
 * ERR_UNREACHABLE with the path and a hint. Never retries; retry.c does that.
 * Deadlines are CLOCK_MONOTONIC milliseconds, -1 = none.
 */
#ifndef CTL_LINK_H
#define CTL_LINK_H

#include "proto/client.h"

#include <stdbool.h>

struct link;

struct link_options {
    const char *socket; /* borrowed; NULL: search */
    int64_t timeout_ms; /* for the connection, the hello and each answer */
    int interrupt_fd;   /* waiting ends when it is readable; -1 = none */
};

#define LINK_MAX_PATHS  4
#define LINK_PATH_BYTES 108 /* sun_path's */

/* Where a socket is looked for: --socket alone, or $TRAIND_SOCKET alone, else
 * the user's and the system's places (the system's first for root). Directories
 * under /tmp that are not the caller's own are left out. */
struct link_paths {
    char path[LINK_MAX_PATHS][LINK_PATH_BYTES];
    int n;
};
int link_search(const char *socket, struct link_paths *paths, struct err *err);

/* Connects and waits for the hello. ERR_UNREACHABLE, ERR_VERSION, ERR_PROTO,
 * ERR_DENIED, ERR_USAGE (path too long), ERR_CANCELLED (interrupted). */
int link_open(const struct link_options *options, struct link **out,
              struct err *err);
void link_close(struct link **link);

struct client *link_client(struct link *link);
const char *link_path(const struct link *link);
int64_t link_timeout_ms(const struct link *link);

/* Moves bytes until something happened. ERR_TIMEOUT (without a sentence) when
 * the deadline passed; ERR_UNREACHABLE when the daemon went away; ERR_CANCELLED
 * when interrupted; ERR_PROTO, ERR_NOMEM. */
int link_wait(struct link *link, int64_t deadline_ms, enum client_news *news,
              struct err *err);
/* Whether the last request was refused: only then has the client faults. */
void link_set_refused(struct link *link, bool refused);
bool link_was_refused(const struct link *link);
/* The sentence for an answer that did not come within the time. */
int link_silent(const struct link *link, struct err *err);

int64_t link_now_ms(void);

#endif
