/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *
shape_format(const struct tensor_desc *t, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < t->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64,
                               i > 0 ? "," : "", t->dim[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

bool
shape_fits(const struct tensor_desc *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->dim[i], &n) || n > (int64_t)1 << 40)
            return false;
    return true;
}

/* ---- sentences ----------------------------------------------------------- */

static int
misfit(const struct shape_query *q, int a, int b, struct err *err)
{
    const struct op_info *info = op_info(q->op);
    char left[SHAPE_TEXT_MAX], right[SHAPE_TEXT_MAX];

    return err_set(
        err, ERR_SPEC, "%s %s and %s %s do not fit together", info->in_name[a],
        shape_format(&q->in[a], left, sizeof(left)), info->in_name[b],
        shape_format(&q->in[b], right, sizeof(right)));
}

static int
need_image(const struct shape_query *q, int i, struct err *err)
{
    char text[SHAPE_TEXT_MAX];

    if (q->in[i].rank == 4 && q->in[i].layout == TENSOR_NHWC)
        return 0;
    return err_set(err, ERR_SPEC,
                   "needs images (samples, channels, height, width) but gets "
                   "%s",
                   shape_format(&q->in[i], text, sizeof(text)));
}

/* Input i is absent or a vector of n elements. */
static int
need_vector(const struct shape_query *q, int i, int64_t n, struct err *err)
{
    const struct tensor_desc *t = &q->in[i];

    if (t->dtype == DTYPE_NONE || (t->rank == 1 && t->dim[0] == n))
        return 0;
    return misfit(q, 0, i, err);
}

static int
need_same_shape(const struct shape_query *q, int a, int b, struct err *err)
{
    if (tensor_same_shape(&q->in[a], &q->in[b]) &&
        q->in[a].layout == q->in[b].layout)
        return 0;
    return misfit(q, a, b, err);
}

/* ---- one function per kind of op: shapes and layouts of the outputs ------ */

static int
infer_same(const struct shape_query *q, struct tensor_desc *out,
           struct err *err)
{
    (void)err;
    out[0] = q->in[0];
    return 0;
}

/* Two tensors of one shape: sums, and gradients that read a forward value. */
static int
infer_binary(const struct shape_query *q, struct tensor_desc *out,
             struct err *err)
{
    out[0] = q->in[0];
    return need_same_shape(q, 0, 1, err);
}

/* The shape is told by the caller; a layout of four dims is an image's. */
static int
infer_like(const struct shape_query *q, struct tensor_desc *out,
           struct err *err)
{
    assert(q->like != NULL);
    out[0] = *q->like;
    if (q->op == OP_UNFLATTEN) {
        if (tensor_n_elems(&out[0]) != tensor_n_elems(&q->in[0]))
            return misfit(q, 0, 0, err);
        return 0;
    }
    if (out[0].dim[0] != q->in[0].dim[0])
        return misfit(q, 0, 0, err);
    return need_image(q, 0, err);
}

static int
infer_stats_track(const struct shape_query *q, struct tensor_desc *out,
                  struct err *err)
{
    for (int i = 1; i < 4; i++)
        if (need_vector(q, i, tensor_n_elems(&q->in[0]), err) != 0)
            return err->code;
    out[0] = q->in[0];
    out[1] = q->in[1];
    return 0;
}

static int
infer_linear(const struct shape_query *q, struct tensor_desc *out,
             struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];

    if (x->rank < 2 || x->layout != TENSOR_ROW || w->rank != 2 ||
        x->dim[x->rank - 1] != w->dim[1])
        return misfit(q, 0, 1, err);
    out[0] = *x;
    out[0].dim[x->rank - 1] = w->dim[0];
    return need_vector(q, 2, w->dim[0], err);
}

static int
infer_linear_dx(const struct shape_query *q, struct tensor_desc *out,
                struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *w = &q->in[1];

    if (dy->rank < 2 || w->rank != 2 || dy->dim[dy->rank - 1] != w->dim[0])
        return misfit(q, 0, 1, err);
    out[0] = *dy;
    out[0].dim[dy->rank - 1] = w->dim[1];
    return 0;
}

static int
infer_linear_dw(const struct shape_query *q, struct tensor_desc *out,
                struct err *err)
{
    const struct tensor_desc *dy = &q->in[0], *x = &q->in[1];

    if (dy->rank < 2 || dy->rank != x->rank)
        return misfit(q, 0, 1, err);
    for (int i = 0; i < dy->rank - 1; i++)
        if (dy->dim[i] != x->dim[i])
            return misfit(q, 0, 1, err);
    out[0] = tensor_make(
        DTYPE_NONE, 2, (int64_t[]){dy->dim[dy->rank - 1], x->dim[x->rank - 1]});
    return 0;
}

