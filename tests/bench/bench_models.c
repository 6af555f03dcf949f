/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/bench_models.h"

#include <assert.h>
#include <string.h>

/* ---- lists --------------------------------------------------------------- */

static int
add_value(struct bench_model *m, struct tensor_desc desc)
{
    assert(m->n_values < BENCH_MAX_VALUES);
    m->value[m->n_values] = desc;
    return m->n_values++;
}

/* Inputs a, b, c (-1: none); returns the output, whose shape is given. */
static int
add_step(struct bench_model *m, enum op op, int a, int b, int c,
         struct tensor_desc out)
{
    struct bench_step *s = &m->step[m->n_steps];

    assert(m->n_steps < BENCH_MAX_STEPS);
    m->n_steps++;
    *s = (struct bench_step){.op = op, .n_out = 1};
    s->n_in = op_info(op)->n_in;
    s->in[0] = a;
    s->in[1] = b;
    s->in[2] = c;
    s->out[0] = add_value(m, out);
    return s->out[0];
}

static union op_params *
params_of_last(struct bench_model *m)
{
    return &m->step[m->n_steps - 1].params;
}

static struct tensor_desc
desc_of(const struct bench_model *m, int value)
{
    return m->value[value];
}

static int
cast_to(struct bench_model *m, int x, enum dtype t)
{
    const struct tensor_desc d = desc_of(m, x);

    if (d.dtype == t)
        return x;
    return add_step(m, OP_CAST, x, -1, -1, tensor_with_dtype(&d, t));
}

/* A parameter as the region of dtype t sees it. */
static int
add_param(struct bench_model *m, enum dtype t, int rank, const int64_t *dim)
{
    const int w = add_value(m, tensor_make(DTYPE_F32, rank, dim));

    m->n_params += tensor_n_elems(&m->value[w]);
    return cast_to(m, w, t);
}

/* ---- layers: forward returns its output, backward the gradient ----------- */

struct layer {
    int x, w, b, y; /* values */
};

static struct layer
linear(struct bench_model *m, int x, int64_t o, enum dtype t)
{
    const struct tensor_desc d = desc_of(m, x);
    struct layer l = {.x = x};

    l.w = add_param(m, t, 2, (int64_t[]){o, d.dim[1]});
    l.b = add_param(m, t, 1, &o);
    l.y = add_step(m, OP_LINEAR, x, l.w, l.b,
                   tensor_make(t, 2, (int64_t[]){d.dim[0], o}));
    return l;
}

static void
add_param_gradients(struct bench_model *m, enum op op, const struct layer *l,
                    int dy)
{
    const struct tensor_desc w = desc_of(m, l->w), b = desc_of(m, l->b);

    add_step(m, op, dy, l->x, -1, tensor_with_dtype(&w, DTYPE_F32));
    add_step(m, OP_BIAS_GRAD, dy, -1, -1, tensor_with_dtype(&b, DTYPE_F32));
}

static int
linear_backward(struct bench_model *m, const struct layer *l, int dy, bool dx)
{
    add_param_gradients(m, OP_LINEAR_DW, l, dy);
    if (!dx)
        return -1;
    return add_step(m, OP_LINEAR_DX, dy, l->w, -1, desc_of(m, l->x));
}

/* 3 x 3, padding 1. */
static void
set_window(union op_params *p)
{
    for (int i = 0; i < 2; i++)
        p->conv.stride[i] = p->conv.padding[i] = p->conv.dilation[i] = 1;
    p->conv.groups = 1;
}

static struct layer
conv(struct bench_model *m, int x, int64_t o, enum dtype t)
{
    const struct tensor_desc d = desc_of(m, x);
    struct layer l = {.x = x};

    l.w = add_param(m, t, 4, (int64_t[]){o, d.dim[1], 3, 3});
    l.b = add_param(m, t, 1, &o);
    l.y = add_step(m, OP_CONV2D, x, l.w, l.b,
                   tensor_make_nhwc(t, d.dim[0], o, d.dim[2], d.dim[3]));
    set_window(params_of_last(m));
    return l;
}

static int
conv_backward(struct bench_model *m, const struct layer *l, int dy, bool dx)
{
    add_param_gradients(m, OP_CONV2D_DW, l, dy);
    set_window(&m->step[m->n_steps - 2].params);
    if (!dx)
        return -1;
    add_step(m, OP_CONV2D_DX, dy, l->w, -1, desc_of(m, l->x));
    set_window(params_of_last(m));
    return m->step[m->n_steps - 1].out[0];
}

static int
same_shape(struct bench_model *m, enum op op, int a, int b)
{
    return add_step(m, op, a, b, -1, desc_of(m, a));
}

