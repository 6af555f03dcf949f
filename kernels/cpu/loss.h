/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss: losses of one prediction and one target each, summed up.
 *
 * float32 in and out: predictions x and targets of the same shape and layout.
 * Terms are float32, their sum double, chunk by chunk in order, x inv_count at
 * the end (1 / elements of the window). bce_with_logits is torch's stable form
 * max(x, 0) - x t + log1p(e^-|x|); smooth_l1 with beta 0 is l1. Called through
 * the kernel table only.
 */
#ifndef KERNELS_CPU_LOSS_H
#define KERNELS_CPU_LOSS_H

#include "kernels/kernel.h"

extern const struct kernel loss_forward; /* MSE, L1, BCE_WITH_LOGITS, SMOOTH_L1,
                                          HUBER, KL_DIV */
extern const struct kernel loss_backward; /* and their gradients */

#endif
