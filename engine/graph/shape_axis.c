/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of ops along one axis, and of sums over several. */
#include "engine/graph/shape_private.h"

#include <assert.h>

static int
need_axis(const struct shape_query *q, int i, struct err *err)
{
    const int axis = q->params->axis.axis;

    if (axis >= 0 && axis < q->in[i].rank)
        return 0;
    return err_set(err, ERR_SPEC, "there is no axis %d of %d", axis,
                   q->in[i].rank);
}

int
shape_infer_axis(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    out[0] = q->in[0];
    return need_axis(q, 0, err);
}

int
shape_infer_axis_bwd(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    out[0] = q->in[0];
    if (need_axis(q, 0, err) != 0)
        return err->code;
    return shape_need_same(q, 0, 1, err);
}

/* x without the dims whose bits are set, or with 1 in their places. What is
 * left of channels-last tensors stays so while channels and a place are left:
 * its elements keep their order. */
static struct tensor_desc
reduced(const struct tensor_desc *x, unsigned dims, bool keepdim)
{
    struct tensor_desc out = *x;

    if (keepdim) {
        for (int i = 0; i < x->rank; i++)
            if (dims >> i & 1)
                out.dim[i] = 1;
        return out;
    }
    out = (struct tensor_desc){.layout = x->layout};
    for (int i = 0; i < x->rank; i++)
        if (!(dims >> i & 1))
            out.dim[out.rank++] = x->dim[i];
    if (out.rank < 3 || (dims & 3) != 0)
        out.layout = TENSOR_ROW;
    return out;
}

int
shape_infer_reduce(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    const unsigned dims = q->params->reduce.dims;

    if (dims == 0 || dims >> x->rank != 0)
        return shape_misfit(q, 0, 0, err);
    out[0] = reduced(x, dims, q->params->reduce.keepdim);
    return 0;
}

/* dy has what is left of x. */
static int
check_reduced(const struct shape_query *q, const struct tensor_desc *x,
              unsigned dims, bool keepdim, struct err *err)
{
    const struct tensor_desc want = reduced(x, dims, keepdim);

    if (dims == 0 || dims >> x->rank != 0 ||
        !tensor_same_shape(&q->in[0], &want))
        return shape_misfit(q, 0, 0, err);
    return 0;
}

int
shape_infer_reduce_bwd(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    return check_reduced(q, &out[0], q->params->reduce.dims,
                         q->params->reduce.keepdim, err);
}

int
shape_infer_reduce_bwd_x(const struct shape_query *q, struct tensor_desc *out,
                         struct err *err)
{
    out[0] = q->in[1];
    if (shape_need_same(q, 0, 2, err) != 0)
        return err->code;
    return check_reduced(q, &out[0], q->params->reduce.dims,
                         q->params->reduce.keepdim, err);
}

int
shape_infer_prod_bwd(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    if (need_axis(q, 1, err) != 0)
        return err->code;
    out[0] = q->in[1];
    return check_reduced(q, &out[0], 1U << q->params->axis.axis,
                         q->params->axis.keepdim, err);
}

int
shape_infer_prod(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    if (need_axis(q, 0, err) != 0)
        return err->code;
    out[0] =
        reduced(&q->in[0], 1U << q->params->axis.axis, q->params->axis.keepdim);
    return 0;
}

int
shape_infer_cosine(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    if (need_axis(q, 0, err) != 0)
        return err->code;
    out[0] = reduced(&q->in[0], 1U << q->params->axis.axis, false);
    return shape_need_same(q, 0, 1, err);
}

int
shape_infer_cosine_bwd(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    if (need_axis(q, 1, err) != 0)
        return err->code;
    out[0] = out[1] = q->in[1];
    return shape_need_same(q, 1, 2, err);
}
