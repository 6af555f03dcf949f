/* SPDX-License-Identifier: Apache-2.0 */
/*
 * philox: counter-based random numbers, the same on every backend.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011). A number is a pure function of key and counter, never
 * of call order, so any step can be run again from its numbers alone.
 *
 * Key: the seed's two halves. Counter: {index, stream, iteration low 32,
 * micro_batch << 16 | iteration bits 32..47}. Stream numbers are layers for
 * dropout and the PHILOX_STREAM_ values below for everything else.
 */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#define PHILOX_STREAM_WEIGHTS 0xffff0000u /* + index of the parameter */
#define PHILOX_STREAM_ORDER   0xfffe0000u /* iteration field: the epoch */
#define PHILOX_STREAM_SAMPLE  0xfffd0000u /* iteration field: the token */
/* Iteration field: the data position; index: that of the sample in its
 * micro-batch. */
#define PHILOX_STREAM_WINDOW  0xfffc0000u /* starts of windows; + the attempt */
#define PHILOX_STREAM_AUGMENT 0xfffb0000u /* crops and flips */

static inline void
philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    const uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)p0;
}

/* Four words for counter c (overwritten). */
static inline void
philox_4x32(uint64_t seed, uint32_t c[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int i = 0; i < 10; i++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Words 4 x index .. 4 x index + 3 of a stream. */
static inline void
philox_words(uint64_t seed, uint32_t stream, uint64_t iteration,
             uint32_t micro_batch, uint32_t index, uint32_t out[4])
{
    out[0] = index;
    out[1] = stream;
    out[2] = (uint32_t)iteration;
    out[3] = micro_batch << 16 | (uint32_t)(iteration >> 32 & 0xffffu);
    philox_4x32(seed, out);
}

/* [0, 1), 24 bits. */
static inline float
philox_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
