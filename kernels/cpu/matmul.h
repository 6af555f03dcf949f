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

/* The same product as a MATMUL's signature, inputs exchanged when *swapped. */
struct kernel_sig matmul_as_forward(const struct kernel_sig *sig,
                                    bool *swapped);

extern const struct kernel matmul_product; /* MATMUL, MATMUL_DA, MATMUL_DB */

#endif
