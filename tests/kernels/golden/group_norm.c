/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>
#include <stdlib.h>

/* What is normalized together, and by which numbers: rows of rms_norm, groups
 * of channels of one image of group_norm. */
struct norm {
    const struct golden *g;
    const struct tensor_desc *x;
    bool centred;
    int x_in;
    const double *w, *b, *mean, *rstd; /* w, b may be NULL; stats backward */
    double eps;
    int64_t n_sets, n_weights;
    double count; /* elements of a set */
};

static struct norm
norm_make(const struct golden *g)
{
    const enum op op = g->sig->op;
    const union op_params *p = &g->sig->params;
    const bool backward = op == OP_GROUP_NORM_BWD || op == OP_RMS_NORM_BWD;
    struct norm k = {.g = g, .x_in = backward ? 1 : 0, .n_weights = 1};
    int64_t n;

    k.centred = op == OP_GROUP_NORM || op == OP_GROUP_NORM_BWD;
    k.x = &g->sig->in[k.x_in];
    k.w = g->in[k.x_in + 1];
    n = tensor_n_elems(k.x);
    if (k.centred) {
        k.eps = p->group_norm.eps;
        k.n_sets = k.x->dim[0] * p->group_norm.n_groups;
        k.n_weights = k.x->dim[1];
        if (backward)
            k.mean = g->in[3], k.rstd = g->in[4];
        else
            k.b = g->in[2];
    } else {
        k.eps = p->layer_norm.eps;
        for (int i = 0; i < k.x->rank; i++)
            if (i >= k.x->rank - p->layer_norm.n_dims)
                k.n_weights *= k.x->dim[i];
        k.n_sets = tensor_n_elems(&g->sig->in[3]);
        if (!backward)
            k.n_sets = tensor_n_elems(&g->sig->out[1]);
        if (backward)
            k.rstd = g->in[3];
    }
    k.count = n > 0 ? (double)n / (double)k.n_sets : 1;
    return k;
}

/* The set and the weight of element i. */
static void
place(const struct norm *k, int64_t i, int64_t *set, int64_t *weight)
{
    int64_t index[TENSOR_MAX_RANK], logical = 0;

    tensor_unravel(k->x, i, index);
    if (k->centred) {
        const int64_t n_groups = k->g->sig->params.group_norm.n_groups;

        *weight = index[1];
        *set = index[0] * n_groups + index[1] / (k->x->dim[1] / n_groups);
        return;
    }
    for (int d = 0; d < k->x->rank; d++)
        logical = logical * k->x->dim[d] + index[d];
    *set = logical / k->n_weights;
    *weight = logical % k->n_weights;
}

static void
forward(const struct norm *k)
{
    const struct golden *g = k->g;
    const int64_t n = tensor_n_elems(k->x);
    double *rstd = g->out[k->centred ? 2 : 1];
    double *mean = calloc((size_t)k->n_sets + 1, sizeof(*mean));
    double *mag = calloc((size_t)k->n_sets + 1, sizeof(*mag));
    int64_t set, weight;

    if (mean == NULL || mag == NULL)
        abort();
    for (int64_t i = 0; i < n && k->centred; i++) {
        place(k, i, &set, &weight);
        mean[set] += g->in[0][i] / k->count;
        mag[set] += fabs(g->in[0][i]) / k->count;
    }
    for (int64_t i = 0; i < k->n_sets; i++)
        rstd[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        double d;

        place(k, i, &set, &weight);
        d = g->in[0][i] - mean[set];
        rstd[set] += d * d / k->count;
    }
    for (int64_t i = 0; i < k->n_sets; i++) {
        rstd[i] = 1 / sqrt(rstd[i] + k->eps);
        g->mag[k->centred ? 2 : 1][i] = rstd[i];
        if (k->centred) {
            g->out[1][i] = mean[i];
            g->mag[1][i] = mag[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double a, b, d;

        place(k, i, &set, &weight);
        a = rstd[set] * (k->w != NULL ? k->w[weight] : 1);
        b = k->b != NULL ? k->b[weight] : 0;
        d = g->in[0][i] - mean[set];
        g->out[0][i] = d * a + b;
        g->mag[0][i] =
            (fabs(g->in[0][i]) + mag[set]) * fabs(a) + fabs(d * a) + fabs(b);
    }
    free(mean);
    free(mag);
}

/* v = dy w, xhat = (x - mean) rstd of element i. */
struct point {
    int64_t set, weight;
    double v, xhat, rstd;
};

static struct point
point_at(const struct norm *k, int64_t i)
{
    struct point p;

    place(k, i, &p.set, &p.weight);
    p.rstd = k->rstd[p.set];
    p.xhat = k->g->in[1][i];
    if (k->centred)
        p.xhat -= k->mean[p.set];
    p.xhat *= p.rstd;
    p.v = k->g->in[0][i] * (k->w != NULL ? k->w[p.weight] : 1);
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

/* dx = rstd (v - mean(v) - xhat mean(v xhat)), of which rms_norm has no
 * mean(v). */
static void
backward(const struct norm *k)
{
    const struct golden *g = k->g;
    const int64_t n = tensor_n_elems(k->x);
    double *sum[4]; /* of v, of v xhat, and of their absolute values */

    for (int i = 0; i < 4; i++)
        if ((sum[i] = calloc((size_t)k->n_sets + 1, sizeof(double))) == NULL)
            abort();
    for (int64_t i = 0; i < n; i++) {
        const struct point p = point_at(k, i);

        if (k->centred)
            add_to(sum[0], sum[2], p.set, p.v / k->count);
        add_to(sum[1], sum[3], p.set, p.v * p.xhat / k->count);
        add_to(g->out[1], g->mag[1], p.weight, g->in[0][i] * p.xhat);
        if (k->centred)
            add_to(g->out[2], g->mag[2], p.weight, g->in[0][i]);
    }
    for (int64_t i = 0; i < n; i++) {
        const struct point p = point_at(k, i);

        g->out[0][i] = p.rstd * (p.v - sum[0][p.set] - p.xhat * sum[1][p.set]);
        g->mag[0][i] = fabs(p.rstd) * (fabs(p.v) + sum[2][p.set] +
                                       fabs(p.xhat) * sum[3][p.set]);
    }
    for (int i = 0; i < 4; i++)
        free(sum[i]);
}

void
golden_group_norm(const struct golden *g)
{
    const struct norm k = norm_make(g);

    if (k.x_in == 1)
        backward(&k);
    else
        forward(&k);
}
