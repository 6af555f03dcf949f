/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: everything that a checkpoint holds and an update changes.
 *
 * Weights, gradients, moments and running statistics lie in flat float32
 * blocks with the same offsets (each tensor starts at a multiple of 16
 * elements, the gaps are zero), so that optimizer passes are single sweeps.
 * Owned by the engine; touched by the thread that runs the step only. Knows no
 * file format (ckpt) and no arithmetic (optimizer, scaler).
 */
#ifndef ENGINE_RUN_STATE_H
#define ENGINE_RUN_STATE_H

#include "engine/graph/graph.h"
#include "engine/run/scaler.h"

struct state_tensor {
    const char *name; /* owned by the state */
    struct tensor_desc desc;
    int64_t offset;  /* elements into its block */
    int64_t n_elems; /* without the gap */
};

struct state_counters {
    int64_t iteration; /* done so far; = updates + skips */
    int64_t updates;   /* the optimizer's and the schedule's time */
    int64_t skips;
    int64_t data_position; /* windows of data consumed */
};

struct state {
    int n_params, n_buffers;
    struct state_tensor *param;        /* owned */
    struct state_tensor *buffer;       /* owned */
    int64_t param_elems, buffer_elems; /* with gaps */
    float *weights, *grads;            /* owned, param_elems each */
    float *moment1, *moment2;          /* owned or NULL: momentum / m, v */
    float *buffers;                    /* owned: committed running statistics */
    float *buffers_pending;            /* owned: of the window under way */
    int64_t batches_tracked; /* num_batches_tracked of every batch norm */
    struct state_counters count;
    struct scaler scaler;
    uint64_t seed;
    uint64_t weights_version; /* changes whenever weights do; not saved */
};

/* n_moments: 0, 1 or 2. Blocks are zero. */
int state_create(const struct graph *graph, int n_moments, struct state **out,
                 struct err *err);
void state_destroy(struct state **state);

/* PyTorch's default initialisation, keyed by (seed, parameter). */
void state_init_weights(struct state *state, const struct graph *graph);

size_t state_n_bytes(const struct state *state);

#endif
