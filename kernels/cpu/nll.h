/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nll: the negative log-likelihood of classes, from log-probabilities.
 *
 * torch.nn.NLLLoss with ignore_index over rows as in class_rows.h: minus the
 * sum of x[target], in double in order, x inv_count; its gradient is -inv_count
 * at the targets and 0 elsewhere. A target that is no class makes the loss and
 * the row's gradient NaN. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_NLL_H
#define KERNELS_CPU_NLL_H

#include "kernels/kernel.h"

extern const struct kernel nll_forward;
extern const struct kernel nll_backward;

#endif
