/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>
#include <stdlib.h>

/* Groups of elements that are normalized together: a channel of batch_norm, a
 * row of layer_norm. */
struct grouping {
    const struct tensor_desc *x;
    int n_dims; /* layer_norm: trailing dims; 0: batch_norm */
    int64_t n_groups, n_weights;
};

static struct grouping
group_channels(const struct tensor_desc *x)
{
    return (struct grouping){x, 0, x->dim[1], x->dim[1]};
}

static struct grouping
group_rows(const struct tensor_desc *x, int n_dims)
{
    struct grouping k = {x, n_dims, 1, 1};

    for (int i = 0; i < x->rank; i++)
        *(i < x->rank - n_dims ? &k.n_groups : &k.n_weights) *= x->dim[i];
    return k;
}

/* Which group and which weight element at belongs to. */
static void
place(const struct grouping *k, int64_t at, int64_t *group, int64_t *weight)
{
    int64_t index[TENSOR_MAX_RANK], logical = 0;

    tensor_unravel(k->x, at, index);
    if (k->n_dims == 0) {
        *group = *weight = index[1];
        return;
    }
    for (int i = 0; i < k->x->rank; i++)
        logical = logical * k->x->dim[i] + index[i];
    *group = logical / k->n_weights;
    *weight = logical % k->n_weights;
}

/* out = sum over each group of f; mag of |f|. */
static void
group_sums(const struct grouping *k, const double *f, double *out, double *mag)
{
    const int64_t n = tensor_n_elems(k->x);
    int64_t group, weight;

    for (int64_t i = 0; i < k->n_groups; i++)
        out[i] = mag[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        place(k, i, &group, &weight);
        out[group] += f[i];
        mag[group] += fabs(f[i]);
    }
}

static double
value(const double *v, int64_t i, double otherwise)
{
    return v != NULL ? v[i] : otherwise;
}

/* The terms of (x - mean) a + b: of the difference, and of the sum. */
static double
affine_mag(double x, double mean_mag, double centred, double a, double b)
{
    return (fabs(x) + mean_mag) * fabs(a) + fabs(centred * a) + fabs(b);
}

