/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extent: how large and how small the numbers of a tensor are.
 *
 * For reports on ranges, over tensors of gigabytes: integer comparisons of the
 * bits, at the speed of memory. The same answer on any number of threads. No
 * state; x is of dtype float32, float16 or bfloat16 and may not be NULL unless
 * n is 0.
 */
#ifndef KERNELS_CPU_EXTENT_H
#define KERNELS_CPU_EXTENT_H

#include "proto/dtype.h"

#include <stdint.h>

struct extent {
    double largest;  /* finite magnitude; NaN: nothing is finite */
    double smallest; /* finite magnitude that is not 0; NaN: none is */
    int64_t n_nonfinite;
};

void extent_measure(const void *x, enum dtype t, int64_t n, int threads,
                    struct extent *out);

/* Elements that are 0 in x and not in full. */
int64_t extent_count_flushed(const void *x, enum dtype t, const float *full,
                             int64_t n, int threads);

#endif
