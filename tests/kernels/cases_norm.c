/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

#include <string.h>

/* ---- batch_norm ---------------------------------------------------------- */

static void
emit_batch(const struct cases_maker *m, const struct tensor_desc *x,
           bool affine)
{
    const struct tensor_desc c = cases_vector(DTYPE_F32, x->dim[1]);
    const struct tensor_desc w =
        affine ? c : (struct tensor_desc){.dtype = DTYPE_NONE};
    struct kcase k = cases_start(m);

    k.sig.params.batch_norm.eps = 1e-5;
    k.sig.out[0] = *x;
    if (m->op == OP_BATCH_NORM_BWD) {
        k.sig.in[0] = k.sig.in[1] = *x;
        k.sig.in[2] = w;
        k.sig.in[3] = k.sig.in[4] = c;
        k.sig.out[1] = k.sig.out[2] = w;
        k.fill[4] = CHECK_POSITIVE;
    } else {
        k.sig.in[0] = *x;
        k.sig.in[1] = k.sig.in[2] = w;
        if (m->op == OP_BATCH_NORM_EVAL) {
            k.sig.in[3] = k.sig.in[4] = c;
            k.fill[4] = CHECK_POSITIVE;
        } else {
            k.sig.out[1] = k.sig.out[2] = c;
        }
    }
    m->fn(m->ctx, &k);
    k.fill[0] = CHECK_SUMMED;
    m->fn(m->ctx, &k);
}

static void
batch_cases(const struct cases_maker *m)
{
    static const int64_t images[][4] = {
        {0, 3, 4, 4},   {1, 1, 1, 1},   {3, 5, 4, 7},    {4, 1, 51, 50},
        {2, 16, 9, 11}, {5, 64, 25, 9}, {3, 1030, 5, 3},
    };
    static const int64_t rows[][2] = {{1, 3}, {7, 1}, {33, 17}, {70, 1500}};
    static const int64_t signals[][3] = {{0, 2, 5}, {3, 5, 17}, {2, 33, 130}};

    for (int i = 0; i < 7; i++) {
        const int64_t *s = images[i];
        const struct tensor_desc x =
            tensor_make_nhwc(m->t, s[0], s[1], s[2], s[3]);

        emit_batch(m, &x, i % 3 != 2);
    }
    for (int i = 0; i < 3; i++) {
        const struct tensor_desc x =
            tensor_make_nlc(m->t, signals[i][0], signals[i][1], signals[i][2]);

        emit_batch(m, &x, true);
    }
    for (int i = 0; i < 4; i++) {
        const struct tensor_desc x = tensor_make(m->t, 2, rows[i]);

        emit_batch(m, &x, true);
    }
    for (int i = 0; i < 3; i++) { /* (N, C, L) */
        static const int64_t planes[][3] = {{3, 5, 7}, {2, 3, 1025}, {0, 2, 4}};
        const struct tensor_desc x = tensor_make(m->t, 3, planes[i]);

        emit_batch(m, &x, i != 1);
    }
}

static void
stats_cases(const struct cases_maker *m)
{
    static const int64_t channels[] = {0, 1, 37};

    if (m->t != DTYPE_F32)
        return;
    for (int i = 0; i < 3; i++)
        for (int64_t n = 1; n < 100; n += 49) {
            struct kcase k = cases_start(m);

            k.sig.params.batch_norm.momentum = 0.1;
            k.sig.params.batch_norm.n = n;
            for (int j = 0; j < 4; j++) {
                k.sig.in[j] = cases_vector(DTYPE_F32, channels[i]);
                k.fill[j] = CHECK_POSITIVE;
            }
            k.sig.out[0] = k.sig.out[1] = k.sig.in[0];
            m->fn(m->ctx, &k);
        }
}

/* ---- layer_norm ---------------------------------------------------------- */

static void
emit_layer(const struct cases_maker *m, const struct tensor_desc *x, int n_dims,
           bool affine, enum check_fill fill)
{
    const int lead = x->rank - n_dims;
    const struct tensor_desc rows = tensor_make(DTYPE_F32, lead, x->dim);
    struct tensor_desc w = tensor_make(DTYPE_F32, n_dims, x->dim + lead);
    struct kcase k = cases_start(m);

    if (!affine)
        w.dtype = DTYPE_NONE;
    k.sig.params.layer_norm.eps = 1e-5;
    k.sig.params.layer_norm.n_dims = n_dims;
    k.sig.out[0] = *x;
    k.fill[0] = fill;
    if (m->op == OP_LAYER_NORM_BWD) {
        k.sig.in[0] = k.sig.in[1] = *x;
        k.sig.in[2] = w;
        k.sig.in[3] = k.sig.in[4] = rows;
        k.sig.out[1] = k.sig.out[2] = w;
        k.fill[4] = CHECK_POSITIVE;
    } else {
        k.sig.in[0] = *x;
        k.sig.in[1] = k.sig.in[2] = w;
        k.sig.out[1] = k.sig.out[2] = rows;
    }
    m->fn(m->ctx, &k);
}

static void
layer_cases(const struct cases_maker *m)
{
    static const int64_t rows[][2] = {{0, 5},    {4, 0},    {1, 1},    {3, 17},
                                      {130, 33}, {5, 2049}, {40, 1024}};
    struct tensor_desc x;

    for (int i = 0; i < 7; i++) {
        x = tensor_make(m->t, 2, rows[i]);
        emit_layer(m, &x, 1, true, CHECK_NORMAL);
        emit_layer(m, &x, 1, false, CHECK_SUMMED);
        if (m->op == OP_LAYER_NORM) /* squares beyond float32's range */
            emit_layer(m, &x, 1, true, CHECK_WIDE);
    }
    x = tensor_make(m->t, 4, (int64_t[]){2, 3, 4, 5});
    for (int n_dims = 1; n_dims <= 4; n_dims++) {
        emit_layer(m, &x, n_dims, true, CHECK_NORMAL);
        x.layout = TENSOR_NHWC;
        emit_layer(m, &x, n_dims, n_dims != 2, CHECK_NORMAL);
        x.layout = TENSOR_ROW;
    }
}

void
cases_norm(const struct cases_maker *m)
{
    if (m->op == OP_STATS_TRACK)
        stats_cases(m);
    else if (m->op == OP_LAYER_NORM || m->op == OP_LAYER_NORM_BWD)
        layer_cases(m);
    else
        batch_cases(m);
}
