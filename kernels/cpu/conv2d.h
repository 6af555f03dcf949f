/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d: 2-D cross-correlation and its gradients, by direct loops.
 *
 * torch.nn.functional.conv2d with stride, padding, dilation and groups on
 * channels-last images; weights (O, C/g, kh, kw). The definition: sums in
 * float32 over taps, then channels, in order (weight gradient: over the pixels
 * of an image, images in double). Halves become float32 in the workspace.
 * Fast convolutions are oneDNN's business. Through the kernel table only.
 */
#ifndef KERNELS_CPU_CONV2D_H
#define KERNELS_CPU_CONV2D_H

#include "kernels/kernel.h"

extern const struct kernel conv2d_forward;
extern const struct kernel conv2d_backward_input;
extern const struct kernel conv2d_backward_weight;

#endif
