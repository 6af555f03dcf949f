/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

/* Inputs of a loss (or, with dloss before them, of its gradient). */
static void
emit_loss(const struct cases_maker *m, struct kcase *c,
          const struct tensor_desc *x, const struct tensor_desc *target,
          bool backward)
{
    const int at = backward ? 1 : 0;

    if (backward) {
        c->sig.in[0] = cases_scalar(DTYPE_F32);
        c->fill[0] = CHECK_POSITIVE;
    }
    c->sig.in[at] = *x;
    c->sig.in[at + 1] = *target;
    c->sig.in[at + 2] = cases_scalar(DTYPE_F32);
    c->fill[at + 2] = CHECK_PROB;
    c->sig.out[0] = backward ? *x : cases_scalar(DTYPE_F32);
    m->fn(m->ctx, c);
    c->fill[at] = CHECK_SUMMED;
    m->fn(m->ctx, c);
    c->fill[at] = CHECK_NORMAL;
}

static void
pair_case(const struct cases_maker *m, int64_t n, double number, bool flag)
{
    const bool backward = op_info(m->op)->n_in == 4;
    const struct tensor_desc x = cases_vector(DTYPE_F32, n);
    const bool kl = m->op == OP_KL_DIV || m->op == OP_KL_DIV_BWD;
    const bool probability = m->op == OP_BCE_WITH_LOGITS ||
                             m->op == OP_BCE_WITH_LOGITS_BWD || (kl && !flag);
    struct kcase c = cases_start(m);

    c.sig.params.loss.beta = c.sig.params.loss.delta = number;
    c.sig.params.loss.factor = number;
    c.sig.params.loss.log_target = flag;
    c.fill[backward ? 2 : 1] = probability ? CHECK_PROB : CHECK_NORMAL;
    emit_loss(m, &c, &x, &x, backward);
}

/* Parameters matter to three: beta, delta, or factor and log_target. */
static void
pair_cases(const struct cases_maker *m)
{
    static const int64_t sizes[] = {0, 1, 5, 1027, 50001};
    const bool smooth = m->op == OP_SMOOTH_L1 || m->op == OP_SMOOTH_L1_BWD;
    const bool huber = m->op == OP_HUBER || m->op == OP_HUBER_BWD;
    const bool kl = m->op == OP_KL_DIV || m->op == OP_KL_DIV_BWD;

    for (int i = 0; i < 5; i++) {
        pair_case(m, sizes[i], 1, false);
        if (smooth || huber || kl)
            pair_case(m, sizes[i], 0.375, false);
        if (smooth)
            pair_case(m, sizes[i], 0, false);
        if (kl)
            pair_case(m, sizes[i], 1, true);
    }
}

static void
emit_classes(const struct cases_maker *m, const struct tensor_desc *x,
             const struct tensor_desc *target, int64_t classes, int variant)
{
    struct kcase c = cases_start(m);
    const bool backward = op_info(m->op)->n_in == 4;
    const int at = backward ? 2 : 1;

    c.classes = classes;
    c.sig.params.loss.has_ignore_index = true;
    c.sig.params.loss.ignore_index = -100;
    c.sig.params.loss.label_smoothing = variant == 1 ? 0.1 : 0;
    c.fill[at] = variant == 2 ? CHECK_CLASS_BAD : CHECK_CLASS;
    if (m->op == OP_CORRECT || m->op == OP_CONFUSION) {
        c.sig.params.loss.k = variant == 0 ? 0 : variant == 1 ? 1 : 3;
        c.sig.in[0] = *x;
        c.sig.in[1] = *target;
        c.sig.out[0] = m->op == OP_CORRECT
                           ? cases_scalar(DTYPE_F32)
                           : cases_matrix(DTYPE_F32, classes, classes);
        m->fn(m->ctx, &c);
        c.fill[0] = CHECK_SUMMED;
        m->fn(m->ctx, &c);
        return;
    }
    emit_loss(m, &c, x, target, backward);
}

static void
class_cases(const struct cases_maker *m)
{
    static const int64_t sizes[][2] = {{0, 10},  {1, 1},    {5, 3},
                                       {33, 10}, {3, 1500}, {600, 100}};

    for (int variant = 0; variant < 3; variant++) {
        for (int i = 0; i < 6; i++) {
            const struct tensor_desc x =
                cases_matrix(m->t, sizes[i][0], sizes[i][1]);
            const struct tensor_desc target =
                cases_vector(DTYPE_I32, sizes[i][0]);

            emit_classes(m, &x, &target, sizes[i][1], variant);
        }
        { /* one a token */
            const struct tensor_desc x =
                tensor_make(m->t, 3, (int64_t[]){3, 7, 33});
            const struct tensor_desc target = cases_matrix(DTYPE_I32, 3, 7);

            emit_classes(m, &x, &target, 33, variant);
        }
        { /* one class a pixel */
            const struct tensor_desc x = tensor_make_nhwc(m->t, 2, 5, 3, 4);
            const struct tensor_desc target =
                tensor_make(DTYPE_I32, 3, (int64_t[]){2, 3, 4});

            emit_classes(m, &x, &target, 5, variant);
        }
    }
}

void
cases_loss(const struct cases_maker *m)
{
    if (m->op == OP_CORRECT || m->op == OP_CONFUSION) {
        class_cases(m);
        return;
    }
    if (m->t != DTYPE_F32)
        return;
    if (m->op == OP_CROSS_ENTROPY || m->op == OP_CROSS_ENTROPY_BWD ||
        m->op == OP_NLL || m->op == OP_NLL_BWD)
        class_cases(m);
    else
        pair_cases(m);
}
