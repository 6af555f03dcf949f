/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_norm: normalization of each row over its trailing dimensions.
 *
 * Ba, Kiros, Hinton, "Layer normalization" (2016), as torch.nn.LayerNorm:
 * biased variance, eps inside the root. Two passes, the mean first, so large
 * offsets do not cancel. Channels-last images are brought into logical order
 * in the workspace first. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_LAYER_NORM_H
#define KERNELS_CPU_LAYER_NORM_H

#include "kernels/kernel.h"

extern const struct kernel layer_norm_forward;
extern const struct kernel layer_norm_backward;

#endif
