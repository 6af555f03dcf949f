/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyed: many of Philox's words at once, for kernels that drop elements.
 *
 * philox_words() of kernels/philox.h over a run of indices, by the fastest
 * path of this machine, the same words everywhere. Pure; for the kernels of
 * this folder and kernels/dnnl.
 */
#ifndef KERNELS_CPU_KEYED_H
#define KERNELS_CPU_KEYED_H

#include "kernels/kernel.h"

struct keyed {
    uint64_t seed;
    uint32_t counter[4]; /* [0] is the index */
};

struct keyed keyed_make(const struct kernel_step *step, uint32_t stream);

/* word[4 i .. 4 i + 3] of index first + i, for n indices; fastest when n is a
 * multiple of 8. */
void keyed_words(const struct keyed *k, uint32_t first, int64_t n,
                 uint32_t *word);

/* An element is kept, x scale, when its word >> 8 is >= threshold. */
struct keyed_drop {
    uint32_t threshold;
    float scale; /* 1 / (1 - p); 0 when nothing is kept */
};

struct keyed_drop keyed_drop_make(double p);

#endif
