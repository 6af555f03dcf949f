/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel: the only place of kernels/cpu that knows OpenMP.
 *
 * Work is cut into numbered items whose bounds depend on the shape alone,
 * never on the number of threads; items are dealt out statically. So a kernel
 * that writes one result per item, and joins them in order, gives the same
 * bits on any number of threads. Called by the kernels; starts no region for
 * work that is smaller than the cost of one.
 */
#ifndef KERNELS_CPU_PARALLEL_H
#define KERNELS_CPU_PARALLEL_H

#include <stdint.h>

/* Below this many elements' worth of work a region does not pay. */
#define PARALLEL_MIN 32768

/* Does item i; must not depend on other items. */
typedef void parallel_fn(const void *ctx, int64_t item);

/* fn(ctx, 0 .. n_items - 1); work is in elements touched, in all. */
void parallel_run(int64_t n_items, int64_t work, int threads, parallel_fn *fn,
                  const void *ctx);

#endif
