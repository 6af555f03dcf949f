/* SPDX-License-Identifier: Apache-2.0 */
/*
 * axis: running sums, products and cosine similarity along one axis.
 *
 * Memory is [outer][n][inner] (tensor_split_axis). Running sums and products
 * go along the axis in its order, in double, over one row or many columns side
 * by side; the three sums of a cosine are folds. The workspace holds products
 * of what comes before, or the sums. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_AXIS_H
#define KERNELS_CPU_AXIS_H

#include "kernels/kernel.h"

/* CUMSUM, CUMSUM_BWD. */
extern const struct kernel axis_cumsum;
extern const struct kernel axis_prod;
extern const struct kernel axis_prod_backward;
/* Both COSINE_SIMILARITY ops. */
extern const struct kernel axis_cosine;

#endif
