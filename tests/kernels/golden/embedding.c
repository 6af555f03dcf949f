/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* ---- embedding ----------------------------------------------------------- */

static void
lookup(const struct golden *g)
{
    const int64_t width = g->sig->in[1].dim[1];

    for (int64_t i = 0; i < tensor_n_elems(&g->sig->in[0]); i++)
        for (int64_t c = 0; c < width; c++)
            g->out[0][i * width + c] =
                g->in[1][(int64_t)g->in[0][i] * width + c];
}

static void
lookup_backward(const struct golden *g)
{
    const union op_params *p = &g->sig->params;
    const int64_t width = g->sig->out[0].dim[1];

    for (int64_t i = 0; i < tensor_n_elems(&g->sig->out[0]); i++)
        g->out[0][i] = 0;
    for (int64_t i = 0; i < tensor_n_elems(&g->sig->in[1]); i++) {
        const int64_t row = (int64_t)g->in[1][i];

        if (p->embedding.has_padding && row == p->embedding.padding_index)
            continue;
        for (int64_t c = 0; c < width; c++) {
            g->out[0][row * width + c] += g->in[0][i * width + c];
            g->mag[0][row * width + c] += fabs(g->in[0][i * width + c]);
        }
    }
}

/* ---- prelu --------------------------------------------------------------- */

/* The weight of element i of x: one for all, or for its channel. */
static int64_t
weight_of(const struct tensor_desc *x, const struct tensor_desc *w, int64_t i)
{
    int64_t index[TENSOR_MAX_RANK];

    if (tensor_n_elems(w) == 1)
        return 0;
    tensor_unravel(x, i, index);
    return index[x->layout == TENSOR_NHWC || x->rank == 2 ? 1 : x->rank - 1];
}

static void
prelu(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const int x_in = sig->op == OP_PRELU ? 0 : 1;
    const double *x = g->in[x_in], *passes = g->in[0];

    for (int64_t i = 0; i < tensor_n_elems(&sig->out[0]); i++) {
        const int64_t w = weight_of(&sig->in[x_in], &sig->in[x_in + 1], i);

        g->out[0][i] = x[i] > 0 ? passes[i] : g->in[x_in + 1][w] * passes[i];
    }
}

static void
prelu_weight(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;

    for (int64_t i = 0; i < tensor_n_elems(&sig->out[0]); i++)
        g->out[0][i] = 0;
    for (int64_t i = 0; i < tensor_n_elems(&sig->in[1]); i++) {
        const int64_t w = weight_of(&sig->in[1], &sig->out[0], i);

        if (g->in[1][i] > 0)
            continue;
        g->out[0][w] += g->in[0][i] * g->in[1][i];
        g->mag[0][w] += fabs(g->in[0][i] * g->in[1][i]);
    }
}

void
golden_embedding(const struct golden *g)
{
    if (g->sig->op == OP_EMBEDDING)
        lookup(g);
    else if (g->sig->op == OP_EMBEDDING_BWD)
        lookup_backward(g);
    else if (g->sig->op == OP_PRELU_DW)
        prelu_weight(g);
    else
        prelu(g);
}