/* y, mean, and var or rstd, whichever is out 2. */
static void
forward(const struct golden *g, const struct grouping *k, double eps)
{
    const int64_t n = tensor_n_elems(k->x);
    const double count =
        k->n_groups > 0 && n > 0 ? (double)n / (double)k->n_groups : 1;
    double *mean = g->out[1], *second = g->out[2];
    int64_t group, weight;

    group_sums(k, g->in[0], mean, g->mag[1]);
    for (int64_t i = 0; i < k->n_groups; i++) {
        mean[i] /= count;
        g->mag[1][i] /= count;
        second[i] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        place(k, i, &group, &weight);
        second[group] +=
            (g->in[0][i] - mean[group]) * (g->in[0][i] - mean[group]) / count;
    }
    for (int64_t i = 0; i < k->n_groups; i++) {
        g->mag[2][i] = second[i];
        if (k->n_dims > 0) {
            second[i] = 1 / sqrt(second[i] + eps);
            g->mag[2][i] = second[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double a, b, centred;

        place(k, i, &group, &weight);
        a = value(g->in[1], weight, 1) *
            (k->n_dims > 0 ? second[group] : 1 / sqrt(second[group] + eps));
        b = value(g->in[2], weight, 0);
        centred = g->in[0][i] - mean[group];
        g->out[0][i] = centred * a + b;
        g->mag[0][i] = affine_mag(g->in[0][i], g->mag[1][group], centred, a, b);
    }
}

static void
eval(const struct golden *g)
{
    const struct grouping k = group_channels(&g->sig->in[0]);
    const int64_t n = tensor_n_elems(k.x);
    int64_t group, weight;

    for (int64_t i = 0; i < n; i++) {
        double a, b;

        place(&k, i, &group, &weight);
        a = value(g->in[1], weight, 1) /
            sqrt(g->in[4][group] + g->sig->params.batch_norm.eps);
        b = value(g->in[2], weight, 0);
        g->out[0][i] = (g->in[0][i] - g->in[3][group]) * a + b;
        g->mag[0][i] = affine_mag(g->in[0][i], fabs(g->in[3][group]),
                                  g->in[0][i] - g->in[3][group], a, b);
    }
}

/* One group's sums of dy w and of dy w xhat, and of their absolute values. */
struct sums {
    double s1, s2, a1, a2;
};

struct point {
    int64_t group, weight;
    double xhat, v, rstd;
};

static struct point
point_at(const struct golden *g, const struct grouping *k, int64_t i,
         double eps)
{
    struct point p;
    double second;

    place(k, i, &p.group, &p.weight);
    second = g->in[4][p.group];
    p.rstd = k->n_dims > 0 ? second : 1 / sqrt(second + eps);
    p.xhat = (g->in[1][i] - g->in[3][p.group]) * p.rstd;
    p.v = g->in[0][i] * value(g->in[2], p.weight, 1);
    return p;
}

static void
add_to(double *out, double *mag, int64_t i, double term)
{
    if (out == NULL)
        return;
    out[i] += term;
    mag[i] += fabs(term);
}

/* g = dy w; dx = rstd (g - mean(g) - xhat mean(g xhat)) over each group; dw and
 * db start from zero. */
static void
backward(const struct golden *g, const struct grouping *k, double eps)
{
    const int64_t n = tensor_n_elems(k->x);
    const double count =
        k->n_groups > 0 && n > 0 ? (double)n / (double)k->n_groups : 1;
    struct sums *sums = calloc((size_t)k->n_groups + 1, sizeof(*sums));

    if (sums == NULL)
        abort();
    for (int64_t i = 0; i < n; i++) {
        const struct point p = point_at(g, k, i, eps);

        sums[p.group].s1 += p.v;
        sums[p.group].s2 += p.v * p.xhat;
        sums[p.group].a1 += fabs(p.v);
        sums[p.group].a2 += fabs(p.v * p.xhat);
        add_to(g->out[1], g->mag[1], p.weight, g->in[0][i] * p.xhat);
        add_to(g->out[2], g->mag[2], p.weight, g->in[0][i]);
    }
    for (int64_t i = 0; i < n; i++) {
        const struct point p = point_at(g, k, i, eps);
        const struct sums *s = &sums[p.group];

        g->out[0][i] =
            p.rstd * (p.v - s->s1 / count - p.xhat * (s->s2 / count));
        g->mag[0][i] = p.rstd * (fabs(p.v) + s->a1 / count +
                                 fabs(p.xhat) * (s->a2 / count));
    }
    free(sums);
}

static void
stats_track(const struct golden *g)
{
    const double m = g->sig->params.batch_norm.momentum;
    const double n = (double)g->sig->params.batch_norm.n;

    for (int64_t c = 0; c < tensor_n_elems(&g->sig->in[0]); c++) {
        const double var = g->in[3][c] * (n > 1 ? n / (n - 1) : 1);

        g->out[0][c] = (1 - m) * g->in[0][c] + m * g->in[2][c];
        g->out[1][c] = (1 - m) * g->in[1][c] + m * var;
    }
}

void
golden_norm(const struct golden *g)
{
    const union op_params *p = &g->sig->params;
    const enum op op = g->sig->op;
    const bool backwards = op == OP_BATCH_NORM_BWD || op == OP_LAYER_NORM_BWD;
    const struct tensor_desc *x = &g->sig->in[backwards ? 1 : 0];
    struct grouping k;

    if (op == OP_STATS_TRACK) {
        stats_track(g);
        return;
    }
    if (op == OP_BATCH_NORM_EVAL) {
        eval(g);
        return;
    }
    if (op == OP_LAYER_NORM || op == OP_LAYER_NORM_BWD) {
        k = group_rows(x, p->layer_norm.n_dims);
        if (backwards)
            backward(g, &k, p->layer_norm.eps);
        else
            forward(g, &k, p->layer_norm.eps);
        return;
    }
    k = group_channels(x);
    if (backwards)
        backward(g, &k, p->batch_norm.eps);
    else
        forward(g, &k, p->batch_norm.eps);
}
