/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: everything that a checkpoint holds and an update changes.
 *
 * Weights, their average, gradients and moments lie in flat float32 blocks
 * with the same offsets, running statistics in two more (each tensor starts at
 * a multiple of 16 elements, the gaps are zero), so that optimizer passes are
 * single sweeps. What a moment block holds differs by optimizer: each
 * parameter has the names of its own.
 * Owned by the engine; touched by the thread that runs the step only. Knows no
 * file format (ckpt) and no arithmetic (optimizer, scaler).
 */
#ifndef ENGINE_RUN_STATE_H
#define ENGINE_RUN_STATE_H

#include "engine/graph/graph.h"
#include "engine/run/scaler.h"

#define STATE_MAX_MOMENTS 3

struct state_tensor {
    const char *name; /* owned by the state */
    struct tensor_desc desc;
    int64_t offset;  /* elements into its block */
    int64_t n_elems; /* without the gap */
    /* Of a parameter; optimizer_create() sets them. */
    int optim; /* number of the optimizer that owns it */
    int n_moments;
    const char *moment_name[STATE_MAX_MOMENTS]; /* static: "m", "v" */
};

struct state_counters {
    int64_t iteration; /* done so far; = updates + skips */
    int64_t updates;   /* iterations in which an optimizer stepped */
    int64_t skips;
    int64_t data_position; /* windows of data consumed */
};

struct state {
    int n_params, n_buffers;
    struct state_tensor *param;        /* owned */
    struct state_tensor *buffer;       /* owned */
    int64_t param_elems, buffer_elems; /* with gaps */
    float *weights, *grads;            /* owned, param_elems each */
    float *moment[STATE_MAX_MOMENTS];  /* owned or NULL */
    float *ema;                        /* owned or NULL: average of weights */
    float *buffers;                    /* owned: committed running statistics */
    float *buffers_pending;            /* owned: of the window under way */
    int64_t batches_tracked; /* num_batches_tracked of every batch norm */
    struct state_counters count;
    int n_optim;                              /* >= 1 */
    int64_t optim_steps[SPEC_MAX_OPTIMIZERS]; /* applied by each: its time */
    struct scaler scaler;
    uint64_t seed;
    uint64_t weights_version; /* changes whenever weights do; not saved */
};

/* n_moments: 0 to STATE_MAX_MOMENTS. Blocks are zero; one optimizer, which has
 * not stepped. */
int state_create(const struct graph *graph, int n_moments, struct state **out,
                 struct err *err);
void state_destroy(struct state **state);

/* PyTorch's default initialisation, keyed by (seed, parameter). */
void state_init_weights(struct state *state, const struct graph *graph);

/* Starts the average at the weights as they are. */
int state_start_ema(struct state *state, struct err *err);

/* Weights and their average change places: to evaluate with the average, and
 * back again. Half copies are made anew (weights_version). */
void state_swap_ema(struct state *state);

size_t state_n_bytes(const struct state *state);

#endif
