/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct shape {
    int64_t n, c, h, w, o, kh, kw, stride, padding, dilation, groups;
};

static const struct shape shapes[] = {
    {0, 3, 5, 5, 2, 3, 3, 1, 1, 1, 1},   /* no image */
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},   /* one of everything */
    {2, 1, 9, 7, 8, 3, 3, 1, 1, 1, 1},   /* first layer of a CNN */
    {2, 3, 8, 9, 5, 3, 2, 1, 1, 1, 1},   /* odd everywhere */
    {1, 16, 7, 7, 16, 3, 3, 1, 1, 1, 1}, /* whole vectors */
    {2, 5, 11, 10, 7, 3, 3, 2, 1, 1, 1}, /* stride leaves pixels out */
    {1, 4, 9, 9, 6, 3, 3, 1, 2, 2, 1},   /* dilation */
    {2, 6, 6, 5, 9, 3, 3, 1, 1, 1, 3},   /* groups */
    {1, 8, 6, 6, 8, 3, 3, 1, 1, 1, 8},   /* depthwise */
    {3, 20, 5, 5, 70, 1, 1, 1, 0, 1, 1}, /* 1 x 1, several blocks */
    {2, 3, 7, 7, 4, 5, 5, 3, 2, 1, 1},   /* window wider than stride */
    {2, 3, 6, 6, 4, 2, 2, 3, 0, 1, 1},   /* stride wider than window */
    {4, 19, 14, 13, 33, 3, 3, 1, 1, 1, 1},
    {4, 3, 10, 10, 4, 1, 1, 2, 0, 1, 1}, /* 1 x 1 with a stride: a shortcut */
    {2, 16, 8, 8, 32, 1, 1, 2, 0, 1, 1}, /* the same, whole vectors */
    {3, 20, 9, 7, 70, 1, 1, 3, 0, 1, 1}, /* and odd */
    {2, 12, 8, 8, 20, 1, 1, 2, 1, 1, 2}, /* and padded, in groups */
};
#define N_SHAPES (int)(sizeof(shapes) / sizeof(shapes[0]))

static void
describe(const struct cases_maker *m, const struct shape *s, struct kcase *c)
{
    const int64_t oh =
        op_window_out(s->h, s->kh, s->stride, s->padding, s->dilation);
    const int64_t ow =
        op_window_out(s->w, s->kw, s->stride, s->padding, s->dilation);
    const struct tensor_desc x = tensor_make_nhwc(m->t, s->n, s->c, s->h, s->w);
    const struct tensor_desc y = tensor_make_nhwc(m->t, s->n, s->o, oh, ow);
    const struct tensor_desc w =
        tensor_make(m->t, 4, (int64_t[]){s->o, s->c / s->groups, s->kh, s->kw});

    for (int i = 0; i < 2; i++) {
        c->sig.params.conv.stride[i] = s->stride;
        c->sig.params.conv.padding[i] = s->padding;
        c->sig.params.conv.dilation[i] = s->dilation;
    }
    c->sig.params.conv.groups = s->groups;
    c->sig.in[0] = m->op == OP_CONV2D ? x : y;
    c->sig.in[1] = m->op == OP_CONV2D_DW ? x : w;
    c->sig.out[0] = m->op == OP_CONV2D ? y : m->op == OP_CONV2D_DX ? x : w;
    if (m->op == OP_CONV2D)
        c->sig.in[2] = cases_vector(m->t, s->o);
    if (m->op == OP_CONV2D_DW)
        c->sig.out[0].dtype = DTYPE_F32;
}

void
cases_conv(const struct cases_maker *m)
{
    for (int i = 0; i < N_SHAPES; i++) {
        struct kcase c = cases_start(m);

        describe(m, &shapes[i], &c);
        m->fn(m->ctx, &c);
        c.fill[0] = CHECK_SUMMED;
        m->fn(m->ctx, &c);
        c.fill[0] = CHECK_NORMAL;
        if (m->op == OP_CONV2D) {
            c.sig.in[2].dtype = DTYPE_NONE;
            m->fn(m->ctx, &c);
        } else if (m->op == OP_CONV2D_DW && m->t != DTYPE_F32) {
            c.sig.out[0].dtype = m->t;
            m->fn(m->ctx, &c);
        }
    }
}
