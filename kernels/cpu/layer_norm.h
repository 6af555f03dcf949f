/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_norm: normalization of each row over its trailing dimensions, by
 * LAYER_NORM, and by RMS_NORM, which takes the mean as 0.
 *
 * Ba, Kiros, Hinton, "Layer normalization" (2016); Zhang, Sennrich, "Root Mean
 * Square Layer Normalization" (2019); as torch.nn's: biased variance, eps
 * inside the root. Two passes, the mean first, so large offsets do not cancel;
 * rows whose squares leave float32 go in double. Channels-last images are
 * brought into logical order in the workspace first. Called through the kernel
 * table only.
 */
#ifndef KERNELS_CPU_LAYER_NORM_H
#define KERNELS_CPU_LAYER_NORM_H

#include "kernels/kernel.h"

/* Both ops. */
extern const struct kernel layer_norm_forward;
extern const struct kernel layer_norm_backward;

#endif
