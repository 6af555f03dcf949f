/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding: rows of a table by number, and the sums that come back to them.
 *
 * torch.nn.functional.embedding. The gradient adds the rows of dy one after
 * the other, in the order of ids, in float32; threads own columns, so the bits
 * are those of one thread. The row of the padding index stays 0. An id outside
 * the table aborts: data is checked where it is read. Called through the
 * kernel table only.
 */
#ifndef KERNELS_CPU_EMBEDDING_H
#define KERNELS_CPU_EMBEDDING_H

#include "kernels/kernel.h"

extern const struct kernel embedding_forward;
extern const struct kernel embedding_backward;

#endif
