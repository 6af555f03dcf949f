/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear: y = x w^T + b, its two gradients, and the gradient of a bias.
 *
 * The definition of the products: every output is one float32 sum over k =
 * 0, 1, 2, ... in order, rounded to the output's dtype once. Both factors are
 * packed as float32 panels in the workspace and multiplied in tiles. Fast
 * products are oneDNN's business. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_LINEAR_H
#define KERNELS_CPU_LINEAR_H

#include "kernels/kernel.h"

extern const struct kernel linear_product; /* LINEAR, LINEAR_DX, LINEAR_DW */
extern const struct kernel linear_bias_grad;

#endif
