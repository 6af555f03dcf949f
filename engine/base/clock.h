/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock: the two clocks of the engine, injected.
 *
 * Whoever opens the engine says where time comes from: the system's clocks in
 * the worker, counters in tests. No number of the training depends on it: wall
 * time goes into events, monotonic time into durations and the budget of
 * replays.
 */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*wall_us)(void *ctx); /* since the epoch */
    int64_t (*mono_us)(void *ctx);
    void *ctx; /* borrowed from whoever made the clock */
};

/* The system's. */
struct clock clock_system(void);

static inline int64_t
clock_wall_us(const struct clock *c)
{
    return c->wall_us(c->ctx);
}

static inline int64_t
clock_mono_us(const struct clock *c)
{
    return c->mono_us(c->ctx);
}

#endif
