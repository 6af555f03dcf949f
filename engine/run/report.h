/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report: how a run talks to whoever runs it.
 *
 * The hooks are the engine's only way out: events go to one, orders come in by
 * another, between two steps. Here also: stamping an event with the counters
 * and the wall clock before it goes. Used by the thread that runs the step;
 * knows no file and no socket.
 */
#ifndef ENGINE_RUN_REPORT_H
#define ENGINE_RUN_REPORT_H

#include "engine/base/clock.h"
#include "engine/run/state.h"
#include "proto/event.h"

/* Bits of what hooks.orders returns. */
enum {
    REPORT_CHECKPOINT = 1, /* make one after the step under way; said once */
    REPORT_STOP = 2,       /* checkpoint, then end; stays set */
    REPORT_ABANDON = 4     /* end at once, without checkpoint; stays set */
};

struct report_hooks {
    void *ctx;
    /* Takes the event (its pointers are good for the call only). A negative
     * code means that it cannot be recorded, and ends the run. */
    int (*event)(void *ctx, const struct event *event, struct err *err);
    /* Every event so far is on stable storage; before a checkpoint. */
    int (*sync)(void *ctx, struct err *err);
    unsigned (*orders)(void *ctx);
};

struct report {
    struct report_hooks hooks;
    struct clock clock;
    const struct state *state; /* borrowed; NULL: counters are 0 */
};

/* Sets time and counters, then hands the event over. */
int report_emit(const struct report *report, struct event *event,
                struct err *err);
int report_warning(const struct report *report, const char *text,
                   struct err *err);
/* With the number that it is about. */
int report_warning_value(const struct report *report, const char *text,
                         double value, struct err *err);
int report_sync(const struct report *report, struct err *err);
unsigned report_orders(const struct report *report);

#endif
