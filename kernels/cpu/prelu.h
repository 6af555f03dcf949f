/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prelu: x where x > 0, else w x, and its two gradients.
 *
 * torch.nn.functional.prelu: NaN is not above 0. A weight serves everything,
 * or one channel: the dim that is fastest in memory, so lines of
 * kernels/cpu/rows carry it. Sums over chunks of rows in float32, of chunks in
 * double, in order. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_PRELU_H
#define KERNELS_CPU_PRELU_H

#include "kernels/kernel.h"

extern const struct kernel prelu_pointwise; /* PRELU, PRELU_DX */
extern const struct kernel prelu_backward_weight;

#endif
