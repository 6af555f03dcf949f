/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group_norm: normalization of each image over groups of its channels.
 *
 * Wu and He, "Group Normalization" (2018), as torch.nn.GroupNorm: biased
 * variance, eps inside the root. [N,C], or channels last of rank 3 and 4: an
 * image is rows of channels (kernels/cpu/rows), summed channel by channel; a
 * group's sums are those of its channels. Two passes, the mean first. An image
 * is one item of parallel_run. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_GROUP_NORM_H
#define KERNELS_CPU_GROUP_NORM_H

#include "kernels/kernel.h"

extern const struct kernel group_norm_forward;
extern const struct kernel group_norm_backward;

#endif
