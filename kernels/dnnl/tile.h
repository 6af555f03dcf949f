/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile: a product of 8 x 32 elements, float32, as fast as the machine goes.
 *
 * C[8][32] = A[8][k] B[k][32], or += it. What oneDNN would be called for many
 * times with small matrices, without a primitive for each shape. Sums run over
 * k in order, by fused multiply-adds where there is AVX-512, else not: the same
 * bits on one machine. Also the transposition that B's operands need. Pure; for
 * flash.c.
 */
#ifndef KERNELS_DNNL_TILE_H
#define KERNELS_DNNL_TILE_H

#include <stdbool.h>
#include <stdint.h>

#define TILE_ROWS 8
#define TILE_COLS 32

/* A's element (i, k) at i x row + k x col; one of the two is 1. */
struct tile_factor {
    const float *data;
    int64_t row, col;
};

/* Rows of b are b_row apart, those of c c_row. */
void tile_multiply(const struct tile_factor *a, const float *b, int64_t b_row,
                   int64_t k, float *c, int64_t c_row, bool add);

/* to[j][i] = from[i][j] for i < 32, j < n; to's rows are 32 long, from's
 * from_row apart and readable up to a multiple of 16. */
void tile_transpose(float *to, const float *from, int64_t from_row, int64_t n);

#endif
