/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dropout: zeroes elements by keyed random numbers, scales the others.
 *
 * Element i, counted in memory order, is kept when uniform(word i mod 4 of
 * Philox block i / 4) >= p; the key is (seed, stream of the layer, iteration,
 * micro-batch). The backward op makes the same mask again, so nothing is
 * stored. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_DROPOUT_H
#define KERNELS_CPU_DROPOUT_H

#include "kernels/kernel.h"

extern const struct kernel dropout_kernel; /* DROPOUT and DROPOUT_BWD */

#endif
