/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* What a float32 below 2^-126 is rounded to, by 2^24. */
#define TINY 0x1p-125

/* A line of a tensor along the axis: element j lies at `at` + j x step. */
struct line {
    int64_t at, step, n;
    int64_t number; /* of the line: its place in a tensor without the axis */
};

typedef void line_fn(const struct golden *g, const struct line *line);

static double
greatest(const double *x, const struct line *l)
{
    double max = -INFINITY;

    for (int64_t j = 0; j < l->n; j++)
        max = fmax(max, x[l->at + j * l->step]);
    return max;
}

static void
softmax(const struct golden *g, const struct line *l)
{
    const double *x = g->in[0], max = greatest(x, l);
    const bool is_log = g->sig->op == OP_LOG_SOFTMAX;
    double sum = 0;

    for (int64_t j = 0; j < l->n; j++)
        sum += exp(x[l->at + j * l->step] - max);
    for (int64_t j = 0; j < l->n; j++) {
        const int64_t i = l->at + j * l->step;
        const double d = x[i] - max;

        /* A relative error of the sum is an absolute one of its log. */
        g->out[0][i] = is_log ? d - log(sum) : exp(d) / sum;
        g->mag[0][i] =
            is_log ? fabs(d) + fabs(log(sum)) + 1 : fabs(g->out[0][i]) + TINY;
    }
}

static void
softmax_bwd(const struct golden *g, const struct line *l)
{
    const double *dy = g->in[0], *y = g->in[1];
    const bool is_log = g->sig->op == OP_LOG_SOFTMAX_BWD;
    double sum = 0, size = 0;

    for (int64_t j = 0; j < l->n; j++) {
        const int64_t i = l->at + j * l->step;
        const double term = is_log ? dy[i] : dy[i] * y[i];

        sum += term;
        size += fabs(term);
    }
    for (int64_t j = 0; j < l->n; j++) {
        const int64_t i = l->at + j * l->step;

        if (is_log) {
            g->out[0][i] = dy[i] - exp(y[i]) * sum;
            /* A rounded y is off by its last place in the exponent. */
            g->mag[0][i] =
                fabs(dy[i]) +
                exp(y[i]) * size * (1 + (isfinite(y[i]) ? fabs(y[i]) : 0));
        } else {
            g->out[0][i] = y[i] * (dy[i] - sum);
            g->mag[0][i] = fabs(y[i]) * (fabs(dy[i]) + size) + TINY;
        }
    }
}

static void
cumsum(const struct golden *g, const struct line *l)
{
    double sum = 0, size = 0;

    for (int64_t j = 0; j < l->n; j++) {
        const int64_t place = g->sig->op == OP_CUMSUM ? j : l->n - 1 - j;
        const int64_t i = l->at + place * l->step;

        sum += g->in[0][i];
        size += fabs(g->in[0][i]);
        g->out[0][i] = sum;
        g->mag[0][i] = size;
    }
}

static void
prod(const struct golden *g, const struct line *l)
{
    double y = 1;

    for (int64_t j = 0; j < l->n; j++)
        y *= g->in[0][l->at + j * l->step];
    g->out[0][l->number] = y;
    g->mag[0][l->number] = 0;
}

static void
prod_bwd(const struct golden *g, const struct line *l)
{
    for (int64_t j = 0; j < l->n; j++) {
        double others = 1;

        for (int64_t k = 0; k < l->n; k++)
            others *= k == j ? 1 : g->in[1][l->at + k * l->step];
        g->out[0][l->at + j * l->step] = g->in[0][l->number] * others;
    }
}

struct cosine {
    double a, b, ab, size; /* norms, at least eps; product; its |terms| */
    bool a_moves, b_moves; /* the norms, not eps, count */
};

