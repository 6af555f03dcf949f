/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recompute: what backward reads of a block is computed again, not kept.
 *
 * A pure pass after autodiff. A block is a layer of layers, by path. Values
 * that its forward nodes make and that nothing outside of it reads in forward
 * die there; the nodes behind those that backward reads run again, as nodes
 * of the backward phase with the same parameters (so dropout draws the same
 * numbers), just before the first backward node that needs them. What enters
 * or leaves a block stays, copies of weights stay, running statistics move
 * once. Gradients are the same bits; memory is less by what a block holds.
 */
#ifndef ENGINE_PASS_RECOMPUTE_H
#define ENGINE_PASS_RECOMPUTE_H

#include "engine/graph/graph.h"

struct recompute_options {
    const char *const *block; /* layer paths, none inside another */
    int n_blocks;             /* 0: a copy */
};

int recompute_apply(const struct graph *in,
                    const struct recompute_options *options, struct graph **out,
                    struct err *err);

#endif
