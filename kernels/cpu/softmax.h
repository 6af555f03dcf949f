/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax: softmax and log-softmax along one axis, and their gradients.
 *
 * Memory is [outer][n][inner] (tensor_split_axis): the axis that is last in
 * memory is walked in blocks of a row, any other in columns side by side. Max,
 * sum and exponent are in double; a row whose greatest element is infinite or
 * whose elements hold NaN gives NaN, as in PyTorch. Output 0 may be input 0.
 * Called through the kernel table only.
 */
#ifndef KERNELS_CPU_SOFTMAX_H
#define KERNELS_CPU_SOFTMAX_H

#include "kernels/kernel.h"

/* SOFTMAX, LOG_SOFTMAX. */
extern const struct kernel softmax_forward;
/* SOFTMAX_BWD, LOG_SOFTMAX_BWD. */
extern const struct kernel softmax_backward;

#endif
