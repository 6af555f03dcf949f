/* SPDX-License-Identifier: Apache-2.0 */
/*
 * panel: one product of two matrices, the definition of all of them.
 *
 * C[m, n] = sum over k of A[m, k] B[k, n] (+ bias[n]): every element is one
 * float32 sum over k = 0, 1, 2, ... in order, rounded to C's dtype once. Both
 * factors are packed as float32 panels in a workspace and multiplied in tiles.
 * Called by the product kernels of this folder.
 */
#ifndef KERNELS_CPU_PANEL_H
#define KERNELS_CPU_PANEL_H

#include "proto/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* One factor: element (i, k) at i x i_step + k x k_step; one step is 1. */
struct panel_factor {
    const void *data;
    enum dtype dtype;
    int64_t n; /* rows of A or columns of B */
    int64_t i_step, k_step;
    float *panel; /* panel.c's: [tile][k][width], zero beyond n */
    int width;    /* panel.c's */
};

struct panel_product {
    struct panel_factor a, b;
    int64_t k;
    const void *bias; /* or NULL */
    enum dtype bias_dtype, c_dtype;
    void *c; /* rows of b.n */
};

/* Data pointers do not matter here. */
size_t panel_workspace_bytes(const struct panel_product *product);
void panel_multiply(const struct panel_product *product, float *workspace,
                    int threads);

#endif
