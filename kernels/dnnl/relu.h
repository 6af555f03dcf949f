/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relu: RELU and its gradient on halves, by their bits.
 *
 * Sixteen-bit integer lanes instead of a way through float32; float32 itself
 * is as fast as memory in the reference already.
 */
#ifndef KERNELS_DNNL_RELU_H
#define KERNELS_DNNL_RELU_H

#include "kernels/kernel.h"

extern const struct kernel relu_forward, relu_backward;

#endif
