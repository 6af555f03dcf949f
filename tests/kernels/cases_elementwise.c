/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

static const int64_t sizes[] = {0, 1, 7, 1023, 1025, 70001};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

/* The second input of an op whose first is a gradient. */
static enum check_fill
second_fill(enum op op, enum check_fill first)
{
    if (op == OP_TANH_BWD)
        return CHECK_UNIT;
    if (op == OP_SIGMOID_BWD)
        return CHECK_PROB;
    return first;
}

static void
emit(const struct cases_maker *m, struct kcase *c)
{
    static const enum check_fill fills[] = {CHECK_NORMAL, CHECK_WIDE,
                                            CHECK_SPECIAL};

    for (int i = 0; i < 3; i++) {
        c->fill[0] = fills[i];
        /* An ordinary gradient against every x: dy x grad may not overflow
         * where the true product does not. */
        if (c->sig.n_in == 2 && m->op != OP_GRAD_ACCUMULATE &&
            fills[i] == CHECK_WIDE)
            c->fill[0] = CHECK_NORMAL;
        c->fill[1] = second_fill(m->op, fills[i]);
        m->fn(m->ctx, c);
    }
}

/* By op: the other dtypes and parameters. */
static void
emit_variants(const struct cases_maker *m, struct kcase *c)
{
    static const enum dtype floats[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const struct tensor_desc t = c->sig.in[0];

    if (m->op == OP_CAST) {
        for (int i = 0; i < 3; i++) {
            c->sig.out[0] = tensor_with_dtype(&t, floats[i]);
            emit(m, c);
        }
    } else if (m->op == OP_GELU || m->op == OP_GELU_BWD) {
        emit(m, c);
        c->sig.params.gelu.tanh = true;
        emit(m, c);
    } else if (m->op == OP_GRAD_ACCUMULATE) {
        c->sig.in[0].dtype = c->sig.out[0].dtype = DTYPE_F32;
        for (c->micro_batch = 0; c->micro_batch < 2; c->micro_batch++)
            emit(m, c);
    } else if (m->op == OP_DROPOUT || m->op == OP_DROPOUT_BWD) {
        static const double p[] = {0, 0.25, 0.9, 1};

        for (int i = 0; i < 4; i++) {
            c->sig.params.dropout.p = p[i];
            c->sig.params.dropout.stream = 7;
            emit(m, c);
        }
    } else {
        emit(m, c);
    }
}

void
cases_elementwise(const struct cases_maker *m)
{
    if (m->op == OP_SCALE_LOSS) {
        struct kcase c = cases_start(m);

        if (m->t != DTYPE_F32)
            return;
        c.sig.in[0] = c.sig.in[1] = c.sig.out[0] = cases_scalar(DTYPE_F32);
        m->fn(m->ctx, &c);
        return;
    }
    for (int i = 0; i < N_SIZES; i++) {
        struct kcase c = cases_start(m);

        for (int j = 0; j < c.sig.n_in; j++)
            c.sig.in[j] = cases_vector(m->t, sizes[i]);
        c.sig.out[0] = cases_vector(m->t, sizes[i]);
        emit_variants(m, &c);
    }
}
