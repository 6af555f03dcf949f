/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

/* ---- embedding ----------------------------------------------------------- */

static void
emit_embedding(const struct cases_maker *m, const struct tensor_desc *ids,
               int64_t n_rows, int64_t width, int64_t padding)
{
    const bool forward = m->op == OP_EMBEDDING;
    struct tensor_desc y = *ids;
    struct kcase c = cases_start(m);

    y.dtype = m->t;
    y.dim[y.rank++] = width;
    c.classes = n_rows;
    c.sig.params.embedding.has_padding = padding >= 0;
    c.sig.params.embedding.padding_index = padding;
    c.sig.in[0] = forward ? *ids : y;
    c.sig.in[1] = forward ? cases_matrix(m->t, n_rows, width) : *ids;
    c.sig.out[0] = forward ? y : cases_matrix(m->t, n_rows, width);
    c.fill[forward ? 0 : 1] = CHECK_ROW;
    m->fn(m->ctx, &c);
    if (!forward) /* as gradients of weights are */
        c.sig.out[0].dtype = DTYPE_F32;
    c.fill[forward ? 1 : 0] = CHECK_SUMMED;
    m->fn(m->ctx, &c);
}

static void
embedding_cases(const struct cases_maker *m)
{
    static const int64_t shapes[][5] = {
        /* ids [a, b], rows, width, padding index */
        {0, 3, 7, 5, -1},    {1, 1, 1, 1, -1},   {2, 3, 11, 5, 4},
        {4, 40, 3, 17, 1},   {1, 50, 30, 0, -1}, {2, 9, 600, 33, -1},
        {3, 7, 20, 1100, 0}, {1, 1, 5, 3, 0},    {4, 300, 50, 96, 7},
        {1, 700, 1, 70, -1},
    };
    const struct tensor_desc scalar = cases_scalar(DTYPE_I32);

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        const int64_t *s = shapes[i];
        const struct tensor_desc ids = cases_matrix(DTYPE_I32, s[0], s[1]);

        emit_embedding(m, &ids, s[2], s[3], s[4]);
    }
    emit_embedding(m, &scalar, 6, 4, -1);
}

/* ---- prelu --------------------------------------------------------------- */

static void
emit_prelu(const struct cases_maker *m, const struct tensor_desc *x,
           int64_t n_weights)
{
    const struct tensor_desc w = cases_vector(m->t, n_weights);
    struct kcase c = cases_start(m);

    c.sig.in[0] = c.sig.out[0] = *x;
    if (m->op == OP_PRELU) {
        c.sig.in[1] = w;
    } else {
        c.sig.in[1] = *x;
        if (m->op == OP_PRELU_DX)
            c.sig.in[2] = w;
        else
            c.sig.out[0] = w;
    }
    m->fn(m->ctx, &c);
    if (m->op == OP_PRELU_DW && m->t != DTYPE_F32) {
        c.sig.out[0].dtype = DTYPE_F32;
        m->fn(m->ctx, &c);
    }
    for (int i = 0; i < 2; i++) {
        c.fill[i] = CHECK_SUMMED;
        m->fn(m->ctx, &c);
    }
    c.fill[0] = c.fill[1] = m->op == OP_PRELU_DW ? CHECK_UNIT : CHECK_WIDE;
    m->fn(m->ctx, &c);
}

static void
prelu_cases(const struct cases_maker *m)
{
    const struct tensor_desc shapes[] = {
        tensor_make_nhwc(m->t, 0, 3, 2, 2),
        tensor_make_nhwc(m->t, 3, 5, 4, 7),
        tensor_make_nhwc(m->t, 2, 33, 40, 31),
        tensor_make_nlc(m->t, 3, 7, 11),
        tensor_make(m->t, 3, (int64_t[]){2, 9, 5}),
        cases_matrix(m->t, 7, 1),
        cases_matrix(m->t, 1, 1),
        cases_matrix(m->t, 33, 1030),
        cases_vector(m->t, 19)};

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        const struct tensor_desc *x = &shapes[i];
        const int64_t channels =
            x->dim[x->layout == TENSOR_NHWC ? 1 : x->rank - 1];

        emit_prelu(m, x, 1);
        emit_prelu(m, x, channels);
    }
}

void
cases_embedding(const struct cases_maker *m)
{
    if (m->op == OP_EMBEDDING || m->op == OP_EMBEDDING_BWD)
        embedding_cases(m);
    else
        prelu_cases(m);
}
