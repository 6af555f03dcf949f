/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden: every op of ops.def once more, naively, in double.
 *
 * What the kernels are compared with: logical indices, libm, no blocks, no
 * order tricks, nothing shared with kernels/cpu but tensor arithmetic. One
 * file a family. Arrays lie in memory order of their descriptors; integers are
 * held as doubles. mag receives the sum of the absolute terms behind an output
 * element, which the tolerance of ops.def asks for; 0 where nothing is summed.
 */
#ifndef TESTS_KERNELS_GOLDEN_GOLDEN_H
#define TESTS_KERNELS_GOLDEN_GOLDEN_H

#include "kernels/kernel.h"

struct golden {
    const struct kernel_sig *sig;
    const struct kernel_step *step;
    const double *in[OP_MAX_IN]; /* NULL: absent */
    double *out[OP_MAX_OUT];
    double *mag[OP_MAX_OUT]; /* zeroed by the caller */
};

/* Runs sig->op. */
void golden_run(const struct golden *g);

void golden_elementwise(const struct golden *g);
void golden_product(const struct golden *g);
void golden_conv(const struct golden *g);
void golden_norm(const struct golden *g);
void golden_pool(const struct golden *g);
void golden_shape(const struct golden *g);
void golden_loss(const struct golden *g);
void golden_attention(const struct golden *g);
void golden_axis(const struct golden *g);
void golden_broadcast(const struct golden *g);
void golden_conv_lift(const struct golden *g);
void golden_embedding(const struct golden *g);
void golden_function(const struct golden *g);
void golden_group_norm(const struct golden *g);
void golden_matmul(const struct golden *g);
void golden_move(const struct golden *g);
void golden_reduce(const struct golden *g);
void golden_upsample(const struct golden *g);

/* Position of (n, c, h, w) of a rank 4 tensor. */
int64_t golden_at(const struct tensor_desc *t, int64_t n, int64_t c, int64_t h,
                  int64_t w);

#endif
