/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct shape {
    int64_t n, c, h, w, kernel, stride, padding;
};

static const struct shape shapes[] = {
    {0, 3, 4, 4, 2, 2, 0},   {1, 1, 1, 1, 1, 1, 0},    {3, 1, 28, 27, 2, 2, 0},
    {2, 5, 9, 8, 3, 2, 1},   {2, 16, 7, 7, 3, 1, 1},   {1, 300, 6, 5, 2, 2, 1},
    {2, 3, 10, 11, 2, 3, 0}, {8, 32, 14, 14, 2, 2, 0},
};
#define N_SHAPES (int)(sizeof(shapes) / sizeof(shapes[0]))

static void
emit(const struct cases_maker *m, struct kcase *c, const struct tensor_desc *x,
     const struct tensor_desc *y)
{
    const struct tensor_desc index = tensor_with_dtype(y, DTYPE_I32);

    switch ((int)m->op) {
    case OP_MAX_POOL2D:
        c->sig.in[0] = *x;
        c->sig.out[0] = *y;
        c->sig.out[1] = index;
        c->fill[0] = CHECK_SPECIAL;
        m->fn(m->ctx, c);
        c->fill[0] = CHECK_NORMAL;
        break;
    case OP_MAX_POOL2D_BWD:
        c->sig.in[0] = *y;
        c->sig.in[1] = index;
        c->sig.out[0] = *x;
        c->fill[1] = CHECK_WINDOW;
        break;
    case OP_AVG_POOL2D:
    case OP_ADAPTIVE_AVG_POOL2D:
        c->sig.in[0] = *x;
        c->sig.out[0] = *y;
        c->fill[0] = CHECK_SUMMED;
        m->fn(m->ctx, c);
        c->fill[0] = CHECK_NORMAL;
        break;
    default:
        c->sig.in[0] = *y;
        c->sig.out[0] = *x;
        break;
    }
    m->fn(m->ctx, c);
}

static void
adaptive_cases(const struct cases_maker *m)
{
    static const int64_t sides[][4] = {
        {7, 7, 1, 1}, {7, 5, 3, 2}, {4, 6, 4, 6}, {3, 3, 5, 4}, {8, 8, 3, 8}};

    for (int i = 0; i < 5; i++)
        for (int64_t channels = 1; channels < 40; channels += 18) {
            const int64_t *s = sides[i];
            const struct tensor_desc x =
                tensor_make_nhwc(m->t, 3, channels, s[0], s[1]);
            const struct tensor_desc y =
                tensor_make_nhwc(m->t, 3, channels, s[2], s[3]);
            struct kcase c = cases_start(m);

            emit(m, &c, &x, &y);
        }
}

void
cases_pool(const struct cases_maker *m)
{
    if (m->op == OP_ADAPTIVE_AVG_POOL2D ||
        m->op == OP_ADAPTIVE_AVG_POOL2D_BWD) {
        adaptive_cases(m);
        return;
    }
    for (int i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        const int64_t oh =
            op_window_out(s->h, s->kernel, s->stride, s->padding, 1);
        const int64_t ow =
            op_window_out(s->w, s->kernel, s->stride, s->padding, 1);
        const struct tensor_desc x =
            tensor_make_nhwc(m->t, s->n, s->c, s->h, s->w);
        const struct tensor_desc y = tensor_make_nhwc(m->t, s->n, s->c, oh, ow);
        struct kcase c = cases_start(m);

        for (int j = 0; j < 2; j++) {
            c.sig.params.pool.kernel[j] = s->kernel;
            c.sig.params.pool.stride[j] = s->stride;
            c.sig.params.pool.padding[j] = s->padding;
        }
        emit(m, &c, &x, &y);
        if (m->op == OP_AVG_POOL2D || m->op == OP_AVG_POOL2D_BWD) {
            c.sig.params.pool.count_include_pad = true;
            emit(m, &c, &x, &y);
        }
    }
}

/* ---- flatten ------------------------------------------------------------- */

void
cases_flatten(const struct cases_maker *m)
{
    static const int64_t shapes4[][4] = {{0, 3, 2, 2},  {1, 1, 1, 1},
                                         {3, 5, 4, 7},  {2, 1, 9, 9},
                                         {2, 33, 1, 1}, {3, 17, 9, 5}};

    for (int i = 0; i < 9; i++) {
        struct kcase c = cases_start(m);
        struct tensor_desc x, y;
        int64_t rest = 1;

        x = i < 6   ? tensor_make_nhwc(m->t, shapes4[i][0], shapes4[i][1],
                                       shapes4[i][2], shapes4[i][3])
            : i < 7 ? tensor_make(m->t, 3, (int64_t[]){4, 5, 6})
            : i < 8 ? tensor_make_nlc(m->t, 3, 5, 7)
                    : tensor_make_nlc(m->t, 2, 33, 130);
        for (int j = 1; j < x.rank; j++)
            rest *= x.dim[j];
        y = cases_matrix(m->t, x.dim[0], rest);
        c.sig.in[0] = m->op == OP_FLATTEN ? x : y;
        c.sig.out[0] = m->op == OP_FLATTEN ? y : x;
        m->fn(m->ctx, &c);
        c.fill[0] = CHECK_SPECIAL;
        m->fn(m->ctx, &c);
    }
}