static struct cosine
measure(const struct golden *g, const struct line *l, int first)
{
    const double *a = g->in[first], *b = g->in[first + 1];
    const double eps = g->sig->params.axis.eps;
    struct cosine c = {0};

    for (int64_t j = 0; j < l->n; j++) {
        const int64_t i = l->at + j * l->step;

        c.a += a[i] * a[i];
        c.b += b[i] * b[i];
        c.ab += a[i] * b[i];
        c.size += fabs(a[i] * b[i]);
    }
    c.a_moves = !(sqrt(c.a) < eps) && c.a != 0;
    c.b_moves = !(sqrt(c.b) < eps) && c.b != 0;
    c.a = sqrt(c.a) < eps ? eps : sqrt(c.a);
    c.b = sqrt(c.b) < eps ? eps : sqrt(c.b);
    return c;
}

static void
cosine(const struct golden *g, const struct line *l)
{
    const struct cosine c = measure(g, l, 0);

    g->out[0][l->number] = c.ab / (c.a * c.b);
    g->mag[0][l->number] = c.size / (c.a * c.b);
}

static void
cosine_bwd(const struct golden *g, const struct line *l)
{
    const struct cosine c = measure(g, l, 1);
    const double dy = g->in[0][l->number];
    const double direct = dy / (c.a * c.b);

    for (int64_t j = 0; j < l->n; j++) {
        const int64_t i = l->at + j * l->step;
        const double a = g->in[1][i], b = g->in[2][i];
        const double to_a = c.a_moves ? a * (direct * c.ab / (c.a * c.a)) : 0;
        const double to_b = c.b_moves ? b * (direct * c.ab / (c.b * c.b)) : 0;
        const double more = c.size * fabs(direct);

        g->out[0][i] = b * direct - to_a;
        g->out[1][i] = a * direct - to_b;
        g->mag[0][i] = fabs(b * direct) + fabs(to_a) + TINY +
                       (c.a_moves ? fabs(a) * more / (c.a * c.a) : 0);
        g->mag[1][i] = fabs(a * direct) + fabs(to_b) + TINY +
                       (c.b_moves ? fabs(b) * more / (c.b * c.b) : 0);
    }
}

static line_fn *
find_line(enum op op)
{
    switch ((int)op) {
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX: return softmax;
    case OP_SOFTMAX_BWD:
    case OP_LOG_SOFTMAX_BWD: return softmax_bwd;
    case OP_CUMSUM:
    case OP_CUMSUM_BWD: return cumsum;
    case OP_PROD: return prod;
    case OP_PROD_BWD: return prod_bwd;
    case OP_COSINE_SIMILARITY: return cosine;
    default: return cosine_bwd;
    }
}

/* Where the tensor without the axis (or with 1 in its place) has index. */
static int64_t
without_axis(const struct tensor_desc *x, const struct tensor_desc *y, int axis,
             const int64_t *index)
{
    int64_t own[TENSOR_MAX_RANK];
    int at = 0;

    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            own[at++] = index[i];
        else if (y->rank == x->rank)
            own[at++] = 0;
    }
    return tensor_ravel(y, own);
}

void
golden_axis(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const bool shrinks = sig->op == OP_PROD || sig->op == OP_PROD_BWD ||
                         sig->op == OP_COSINE_SIMILARITY ||
                         sig->op == OP_COSINE_SIMILARITY_BWD;
    const bool backward =
        sig->op == OP_PROD_BWD || sig->op == OP_COSINE_SIMILARITY_BWD;
    const struct tensor_desc *x = &sig->in[backward ? 1 : 0];
    const struct tensor_desc *y = backward ? &sig->in[0] : &sig->out[0];
    const int axis = sig->params.axis.axis;
    int64_t stride[TENSOR_MAX_RANK];

    tensor_strides(x, stride);
    if (shrinks && !backward && x->dim[axis] == 0)
        for (int64_t i = 0; i < tensor_n_elems(y); i++)
            g->out[0][i] = sig->op == OP_PROD ? 1 : 0;
    for (int64_t i = 0; i < tensor_n_elems(x); i++) {
        int64_t index[TENSOR_MAX_RANK];
        struct line line = {.at = i, .step = stride[axis], .n = x->dim[axis]};

        tensor_unravel(x, i, index);
        if (index[axis] != 0)
            continue;
        if (shrinks)
            line.number = without_axis(x, y, axis, index);
        find_line(sig->op)(g, &line);
    }
}
