/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clones: one loop, compiled for several instruction sets, chosen at load.
 *
 * CPU_CLONES goes before a leaf function that holds vector loops and no OpenMP
 * region (an outlined region would not be cloned). Because contraction is off
 * and no loop lets the compiler reorder a sum, every clone gives the same bits.
 * Off under sanitizers (they and ifunc resolvers do not mix) and with clang.
 *
 * CPU_CLONES_FMA is for loops that say __builtin_fmaf(): libm's gives the same
 * bits, slowly, where there is no instruction for it.
 *
 * SUM_LANES is the number of partial sums that reductions keep, on any machine:
 * enough that a sum in flight is not waited for.
 */
#ifndef KERNELS_CPU_CLONES_H
#define KERNELS_CPU_CLONES_H

#include <stdint.h>

#if !TRAIND_SANITIZED && defined(__x86_64__) && defined(__GNUC__) &&           \
    !defined(__clang__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define CPU_CLONES_FMA                                                         \
    __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define CPU_CLONES
#define CPU_CLONES_FMA
#endif

/* For the few loops written by hand beside a plain one. Sanitized builds take
 * the plain ones, so that tests run both. */
#define CPU_HAS_AVX512 (!TRAIND_SANITIZED && __builtin_cpu_supports("avx512f"))

#define SUM_LANES 64 /* lanes_sum_array() counts on it */

/* Sum of n floats, at most a few thousand: in float32, lane by lane, then the
 * lanes in one fixed order. */
static inline double
lanes_sum_array(const float *x, int64_t n)
{
    float sum[SUM_LANES] = {0};
    double total = 0;
    int64_t i = 0;

    for (; i + SUM_LANES <= n; i += SUM_LANES) {
#pragma omp simd
        for (int l = 0; l < SUM_LANES; l++)
            sum[l] += x[i + l];
    }
    /* Constant bounds, or the compiler leaves these loops scalar. */
#pragma omp simd
    for (int l = 0; l < 32; l++)
        sum[l] += sum[l + 32];
#pragma omp simd
    for (int l = 0; l < 16; l++)
        sum[l] += sum[l + 16];
#pragma omp simd
    for (int l = 0; l < 8; l++)
        sum[l] += sum[l + 8];
    for (int l = 0; l < 8; l++)
        total += (double)sum[l];
    for (; i < n; i++)
        total += (double)x[i];
    return total;
}

#endif
