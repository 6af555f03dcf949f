/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

struct window {
    int64_t begin[2], end[2]; /* clipped to the input */
    double divisor;
};

/* Window (p, q) over the plane of x. */
static struct window
window_at(const struct golden *g, const struct tensor_desc *x,
          const struct tensor_desc *y, int64_t p, int64_t q)
{
    const union op_params *k = &g->sig->params;
    const enum op op = g->sig->op;
    const bool adaptive =
        op == OP_ADAPTIVE_AVG_POOL2D || op == OP_ADAPTIVE_AVG_POOL2D_BWD;
    const int64_t at[2] = {p, q};
    struct window w = {.divisor = 1};

    for (int i = 0; i < 2; i++) {
        const int64_t in = x->dim[2 + i], out = y->dim[2 + i];
        int64_t whole;

        if (adaptive) {
            w.begin[i] = (int64_t)floor((double)(at[i] * in) / (double)out);
            w.end[i] = (int64_t)ceil((double)((at[i] + 1) * in) / (double)out);
            w.divisor *= (double)(w.end[i] - w.begin[i]);
            continue;
        }
        w.begin[i] = at[i] * k->pool.stride[i] - k->pool.padding[i];
        w.end[i] = w.begin[i] + k->pool.kernel[i];
        whole = w.end[i];
        if (whole > in + k->pool.padding[i])
            whole = in + k->pool.padding[i];
        whole -= w.begin[i];
        if (w.begin[i] < 0)
            w.begin[i] = 0;
        if (w.end[i] > in)
            w.end[i] = in;
        w.divisor *=
            (double)(k->pool.count_include_pad ? whole : w.end[i] - w.begin[i]);
    }
    return w;
}

/* The maximum as torch finds it: the first; NaN beats all, the last NaN. */
static void
maximum(const struct golden *g, const struct window *w, int64_t n, int64_t c,
        int64_t at)
{
    const struct tensor_desc *x = &g->sig->in[0];
    double best = -INFINITY;
    int64_t where = w->begin[0] * x->dim[3] + w->begin[1];

    for (int64_t h = w->begin[0]; h < w->end[0]; h++)
        for (int64_t v = w->begin[1]; v < w->end[1]; v++) {
            const double value = g->in[0][golden_at(x, n, c, h, v)];

            if (value > best || isnan(value)) {
                best = value;
                where = h * x->dim[3] + v;
            }
        }
    g->out[0][at] = best;
    g->out[1][at] = (double)where;
}

static void
mean(const struct golden *g, const struct window *w, int64_t n, int64_t c,
     int64_t at)
{
    double sum = 0, mag = 0;

    for (int64_t h = w->begin[0]; h < w->end[0]; h++)
        for (int64_t v = w->begin[1]; v < w->end[1]; v++) {
            const double value =
                g->in[0][golden_at(&g->sig->in[0], n, c, h, v)];

            sum += value;
            mag += fabs(value);
        }
    g->out[0][at] = sum / w->divisor;
    g->mag[0][at] = mag / w->divisor;
}

/* Gives dy of a window back to its elements. */
static void
scatter(const struct golden *g, const struct window *w, int64_t n, int64_t c,
        int64_t at)
{
    const struct tensor_desc *x = &g->sig->out[0];
    const double dy = g->in[0][at];

    for (int64_t h = w->begin[0]; h < w->end[0]; h++)
        for (int64_t v = w->begin[1]; v < w->end[1]; v++) {
            const int64_t to = golden_at(x, n, c, h, v);
            double part = dy / w->divisor;

            if (g->sig->op == OP_MAX_POOL2D_BWD) {
                if ((int64_t)g->in[1][at] != h * x->dim[3] + v)
                    continue;
                part = dy;
            }
            g->out[0][to] += part;
            g->mag[0][to] += fabs(part);
        }
}

void
golden_pool(const struct golden *g)
{
    const enum op op = g->sig->op;
    const bool forward = op == OP_MAX_POOL2D || op == OP_AVG_POOL2D ||
                         op == OP_ADAPTIVE_AVG_POOL2D;
    const struct tensor_desc *x = forward ? &g->sig->in[0] : &g->sig->out[0];
    const struct tensor_desc *y = forward ? &g->sig->out[0] : &g->sig->in[0];

    if (!forward)
        for (int64_t i = 0; i < tensor_n_elems(x); i++)
            g->out[0][i] = 0;
    for (int64_t i = 0; i < tensor_n_elems(y); i++) {
        int64_t index[TENSOR_MAX_RANK];
        struct window w;

        tensor_unravel(y, i, index);
        w = window_at(g, x, y, index[2], index[3]);
        if (!forward)
            scatter(g, &w, index[0], index[1], i);
        else if (op == OP_MAX_POOL2D)
            maximum(g, &w, index[0], index[1], i);
        else
            mean(g, &w, index[0], index[1], i);
    }
}
