/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay: runs an iteration again to find where it first became non-finite.
 *
 * The step is a function of weights, batch, scale and iteration number, so
 * running it again with a probe after every instruction gives the very values.
 * Works on programs of its own, in which every temporary keeps its place, and
 * on gradients and running statistics of its own: the training state is read,
 * never written. Compiled at the first use, so a run without skips pays
 * nothing. Called by the loop between step_compute() and step_commit().
 */
#ifndef ENGINE_DIAGNOSE_REPLAY_H
#define ENGINE_DIAGNOSE_REPLAY_H

#include "engine/data/prefetch.h"
#include "engine/run/variants.h"
#include "kernels/kernel.h"
#include "proto/event.h"

struct replay_options {
    const struct spec *spec; /* borrowed, outlives the replay */
    struct build_data data;
    const struct backend *backend;
    struct kernel_flat flat;
    int threads;
};

/* The producer; numerics, section 4. */
struct replay_location {
    bool located;
    enum event_pass pass;
    char layer[EVENT_NAME_MAX], tensor[EVENT_NAME_MAX];
    const char *op; /* static, "" where there is none */
    enum dtype dtype;
    int rank;
    int64_t index[EVENT_MAX_RANK];
    enum event_nonfinite what;
    int64_t micro_batch;
    int64_t sample; /* id in the data set, -1 unknown */
};

struct replay;

int replay_create(const struct replay_options *options, struct replay **out,
                  struct err *err);
void replay_destroy(struct replay **replay);

/* Searches the iteration after state->count.iteration over `window`, with the
 * scale of state. ERR_NOMEM or what compiling says when it cannot be run. */
int replay_run(struct replay *replay, const struct state *state,
               const struct prefetch_window *window,
               struct replay_location *location, struct err *err);

/* The first non-finite weight as pass optimizer; located false: none. */
void replay_check_weights(const struct replay *replay,
                          const struct state *state,
                          struct replay_location *location);

#endif
