/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor: what a block of elements means: dtype, shape, layout.
 *
 * Plain data. Dimensions are logical and in PyTorch's order: (N, C, H, W) for
 * images, (O, I, kh, kw) for convolution weights. How the elements lie in
 * memory is the layout:
 *   ROW   last dimension fastest. Everything but images and signals.
 *   NHWC  channels (dim 1) fastest: images (N, C, H, W) lie as N, H, W, C,
 *         signals (N, C, L) as N, L, C. What convolutions read and make, with
 *         its gradient; weights never have it.
 * No strides: a tensor is dense. Rank 0 is one element.
 */
#ifndef KERNELS_TENSOR_H
#define KERNELS_TENSOR_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 6

enum tensor_layout { TENSOR_ROW, TENSOR_NHWC };

struct tensor_desc {
    enum dtype dtype; /* DTYPE_NONE: an absent optional input */
    enum tensor_layout layout;
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
};

/* A row-major descriptor; rank <= TENSOR_MAX_RANK. */
struct tensor_desc tensor_make(enum dtype dtype, int rank, const int64_t *dim);
/* (N, C, H, W), channels last. */
struct tensor_desc tensor_make_nhwc(enum dtype dtype, int64_t n, int64_t c,
                                    int64_t h, int64_t w);
/* (N, C, L), channels last. */
struct tensor_desc tensor_make_nlc(enum dtype dtype, int64_t n, int64_t c,
                                   int64_t l);
/* The same with another dtype. */
struct tensor_desc tensor_with_dtype(const struct tensor_desc *t,
                                     enum dtype dtype);

int64_t tensor_n_elems(const struct tensor_desc *t); /* 1 for rank 0 */
size_t tensor_n_bytes(const struct tensor_desc *t);
bool tensor_same_shape(const struct tensor_desc *a,
                       const struct tensor_desc *b); /* not dtype */

/* The logical axes in memory order, slowest first: rank of them. */
const int *tensor_axis_order(const struct tensor_desc *t);
/* Elements between neighbours along each logical axis. */
void tensor_strides(const struct tensor_desc *t, int64_t *stride);
/* Memory as [outer][n][inner], where n is the logical axis: inner is 1 for the
 * axis that is last in memory (channels, in NHWC). */
void tensor_split_axis(const struct tensor_desc *t, int axis, int64_t *outer,
                       int64_t *n, int64_t *inner);

/* Position in memory -> logical index[0 .. rank-1]. */
void tensor_unravel(const struct tensor_desc *t, int64_t at, int64_t *index);
/* Logical index -> position in memory. */
int64_t tensor_ravel(const struct tensor_desc *t, const int64_t *index);

/* "f16[128,32,28,28]nhwc", "f32[8,16,100]nlc"; cut at size. Returns text. */
const char *tensor_format(const struct tensor_desc *t, char *text, size_t size);

#endif
