/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear: LINEAR, LINEAR_DX and LINEAR_DW as oneDNN's matmul.
 *
 * Leading dimensions of x, dy and y are one: rows. Weights stay as they are,
 * [O][K]: the library's kernels for AVX-512 copy what they need.
 */
#ifndef KERNELS_DNNL_LINEAR_H
#define KERNELS_DNNL_LINEAR_H

#include "kernels/kernel.h"

extern const struct kernel linear_forward, linear_dx, linear_dw;
/* The same with bfloat16's own instructions wherever there are any. */
extern const struct kernel linear_forward_native, linear_dx_native,
    linear_dw_native;

#endif
