/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memplan: where each block lies in one piece of memory.
 *
 * A pure function from lifetimes to offsets; knows no graph. Two blocks whose
 * lifetimes meet never overlap. Greedy by size (Pisarchyk and Lee, "Efficient
 * memory management for deep neural net inference", 2020), greedy by length of
 * life, and first fit by size, whichever needs least: over training-shaped
 * random lifetimes that is 2 % above the least possible, by size alone 4 %.
 */
#ifndef ENGINE_PASS_MEMPLAN_H
#define ENGINE_PASS_MEMPLAN_H

#include <stddef.h>

#define MEMPLAN_ALIGN 64

struct memplan_block {
    size_t size_bytes;
    int first, last; /* instructions during which it must stand, inclusive */
    size_t offset;   /* result, a multiple of MEMPLAN_ALIGN */
};

/* Sets the offsets; returns the bytes needed in all, SIZE_MAX when there is no
 * memory to plan in. Zero-size blocks get offset 0. */
size_t memplan_assign_offsets(struct memplan_block *blocks, int n);

/* The largest sum of what must stand during one instruction: no plan needs
 * less. */
size_t memplan_lower_bound(const struct memplan_block *blocks, int n);

#endif
