/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

static const int64_t sizes[] = {0, 1, 7, 1023, 1025, 70001};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

/* Functions with a pole, or without a value below 0. */
static bool
is_partial(const struct cases_maker *m)
{
    return m->op == OP_LOG || m->op == OP_LOG_BWD || m->op == OP_POW ||
           m->op == OP_POW_BWD || m->op == OP_RECIPROCAL || m->op == OP_RSQRT;
}

/* Gradients take x, or y, as the second input; dy is an ordinary one. */
static void
emit(const struct cases_maker *m, struct kcase *c)
{
    static const enum check_fill fills[] = {CHECK_NORMAL, CHECK_BROAD,
                                            CHECK_WIDE, CHECK_SPECIAL};
    const int x = c->sig.n_in - 1;

    for (int i = 0; i < 4; i++) {
        c->fill[0] = fills[i] == CHECK_SPECIAL ? CHECK_SPECIAL : CHECK_NORMAL;
        c->fill[x] = fills[i];
        if (is_partial(m) && (i == 0 || (i == 1 && m->op != OP_RECIPROCAL)))
            c->fill[x] = CHECK_POSITIVE;
        m->fn(m->ctx, c);
    }
}

static void
emit_variants(const struct cases_maker *m, struct kcase *c)
{
    static const double exponents[] = {0, 1, 2, 3, 4, 0.5, -1, -2.5, 7};
    static const double betas[] = {1, 0.1, 3}, thresholds[] = {20, 20, 2};

    if (m->op == OP_POW || m->op == OP_POW_BWD) {
        for (int i = 0; i < 9; i++) {
            c->sig.params.pow.exponent = exponents[i];
            emit(m, c);
        }
    } else if (m->op == OP_SOFTPLUS || m->op == OP_SOFTPLUS_BWD) {
        for (int i = 0; i < 3; i++) {
            c->sig.params.softplus.beta = betas[i];
            c->sig.params.softplus.threshold = thresholds[i];
            emit(m, c);
        }
    } else {
        emit(m, c);
    }
}

static void
emit_shape(const struct cases_maker *m, const struct tensor_desc *t)
{
    struct kcase c = cases_start(m);

    for (int i = 0; i < c.sig.n_in; i++)
        c.sig.in[i] = *t;
    c.sig.out[0] = *t;
    emit_variants(m, &c);
}

void
cases_function(const struct cases_maker *m)
{
    const struct tensor_desc image = tensor_make_nhwc(m->t, 2, 5, 3, 4);
    const struct tensor_desc one = cases_scalar(m->t);

    for (int i = 0; i < N_SIZES; i++) {
        const struct tensor_desc t = cases_vector(m->t, sizes[i]);

        emit_shape(m, &t);
    }
    emit_shape(m, &image);
    emit_shape(m, &one);
}
