/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingest: one attempt's events.jsonl, from the file into the store.
 *
 * Reads whole lines from the offset that is stored already, hands the bytes to
 * store_ingest() and, after the commit, each event to the caller: nobody is
 * told what is not stored. One piece is under way at a time and pieces are
 * bounded. The file belongs to whoever runs the worker and is not trusted: no
 * link, regular only, a line has at most INGEST_LINE_MAX bytes. A torn last
 * line is left unread. Loop's thread.
 */
#ifndef DAEMON_INGEST_H
#define DAEMON_INGEST_H

#include "daemon/store.h"

#define INGEST_PIECE    (256 * 1024)
#define INGEST_LINE_MAX (4 * 1024 * 1024)

struct ingest;

struct ingest_hooks {
    /* A stored event; borrowed during the call. replay: it was stored before
     * (see ingest_rewind()); only its numbers are news. */
    void (*event)(void *ctx, const struct event *event, bool replay);
    /* ingest_drain() has reached the end; err: what kept it from it, or code
     * 0. */
    void (*drained)(void *ctx, const struct err *err);
    /* The file cannot be used any more: a line too long, a read error. */
    void (*broken)(void *ctx, const struct err *err);
    void *ctx;
};

/* Opens nothing yet: the worker makes the file. */
struct ingest *ingest_create(uv_loop_t *loop, struct store *store,
                             const char *path, int64_t job, int64_t attempt,
                             int64_t offset, const struct ingest_hooks *hooks);
/* No hook is called after it. */
void ingest_destroy(struct ingest **ingest);

/* There may be more to read. */
void ingest_poll(struct ingest *ingest);
/* The worker is dead: read what is left, then say so. */
void ingest_drain(struct ingest *ingest);
/* Hands out the last events before the offset again, for live numbers. */
void ingest_rewind(struct ingest *ingest);

#endif
