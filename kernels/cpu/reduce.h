/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce: sum, mean, vector norms and log-sum-exp over any set of dims.
 *
 * Forward ops are folds in double (kernels/cpu/fold.h), rounded once, so a
 * mean of a hundred thousand halves is exact enough; backward ops spread dy
 * over what was reduced. The workspace holds maxima and counts where an op
 * needs them first. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_REDUCE_H
#define KERNELS_CPU_REDUCE_H

#include "kernels/kernel.h"

/* SUM, MEAN, NORM. */
extern const struct kernel reduce_forward;
extern const struct kernel reduce_logsumexp;
/* SUM_BWD, MEAN_BWD, NORM_BWD, LOGSUMEXP_BWD. */
extern const struct kernel reduce_backward;

#endif
