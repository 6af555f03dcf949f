/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool2d: maxima and means over windows of channels-last images.
 *
 * torch.nn.MaxPool2d, AvgPool2d, AdaptiveAvgPool2d. Loops run over channels
 * inside and pixels outside. A window's maximum is its first; when it holds
 * NaN the last NaN wins, as in PyTorch. Gradients are gathered per input pixel
 * from the windows that cover it: no atomics, sums in float32 in window order.
 * Halves become float32 in the workspace. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_POOL2D_H
#define KERNELS_CPU_POOL2D_H

#include "kernels/kernel.h"

extern const struct kernel pool2d_kernel; /* all six ops */

#endif