static int
infer_bias_grad(const struct shape_query *q, struct tensor_desc *out,
                struct err *err)
{
    const struct tensor_desc *dy = &q->in[0];
    const int channel = dy->layout == TENSOR_NHWC ? 1 : dy->rank - 1;

    if (dy->rank < 2)
        return misfit(q, 0, 0, err);
    out[0] = tensor_make(DTYPE_NONE, 1, &dy->dim[channel]);
    return 0;
}

static int
infer_conv2d(const struct shape_query *q, struct tensor_desc *out,
             struct err *err)
{
    const struct tensor_desc *x = &q->in[0], *w = &q->in[1];
    int64_t size[2];

    if (need_image(q, 0, err) != 0)
        return err->code;
    if (w->rank != 4 || w->layout != TENSOR_ROW || q->params->conv.groups < 1 ||
        x->dim[1] != w->dim[1] * q->params->conv.groups ||
        w->dim[0] % q->params->conv.groups != 0)
        return misfit(q, 0, 1, err);
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
    return need_vector(q, 2, w->dim[0], err);
}

/* (dy, w) -> dx and (dy, x) -> dw, both of the shape that is told. */
static int
infer_conv2d_grad(const struct shape_query *q, struct tensor_desc *out,
                  struct err *err)
{
    const int rows = q->op == OP_CONV2D_DX ? 0 : 1;

    assert(q->like != NULL && q->like->rank == 4);
    out[0] = *q->like;
    if (q->in[1].rank != 4 ||
        q->in[0].dim[1] != (rows == 0 ? q->in[1].dim[0] : out[0].dim[0]))
        return misfit(q, 0, 1, err);
    return need_image(q, 0, err);
}

/* Channels of (N, C) or (N, C, H, W). */
static int
infer_batch_norm(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    const struct tensor_desc *x = &q->in[0];

    if (x->rank != 2 && need_image(q, 0, err) != 0)
        return err->code;
    for (int i = 1; i < op_info(q->op)->n_in; i++)
        if (need_vector(q, i, x->dim[1], err) != 0)
            return err->code;
    out[0] = *x;
    out[1] = out[2] = tensor_make(DTYPE_F32, 1, &x->dim[1]);
    return 0;
}

static int
infer_batch_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    const struct tensor_desc *x = &q->in[1];

    if (need_same_shape(q, 0, 1, err) != 0)
        return err->code;
    for (int i = 2; i < 5; i++)
        if (need_vector(q, i, x->dim[1], err) != 0)
            return err->code;
    out[0] = *x;
    out[1] = out[2] = tensor_make(DTYPE_F32, 1, &x->dim[1]);
    return 0;
}

/* The last n_dims dims of t. */
static struct tensor_desc
trailing(const struct tensor_desc *t, int n_dims)
{
    return tensor_make(DTYPE_F32, n_dims, &t->dim[t->rank - n_dims]);
}

static int
infer_layer_norm(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    const int n_dims = q->params->layer_norm.n_dims;
    struct tensor_desc inner;

    if (n_dims < 1 || n_dims >= x->rank || x->layout != TENSOR_ROW)
        return misfit(q, 0, 0, err);
    inner = trailing(x, n_dims);
    for (int i = 1; i < 3; i++)
        if (q->in[i].dtype != DTYPE_NONE &&
            !tensor_same_shape(&q->in[i], &inner))
            return misfit(q, 0, i, err);
    out[0] = *x;
    out[1] = out[2] = tensor_make(DTYPE_F32, x->rank - n_dims, x->dim);
    return 0;
}

static int
infer_layer_norm_bwd(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    const struct tensor_desc *x = &q->in[1];
    const int n_dims = q->params->layer_norm.n_dims;

    if (n_dims < 1 || n_dims >= x->rank)
        return misfit(q, 0, 1, err);
    out[0] = *x;
    out[1] = out[2] = trailing(x, n_dims);
    return need_same_shape(q, 0, 1, err);
}

