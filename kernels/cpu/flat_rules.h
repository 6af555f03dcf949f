/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flat_rules: more optimizers over the flat blocks, and the moving average.
 *
 * torch.optim's Adagrad and RMSprop, Lion as its paper has it, and the average
 * of the weights, in the manner of flat.h: float32, each number of a formula
 * rounded once from double, chunks of KERNEL_CHUNK. Averages are moved towards
 * what comes in by a share of the difference, so that a constant stays what it
 * is. Called by engine/run on the thread that owns the step.
 */
#ifndef KERNELS_CPU_FLAT_RULES_H
#define KERNELS_CPU_FLAT_RULES_H

#include "kernels/kernel.h"

void flat_rules_adagrad(float *w, const float *g, float *sum, int64_t n,
                        float clip, const struct kernel_adagrad *p,
                        int threads);
void flat_rules_rmsprop(float *w, const float *g, float *square,
                        float *momentum, float *mean, int64_t n, float clip,
                        const struct kernel_rmsprop *p, int threads);
void flat_rules_lion(float *w, const float *g, float *m, int64_t n, float clip,
                     const struct kernel_lion *p, int threads);
void flat_rules_ema(float *ema, const float *w, int64_t n, double decay,
                    int threads);

#endif
