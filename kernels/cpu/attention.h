/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention: softmax(q k^T scale) v for each head, and its gradient.
 *
 * The definition: one query at a time, float32 sums over k = 0, 1, 2, ... in
 * order, weights from exp(score - max), one rounding into the output. A masked
 * key is left out, not given a large negative score; a query that sees none
 * gives zeros, lse -inf and zero gradients. The gradient makes the weights
 * again from lse, dropout's choice from its key, and sums w dw itself, so it
 * does not read y. kernels/dnnl has the fast one. Called through the table.
 */
#ifndef KERNELS_CPU_ATTENTION_H
#define KERNELS_CPU_ATTENTION_H

#include "kernels/kernel.h"

extern const struct kernel attention_forward;
extern const struct kernel attention_backward;

#endif
