/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

#define ANY (-1) /* rank of an absent operand */

/* Two operands; nhwc: of those of the greater rank. */
struct shapes {
    int rank_a;
    int64_t a[TENSOR_MAX_RANK];
    int rank_b;
    int64_t b[TENSOR_MAX_RANK];
    bool nhwc;
};

static const struct shapes list[] = {
    /* the same, with sizes around the blocks */
    {1, {1}, 1, {1}, false},
    {1, {7}, 1, {7}, false},
    {2, {41, 25}, 2, {41, 25}, false},
    {1, {35001}, 1, {35001}, false},
    {4, {2, 5, 3, 4}, 4, {2, 5, 3, 4}, true},
    /* whole rows */
    {3, {3, 5, 7}, 2, {5, 7}, false},
    {2, {33, 65}, 1, {65}, false},
    {3, {37, 320, 3}, 1, {3}, false},
    {2, {12, 2050}, 1, {2050}, false},
    {2, {3, 1025}, 2, {1, 1025}, false},
    {1, {65}, 2, {33, 65}, false},
    /* one number */
    {2, {5, 7}, 0, {0}, false},
    {0, {0}, 2, {5, 7}, false},
    {0, {0}, 0, {0}, false},
    {1, {20001}, 1, {1}, false},
    /* one a row */
    {2, {37, 65}, 2, {37, 1}, false},
    {2, {2, 1500}, 2, {2, 1}, false},
    {3, {12, 900, 1}, 3, {12, 900, 3}, false},
    /* both repeat */
    {3, {5, 1, 7}, 3, {1, 3, 7}, false},
    {2, {1, 1025}, 2, {9, 1}, false},
    {1, {3}, 2, {2, 1}, false},
    {6, {2, 1, 3, 1, 2, 1}, 6, {1, 2, 1, 3, 1, 2}, false},
    {5, {4, 1, 3, 5, 2}, 4, {6, 1, 5, 1}, false},
    /* images and signals */
    {4, {2, 5, 3, 4}, 4, {1, 5, 1, 1}, true},
    {4, {2, 5, 3, 4}, 3, {5, 1, 1}, true},
    {4, {2, 5, 3, 4}, 4, {2, 1, 3, 4}, true},
    {4, {2, 5, 3, 4}, 2, {3, 4}, true}, /* not in memory order */
    {4, {2, 33, 20, 15}, 3, {33, 1, 1}, true},
    {3, {2, 5, 7}, 3, {1, 5, 1}, true},
    {3, {2, 5, 7}, 3, {2, 1, 7}, true},
    /* nothing */
    {1, {0}, 1, {0}, false},
    {2, {0, 3}, 1, {3}, false},
    {3, {2, 0, 3}, 2, {1, 3}, false},
    {1, {0}, 1, {1}, false},
    /* with a number instead of b */
    {1, {1025}, ANY, {0}, false},
    {4, {2, 5, 3, 4}, ANY, {0}, true},
    {1, {0}, ANY, {0}, false},
};
#define N_SHAPES (int)(sizeof(list) / sizeof(list[0]))

static struct tensor_desc
describe(enum dtype t, int rank, const int64_t *dim, const struct shapes *s)
{
    struct tensor_desc d;

    if (rank == ANY)
        return (struct tensor_desc){.dtype = DTYPE_NONE};
    d = tensor_make(t, rank, dim);
    if (s->nhwc && rank == (s->rank_a > s->rank_b ? s->rank_a : s->rank_b))
        d.layout = TENSOR_NHWC;
    return d;
}

static struct tensor_desc
joined(const struct tensor_desc *a, const struct tensor_desc *b)
{
    const struct tensor_desc *big = a->rank >= b->rank ? a : b;
    const struct tensor_desc *small = big == a ? b : a;
    struct tensor_desc y = *big;
    const int more = big->rank - small->rank;

    for (int i = 0; i < small->rank && small->dtype != DTYPE_NONE; i++)
        if (small->dim[i] != 1)
            y.dim[more + i] = small->dim[i];
    return y;
}

/* Divisors of an ordinary kind are not near 0; a mask's constant is far off. */
static void
emit(const struct cases_maker *m, struct kcase *c, int divisor)
{
    static const enum check_fill fills[] = {CHECK_NORMAL, CHECK_WIDE,
                                            CHECK_SPECIAL};

    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < c->sig.n_in; k++)
            c->fill[k] = k == divisor && i == 0 ? CHECK_POSITIVE : fills[i];
        if (m->op == OP_WHERE)
            c->sig.params.binary.value = i == 0 ? 0.3 : -1e9;
        m->fn(m->ctx, c);
    }
}

