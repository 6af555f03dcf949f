/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss: mean squared, absolute and binary cross-entropy losses.
 *
 * float32 in and out: predictions x and targets of the same shape and layout.
 * Terms are float32, their sum double, chunk by chunk in order, x inv_count at
 * the end (1 / elements of the window). bce_with_logits is torch's stable form
 * max(x, 0) - x t + log1p(e^-|x|). Called through the kernel table only.
 */
#ifndef KERNELS_CPU_LOSS_H
#define KERNELS_CPU_LOSS_H

#include "kernels/kernel.h"

extern const struct kernel loss_forward;  /* MSE, L1, BCE_WITH_LOGITS */
extern const struct kernel loss_backward; /* and their gradients */

#endif
