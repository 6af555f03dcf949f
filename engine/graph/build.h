/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build: a spec and the shape of its data become a float32 forward graph.
 *
 * Pure. Infers every shape, names parameters as PyTorch's state_dict would
 * ("0.weight", "head.bias", "5.0.weight" inside a residual), decides their
 * initialisation (PyTorch's defaults), and appends loss, scaled loss (training)
 * or loss and metrics (evaluation). No autocast, no gradients: passes do that.
 */
#ifndef ENGINE_GRAPH_BUILD_H
#define ENGINE_GRAPH_BUILD_H

#include "engine/graph/graph.h"
#include "proto/spec.h"

enum build_mode { BUILD_TRAIN, BUILD_EVAL };

/* What the data says about itself. */
struct build_data {
    int rank; /* of one sample: 1 features, 3 = C, H, W */
    int64_t dim[TENSOR_MAX_RANK - 1];
    bool input_is_tokens; /* i32 ids instead of f32 */
    bool target_is_class; /* i32 class ids instead of f32 */
    int64_t target_elems; /* targets: elements of one sample */
    int target_rank;      /* of one sample; 0: one class id, or one number */
    int64_t target_dim[TENSOR_MAX_RANK - 1];
    bool has_ignore_index; /* a mask made it; else loss.ignore_index holds */
    int64_t ignore_index;
};

/* A graph for batches of exactly batch_size samples, frozen. ERR_SPEC with
 * "model: 3 (linear): ..." when a layer does not fit what it is given. */
int build_graph(const struct spec *spec, const struct build_data *data,
                enum build_mode mode, int64_t batch_size, struct graph **out,
                struct err *err);

/* Paths of the sequentials and residuals that train.recompute matches, none
 * inside another: the innermost ones. *blocks is the caller's to free, the
 * paths are the spec's. ERR_SPEC when a pattern matches none. */
int build_find_blocks(const struct spec *spec, const char ***blocks,
                      int *n_blocks, struct err *err);

/* Ids of the data must be below this: the smallest table that they look up;
 * 0 when they look up none. */
int64_t build_token_limit(const struct graph *graph);

/* Classes that the output tells apart: class targets must be below this. */
int64_t build_class_limit(const struct graph *graph);

#endif
