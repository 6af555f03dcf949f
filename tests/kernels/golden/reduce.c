/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>
#include <stdlib.h>

/* Where y, x without its dims (or with ones in their place), has index of x. */
static int64_t
place(const struct tensor_desc *x, unsigned dims, const struct tensor_desc *y,
      const int64_t *index)
{
    int64_t own[TENSOR_MAX_RANK];
    int at = 0;

    for (int i = 0; i < x->rank; i++) {
        if (!(dims >> i & 1))
            own[at++] = index[i];
        else if (y->rank == x->rank)
            own[at++] = 0;
    }
    return tensor_ravel(y, own);
}

/* For each element of x the place in y. */
static int64_t *
places(const struct kernel_sig *sig, const struct tensor_desc *x,
       const struct tensor_desc *y)
{
    const int64_t n = tensor_n_elems(x);
    int64_t *to = calloc((size_t)n + 1, sizeof(*to));

    if (to == NULL)
        abort();
    for (int64_t i = 0; i < n; i++) {
        int64_t index[TENSOR_MAX_RANK];

        tensor_unravel(x, i, index);
        to[i] = place(x, sig->params.reduce.dims, y, index);
    }
    return to;
}

static double
greater(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* |x|^p, what a norm sums. */
static double
part(double x, double p)
{
    return p == 0 && !isnan(x) ? x != 0 : pow(fabs(x), p == 0 ? 1 : p);
}

static void
logsumexp(const struct golden *g, const int64_t *to, int64_t n, int64_t n_out)
{
    double *max = calloc((size_t)n_out + 1, sizeof(*max));

    if (max == NULL)
        abort();
    for (int64_t i = 0; i < n_out; i++)
        max[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        max[to[i]] = greater(max[to[i]], g->in[0][i]);
    for (int64_t i = 0; i < n; i++)
        g->out[0][to[i]] += exp(g->in[0][i] - max[to[i]]);
    for (int64_t i = 0; i < n_out; i++) {
        const double rest = log(g->out[0][i]);

        g->out[0][i] = isfinite(max[i]) ? max[i] + rest : max[i];
        /* A relative error of the sum is an absolute one of its log. */
        g->mag[0][i] = isfinite(max[i]) ? fabs(max[i]) + fabs(rest) + 1 : 0;
    }
    free(max);
}

static void
forward(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const int64_t n = tensor_n_elems(&sig->in[0]);
    const int64_t n_out = tensor_n_elems(&sig->out[0]);
    const double p = sig->params.reduce.p;
    int64_t *to = places(sig, &sig->in[0], &sig->out[0]);
    double *y = g->out[0], *mag = g->mag[0];

    for (int64_t i = 0; i < n_out; i++)
        y[i] = 0;
    if (sig->op == OP_LOGSUMEXP)
        logsumexp(g, to, n, n_out);
    for (int64_t i = 0; i < n && sig->op != OP_LOGSUMEXP; i++) {
        const double x = g->in[0][i];

        if (sig->op == OP_NORM && isinf(p))
            y[to[i]] = greater(y[to[i]], fabs(x));
        else
            y[to[i]] += sig->op == OP_NORM ? part(x, p) : x;
        mag[to[i]] += fabs(x);
    }
    for (int64_t i = 0; i < n_out; i++) {
        const double count = (double)n / (double)n_out;

        if (sig->op == OP_MEAN) {
            y[i] /= count;
            mag[i] /= count;
        } else if (sig->op == OP_NORM) {
            if (!isinf(p) && p != 0)
                y[i] = pow(y[i], 1 / p);
            mag[i] = y[i];
        }
    }
    free(to);
}

static double
sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

/* share: how many elements are as large as the norm. */
static double
norm_bwd(double dy, double x, double y, double p, double share)
{
    if (p == 0)
        return 0;
    if (isinf(p) && !isnan(x))
        return fabs(x) == y ? dy * (sign(x) / share) : 0;
    if (isinf(p))
        return x;
    if (p == 2)
        return y == 0 ? 0 : dy * (x / y);
    if (x == 0 || y == 0)
        return 0;
    return dy * (sign(x) * pow(fabs(x / y), p - 1));
}

/* A rounded y is off by its last place in the exponent. */
static void
logsumexp_bwd(const struct golden *g, int64_t i, int64_t to)
{
    const double y = g->in[2][to];

    g->out[0][i] = g->in[0][to] * exp(g->in[1][i] - (y == -INFINITY ? 0 : y));
    g->mag[0][i] = isfinite(y) ? fabs(g->out[0][i] * y) : 0;
}

static void
backward(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const int64_t n = tensor_n_elems(&sig->out[0]);
    const int64_t n_dy = tensor_n_elems(&sig->in[0]);
    int64_t *to = places(sig, &sig->out[0], &sig->in[0]);
    double *share = calloc((size_t)n_dy + 1, sizeof(*share));

    if (share == NULL)
        abort();
    for (int64_t i = 0; i < n && sig->op == OP_NORM_BWD; i++)
        share[to[i]] += fabs(g->in[1][i]) == g->in[2][to[i]];
    for (int64_t i = 0; i < n; i++) {
        const double dy = g->in[0][to[i]];
        double *dx = &g->out[0][i];

        if (sig->op == OP_SUM_BWD)
            *dx = dy;
        else if (sig->op == OP_MEAN_BWD)
            *dx = dy / ((double)n / (double)n_dy);
        else if (sig->op == OP_NORM_BWD)
            *dx = norm_bwd(dy, g->in[1][i], g->in[2][to[i]],
                           sig->params.reduce.p, share[to[i]]);
        else
            logsumexp_bwd(g, i, to[i]);
    }
    free(share);
    free(to);
}

void
golden_reduce(const struct golden *g)
{
    if (op_info(g->sig->op)->reduce == OP_REDUCE_DIMS)
        forward(g);
    else
        backward(g);
}
