/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct size {
    int64_t n, k, o;
};

static const struct size sizes[] = {
    {0, 3, 2},   {1, 1, 1},    {2, 0, 3},     {3, 5, 7},      {5, 33, 0},
    {4, 16, 16}, {17, 33, 19}, {128, 64, 10}, {65, 129, 131}, {2, 3000, 3},
};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static void
emit(const struct cases_maker *m, struct kcase *c)
{
    for (int i = 0; i < 2; i++) {
        const enum check_fill fill = i == 0 ? CHECK_NORMAL : CHECK_SUMMED;

        for (int j = 0; j < c->sig.n_in; j++)
            c->fill[j] = fill;
        m->fn(m->ctx, c);
    }
}

static void
emit_linear(const struct cases_maker *m, const struct size *s)
{
    struct kcase c = cases_start(m);
    const struct tensor_desc none = {.dtype = DTYPE_NONE};

    c.sig.in[0] = cases_matrix(m->t, s->n, s->k);
    c.sig.in[1] = cases_matrix(m->t, s->o, s->k);
    c.sig.in[2] = cases_vector(m->t, s->o);
    c.sig.out[0] = cases_matrix(m->t, s->n, s->o);
    emit(m, &c);
    c.sig.in[2] = none;
    emit(m, &c);
    if (s->n % 2 != 0)
        return;
    /* The same rows as (2, n / 2, k). */
    c.sig.in[0] = tensor_make(m->t, 3, (int64_t[]){2, s->n / 2, s->k});
    c.sig.out[0] = tensor_make(m->t, 3, (int64_t[]){2, s->n / 2, s->o});
    emit(m, &c);
}

static void
emit_gradient(const struct cases_maker *m, const struct size *s)
{
    struct kcase c = cases_start(m);

    c.sig.in[0] = cases_matrix(m->t, s->n, s->o);
    if (m->op == OP_LINEAR_DX) {
        c.sig.in[1] = cases_matrix(m->t, s->o, s->k);
        c.sig.out[0] = cases_matrix(m->t, s->n, s->k);
        emit(m, &c);
        return;
    }
    if (m->op == OP_LINEAR_DW) {
        c.sig.in[1] = cases_matrix(m->t, s->n, s->k);
        c.sig.out[0] = cases_matrix(DTYPE_F32, s->o, s->k);
    } else {
        c.sig.out[0] = cases_vector(DTYPE_F32, s->o);
    }
    emit(m, &c);
    if (m->t != DTYPE_F32) { /* "pytorch" rounding of weight gradients */
        c.sig.out[0].dtype = m->t;
        emit(m, &c);
    }
}

static void
emit_image_bias(const struct cases_maker *m)
{
    static const int64_t shapes[][4] = {
        {0, 3, 2, 2}, {2, 1, 9, 7}, {3, 5, 6, 7}, {2, 33, 40, 31}};

    for (int i = 0; i < 4; i++) {
        const int64_t *s = shapes[i];
        struct kcase c = cases_start(m);

        c.sig.in[0] = tensor_make_nhwc(m->t, s[0], s[1], s[2], s[3]);
        c.sig.out[0] = cases_vector(DTYPE_F32, s[1]);
        emit(m, &c);
        c.sig.in[0] = tensor_make_nlc(m->t, s[0], s[1], s[2] * s[3]);
        emit(m, &c);
    }
}

void
cases_product(const struct cases_maker *m)
{
    for (int i = 0; i < N_SIZES; i++) {
        if (m->op == OP_LINEAR)
            emit_linear(m, &sizes[i]);
        else
            emit_gradient(m, &sizes[i]);
    }
    if (m->op == OP_BIAS_GRAD) {
        const struct size tall = {40001, 0, 1}, wide = {17, 0, 2500};

        emit_gradient(m, &tall);
        emit_gradient(m, &wide);
        emit_image_bias(m);
    }
}
