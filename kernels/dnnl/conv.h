/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv: CONV2D and its two gradients as oneDNN's direct convolution, and
 * through them (kernels/cpu/conv_lift) 1-D and transposed convolutions.
 *
 * Activations stay channels last. Weights are given to the library in the
 * format that it likes best, reordered in every run: they are small beside the
 * images, and change with every update.
 */
#ifndef KERNELS_DNNL_CONV_H
#define KERNELS_DNNL_CONV_H

#include "kernels/kernel.h"

extern const struct kernel conv_forward, conv_dx, conv_dw, conv_lifted;
/* The same with bfloat16's own instructions wherever there are any. */
extern const struct kernel conv_forward_native, conv_dx_native, conv_dw_native;

#endif
