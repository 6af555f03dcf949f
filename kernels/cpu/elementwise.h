/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elementwise: activations and their gradients, one element at a time.
 *
 * Every op here reads one or two tensors of the output's shape and layout, in
 * memory order; halves are converted in blocks, computed in float32 and
 * rounded once. Output 0 may be any input of the same dtype. Called through
 * the kernel table only.
 */
#ifndef KERNELS_CPU_ELEMENTWISE_H
#define KERNELS_CPU_ELEMENTWISE_H

#include "kernels/kernel.h"

/* CAST and the activations; which one is sig->op. */
extern const struct kernel elementwise_unary;
/* The gradients of activations. */
extern const struct kernel elementwise_binary;
/* SCALE_LOSS: two scalars. */
extern const struct kernel elementwise_scale_loss;
/* GRAD_ACCUMULATE. */
extern const struct kernel elementwise_grad_accumulate;

#endif
