/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape: the ops that give a tensor another shape, layout or order.
 *
 * FLATTEN and UNFLATTEN (between (N, ...) and (N, rest) in logical order),
 * RELAYOUT (between row-major and channels last), RESHAPE, TRANSPOSE. Elements
 * keep their bits: f32, halves, i32 or bool. kernels/cpu/permute moves them.
 * Called through the kernel table only.
 */
#ifndef KERNELS_CPU_SHAPE_H
#define KERNELS_CPU_SHAPE_H

#include "kernels/kernel.h"

extern const struct kernel shape_flatten; /* FLATTEN and UNFLATTEN */
extern const struct kernel shape_relayout;
extern const struct kernel shape_reshape;
extern const struct kernel shape_transpose;

#endif
