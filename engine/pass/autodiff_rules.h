/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autodiff_rules: the gradient of every op, as rows of a table.
 *
 * A row says which op computes the gradient, what it reads, and of which
 * inputs of the forward op its outputs are the gradients. Several rows of one
 * op are independent: a row none of whose gradients is wanted is left out.
 * Constant data; read by autodiff.c and by tests.
 */
#ifndef ENGINE_PASS_AUTODIFF_RULES_H
#define ENGINE_PASS_AUTODIFF_RULES_H

#include "kernels/op.h"

/* What a gradient op reads. */
enum autodiff_source {
    AUTODIFF_DY, /* the gradient of output 0 */
    AUTODIFF_IN, /* input `index` of the forward op */
    AUTODIFF_OUT /* output `index` of the forward op */
};

struct autodiff_operand {
    enum autodiff_source source;
    int index;
};

/* What is special about a row. */
enum autodiff_how {
    AUTODIFF_PLAIN,
    AUTODIFF_ELIDE, /* operand 0 itself, where shapes are equal already */
    AUTODIFF_PART,  /* params.axis: start after the inputs before `to`, their
                       sizes along the axis added up; length of `to` */
    AUTODIFF_NTH    /* params.axis.start: the number of `to` */
};

struct autodiff_row {
    enum op forward;
    /* The op that computes it, or OP_COUNT: operand 0 itself is the gradient
     * of the inputs in `to`, nothing is computed. */
    enum op op;
    enum autodiff_how how;
    int n_reads;
    struct autodiff_operand reads[OP_MAX_IN];
    int n_to;
    int to[OP_MAX_OUT]; /* output i is the gradient of this input */
};

/* Rows of an op; NULL and *n 0 when it has no gradient. */
const struct autodiff_row *autodiff_rules_find(enum op op, int *n);

#endif
