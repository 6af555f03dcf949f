/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function: exp, log, powers, softplus and their gradients, element by element.
 *
 * Like elementwise, for functions that carry parameters or need double within:
 * inputs of the output's shape and layout, one rounding at the end, output 0
 * may be the first of them. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_FUNCTION_H
#define KERNELS_CPU_FUNCTION_H

#include "kernels/kernel.h"

/* Which one is sig->op. */
extern const struct kernel function_kernel;

#endif
