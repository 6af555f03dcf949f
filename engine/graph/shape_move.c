/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of ops that move elements and change none. */
#include "engine/graph/shape_private.h"

#include <assert.h>

int
shape_infer_flatten(const struct shape_query *q, struct tensor_desc *out,
                    struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    int64_t rest = 1;

    if (x->rank < 2)
        return shape_misfit(q, 0, 0, err);
    for (int i = 1; i < x->rank; i++)
        rest *= x->dim[i];
    out[0] = tensor_make(DTYPE_NONE, 2, (int64_t[]){x->dim[0], rest});
    return 0;
}

int
shape_infer_unflatten(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (tensor_n_elems(&out[0]) != tensor_n_elems(&q->in[0]))
        return shape_misfit(q, 0, 0, err);
    return 0;
}

/* Only signals and images can lie channels last. */
int
shape_infer_relayout(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (!tensor_same_shape(&out[0], &q->in[0]) || q->in[0].rank < 3 ||
        q->in[0].rank > 4)
        return shape_misfit(q, 0, 0, err);
    return 0;
}

int
shape_infer_reshape(const struct shape_query *q, struct tensor_desc *out,
                    struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (q->in[0].layout != TENSOR_ROW || out[0].layout != TENSOR_ROW ||
        tensor_n_elems(&out[0]) != tensor_n_elems(&q->in[0]))
        return shape_misfit(q, 0, 0, err);
    return 0;
}

int
shape_infer_transpose(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    const int a = q->params->transpose.dim0, b = q->params->transpose.dim1;

    if (x->layout != TENSOR_ROW || a < 0 || b < 0 || a >= x->rank ||
        b >= x->rank)
        return shape_misfit(q, 0, 0, err);
    out[0] = *x;
    out[0].dim[a] = x->dim[b];
    out[0].dim[b] = x->dim[a];
    return 0;
}

/* Is start .. start + length inside of t's axis? */
static bool
holds(const struct shape_query *q, const struct tensor_desc *t)
{
    const int axis = q->params->axis.axis;
    const int64_t start = q->params->axis.start;
    const int64_t length = q->params->axis.length;

    return axis >= 0 && axis < t->rank && start >= 0 && length >= 0 &&
           length <= t->dim[axis] - start;
}

int
shape_infer_narrow(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    if (!holds(q, &q->in[0]))
        return shape_misfit(q, 0, 0, err);
    out[0] = q->in[0];
    out[0].dim[q->params->axis.axis] = q->params->axis.length;
    return 0;
}

int
shape_infer_narrow_bwd(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    struct tensor_desc part;

    assert(q->like != NULL);
    out[0] = part = *q->like;
    if (!holds(q, &part))
        return shape_misfit(q, 0, 0, err);
    part.dim[q->params->axis.axis] = q->params->axis.length;
    if (!tensor_same_shape(&part, &q->in[0]) || part.layout != q->in[0].layout)
        return shape_misfit(q, 0, 0, err);
    return 0;
}

/* How many inputs there are; those that are absent stand at the end. */
static int
n_present(const struct shape_query *q)
{
    int n = 0;

    while (n < OP_MAX_IN && q->in[n].dtype != DTYPE_NONE)
        n++;
    for (int i = n; i < OP_MAX_IN; i++)
        assert(q->in[i].dtype == DTYPE_NONE);
    return n;
}

int
shape_infer_cat(const struct shape_query *q, struct tensor_desc *out,
                struct err *err)
{
    const int axis = q->params->axis.axis, n = n_present(q);

    out[0] = q->in[0];
    if (axis < 0 || axis >= out[0].rank)
        return shape_misfit(q, 0, 0, err);
    for (int i = 1; i < n; i++) {
        struct tensor_desc one = q->in[i];

        if (one.rank != out[0].rank || one.layout != out[0].layout)
            return shape_misfit(q, 0, i, err);
        one.dim[axis] = q->in[0].dim[axis];
        if (!tensor_same_shape(&one, &q->in[0]))
            return shape_misfit(q, 0, i, err);
        out[0].dim[axis] += q->in[i].dim[axis];
    }
    return 0;
}

int
shape_infer_stack(const struct shape_query *q, struct tensor_desc *out,
                  struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    const int axis = q->params->axis.axis, n = n_present(q);

    if (axis < 0 || axis > x->rank || x->rank >= TENSOR_MAX_RANK ||
        x->layout != TENSOR_ROW)
        return shape_misfit(q, 0, 0, err);
    for (int i = 1; i < n; i++)
        if (shape_need_same(q, 0, i, err) != 0)
            return err->code;
    out[0] = (struct tensor_desc){.rank = x->rank + 1};
    for (int i = 0; i < out[0].rank; i++)
        out[0].dim[i] = i == axis ? n : x->dim[i < axis ? i : i - 1];
    return 0;
}

int
shape_infer_stack_bwd(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const struct tensor_desc *dy = &q->in[0];
    const int axis = q->params->axis.axis;

    if (axis < 0 || axis >= dy->rank || q->params->axis.start < 0 ||
        q->params->axis.start >= dy->dim[axis] || dy->layout != TENSOR_ROW)
        return shape_misfit(q, 0, 0, err);
    out[0] = (struct tensor_desc){0};
    for (int i = 0; i < dy->rank; i++)
        if (i != axis)
            out[0].dim[out[0].rank++] = dy->dim[i];
    return 0;
}
