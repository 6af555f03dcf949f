/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of ops that work on each element, alone or with another tensor's. */
#include "engine/graph/shape_private.h"

#include <assert.h>

int
shape_infer_same(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    (void)err;
    out[0] = q->in[0];
    return 0;
}

/* Sums in place, and gradients that read a forward value. */
int
shape_infer_binary(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    out[0] = q->in[0];
    return shape_need_same(q, 0, 1, err);
}

int
shape_infer_scalar(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    for (int i = 0; i < op_info(q->op)->n_in; i++)
        if (q->in[i].rank != 0)
            return shape_misfit(q, i, i, err);
    out[0] = tensor_make(DTYPE_F32, 0, NULL);
    return 0;
}

int
shape_infer_stats_track(const struct shape_query *q, struct tensor_desc *out,
                        struct err *err)
{
    for (int i = 1; i < 4; i++)
        if (shape_need_vector(q, i, tensor_n_elems(&q->in[0]), err) != 0)
            return err->code;
    out[0] = q->in[0];
    out[1] = q->in[1];
    return 0;
}

/* ---- broadcasting --------------------------------------------------------
 * NumPy's rule: dims aligned at the end, and equal or 1. Both tensors lie in
 * one layout, unless one of them is a single element. */

static bool
is_single(const struct tensor_desc *t)
{
    return t->rank == 0 || (t->rank == 1 && t->dim[0] == 1);
}

/* What a and b broadcast to; false where they do not. */
static bool
join(const struct tensor_desc *a, const struct tensor_desc *b,
     struct tensor_desc *out)
{
    const struct tensor_desc *large = a->rank >= b->rank ? a : b;
    const struct tensor_desc *small = a->rank >= b->rank ? b : a;
    const int shift = large->rank - small->rank;

    *out = *large;
    if (is_single(small))
        return true;
    if (is_single(large)) {
        *out = *small;
        return true;
    }
    /* Channels last means something for tensors of one rank only. */
    if (large->layout != small->layout ||
        (large->layout == TENSOR_NHWC && shift > 0))
        return false;
    for (int i = 0; i < small->rank; i++) {
        int64_t *d = &out->dim[shift + i];

        if (*d == 1)
            *d = small->dim[i];
        else if (small->dim[i] != 1 && small->dim[i] != *d)
            return false;
    }
    return true;
}

int
shape_infer_broadcast(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    out[0] = q->in[0];
    if (q->in[1].dtype == DTYPE_NONE || join(&q->in[0], &q->in[1], &out[0]))
        return 0;
    return shape_misfit(q, 0, 1, err);
}

/* Token ids can be compared with a number alone. */
int
shape_infer_compare(const struct shape_query *q, struct tensor_desc *out,
                    struct err *err)
{
    const enum dtype a = q->in[0].dtype, b = q->in[1].dtype;

    if (a == DTYPE_I32 ? b != DTYPE_NONE
                       : !dtype_is_float(a) || (b != DTYPE_NONE && b != a))
        return err_set(err, ERR_SPEC,
                       "compares floats of one type, or int32 with a number");
    return shape_infer_broadcast(q, out, err);
}

int
shape_infer_where(const struct shape_query *q, struct tensor_desc *out,
                  struct err *err)
{
    const struct tensor_desc *a = &q->in[1], *b = &q->in[2];
    struct tensor_desc both = a->dtype != DTYPE_NONE ? *a : *b;

    assert(both.dtype != DTYPE_NONE);
    if (a->dtype != DTYPE_NONE && b->dtype != DTYPE_NONE && !join(a, b, &both))
        return shape_misfit(q, 1, 2, err);
    if (!join(&q->in[0], &both, &out[0]))
        return shape_misfit(q, 0, a->dtype != DTYPE_NONE ? 1 : 2, err);
    return 0;
}

/* Gradients of operands: dy, and what else the op reads, broadcast to dy's
 * shape; the result has the operand's. */
int
shape_infer_spread_back(const struct shape_query *q, struct tensor_desc *out,
                        struct err *err)
{
    struct tensor_desc whole;

    assert(q->like != NULL);
    for (int i = 1; i < op_info(q->op)->n_in; i++)
        if (q->in[i].dtype != DTYPE_NONE &&
            (!join(&q->in[0], &q->in[i], &whole) ||
             tensor_n_elems(&whole) != tensor_n_elems(&q->in[0])))
            return shape_misfit(q, 0, i, err);
    if (!join(&q->in[0], q->like, &whole) ||
        tensor_n_elems(&whole) != tensor_n_elems(&q->in[0]))
        return shape_misfit(q, 0, 0, err);
    out[0] = *q->like;
    return 0;
}

/* ---- prelu --------------------------------------------------------------- */

/* One slope, or one a channel: dim 1, which lies last. */
static int
need_slopes(const struct shape_query *q, int x, const struct tensor_desc *w,
            struct err *err)
{
    const struct tensor_desc *t = &q->in[x];

    if (w->rank == 1 && w->dim[0] == 1)
        return 0;
    if (w->rank != 1 || (t->rank != 2 && t->layout != TENSOR_NHWC) ||
        t->dim[1] != w->dim[0])
        return shape_misfit(q, x, x + 1, err);
    return 0;
}

int
shape_infer_prelu(const struct shape_query *q, struct tensor_desc *out,
                  struct err *err)
{
    out[0] = q->in[0];
    return need_slopes(q, 0, &q->in[1], err);
}

int
shape_infer_prelu_dx(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    out[0] = q->in[1];
    if (shape_need_same(q, 0, 1, err) != 0)
        return err->code;
    return need_slopes(q, 1, &q->in[2], err);
}

int
shape_infer_prelu_dw(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (shape_need_same(q, 0, 1, err) != 0)
        return err->code;
    if (q->like->rank == 1 && q->like->dim[0] == 1)
        return 0;
    return need_slopes(q, 0, q->like, err);
}
