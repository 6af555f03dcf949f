/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

#include <math.h>

struct shape {
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
    bool nhwc;
    unsigned dims;
};

static const struct shape list[] = {
    {0, {0}, false, 0},
    {1, {1}, false, 1},
    {1, {7}, false, 1},
    {1, {70001}, false, 1},
    /* rows and columns, few and many, short and long */
    {2, {5, 7}, false, 1},
    {2, {5, 7}, false, 2},
    {2, {5, 7}, false, 3},
    {2, {5, 7}, false, 0},
    {2, {300, 130}, false, 1},
    {2, {300, 130}, false, 2},
    {2, {3, 1500}, false, 1},
    {2, {3, 1500}, false, 2},
    {2, {30001, 3}, false, 1},
    {2, {13001, 3}, false, 2},
    {2, {70, 2100}, false, 1},
    /* axes between others */
    {3, {4, 5, 6}, false, 2},
    {3, {4, 5, 6}, false, 5},
    {3, {9, 50, 80}, false, 2},
    {3, {9, 50, 80}, false, 5},
    {6, {2, 3, 2, 3, 2, 2}, false, 0x15},
    {6, {2, 3, 2, 3, 2, 2}, false, 0x2a},
    /* images and signals */
    {4, {2, 5, 6, 4}, true, 0xc},
    {4, {2, 5, 6, 4}, true, 0x2},
    {4, {2, 5, 6, 4}, true, 0xd},
    {4, {2, 5, 6, 4}, true, 0x4},
    {4, {2, 5, 6, 4}, true, 0xf},
    {4, {3, 32, 24, 20}, true, 0xc},
    {4, {3, 32, 24, 20}, true, 0xd},
    {3, {2, 5, 7}, true, 0x4},
    {3, {2, 5, 7}, true, 0x2},
    /* nothing */
    {1, {0}, false, 1},
    {2, {0, 3}, false, 1},
    {2, {0, 3}, false, 2},
    {2, {3, 0}, false, 2},
};
#define N_SHAPES (int)(sizeof(list) / sizeof(list[0]))

static struct tensor_desc
reduced(const struct tensor_desc *x, unsigned dims, bool keepdim)
{
    struct tensor_desc y = {.dtype = x->dtype};

    if (keepdim)
        y.layout = x->layout;
    for (int i = 0; i < x->rank; i++)
        if (!(dims >> i & 1) || keepdim)
            y.dim[y.rank++] = dims >> i & 1 ? 1 : x->dim[i];
    return y;
}

static bool
is_big(const struct kcase *c)
{
    return tensor_n_elems(&c->sig.in[0]) > 4000 ||
           tensor_n_elems(&c->sig.out[0]) > 4000;
}

static void
emit(const struct cases_maker *m, struct kcase *c)
{
    static const enum check_fill fills[] = {CHECK_NORMAL, CHECK_BROAD,
                                            CHECK_WIDE, CHECK_SPECIAL};

    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < c->sig.n_in; k++)
            c->fill[k] = i == 0 && c->sig.params.reduce.p == 0.5
                             ? CHECK_POSITIVE
                             : fills[i];
        m->fn(m->ctx, c);
    }
}

static void
emit_variants(const struct cases_maker *m, struct kcase *c)
{
    static const double orders[] = {2, 1, 3, 0.5, 0, INFINITY};

    if (m->op != OP_NORM && m->op != OP_NORM_BWD) {
        emit(m, c);
        return;
    }
    /* A big one is for the ways through the shape. */
    for (int i = 0; i < (is_big(c) ? 1 : 6); i++) {
        c->sig.params.reduce.p = orders[i];
        emit(m, c);
    }
}

void
cases_reduce(const struct cases_maker *m)
{
    const bool forward = op_info(m->op)->reduce == OP_REDUCE_DIMS;

    for (int i = 0; i < N_SHAPES; i++)
        for (int keepdim = 0; keepdim < 2; keepdim++) {
            struct tensor_desc x = tensor_make(m->t, list[i].rank, list[i].dim);
            struct kcase c = cases_start(m);
            struct tensor_desc y;

            if (list[i].nhwc)
                x.layout = TENSOR_NHWC;
            y = reduced(&x, list[i].dims, keepdim);
            c.sig.params.reduce.dims = list[i].dims;
            c.sig.params.reduce.keepdim = keepdim;
            c.sig.in[0] = forward ? x : y;
            c.sig.out[0] = forward ? y : x;
            if (c.sig.n_in > 1) {
                c.sig.in[1] = x;
                c.sig.in[2] = y;
            }
            if (!(keepdim && is_big(&c)))
                emit_variants(m, &c);
        }
}
