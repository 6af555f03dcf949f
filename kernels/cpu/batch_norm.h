/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_norm: normalization per channel over a batch, and its statistics.
 *
 * Ioffe and Szegedy, "Batch normalization" (2015), as torch.nn.BatchNorm1d/2d:
 * biased variance to normalize, unbiased for the running one. Statistics are
 * taken in two passes over each cached chunk and joined in double by Chan,
 * Golub and LeVeque's update, in order. (N, C) and NHWC vectorize over rows of
 * channels, (N, C, L) over L. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_BATCH_NORM_H
#define KERNELS_CPU_BATCH_NORM_H

#include "kernels/kernel.h"

extern const struct kernel batch_norm_forward;
extern const struct kernel batch_norm_eval;
extern const struct kernel batch_norm_backward;
extern const struct kernel batch_norm_stats_track;

#endif