static int
infer_pool2d(const struct shape_query *q, struct tensor_desc *out,
             struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    int64_t size[2];

    if (need_image(q, 0, err) != 0)
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

static int
infer_flatten(const struct shape_query *q, struct tensor_desc *out,
              struct err *err)
{
    const struct tensor_desc *x = &q->in[0];
    int64_t rest = 1;

    if (x->rank < 2)
        return misfit(q, 0, 0, err);
    for (int i = 1; i < x->rank; i++)
        rest *= x->dim[i];
    out[0] = tensor_make(DTYPE_NONE, 2, (int64_t[]){x->dim[0], rest});
    return 0;
}

static int
infer_scalar(const struct shape_query *q, struct tensor_desc *out,
             struct err *err)
{
    for (int i = 0; i < op_info(q->op)->n_in; i++)
        if (q->in[i].rank != 0)
            return misfit(q, i, i, err);
    out[0] = tensor_make(DTYPE_F32, 0, NULL);
    return 0;
}

/* Rows of logits and one class id a row. */
static int
infer_classes(const struct shape_query *q, struct tensor_desc *out,
              struct err *err)
{
    const int x = q->op == OP_CROSS_ENTROPY_BWD ? 1 : 0;

    if (q->in[x].rank != 2 || q->in[x + 1].rank != 1 ||
        q->in[x].dim[0] != q->in[x + 1].dim[0])
        return misfit(q, x, x + 1, err);
    out[0] = x == 1 ? q->in[1] : tensor_make(DTYPE_F32, 0, NULL);
    return 0;
}

/* Prediction and target of one shape. */
static int
infer_regression(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err)
{
    out[0] = tensor_make(DTYPE_F32, 0, NULL);
    return need_same_shape(q, 0, 1, err);
}

static int
infer_regression_bwd(const struct shape_query *q, struct tensor_desc *out,
                     struct err *err)
{
    out[0] = q->in[1];
    return need_same_shape(q, 1, 2, err);
}

/* ---- the table ----------------------------------------------------------- */

enum dtype_rule {
    AS_IN0, /* of input 0 */
    ALWAYS_F32,
    F32_OR_ASKED, /* weight gradients: rounded to half only when asked */
    ASKED         /* cast */
};

struct rule {
    int (*infer)(const struct shape_query *q, struct tensor_desc *out,
                 struct err *err);
    enum dtype_rule dtype; /* of output 0 */
    unsigned same;         /* bit i: input i shares the one float dtype */
    unsigned f32;          /* bit i: input i is float32 */
    unsigned i32;          /* bit i: input i is int32 */
    unsigned samples;      /* bit i: output i keeps dim 0 */
};

static const struct rule rules[OP_COUNT] = {
    [OP_CAST] = {infer_same, ASKED, 1, 0, 0, 1},
    [OP_SCALE_LOSS] = {infer_scalar, ALWAYS_F32, 0, 3, 0, 0},
    [OP_GRAD_ACCUMULATE] = {infer_binary, ALWAYS_F32, 0, 3, 0, 0},
    [OP_STATS_TRACK] = {infer_stats_track, ALWAYS_F32, 0, 15, 0, 0},
    [OP_LINEAR] = {infer_linear, AS_IN0, 7, 0, 0, 1},
    [OP_LINEAR_DX] = {infer_linear_dx, AS_IN0, 3, 0, 0, 1},
    [OP_LINEAR_DW] = {infer_linear_dw, F32_OR_ASKED, 3, 0, 0, 0},
    [OP_BIAS_GRAD] = {infer_bias_grad, F32_OR_ASKED, 1, 0, 0, 0},
    [OP_CONV2D] = {infer_conv2d, AS_IN0, 7, 0, 0, 1},
    [OP_CONV2D_DX] = {infer_conv2d_grad, AS_IN0, 3, 0, 0, 1},
    [OP_CONV2D_DW] = {infer_conv2d_grad, F32_OR_ASKED, 3, 0, 0, 0},
    [OP_BATCH_NORM] = {infer_batch_norm, AS_IN0, 1, 6, 0, 1},
    [OP_BATCH_NORM_EVAL] = {infer_batch_norm, AS_IN0, 1, 30, 0, 1},
    [OP_BATCH_NORM_BWD] = {infer_batch_norm_bwd, AS_IN0, 3, 28, 0, 1},
    [OP_LAYER_NORM] = {infer_layer_norm, AS_IN0, 1, 6, 0, 7},
    [OP_LAYER_NORM_BWD] = {infer_layer_norm_bwd, AS_IN0, 3, 28, 0, 1},
    [OP_RELU] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_RELU_BWD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_GELU] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_GELU_BWD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_TANH] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_TANH_BWD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_SIGMOID] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_SIGMOID_BWD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_SILU] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_SILU_BWD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_ADD] = {infer_binary, AS_IN0, 3, 0, 0, 1},
    [OP_DROPOUT] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_DROPOUT_BWD] = {infer_same, AS_IN0, 1, 0, 0, 1},
    [OP_MAX_POOL2D] = {infer_pool2d, AS_IN0, 1, 0, 0, 3},
    [OP_MAX_POOL2D_BWD] = {infer_like, AS_IN0, 1, 0, 2, 1},
    [OP_AVG_POOL2D] = {infer_pool2d, AS_IN0, 1, 0, 0, 1},
    [OP_AVG_POOL2D_BWD] = {infer_like, AS_IN0, 1, 0, 0, 1},
    [OP_ADAPTIVE_AVG_POOL2D] = {infer_like, AS_IN0, 1, 0, 0, 1},
    [OP_ADAPTIVE_AVG_POOL2D_BWD] = {infer_like, AS_IN0, 1, 0, 0, 1},
    [OP_FLATTEN] = {infer_flatten, AS_IN0, 1, 0, 0, 1},
    [OP_UNFLATTEN] = {infer_like, AS_IN0, 1, 0, 0, 1},
    [OP_CROSS_ENTROPY] = {infer_classes, ALWAYS_F32, 0, 5, 2, 0},
    [OP_CROSS_ENTROPY_BWD] = {infer_classes, ALWAYS_F32, 0, 11, 4, 1},
    [OP_MSE] = {infer_regression, ALWAYS_F32, 0, 7, 0, 0},
    [OP_MSE_BWD] = {infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 1},
    [OP_L1] = {infer_regression, ALWAYS_F32, 0, 7, 0, 0},
    [OP_L1_BWD] = {infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 1},
    [OP_BCE_WITH_LOGITS] = {infer_regression, ALWAYS_F32, 0, 7, 0, 0},
    [OP_BCE_WITH_LOGITS_BWD] = {infer_regression_bwd, ALWAYS_F32, 0, 15, 0, 1},
    [OP_CORRECT] = {infer_classes, ALWAYS_F32, 1, 0, 2, 0},
};

