/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clones: one loop, compiled for several instruction sets, chosen at load.
 *
 * CPU_CLONES goes before a leaf function that holds vector loops and no OpenMP
 * region (an outlined region would not be cloned). Because contraction is off
 * and no loop lets the compiler reorder a sum, every clone gives the same bits.
 * Off under sanitizers (they and ifunc resolvers do not mix) and with clang.
 *
 * LANES is the number of partial sums that reductions keep, on any machine.
 */
#ifndef KERNELS_CPU_CLONES_H
#define KERNELS_CPU_CLONES_H

#include <stdint.h>

#if !TRAIND_SANITIZED && defined(__x86_64__) && defined(__GNUC__) &&           \
    !defined(__clang__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_CLONES
#endif

#define LANES 16

/* LANES floats, or half as many doubles, as one value: the compiler lays them
 * on whatever registers there are, and sums keep their order. */
typedef float lanes_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double lanes_f64
    __attribute__((vector_size(64), aligned(8), may_alias));

typedef int32_t lanes_i32
    __attribute__((vector_size(64), aligned(4), may_alias));

/* Eight floats, for sums in double. */
typedef float lanes_half
    __attribute__((vector_size(32), aligned(4), may_alias));

/* The lanes' sum, in one fixed order. */
static inline double
lanes_sum(const lanes_f32 *v)
{
    double sum = 0;

    for (int i = 0; i < LANES; i++)
        sum += (double)(*v)[i];
    return sum;
}

static inline double
lanes_sum_f64(const lanes_f64 *v)
{
    double sum = 0;

    for (int i = 0; i < LANES / 2; i++)
        sum += (*v)[i];
    return sum;
}

/* Sum of n floats, at most a few thousand: lane by lane in float32. */
static inline double
lanes_sum_array(const float *x, int64_t n)
{
    lanes_f32 sum = {0};
    double total;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        sum += *(const lanes_f32 *)(x + i);
    total = lanes_sum(&sum);
    for (; i < n; i++)
        total += (double)x[i];
    return total;
}

#endif
