/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batched: matmul and its gradients by oneDNN, one product for each entry of
 * the leading dimensions.
 *
 * A gradient is a matmul with other factors transposed (cpu/matmul.c says
 * which); product.c runs it. Called through the kernel table only.
 */
#ifndef KERNELS_DNNL_BATCHED_H
#define KERNELS_DNNL_BATCHED_H

#include "kernels/kernel.h"

extern const struct kernel batched_product; /* MATMUL, MATMUL_DA, MATMUL_DB */
extern const struct kernel batched_product_native;

#endif
