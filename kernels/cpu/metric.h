/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric: how many answers are right, and which are taken for which.
 *
 * Scores of any float dtype, rows as in class_rows.h. CORRECT counts rows whose
 * target is among the params.loss.k best (0 means 1): fewer than k classes have
 * a greater score, or the same and a lower number. CONFUSION counts rows by
 * target and first maximum. Ignored rows, rows with a NaN and rows whose target
 * is no class count nowhere. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_METRIC_H
#define KERNELS_CPU_METRIC_H

#include "kernels/kernel.h"

extern const struct kernel metric_correct;
extern const struct kernel metric_confusion;

#endif
