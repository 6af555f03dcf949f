/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape: FLATTEN and UNFLATTEN, the moves between (N, ...) and (N, rest).
 *
 * Elements keep their bits and their logical order. For row-major tensors that
 * is a copy; for channels-last images a transpose of (H W, C) per image.
 * Called through the kernel table only.
 */
#ifndef KERNELS_CPU_SHAPE_H
#define KERNELS_CPU_SHAPE_H

#include "kernels/kernel.h"

extern const struct kernel shape_flatten; /* FLATTEN and UNFLATTEN */

#endif
