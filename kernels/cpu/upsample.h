/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upsample: images to another height and width, nearest or bilinear.
 *
 * torch.nn.functional.interpolate without antialiasing, given sizes: its
 * arithmetic of positions, in float32, is part of the definition. The gradient
 * is gathered, each element of dx by one thread, in the order of the outputs
 * that read it. Channels-last images; called through the kernel table only.
 */
#ifndef KERNELS_CPU_UPSAMPLE_H
#define KERNELS_CPU_UPSAMPLE_H

#include "kernels/kernel.h"

extern const struct kernel upsample_forward;
extern const struct kernel upsample_backward;

#endif
