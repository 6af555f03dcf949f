/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_ballast: room that is kept for when the disk is full.
 *
 * A file beside the database that holds nothing. When a write finds no room it
 * is thrown away, so that the end of a job can still be written down; it comes
 * back when there is room again. Called on the writer's thread, and at opening
 * before that runs; never fails: without a ballast all works but a full disk.
 */
#ifndef DAEMON_STORE_BALLAST_H
#define DAEMON_STORE_BALLAST_H

#include <stdbool.h>
#include <stdint.h>

#define STORE_BALLAST_PATH_MAX 4096

struct store_ballast {
    char path[STORE_BALLAST_PATH_MAX]; /* "": none is kept */
    int64_t bytes;                     /* of the file; 0: it is not there */
    int64_t next_try_us;
};

/* Beside `database`, of at most max_bytes and 1/16 of the disk. */
void store_ballast_init(struct store_ballast *b, const char *database,
                        int64_t max_bytes);
/* A write found no room. true: there is more room now. */
bool store_ballast_drop(struct store_ballast *b);
/* A write went well: makes it again when there is twice as much room. */
void store_ballast_check(struct store_ballast *b, int64_t max_bytes);

#endif
