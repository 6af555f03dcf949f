/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_events: the attempt's events.jsonl, written by the worker alone.
 *
 *   one event a line, seq 1, 2, ...; appended by write(2) calls of whole lines
 *
 * Steps are gathered for at most 100 ms, everything else is written at once.
 * Lines that cannot be written (a full disk) stay in memory and are tried
 * again, so that no number of the sequence is ever lost; when there are too
 * many of them the run must end. Used by the thread that runs the engine;
 * worker_events_bytes() by any. On failpoint events.torn_line it writes half
 * of what it has and dies.
 */
#ifndef ENGINE_WORKER_EVENTS_H
#define ENGINE_WORKER_EVENTS_H

#include "engine/base/clock.h"
#include "proto/err.h"
#include "proto/event.h"

#include <stdbool.h>

#define WORKER_EVENTS_GATHER_US   100000
#define WORKER_EVENTS_MAX_PENDING (64 * 1024 * 1024)

struct worker_events;

/* Makes the file, which must not have any event in it yet. */
int worker_events_open(const char *path, const struct clock *clock,
                       struct worker_events **out, struct err *err);
/* Writes what it can and closes. */
void worker_events_close(struct worker_events **events);

/* ERR_NOSPACE or ERR_IO when too much waits to be written; ERR_NOMEM. */
int worker_events_put(struct worker_events *e, const struct event *event,
                      struct err *err);
/* Writes steps that have waited long enough; true: something was written. */
bool worker_events_tick(struct worker_events *e);
/* All lines are in the file and on stable storage. */
int worker_events_sync(struct worker_events *e, struct err *err);

/* Length of the file. */
int64_t worker_events_bytes(const struct worker_events *e);

#endif
