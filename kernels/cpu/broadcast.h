/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast: ops of one element of each operand, which broadcast as in NumPy.
 *
 * ADD, SUB, MUL, DIV, COMPARE, WHERE and their gradients; and the loop under
 * them, for other families whose operands repeat. Operands come as blocks of
 * float32, the result is rounded once. Same shapes, whole rows and numbers are
 * vector loops without a copy of what is f32 already; anything else is gathered
 * first. Output 0 may be an input of its own shape and dtype. Called through
 * the kernel table, broadcast_run() by the kernels of this folder.
 */
#ifndef KERNELS_CPU_BROADCAST_H
#define KERNELS_CPU_BROADCAST_H

#include "kernels/cpu/walk.h"
#include "kernels/kernel.h"

/* y[i] of the operands' elements i; y may be any of them. */
typedef void broadcast_fn(const float *const *in, const union op_params *p,
                          int64_t n, float *y);

struct broadcast_job {
    struct walk walk; /* closed; the base has the shape of y */
    broadcast_fn *fn;
    const union op_params *params;
    void *y; /* f32, f16, bf16, or bool: y != 0 */
    enum dtype ty;
    int threads;
};

void broadcast_run(const struct broadcast_job *job);

/* ADD, SUB, MUL, DIV. */
extern const struct kernel broadcast_binary;
extern const struct kernel broadcast_compare;
extern const struct kernel broadcast_where;
/* SUM_TO, SUM_TO_NEG, MUL_BWD, DIV_BWD_*, WHERE_BWD_*. */
extern const struct kernel broadcast_gradient;

#endif
