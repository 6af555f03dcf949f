/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autodiff: appends the backward graph.
 *
 * A pure pass: walks the nodes backwards from the scaled loss, emits each op's
 * gradient ops (one rule per op, a table), adds gradients that meet, and ends
 * in one GRAPH_GRAD value per parameter. Backward of an op runs in the dtype
 * its forward ran in; a cast's gradient is a cast; parameter gradients are
 * float32: products write it directly, or through half when wgrad_pytorch.
 * Only what a parameter needs is computed. Outputs nobody reads become -1. A
 * parameter that the loss does not depend on is ERR_SPEC, by name.
 */
#ifndef ENGINE_PASS_AUTODIFF_H
#define ENGINE_PASS_AUTODIFF_H

#include "engine/graph/graph.h"

struct autodiff_options {
    bool wgrad_pytorch; /* round weight gradients through the region dtype */
    bool accumulate;    /* windows of several micro-batches: gradients pass
                           through GRAD_ACCUMULATE */
};

int autodiff_apply(const struct graph *in,
                   const struct autodiff_options *options, struct graph **out,
                   struct err *err);

#endif
