/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape: what an op makes of its inputs: one row of a table per op.
 *
 * Pure. Given the inputs' descriptors it checks that they fit the op (shapes,
 * layouts, dtypes) and says shape, layout and dtype of every output. Called by
 * graph_add_node() and by verify; passes rely on it for dtypes. Wrong shapes
 * are ERR_SPEC with a sentence that names no layer: the caller knows it.
 */
#ifndef ENGINE_GRAPH_SHAPE_H
#define ENGINE_GRAPH_SHAPE_H

#include "kernels/op.h"
#include "proto/err.h"

struct shape_query {
    enum op op;
    const union op_params *params;
    struct tensor_desc in[OP_MAX_IN]; /* DTYPE_NONE: absent */
    enum dtype out_dtype;             /* NONE: by the op's rule */
    const struct tensor_desc *like;   /* graph_node_args.like */
};

int shape_infer(const struct shape_query *q, struct tensor_desc out[OP_MAX_OUT],
                struct err *err);

/* Does the rule leave the dtype of output 0 to the caller (out_dtype)? */
bool shape_dtype_is_asked(enum op op);

/* Does dim 0 of output i count samples when dim 0 of the input `in` does? */
bool shape_keeps_samples(enum op op, int i, const struct tensor_desc *in,
                         const struct tensor_desc *out);

/* No tensor has more than 2^40 elements: bytes always fit an int64_t. */
bool shape_fits(const struct tensor_desc *t);

/* "[64,3,28,28]", for sentences; cut at size. Returns text. */
const char *shape_format(const struct tensor_desc *t, char *text, size_t size);
#define SHAPE_TEXT_MAX 144

#endif