/* 2 x 2; *index for the way back. */
static int
max_pool(struct bench_model *m, int x, int *index)
{
    const struct tensor_desc d = desc_of(m, x);
    const struct tensor_desc half = tensor_make_nhwc(
        d.dtype, d.dim[0], d.dim[1], d.dim[2] / 2, d.dim[3] / 2);
    const int y = add_step(m, OP_MAX_POOL2D, x, -1, -1, half);
    struct bench_step *s = &m->step[m->n_steps - 1];

    *index = s->out[1] = add_value(m, tensor_with_dtype(&half, DTYPE_I32));
    s->n_out = 2;
    for (int i = 0; i < 2; i++)
        s->params.pool.kernel[i] = s->params.pool.stride[i] = 2;
    return y;
}

static int
max_pool_backward(struct bench_model *m, int dy, int index, int x)
{
    const int dx = add_step(m, OP_MAX_POOL2D_BWD, dy, index, -1, desc_of(m, x));

    for (int i = 0; i < 2; i++)
        params_of_last(m)->pool.kernel[i] = params_of_last(m)->pool.stride[i] =
            2;
    return dx;
}

/* Logits to the gradient of logits. */
static int
loss(struct bench_model *m, int logits, enum dtype t)
{
    const int x = cast_to(m, logits, DTYPE_F32);
    const struct tensor_desc scalar = tensor_make(DTYPE_F32, 0, NULL);
    const int target = add_value(m, tensor_make(DTYPE_I32, 1, &m->batch));
    const int inv_count = add_value(m, scalar);
    const int l = add_step(m, OP_CROSS_ENTROPY, x, target, inv_count, scalar);
    const int dx =
        add_step(m, OP_CROSS_ENTROPY_BWD, l, x, target, desc_of(m, x));

    m->step[m->n_steps - 1].in[3] = inv_count;
    return cast_to(m, dx, t);
}

/* ---- the two models ------------------------------------------------------ */

void
bench_models_cnn(struct bench_model *m, enum dtype t)
{
    struct layer conv1, conv2, fc1, head;
    int index1, index2, relu1, relu2, relu3, pool1, pool2, drop, d;

    memset(m, 0, sizeof(*m));
    m->name = "cnn";
    m->batch = 128;
    d = add_value(m, tensor_make_nhwc(DTYPE_F32, m->batch, 1, 28, 28));
    conv1 = conv(m, cast_to(m, d, t), 32, t);
    relu1 = same_shape(m, OP_RELU, conv1.y, -1);
    pool1 = max_pool(m, relu1, &index1);
    conv2 = conv(m, pool1, 64, t);
    relu2 = same_shape(m, OP_RELU, conv2.y, -1);
    pool2 = max_pool(m, relu2, &index2);
    d = add_step(m, OP_FLATTEN, pool2, -1, -1,
                 tensor_make(t, 2, (int64_t[]){m->batch, 3136}));
    fc1 = linear(m, d, 128, t);
    relu3 = same_shape(m, OP_RELU, fc1.y, -1);
    drop = same_shape(m, OP_DROPOUT, relu3, -1);
    params_of_last(m)->dropout.p = 0.25;
    head = linear(m, drop, 10, t);
    d = loss(m, head.y, t);

    d = linear_backward(m, &head, d, true);
    d = same_shape(m, OP_DROPOUT_BWD, d, -1);
    params_of_last(m)->dropout.p = 0.25;
    d = same_shape(m, OP_RELU_BWD, d, relu3);
    d = linear_backward(m, &fc1, d, true);
    d = add_step(m, OP_UNFLATTEN, d, -1, -1, desc_of(m, pool2));
    d = max_pool_backward(m, d, index2, relu2);
    d = same_shape(m, OP_RELU_BWD, d, relu2);
    d = conv_backward(m, &conv2, d, true);
    d = max_pool_backward(m, d, index1, relu1);
    d = same_shape(m, OP_RELU_BWD, d, relu1);
    conv_backward(m, &conv1, d, false);
}

void
bench_models_mlp(struct bench_model *m, enum dtype t)
{
    struct layer fc[3];
    int relu[2], d;

    memset(m, 0, sizeof(*m));
    m->name = "mlp";
    m->batch = 256;
    d = add_value(m, tensor_make(DTYPE_F32, 2, (int64_t[]){m->batch, 784}));
    fc[0] = linear(m, cast_to(m, d, t), 1024, t);
    relu[0] = same_shape(m, OP_RELU, fc[0].y, -1);
    fc[1] = linear(m, relu[0], 1024, t);
    relu[1] = same_shape(m, OP_RELU, fc[1].y, -1);
    fc[2] = linear(m, relu[1], 10, t);
    d = loss(m, fc[2].y, t);

    d = linear_backward(m, &fc[2], d, true);
    d = same_shape(m, OP_RELU_BWD, d, relu[1]);
    d = linear_backward(m, &fc[1], d, true);
    d = same_shape(m, OP_RELU_BWD, d, relu[0]);
    linear_backward(m, &fc[0], d, false);
}
