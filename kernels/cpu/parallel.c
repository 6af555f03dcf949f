/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/parallel.h"

#include <assert.h>

void
parallel_run(int64_t n_items, int64_t work, int threads, parallel_fn *fn,
             const void *ctx)
{
    assert(threads >= 1);
    if (threads == 1 || n_items < 2 || work < PARALLEL_MIN) {
        for (int64_t i = 0; i < n_items; i++)
            fn(ctx, i);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n_items; i++)
        fn(ctx, i);
}
