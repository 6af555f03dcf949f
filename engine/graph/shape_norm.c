/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of norms. */
#include "engine/graph/shape_private.h"

/* Rows (N, C), or signals or images with channels in dim 1. */
static int
need_channels(const struct shape_query *q, int i, struct err *err)
{
    return q->in[i].rank == 2 ? 0 : shape_need_signal(q, i, err);
}

int
shape_infer_batch_norm(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    const struct tensor_desc *x = &q->in[0];

    if (need_channels(q, 0, err) != 0)
        return err->code;
    for (int i = 1; i < op_info(q->op)->n_in; i++)
        if (shape_need_vector(q, i, x->dim[1], err) != 0)
            return err->code;
    out[0] = *x;
    out[1] = out[2] = tensor_make(DTYPE_F32, 1, &x->dim[1]);
    return 0;
}

int
shape_infer_batch_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                           struct err *err)
{
    const struct tensor_desc *x = &q->in[1];

    if (shape_need_same(q, 0, 1, err) != 0)
        return err->code;
    for (int i = 2; i < 5; i++)
        if (shape_need_vector(q, i, x->dim[1], err) != 0)
            return err->code;
    out[0] = *x;
    out[1] = out[2] = tensor_make(DTYPE_F32, 1, &x->dim[1]);
    return 0;
}

/* ---- over trailing dims -------------------------------------------------- */

/* The last n_dims dims of t. */
static struct tensor_desc
trailing(const struct tensor_desc *t, int n_dims)
{
    return tensor_make(DTYPE_F32, n_dims, &t->dim[t->rank - n_dims]);
}

/* Rows x at `at`, and n_w weights after it that have the trailing shape. */
static int
check_trailing(const struct shape_query *q, int at, int n_w, struct err *err)
{
    const struct tensor_desc *x = &q->in[at];
    const int n_dims = q->params->layer_norm.n_dims;
    struct tensor_desc inner;

    if (n_dims < 1 || n_dims >= x->rank || x->layout != TENSOR_ROW)
        return shape_misfit(q, at, at, err);
    inner = trailing(x, n_dims);
    for (int i = at + 1; i <= at + n_w; i++)
        if (q->in[i].dtype != DTYPE_NONE &&
            !tensor_same_shape(&q->in[i], &inner))
            return shape_misfit(q, at, i, err);
    return 0;
}

/* x and one number a row: n of them. */
static void
set_rows(const struct shape_query *q, struct tensor_desc *out, int n)
{
    const struct tensor_desc *x = &q->in[0];

    out[0] = *x;
    for (int i = 1; i <= n; i++)
        out[i] = tensor_make(DTYPE_F32, x->rank - q->params->layer_norm.n_dims,
                             x->dim);
}

int
shape_infer_layer_norm(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    if (check_trailing(q, 0, 2, err) != 0)
        return err->code;
    set_rows(q, out, 2);
    return 0;
}

int
shape_infer_rms_norm(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    if (check_trailing(q, 0, 1, err) != 0)
        return err->code;
    set_rows(q, out, 1);
    return 0;
}

/* dx, and one gradient for each weight: dy, x, w?, .. */
static int
trailing_bwd(const struct shape_query *q, struct tensor_desc *out, int n_w,
             struct err *err)
{
    const struct tensor_desc *x = &q->in[1];

    if (check_trailing(q, 1, 1, err) != 0)
        return err->code;
    out[0] = *x;
    for (int i = 1; i <= n_w; i++)
        out[i] = trailing(x, q->params->layer_norm.n_dims);
    return shape_need_same(q, 0, 1, err);
}

int
shape_infer_layer_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                           struct err *err)
{
    return trailing_bwd(q, out, 2, err);
}

int
shape_infer_rms_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                         struct err *err)
{
    return trailing_bwd(q, out, 1, err);
}

/* ---- over groups of channels ---------------------------------------------- */

static int
check_groups(const struct shape_query *q, int at, int n_w, struct err *err)
{
    const struct tensor_desc *x = &q->in[at];
    const int64_t groups = q->params->group_norm.n_groups;

    if (need_channels(q, at, err) != 0)
        return err->code;
    if (groups < 1 || x->dim[1] % groups != 0)
        return shape_misfit(q, at, at, err);
    for (int i = at + 1; i <= at + n_w; i++)
        if (shape_need_vector(q, i, x->dim[1], err) != 0)
            return err->code;
    return 0;
}

int
shape_infer_group_norm(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    const struct tensor_desc *x = &q->in[0];

    if (check_groups(q, 0, 2, err) != 0)
        return err->code;
    out[0] = *x;
    out[1] = out[2] = tensor_make(
        DTYPE_F32, 2, (int64_t[]){x->dim[0], q->params->group_norm.n_groups});
    return 0;
}

int
shape_infer_group_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                           struct err *err)
{
    if (check_groups(q, 1, 1, err) != 0)
        return err->code;
    out[0] = q->in[1];
    out[1] = out[2] = tensor_make(DTYPE_F32, 1, &q->in[1].dim[1]);
    return shape_need_same(q, 0, 1, err);
}
