/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permute: copies a dense tensor into another order of its dimensions.
 *
 * Moves bits: elements of 1, 2 or 4 bytes, whatever they mean. Dimensions
 * that lie side by side in both orders are joined first; what is left is runs
 * that are copied, or a transpose that goes in square blocks of one cache line
 * each way. Called by kernels/cpu/shape; knows nothing of ops.
 */
#ifndef KERNELS_CPU_PERMUTE_H
#define KERNELS_CPU_PERMUTE_H

#include "kernels/tensor.h"

/* dst is dense with these dims, the last one fastest; its element at index i
 * is src[sum of i[d] stride[d]]. The strides, in elements, are those of a
 * dense tensor in some order of the dims. */
struct permute {
    const void *src;
    void *dst;
    size_t elem_bytes;
    int rank;
    int64_t dim[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};

void permute_run(const struct permute *p, int threads);

#endif
