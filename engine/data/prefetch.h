/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefetch: a thread that has the next window ready when the step wants it.
 *
 * Owns the thread and two windows of host memory (inputs, targets, sample
 * ids). What it delivers is a function of the data position alone, never of
 * timing. Used by the step's thread; the dataset is borrowed and read-only.
 * Nothing is allocated after prefetch_create().
 */
#ifndef ENGINE_DATA_PREFETCH_H
#define ENGINE_DATA_PREFETCH_H

#include "engine/data/dataset.h"
#include "engine/data/detour.h"
#include "engine/data/order.h"

struct prefetch_batch {
    const void *input;  /* f32, or i32 tokens; 64-byte aligned */
    const void *target; /* f32, or i32 class ids; 64-byte aligned */
    const int64_t *ids; /* samples */
    int64_t n;          /* samples */
};

struct prefetch_window {
    struct order_window at;
    const struct prefetch_batch *batch; /* at.n_batches of them */
    int64_t n_count;    /* elements that count for the loss, whole window */
    const int64_t *ids; /* all samples of the window, in order */
};

struct prefetch;

/* threaded false: fills on the caller's thread (tests). */
int prefetch_create(const struct dataset *dataset, const struct order *order,
                    bool threaded, struct prefetch **out, struct err *err);
void prefetch_destroy(struct prefetch **prefetch);

/* What the run passes over, so that the thread goes the same way; borrowed,
 * NULL: nothing. Before the first window. */
void prefetch_set_detour(struct prefetch *prefetch,
                         const struct detour *detour);

/* The first position from this one on that is not passed over. */
int64_t prefetch_pass_over(const struct prefetch *prefetch, int64_t position);

/* The window at data position `position`, ready to use until the next call.
 * Going on by one (or behind a detour) is what the thread has prepared; any
 * other position (after a resume or a rollback) is filled at once. */
const struct prefetch_window *prefetch_window_at(struct prefetch *prefetch,
                                                 int64_t position);

#endif
