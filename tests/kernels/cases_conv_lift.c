/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

/* The trio of an op: forward x,w,b?; dx dy,w; dw dy,x. */
static void
emit(const struct cases_maker *m, struct kcase c, const struct tensor_desc *x,
     const struct tensor_desc *w, const struct tensor_desc *y)
{
    const bool forward = m->op == OP_CONV1D || m->op == OP_CONV_TRANSPOSE2D;
    const bool dw = m->op == OP_CONV1D_DW || m->op == OP_CONV_TRANSPOSE2D_DW;

    c.sig.in[0] = forward ? *x : *y;
    c.sig.in[1] = dw ? *x : *w;
    c.sig.out[0] = forward ? *y : dw ? *w : *x;
    if (forward)
        c.sig.in[2] = cases_vector(m->t, y->dim[1]);
    if (dw)
        c.sig.out[0].dtype = DTYPE_F32;
    m->fn(m->ctx, &c);
    c.fill[0] = CHECK_SUMMED;
    m->fn(m->ctx, &c);
    c.fill[0] = CHECK_NORMAL;
    if (forward) {
        c.sig.in[2].dtype = DTYPE_NONE;
        m->fn(m->ctx, &c);
    } else if (dw && m->t != DTYPE_F32) {
        c.sig.out[0].dtype = m->t;
        m->fn(m->ctx, &c);
    }
}

/* ---- conv1d -------------------------------------------------------------- */

static void
signal_cases(const struct cases_maker *m)
{
    static const struct {
        int64_t n, c, l, o, k, stride, padding, dilation, groups;
    } shapes[] = {
        {0, 3, 5, 2, 3, 1, 1, 1, 1},    /* no signal */
        {1, 1, 1, 1, 1, 1, 0, 1, 1},    /* one of everything */
        {2, 3, 17, 5, 3, 1, 1, 1, 1},   /* odd everywhere */
        {2, 16, 40, 32, 5, 2, 2, 1, 1}, /* stride leaves elements out */
        {3, 4, 29, 6, 3, 1, 4, 4, 1},   /* dilation */
        {2, 6, 21, 9, 4, 3, 0, 1, 3},   /* groups, window off the end */
        {1, 8, 33, 8, 7, 1, 3, 1, 8},   /* depthwise */
        {4, 19, 500, 33, 9, 4, 4, 1, 1},
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        const int64_t l =
            op_window_out(shapes[i].l, shapes[i].k, shapes[i].stride,
                          shapes[i].padding, shapes[i].dilation);
        const struct tensor_desc x =
            tensor_make_nlc(m->t, shapes[i].n, shapes[i].c, shapes[i].l);
        const struct tensor_desc w =
            tensor_make(m->t, 3,
                        (int64_t[]){shapes[i].o, shapes[i].c / shapes[i].groups,
                                    shapes[i].k});
        const struct tensor_desc y =
            tensor_make_nlc(m->t, shapes[i].n, shapes[i].o, l);
        struct kcase c = cases_start(m);

        c.sig.params.conv.stride[0] = c.sig.params.conv.dilation[0] = 1;
        c.sig.params.conv.stride[1] = shapes[i].stride;
        c.sig.params.conv.padding[1] = shapes[i].padding;
        c.sig.params.conv.dilation[1] = shapes[i].dilation;
        c.sig.params.conv.groups = shapes[i].groups;
        emit(m, c, &x, &w, &y);
    }
}

/* ---- conv_transpose2d ------------------------------------------------------ */

struct transposed {
    int64_t n, c, h, w, o, k[2], stride[2], padding, dilation, groups;
    int64_t output_padding[2];
};

static const struct transposed transposed[] = {
    {0, 3, 4, 4, 2, {3, 3}, {2, 2}, 1, 1, 1, {0, 0}},
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, 0, 1, 1, {0, 0}},
    {2, 5, 3, 4, 3, {3, 2}, {1, 1}, 0, 1, 1, {0, 0}},
    {2, 4, 5, 4, 6, {2, 2}, {2, 2}, 0, 1, 1, {0, 0}}, /* a U-net's way up */
    {2, 3, 4, 5, 4, {3, 3}, {2, 2}, 1, 1, 1, {1, 1}}, /* its output padding */
    {1, 4, 4, 3, 4, {3, 3}, {3, 2}, 0, 1, 1, {2, 0}}, /* one side only */
    {2, 6, 4, 4, 9, {3, 3}, {2, 1}, 1, 1, 3, {1, 0}}, /* groups */
    {1, 8, 5, 5, 8, {4, 4}, {2, 2}, 1, 1, 8, {0, 0}}, /* depthwise */
    {1, 3, 4, 4, 5, {3, 3}, {2, 2}, 2, 2, 1, {1, 1}}, /* dilation */
    {1, 2, 4, 3, 3, {2, 2}, {1, 1}, 0, 3, 1, {2, 1}}, /* beyond the stride */
    {1, 3, 3, 3, 2, {2, 2}, {3, 3}, 0, 1, 1, {1, 2}}, /* gaps in y */
    {3, 33, 7, 9, 19, {4, 4}, {2, 2}, 1, 1, 1, {0, 0}},
};

static int64_t
transposed_out(const struct transposed *s, int i)
{
    const int64_t in = i == 0 ? s->h : s->w;

    return (in - 1) * s->stride[i] - 2 * s->padding +
           s->dilation * (s->k[i] - 1) + s->output_padding[i] + 1;
}

static void
transposed_cases(const struct cases_maker *m)
{
    for (int i = 0; i < (int)(sizeof(transposed) / sizeof(transposed[0]));
         i++) {
        const struct transposed *s = &transposed[i];
        const struct tensor_desc x =
            tensor_make_nhwc(m->t, s->n, s->c, s->h, s->w);
        const struct tensor_desc w = tensor_make(
            m->t, 4, (int64_t[]){s->c, s->o / s->groups, s->k[0], s->k[1]});
        const struct tensor_desc y = tensor_make_nhwc(
            m->t, s->n, s->o, transposed_out(s, 0), transposed_out(s, 1));
        struct kcase c = cases_start(m);

        for (int j = 0; j < 2; j++) {
            c.sig.params.conv.stride[j] = s->stride[j];
            c.sig.params.conv.padding[j] = s->padding;
            c.sig.params.conv.dilation[j] = s->dilation;
            c.sig.params.conv.output_padding[j] = s->output_padding[j];
        }
        c.sig.params.conv.groups = s->groups;
        emit(m, c, &x, &w, &y);
    }
}

void
cases_conv_lift(const struct cases_maker *m)
{
    if (m->op == OP_CONV1D || m->op == OP_CONV1D_DX || m->op == OP_CONV1D_DW)
        signal_cases(m);
    else
        transposed_cases(m);
}
