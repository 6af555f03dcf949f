/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flash: attention by blocks of queries, fast.
 *
 * The scores of a block of queries and all keys that it may see lie in a tile
 * that fits a core's cache, float32: nothing of the size T x S is ever stored.
 * Heads are dealt to lanes, one for each thread; products are tile.c's. What
 * cpu/attention.c says about masks, hidden rows, lse and dropout holds here.
 * Called through the kernel table only.
 */
#ifndef KERNELS_DNNL_FLASH_H
#define KERNELS_DNNL_FLASH_H

#include "kernels/kernel.h"

extern const struct kernel flash_forward;
extern const struct kernel flash_backward;

#endif