static int
refuse_dtype(const struct shape_query *q, int i, const char *want,
             struct err *err)
{
    return err_set(err, ERR_SPEC, "%s is %s and must be %s",
                   op_info(q->op)->in_name[i], dtype_name(q->in[i].dtype),
                   want);
}

static int
check_dtypes(const struct shape_query *q, const struct rule *rule,
             struct err *err)
{
    enum dtype shared = DTYPE_NONE;

    for (int i = 0; i < op_info(q->op)->n_in; i++) {
        const enum dtype t = q->in[i].dtype;

        if (t == DTYPE_NONE)
            continue;
        if ((rule->f32 >> i & 1) && t != DTYPE_F32)
            return refuse_dtype(q, i, "float32", err);
        if ((rule->i32 >> i & 1) && t != DTYPE_I32)
            return refuse_dtype(q, i, "int32", err);
        if (!(rule->same >> i & 1))
            continue;
        if (t != DTYPE_F32 && !dtype_is_half(t))
            return refuse_dtype(q, i, "float32, float16 or bfloat16", err);
        if (shared != DTYPE_NONE && t != shared)
            return refuse_dtype(q, i, dtype_name(shared), err);
        shared = t;
    }
    return 0;
}

static enum dtype
choose_dtype(const struct shape_query *q, enum dtype_rule rule)
{
    switch (rule) {
    case AS_IN0:
        assert(q->out_dtype == DTYPE_NONE || q->out_dtype == q->in[0].dtype);
        return q->in[0].dtype;
    case ALWAYS_F32:
        assert(q->out_dtype == DTYPE_NONE || q->out_dtype == DTYPE_F32);
        return DTYPE_F32;
    case F32_OR_ASKED:
        return q->out_dtype == DTYPE_NONE ? DTYPE_F32 : q->out_dtype;
    case ASKED: assert(dtype_is_float(q->out_dtype)); return q->out_dtype;
    }
    return DTYPE_NONE;
}

int
shape_infer(const struct shape_query *q, struct tensor_desc out[OP_MAX_OUT],
            struct err *err)
{
    const struct rule *rule = &rules[q->op];
    struct err local;
    int rc;

    if (err == NULL)
        err = &local;
    assert(rule->infer != NULL);
    for (int i = 0; i < op_info(q->op)->n_in; i++)
        assert(q->in[i].dtype != DTYPE_NONE || op_info(q->op)->in_optional[i]);
    memset(out, 0, sizeof(*out) * OP_MAX_OUT);
    rc = check_dtypes(q, rule, err);
    if (rc == 0)
        rc = rule->infer(q, out, err);
    if (rc != 0)
        return rc;
    out[0].dtype = choose_dtype(q, rule->dtype);
    return 0;
}

bool
shape_keeps_samples(enum op op, int i)
{
    return rules[op].samples >> i & 1;
}
