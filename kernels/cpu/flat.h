/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flat: the kernels over the flat blocks of gradients, weights and moments.
 *
 * struct kernel_flat of kernel.h, in plain C: unscale with check and norm in
 * one pass, torch.optim's SGD, Adam and AdamW in float32, the search for a
 * non-finite element. Chunks of KERNEL_CHUNK elements, results joined in
 * order. Called by engine/run on the thread that owns the step.
 */
#ifndef KERNELS_CPU_FLAT_H
#define KERNELS_CPU_FLAT_H

#include "kernels/kernel.h"

void flat_unscale(float *g, int64_t n, float inverse, int threads,
                  struct kernel_unscale *result);
void flat_sgd(float *w, const float *g, float *momentum, int64_t n, float clip,
              const struct kernel_sgd *p, int threads);
void flat_adam(float *w, const float *g, float *m, float *v, int64_t n,
               float clip, const struct kernel_adam *p, int threads);
int64_t flat_find_nonfinite(const void *x, enum dtype dtype, int64_t n,
                            int threads);

#endif
