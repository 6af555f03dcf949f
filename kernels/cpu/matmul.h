/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul: y = a b for each entry of the leading dimensions, and its gradients.
 *
 * Either factor may lie transposed (params.matmul), so that no transposed copy
 * is ever made; gradients have the shape and order of what they belong to. The
 * definition, by way of panel.c; fast products are oneDNN's business. Called
 * through the kernel table only.
 */
#ifndef KERNELS_CPU_MATMUL_H
#define KERNELS_CPU_MATMUL_H

#include "kernels/kernel.h"

extern const struct kernel matmul_product; /* MATMUL, MATMUL_DA, MATMUL_DB */

#endif
