/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* Every product of an op belongs to one element of the small tensor s (where
 * windows start: y of conv1d, x of conv_transpose2d), one of the big tensor b
 * and one of the weight w. Two of the three are given, the third is summed. */
enum role { SMALL, BIG, WEIGHT };

struct trio {
    const struct tensor_desc *desc[3];
    const double *value[3]; /* NULL: the one that is summed */
    double *out, *mag;
    bool is_signal;
};

static int64_t
at(const struct tensor_desc *t, int64_t a, int64_t b, int64_t i, int64_t j)
{
    const int64_t image[4] = {a, b, i, j}, signal[3] = {a, b, j};

    return tensor_ravel(t, t->rank == 3 ? signal : image);
}

static int64_t
height(const struct tensor_desc *t)
{
    return t->rank == 3 ? 1 : t->dim[2];
}

static void
add_term(const struct trio *k, const int64_t place[3])
{
    double term = 1;
    int64_t to = 0;

    for (int i = 0; i < 3; i++) {
        if (k->value[i] == NULL)
            to = place[i];
        else
            term *= k->value[i][place[i]];
    }
    k->out[to] += term;
    k->mag[to] += fabs(term);
}

/* All terms of channel o of the small tensor at (n, p, q): w is (o, c, ..),
 * where c counts the channels of its group. */
static void
walk_window(const struct trio *k, const union op_params *params, int64_t n,
            int64_t o, int64_t p, int64_t q)
{
    const struct tensor_desc *s = k->desc[SMALL], *b = k->desc[BIG];
    const struct tensor_desc *w = k->desc[WEIGHT];
    const int64_t group = o / (w->dim[0] / params->conv.groups);
    /* A signal's parameters are entry 1. */
    const int64_t stride = k->is_signal ? 1 : params->conv.stride[0];
    const int64_t padding = k->is_signal ? 0 : params->conv.padding[0];
    const int64_t dilation = k->is_signal ? 1 : params->conv.dilation[0];

    for (int64_t c = 0; c < w->dim[1]; c++)
        for (int64_t i = 0; i < height(w); i++)
            for (int64_t j = 0; j < w->dim[w->rank - 1]; j++) {
                const int64_t y = p * stride - padding + i * dilation;
                const int64_t x = q * params->conv.stride[1] -
                                  params->conv.padding[1] +
                                  j * params->conv.dilation[1];
                int64_t place[3];

                if (y < 0 || y >= height(b) || x < 0 ||
                    x >= b->dim[b->rank - 1])
                    continue;
                place[SMALL] = at(s, n, o, p, q);
                place[BIG] = at(b, n, group * w->dim[1] + c, y, x);
                place[WEIGHT] = at(w, o, c, i, j);
                add_term(k, place);
            }
}

/* Who is who: forward x,w; dx dy,w; dw dy,x. */
static void
set_roles(const struct golden *g, struct trio *k)
{
    const struct kernel_sig *sig = g->sig;
    const enum op op = sig->op;
    const bool transposed = op == OP_CONV_TRANSPOSE2D ||
                            op == OP_CONV_TRANSPOSE2D_DX ||
                            op == OP_CONV_TRANSPOSE2D_DW;
    const bool dw = op == OP_CONV1D_DW || op == OP_CONV_TRANSPOSE2D_DW;
    const bool forward = op == OP_CONV1D || op == OP_CONV_TRANSPOSE2D;
    const enum role x = transposed ? SMALL : BIG, y = transposed ? BIG : SMALL;
    const enum role first = forward ? x : y, second = dw ? x : WEIGHT;
    const enum role third = dw ? WEIGHT : forward ? y : x;

    k->is_signal = !transposed;
    k->desc[first] = &sig->in[0], k->value[first] = g->in[0];
    k->desc[second] = &sig->in[1], k->value[second] = g->in[1];
    k->desc[third] = &sig->out[0], k->value[third] = NULL;
}

static void
add_bias(const struct golden *g)
{
    const struct tensor_desc *y = &g->sig->out[0];
    int64_t index[TENSOR_MAX_RANK];

    for (int64_t i = 0; i < tensor_n_elems(y); i++) {
        tensor_unravel(y, i, index);
        g->out[0][i] += g->in[2][index[1]];
        g->mag[0][i] += fabs(g->in[2][index[1]]);
    }
}

void
golden_conv_lift(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    struct trio k = {.out = g->out[0], .mag = g->mag[0]};
    const struct tensor_desc *s;

    set_roles(g, &k);
    s = k.desc[SMALL];
    for (int64_t i = 0; i < tensor_n_elems(&sig->out[0]); i++)
        k.out[i] = 0;
    for (int64_t n = 0; n < s->dim[0]; n++)
        for (int64_t o = 0; o < s->dim[1]; o++)
            for (int64_t p = 0; p < height(s); p++)
                for (int64_t q = 0; q < s->dim[s->rank - 1]; q++)
                    walk_window(&k, &sig->params, n, o, p, q);
    if ((sig->op == OP_CONV1D || sig->op == OP_CONV_TRANSPOSE2D) &&
        g->in[2] != NULL)
        add_bias(g);
}
