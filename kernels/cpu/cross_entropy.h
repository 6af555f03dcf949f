/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_entropy: softmax cross-entropy over class indices, and the count of
 * right answers.
 *
 * Logits x float32 (CORRECT: any), classes fastest in memory (dim 1 of NHWC,
 * else the last); targets i32, one a row. torch.nn.CrossEntropyLoss with
 * label_smoothing and ignore_index: an ignored row adds nothing; a target
 * outside [0, C) makes the row's loss and gradient NaN and reads nothing out of
 * bounds. Rows are summed in double in order. Called through the kernel table.
 */
#ifndef KERNELS_CPU_CROSS_ENTROPY_H
#define KERNELS_CPU_CROSS_ENTROPY_H

#include "kernels/kernel.h"

extern const struct kernel cross_entropy_forward;
extern const struct kernel cross_entropy_backward;
extern const struct kernel cross_entropy_correct;

#endif
