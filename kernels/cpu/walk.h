/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk: several tensors read side by side, in the memory order of one of them.
 *
 * The base tensor is dense and every operand has a stride along each of its
 * axes, 0 where it is broadcast or summed away; neighbouring axes along which
 * all operands step alike become one. walk_view() hands out operands in blocks
 * of float32 (bools as 0 and 1, i32 as themselves), without a copy where they
 * lie so already. Axes of unlike layouts may meet; only their speed suffers.
 * Built on the stack at the start of a run; reading is safe on any thread.
 */
#ifndef KERNELS_CPU_WALK_H
#define KERNELS_CPU_WALK_H

#include "kernels/tensor.h"

#define WALK_MAX   4
#define WALK_BLOCK 1024 /* elements of a view at most */

struct walk_operand {
    const void *data; /* borrowed; NULL while only shapes are asked about */
    enum dtype dtype;
    bool is_number; /* `value` everywhere */
    float value;
    bool whole; /* lies like the base */
    int64_t stride[TENSOR_MAX_RANK];
};

struct walk {
    int rank; /* axes in memory order, slowest first; none of size 1 */
    int64_t dim[TENSOR_MAX_RANK];
    int64_t step[TENSOR_MAX_RANK]; /* of the base itself */
    int64_t n;                     /* elements of the base */
    int n_operands;
    struct walk_operand operand[WALK_MAX];
};

void walk_init(struct walk *w, const struct tensor_desc *base);
/* The next operand, of a shape that broadcasts to base's. */
void walk_add(struct walk *w, const struct tensor_desc *base,
              const struct tensor_desc *t, const void *data);
/* The next operand: t has the axes of base that are not in the set `dims`, and
 * perhaps ones of size 1 in the place of the others. */
void walk_add_reduced(struct walk *w, const struct tensor_desc *base,
                      unsigned dims, const struct tensor_desc *t,
                      const void *data);
/* The next operand: one number. */
void walk_add_number(struct walk *w, float value);
/* After the last operand: joins axes. */
void walk_close(struct walk *w);

/* Whether t broadcasts to base. */
bool walk_fits(const struct tensor_desc *base, const struct tensor_desc *t);

/* Elements at .. at + n - 1 of the base as operand i has them; buf: n floats,
 * 64-byte aligned. An operand that repeats may be read past the base's end. */
const float *walk_view(const struct walk *w, int i, int64_t at, int64_t n,
                       float *buf);

#endif
