/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* Where output index `out` of an axis looks, and how much: PyTorch's
 * arithmetic, in float32 because positions are part of what is defined. */
struct look {
    int64_t at[2];
    double weight[2];
    int n;
};

static struct look
look_at(const struct kernel_sig *sig, int64_t out, int64_t n_in, int64_t n_out)
{
    const union op_params *p = &sig->params;
    float position, fraction;
    int64_t low;

    if (p->upsample.mode == OP_UPSAMPLE_NEAREST) {
        low = (int64_t)floorf((float)out * ((float)n_in / (float)n_out));
        if (low >= n_in)
            low = n_in - 1;
        return (struct look){{low, 0}, {1, 0}, 1};
    }
    if (n_in == n_out)
        return (struct look){{out, out}, {1, 0}, 2};
    if (p->upsample.align_corners)
        position = n_out == 1
                       ? 0
                       : (float)(n_in - 1) / (float)(n_out - 1) * (float)out;
    else
        position =
            fmaxf((float)n_in / (float)n_out * ((float)out + 0.5f) - 0.5f, 0);
    low = (int64_t)position;
    if (low >= n_in)
        low = n_in - 1;
    fraction = fminf(position - (float)low, 1);
    return (struct look){{low, low + 1 < n_in ? low + 1 : low},
                         {(double)(1 - fraction), (double)fraction},
                         2};
}

/* One term for each (output, input) pair that belong together. */
static void
add_pair(const struct golden *g, int64_t x, int64_t y, double weight)
{
    const bool backward = g->sig->op == OP_UPSAMPLE_BWD;
    const double term = weight * g->in[0][backward ? y : x];
    const int64_t to = backward ? x : y;

    g->out[0][to] += term;
    g->mag[0][to] += fabs(term);
}

void
golden_upsample(const struct golden *g)
{
    const bool backward = g->sig->op == OP_UPSAMPLE_BWD;
    const struct tensor_desc *in = &g->sig->in[0], *out = &g->sig->out[0];
    const struct tensor_desc *x = backward ? out : in;
    const struct tensor_desc *y = backward ? in : out;

    for (int64_t i = 0; i < tensor_n_elems(out); i++)
        g->out[0][i] = 0;
    if (tensor_n_elems(x) == 0)
        return;
    for (int64_t i = 0; i < tensor_n_elems(y); i++) {
        int64_t index[TENSOR_MAX_RANK];
        struct look h, w;

        tensor_unravel(y, i, index);
        h = look_at(g->sig, index[2], x->dim[2], y->dim[2]);
        w = look_at(g->sig, index[3], x->dim[3], y->dim[3]);
        for (int a = 0; a < h.n; a++)
            for (int b = 0; b < w.n; b++)
                add_pair(g, golden_at(x, index[0], index[1], h.at[a], w.at[b]),
                         i, h.weight[a] * w.weight[b]);
    }
}
