/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of ops that move a window over images or signals. */
#include "engine/graph/shape_private.h"

#include <assert.h>
#include <inttypes.h>

/* Do x and the weight (O, C/g, ..) agree about channels and groups? */
static bool
conv_fits(const struct shape_query *q)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];
    const int64_t groups = q->params->conv.groups;

    return w->rank == x->rank && w->layout == TENSOR_ROW && groups >= 1 &&
           x->dim[1] == w->dim[1] * groups && w->dim[0] % groups == 0;
}

int
shape_infer_conv2d(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];
    int64_t size[2];

    if (shape_need_image(q, 0, err) != 0)
        return err->code;
    if (!conv_fits(q))
        return shape_misfit(q, 0, 1, err);
    for (int i = 0; i < 2; i++)
        size[i] = op_window_out(
            x->dim[2 + i], w->dim[2 + i], q->params->conv.stride[i],
            q->params->conv.padding[i], q->params->conv.dilation[i]);
    if (size[0] < 1 || size[1] < 1)
        return err_set(err, ERR_SPEC,
                       "a %" PRId64 "x%" PRId64 " kernel does not fit into "
                       "images of %" PRId64 "x%" PRId64 " with padding %" PRId64
                       ",%" PRId64,
                       w->dim[2], w->dim[3], x->dim[2], x->dim[3],
                       q->params->conv.padding[0], q->params->conv.padding[1]);
    out[0] =
        tensor_make_nhwc(DTYPE_NONE, x->dim[0], w->dim[0], size[0], size[1]);
    return shape_need_vector(q, 2, w->dim[0], err);
}

/* Entry 1 of the parameters is the length's. */
int
shape_infer_conv1d(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];
    int64_t size;

    if (shape_need_signal(q, 0, err) != 0)
        return err->code;
    if (x->rank != 3 || !conv_fits(q))
        return shape_misfit(q, 0, 1, err);
    size =
        op_window_out(x->dim[2], w->dim[2], q->params->conv.stride[1],
                      q->params->conv.padding[1], q->params->conv.dilation[1]);
    if (size < 1)
        return err_set(err, ERR_SPEC,
                       "a kernel of %" PRId64 " does not fit into signals of "
                       "%" PRId64 " with padding %" PRId64,
                       w->dim[2], x->dim[2], q->params->conv.padding[1]);
    out[0] = *x;
    out[0].dim[1] = w->dim[0];
    out[0].dim[2] = size;
    return shape_need_vector(q, 2, w->dim[0], err);
}

/* (dy, w) -> dx and (dy, x) -> dw, both of the shape that is told. */
int
shape_infer_conv_grad(const struct shape_query *q, struct tensor_desc *out,
                      struct err *err)
{
    const bool dx = q->op == OP_CONV2D_DX || q->op == OP_CONV1D_DX;
    const int rank = q->op == OP_CONV1D_DX || q->op == OP_CONV1D_DW ? 3 : 4;

    assert(q->like != NULL && q->like->rank == rank);
    out[0] = *q->like;
    if (q->in[0].rank != rank || q->in[1].rank != rank ||
        q->in[0].dim[1] != (dx ? q->in[1].dim[0] : out[0].dim[0]))
        return shape_misfit(q, 0, 1, err);
    return shape_need_signal(q, 0, err);
}

/* x[N,C,H,W], w[C,O/g,kh,kw]: the shape whose convolution is x. */
int
shape_infer_conv_transpose2d(const struct shape_query *q,
                             struct tensor_desc *out, struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];
    const int64_t groups = q->params->conv.groups;
    int64_t size[2];

    if (shape_need_image(q, 0, err) != 0)
        return err->code;
    if (w->rank != 4 || w->layout != TENSOR_ROW || groups < 1 ||
        x->dim[1] != w->dim[0] || x->dim[1] % groups != 0)
        return shape_misfit(q, 0, 1, err);
    for (int i = 0; i < 2; i++) {
        size[i] = (x->dim[2 + i] - 1) * q->params->conv.stride[i] -
                  2 * q->params->conv.padding[i] +
                  q->params->conv.dilation[i] * (w->dim[2 + i] - 1) +
                  q->params->conv.output_padding[i] + 1;
        if (size[i] < 1)
            return err_set(err, ERR_SPEC,
                           "padding %" PRId64 " leaves nothing of images of "
                           "%" PRId64 "x%" PRId64,
                           q->params->conv.padding[i], x->dim[2], x->dim[3]);
    }
    out[0] = tensor_make_nhwc(DTYPE_NONE, x->dim[0], w->dim[1] * groups,
                              size[0], size[1]);
    return shape_need_vector(q, 2, out[0].dim[1], err);
}

/* (dy, w) -> dx and (dy, x) -> dw. */
int
shape_infer_conv_transpose2d_grad(const struct shape_query *q,
                                  struct tensor_desc *out, struct err *err)
{
    const bool dx = q->op == OP_CONV_TRANSPOSE2D_DX;

    assert(q->like != NULL && q->like->rank == 4);
    out[0] = *q->like;
    if (q->in[1].rank != 4 || (dx ? q->in[1].dim[0] != out[0].dim[1]
                                  : q->in[1].dim[1] != out[0].dim[0]))
        return shape_misfit(q, 0, 1, err);
    return shape_need_image(q, 0, err);
}

int
shape_infer_pool2d(const struct shape_query *q, struct tensor_desc *out,
                   struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    int64_t size[2];

    if (shape_need_image(q, 0, err) != 0)
        return err->code;
    for (int i = 0; i < 2; i++) {
        if (2 * q->params->pool.padding[i] > q->params->pool.kernel[i])
            return err_set(err, ERR_SPEC,
                           "padding %" PRId64 " is more than half of the "
                           "kernel size %" PRId64,
                           q->params->pool.padding[i],
                           q->params->pool.kernel[i]);
        size[i] = op_window_out(x->dim[2 + i], q->params->pool.kernel[i],
                                q->params->pool.stride[i],
                                q->params->pool.padding[i], 1);
    }
    if (size[0] < 1 || size[1] < 1)
        return err_set(err, ERR_SPEC,
                       "a %" PRId64 "x%" PRId64 " window does not fit into "
                       "images of %" PRId64 "x%" PRId64,
                       q->params->pool.kernel[0], q->params->pool.kernel[1],
                       x->dim[2], x->dim[3]);
    out[0] =
        tensor_make_nhwc(DTYPE_NONE, x->dim[0], x->dim[1], size[0], size[1]);
    out[1] = tensor_with_dtype(&out[0], DTYPE_I32);
    return 0;
}

int
shape_infer_image_like(const struct shape_query *q, struct tensor_desc *out,
                       struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (shape_need_image(q, 0, err) != 0)
        return err->code;
    if (out[0].rank != 4 || out[0].layout != TENSOR_NHWC ||
        out[0].dim[0] != q->in[0].dim[0] || out[0].dim[1] != q->in[0].dim[1])
        return shape_misfit(q, 0, 0, err);
    return 0;
}
