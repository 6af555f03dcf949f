/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room: how much is free where the daemon keeps its state.
 *
 * Asks the file system now and then, on a thread of libuv's pool: one that
 * hangs must not hold the loop. Others are told the latest answer at once.
 * Loop's thread.
 */
#ifndef DAEMON_ROOM_H
#define DAEMON_ROOM_H

#include <stdint.h>
#include <uv.h>

struct room;

/* Begins to ask about the directory. NULL: no memory. */
struct room *room_open(uv_loop_t *loop, const char *directory);
void room_close(struct room **room);

/* For whoever is not root; -1: no answer yet, or none to be had. */
int64_t room_free_bytes(const struct room *room);
int64_t room_size_bytes(const struct room *room);

#endif
