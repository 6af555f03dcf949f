/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct shape {
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
    bool nhwc;
    int axis;
};

static const struct shape list[] = {
    {1, {1}, false, 0},
    {1, {7}, false, 0},
    {2, {5, 7}, false, 0},
    {2, {5, 7}, false, 1},
    {2, {3, 1}, false, 1},
    {3, {2, 5, 6}, false, 1},
    {3, {3, 5, 2}, false, 0},
    {4, {2, 5, 3, 4}, true, 1},
    {4, {2, 5, 3, 4}, true, 2},
    {4, {2, 5, 3, 4}, true, 0},
    {3, {2, 5, 7}, true, 1},
    {3, {2, 5, 7}, true, 2},
    /* nothing */
    {1, {0}, false, 0},
    {2, {0, 3}, false, 0},
    {2, {0, 3}, false, 1},
    /* more than a block, enough for several threads */
    {2, {3, 1500}, false, 1},
    {2, {30, 1100}, false, 0},
    {2, {500, 70}, false, 1},
    {4, {3, 40, 17, 19}, true, 1},
};
#define N_SHAPES (int)(sizeof(list) / sizeof(list[0]))

static struct tensor_desc
without(const struct tensor_desc *x, int axis, bool keepdim)
{
    struct tensor_desc y = {.dtype = x->dtype};

    if (keepdim)
        y.layout = x->layout;
    for (int i = 0; i < x->rank; i++)
        if (i != axis || keepdim)
            y.dim[y.rank++] = i == axis ? 1 : x->dim[i];
    return y;
}

/* Products leave the range of double where golden's order and the kernel's
 * differ: ordinary values in long ones, and no wide ones. The gradient of a
 * cosine is one over two norms, which only ordinary ones keep in float32; that of a log-softmax
 * takes exp(y), where y is no huge number. */
static void
emit(const struct cases_maker *m, struct kcase *c, int64_t length)
{
    static const enum check_fill fills[] = {CHECK_NORMAL, CHECK_BROAD,
                                            CHECK_SPECIAL, CHECK_WIDE};
    const bool product = m->op == OP_PROD || m->op == OP_PROD_BWD;
    const bool cosine = m->op == OP_COSINE_SIMILARITY_BWD;
    const bool summed = cosine || m->op == OP_LOG_SOFTMAX_BWD;
    const int n = product && length > 8 ? 1 : product || cosine ? 3 : 4;

    for (int i = 0; i < n; i++) {
        for (int k = 0; k < c->sig.n_in; k++)
            c->fill[k] =
                (summed && fills[i] == CHECK_SPECIAL) ? CHECK_SUMMED : fills[i];
        if (m->op == OP_LOG_SOFTMAX_BWD && fills[i] == CHECK_WIDE)
            c->fill[1] = CHECK_NORMAL;
        if (product && length > 40)
            c->fill[0] = c->fill[1] = CHECK_POSITIVE;
        m->fn(m->ctx, c);
    }
}

void
cases_axis(const struct cases_maker *m)
{
    const bool backward =
        m->op == OP_PROD_BWD || m->op == OP_COSINE_SIMILARITY_BWD;
    const bool shrinks =
        backward || m->op == OP_PROD || m->op == OP_COSINE_SIMILARITY;

    for (int i = 0; i < N_SHAPES; i++) {
        struct tensor_desc x = tensor_make(m->t, list[i].rank, list[i].dim);
        struct kcase c = cases_start(m);

        if (list[i].nhwc)
            x.layout = TENSOR_NHWC;
        c.sig.params.axis.axis = list[i].axis;
        c.sig.params.axis.eps = 1e-8;
        c.sig.params.axis.keepdim = m->op == OP_PROD && i % 2 == 0;
        for (int k = 0; k < c.sig.n_in; k++)
            c.sig.in[k] = x;
        for (int k = 0; k < c.sig.n_out; k++)
            c.sig.out[k] = x;
        if (shrinks)
            *(backward ? &c.sig.in[0] : &c.sig.out[0]) =
                without(&x, list[i].axis, c.sig.params.axis.keepdim);
        emit(m, &c, x.dim[list[i].axis]);
    }
}
