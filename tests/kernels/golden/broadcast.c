/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* What a float32 below 2^-126 is rounded to, by 2^24. */
#define TINY 0x1p-125

/* Where t, which broadcasts to base, has the element of logical index. */
static int64_t
place(const struct tensor_desc *base, const struct tensor_desc *t,
      const int64_t *index)
{
    int64_t own[TENSOR_MAX_RANK];

    for (int i = 0; i < t->rank; i++)
        own[i] = t->dim[i] == 1 ? 0 : index[base->rank - t->rank + i];
    return tensor_ravel(t, own);
}

/* A number as t holds it (none of the tests is subnormal): rounded to nearest
 * even, the largest ones in the place of what is beyond them. */
static double
rounded(enum dtype t, double v)
{
    const int mantissa = t == DTYPE_F16 ? 10 : t == DTYPE_BF16 ? 7 : 23;
    const double most =
        ldexp(2 - ldexp(1, -mantissa), t == DTYPE_F16 ? 15 : 127);
    const double ulp = v == 0 ? 1 : ldexp(1, ilogb(v) - mantissa);

    return fmax(-most, fmin(most, rint(v / ulp) * ulp));
}

/* Input i there; an absent one is the number. */
static double
operand(const struct golden *g, const struct tensor_desc *base, int i,
        const int64_t *index)
{
    const struct tensor_desc *t = &g->sig->in[i];

    if (i >= g->sig->n_in)
        return 0;
    if (t->dtype != DTYPE_NONE)
        return g->in[i][place(base, t, index)];
    if (g->sig->op == OP_COMPARE)
        return g->sig->in[0].dtype == DTYPE_I32
                   ? g->sig->params.compare.value
                   : rounded(g->sig->in[0].dtype, g->sig->params.compare.value);
    return rounded(g->sig->op == OP_WHERE ? g->sig->out[0].dtype : DTYPE_F32,
                   g->sig->params.binary.value);
}

static double
compare(enum op_compare how, double a, double b)
{
    switch (how) {
    case OP_COMPARE_EQ: return a == b;
    case OP_COMPARE_NE: return a != b;
    case OP_COMPARE_LT: return a < b;
    case OP_COMPARE_LE: return a <= b;
    case OP_COMPARE_GT: return a > b;
    case OP_COMPARE_GE: return a >= b;
    }
    return NAN;
}

/* The value of one element of the base from its inputs. */
static double
term(const struct golden *g, const double *v)
{
    switch ((int)g->sig->op) {
    case OP_ADD: return v[0] + v[1];
    case OP_SUB: return v[0] - v[1];
    case OP_MUL: return v[0] * v[1];
    case OP_DIV: return v[0] / v[1];
    case OP_COMPARE: return compare(g->sig->params.compare.how, v[0], v[1]);
    case OP_WHERE: return v[0] != 0 ? v[1] : v[2];
    case OP_SUM_TO: return v[0];
    case OP_SUM_TO_NEG: return -v[0];
    case OP_MUL_BWD: return v[0] * v[1];
    case OP_DIV_BWD_A: return v[0] / v[1];
    case OP_DIV_BWD_B: return -v[0] * v[1] / (v[2] * v[2]);
    case OP_WHERE_BWD_A: return v[1] != 0 ? v[0] : 0;
    default: /* OP_WHERE_BWD_B */ return v[1] != 0 ? 0 : v[0];
    }
}

/* Of an element of a forward op: what its parts are rounded to first. */
static double
magnitude(const struct golden *g, const double *v, double y)
{
    if (g->sig->op == OP_ADD || g->sig->op == OP_SUB)
        return fabs(v[0]) + fabs(v[1]) + TINY;
    if (g->sig->op == OP_COMPARE || g->sig->op == OP_WHERE ||
        !dtype_is_half(g->sig->out[0].dtype))
        return 0;
    return fabs(y) + TINY; /* in float32, before the half */
}

void
golden_broadcast(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const bool forward = sig->op == OP_ADD || sig->op == OP_SUB ||
                         sig->op == OP_MUL || sig->op == OP_DIV ||
                         sig->op == OP_COMPARE || sig->op == OP_WHERE;
    const struct tensor_desc *base = forward ? &sig->out[0] : &sig->in[0];
    const int64_t n_out = tensor_n_elems(&sig->out[0]);

    for (int64_t i = 0; i < n_out; i++)
        g->out[0][i] = 0;
    for (int64_t i = 0; i < tensor_n_elems(base); i++) {
        int64_t index[TENSOR_MAX_RANK], to = i;
        double v[3], y;

        tensor_unravel(base, i, index);
        for (int k = 0; k < 3; k++)
            v[k] = operand(g, base, k, index);
        y = term(g, v);
        if (forward) {
            g->out[0][i] = y;
            g->mag[0][i] = magnitude(g, v, y);
            continue;
        }
        to = place(base, &sig->out[0], index);
        g->out[0][to] += y;
        g->mag[0][to] += fabs(y) + TINY;
    }
}
