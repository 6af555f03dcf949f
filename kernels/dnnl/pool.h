/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool: MAX_POOL2D and its gradient for 2 x 2 windows that do not overlap.
 *
 * The window that most networks have, as one pass over four rows of channels,
 * in the tensor's own dtype: halves are compared as integers. Other windows
 * are left to the reference.
 */
#ifndef KERNELS_DNNL_POOL_H
#define KERNELS_DNNL_POOL_H

#include "kernels/kernel.h"

extern const struct kernel pool_max, pool_max_backward;

#endif
