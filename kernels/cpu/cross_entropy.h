/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_entropy: softmax cross-entropy over class indices.
 *
 * Logits x float32, rows as in class_rows.h; targets i32, one a row.
 * torch.nn.CrossEntropyLoss with label_smoothing and ignore_index: an ignored
 * row adds nothing; a target outside [0, C) makes the row's loss and gradient
 * NaN. Rows are summed in double in order. Called through the kernel table.
 */
#ifndef KERNELS_CPU_CROSS_ENTROPY_H
#define KERNELS_CPU_CROSS_ENTROPY_H

#include "kernels/kernel.h"

extern const struct kernel cross_entropy_forward;
extern const struct kernel cross_entropy_backward;

#endif
