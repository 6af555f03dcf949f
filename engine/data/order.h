/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order: which samples come when: a function of seed and data position alone.
 *
 * Pure arithmetic. An epoch's batches are cut from a permutation (Fisher and
 * Yates over Philox numbers), or from 0..n-1 without shuffling; windows of
 * `accumulate` batches never cross an epoch's end, so the last window of an
 * epoch may be short, and its last batch smaller unless drop_last. Sequences
 * of tokens, when shuffled, are drawn instead: each sample's start anew and
 * independently, any one as likely; an epoch is then a length, not a set.
 */
#ifndef ENGINE_DATA_ORDER_H
#define ENGINE_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order {
    uint64_t seed;
    int64_t n_samples, batch_size, accumulate;
    bool shuffle, drop_last;
    int64_t id_step;  /* sample i has id i x id_step; 0: as 1 */
    int64_t n_starts; /* > 0 and shuffle: ids are drawn from 0 .. this - 1 */
};

/* Window w of the run (0-based data position) is: */
struct order_window {
    int64_t epoch, window_in_epoch;
    int64_t first;     /* position in the epoch's permutation */
    int64_t n_batches; /* 1 .. accumulate */
    int64_t n_samples;
};

int64_t order_batches_per_epoch(const struct order *o);
int64_t order_windows_per_epoch(const struct order *o);
struct order_window order_window_at(const struct order *o, int64_t position);
/* Samples of batch b of a window: first position and count. */
int64_t order_batch_size_at(const struct order *o, const struct order_window *w,
                            int64_t b);

/* Writes the permutation of an epoch: n_samples numbers. */
void order_permute(const struct order *o, int64_t epoch, int64_t *samples);
/* Whether order_ids_at() needs the permutation of the window's epoch. */
bool order_is_permuted(const struct order *o);
/* Ids of all samples of the window at a data position, batch after batch. */
void order_ids_at(const struct order *o, int64_t position,
                  const int64_t *permutation, int64_t *ids);

#endif