/* With other dtypes beside m->t: the widest comes out. */
static void
forward(const struct cases_maker *m, struct kcase *c)
{
    const int divisor = m->op == OP_DIV ? 1 : -1;

    c->sig.out[0] = joined(&c->sig.in[0], &c->sig.in[1]);
    c->sig.params.binary.value = 0.3;
    emit(m, c, divisor);
    if (c->sig.in[1].dtype == DTYPE_NONE || m->t == DTYPE_F32)
        return;
    c->sig.in[1].dtype = c->sig.out[0].dtype = DTYPE_F32;
    emit(m, c, divisor);
}

static void
compare(const struct cases_maker *m, struct kcase *c)
{
    static const enum op_compare how[] = {OP_COMPARE_EQ, OP_COMPARE_NE,
                                          OP_COMPARE_LT, OP_COMPARE_LE,
                                          OP_COMPARE_GT, OP_COMPARE_GE};

    c->sig.out[0] = joined(&c->sig.in[0], &c->sig.in[1]);
    c->sig.out[0].dtype = DTYPE_BOOL;
    for (int i = 0; i < 6; i++) {
        if (i > 0 && tensor_n_elems(&c->sig.out[0]) > 10000)
            break; /* the loops are alike */
        c->sig.params.compare.how = how[i];
        c->sig.params.compare.value = 0.3;
        emit(m, c, -1);
    }
    if (m->t != DTYPE_F32)
        return;
    for (int k = 0; k < 2; k++)
        if (c->sig.in[k].dtype != DTYPE_NONE)
            c->sig.in[k].dtype = DTYPE_I32;
    c->classes = 4;
    for (int i = 0; i < 6; i++) {
        c->sig.params.compare.how = how[i];
        c->sig.params.compare.value = 2;
        c->fill[0] = c->fill[1] = CHECK_CLASS;
        m->fn(m->ctx, c);
    }
}

/* The two shapes take turns as the mask's and an operand's. */
static void
where(const struct cases_maker *m, const struct tensor_desc *a,
      const struct tensor_desc *b)
{
    const struct tensor_desc none = {.dtype = DTYPE_NONE};
    const struct tensor_desc *other = b->dtype == DTYPE_NONE ? a : b;
    const struct tensor_desc roles[][3] = {
        {*a, *other, *b}, {*other, *a, none}, {*other, none, *a}};

    for (int i = 0; i < 3; i++) {
        struct kcase c = cases_start(m);

        for (int k = 0; k < 3; k++)
            c.sig.in[k] = roles[i][k];
        c.sig.in[0].dtype = DTYPE_BOOL;
        c.sig.out[0] = joined(a, other);
        emit(m, &c, -1);
    }
}

/* dy, what else, and the operand that the gradient is for. */
static void
gradient(const struct cases_maker *m, const struct tensor_desc *a,
         const struct tensor_desc *b)
{
    const bool by_b = m->op == OP_DIV_BWD_B || m->op == OP_WHERE_BWD_B;
    const bool masked = m->op == OP_WHERE_BWD_A || m->op == OP_WHERE_BWD_B;
    struct kcase c = cases_start(m);

    if (by_b && b->dtype == DTYPE_NONE)
        return;
    c.sig.in[0] = joined(a, b);
    c.sig.params.binary.value = 0.3;
    if (m->op == OP_DIV_BWD_B) {
        c.sig.in[1] = *a;
        c.sig.in[2] = *b;
    } else if (m->op != OP_SUM_TO && m->op != OP_SUM_TO_NEG) {
        c.sig.in[1] = by_b ? *a : *b;
        if (masked && c.sig.in[1].dtype == DTYPE_NONE)
            c.sig.in[1] = *a;
        if (masked)
            c.sig.in[1].dtype = DTYPE_BOOL;
    }
    c.sig.out[0] = by_b ? *b : *a;
    emit(m, &c, m->op == OP_DIV_BWD_B ? 2 : m->op == OP_DIV_BWD_A ? 1 : -1);
    c.sig.out[0].dtype = DTYPE_F32;
    if (m->t != DTYPE_F32)
        emit(m, &c, -1);
}

void
cases_broadcast(const struct cases_maker *m)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const struct tensor_desc a =
            describe(m->t, list[i].rank_a, list[i].a, &list[i]);
        const struct tensor_desc b =
            describe(m->t, list[i].rank_b, list[i].b, &list[i]);
        struct kcase c = cases_start(m);

        c.sig.in[0] = a;
        c.sig.in[1] = b;
        switch ((int)m->op) {
        case OP_ADD:
        case OP_SUB:
        case OP_MUL:
        case OP_DIV: forward(m, &c); break;
        case OP_COMPARE: compare(m, &c); break;
        case OP_WHERE: where(m, &a, &b); break;
        default: gradient(m, &a, &b); break;
        }
    }
}
