/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* out[i, j] = sum over k of a(i, k) b(j, k), by steps in memory. */
struct sum {
    int64_t n_i, n_j, n_k;
    int64_t a_i, a_k, b_j, b_k;
};

static void
multiply(const struct golden *g, const struct sum *s, const double *bias)
{
    for (int64_t i = 0; i < s->n_i; i++)
        for (int64_t j = 0; j < s->n_j; j++) {
            double sum = 0, mag = 0;

            for (int64_t k = 0; k < s->n_k; k++) {
                const double term = g->in[0][i * s->a_i + k * s->a_k] *
                                    g->in[1][j * s->b_j + k * s->b_k];

                sum += term;
                mag += fabs(term);
            }
            if (bias != NULL) {
                sum += bias[j];
                mag += fabs(bias[j]);
            }
            g->out[0][i * s->n_j + j] = sum;
            g->mag[0][i * s->n_j + j] = mag;
        }
}

static void
bias_grad(const struct golden *g)
{
    const struct tensor_desc *dy = &g->sig->in[0];
    const int axis = dy->layout == TENSOR_NHWC ? 1 : dy->rank - 1;
    const int64_t n = tensor_n_elems(dy);

    for (int64_t c = 0; c < dy->dim[axis]; c++)
        g->out[0][c] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t index[TENSOR_MAX_RANK];

        tensor_unravel(dy, i, index);
        g->out[0][index[axis]] += g->in[0][i];
        g->mag[0][index[axis]] += fabs(g->in[0][i]);
    }
}

void
golden_product(const struct golden *g)
{
    const struct tensor_desc *in = g->sig->in, *out = g->sig->out;
    const int64_t last = in[0].dim[in[0].rank - 1];
    int64_t rows = 1;

    if (g->sig->op == OP_BIAS_GRAD) {
        bias_grad(g);
        return;
    }
    for (int i = 0; i < in[0].rank - 1; i++)
        rows *= in[0].dim[i];
    if (g->sig->op == OP_LINEAR) { /* x[N,K] w[O,K] */
        const struct sum s = {rows, in[1].dim[0], last, last, 1, last, 1};

        multiply(g, &s, g->in[2]);
    } else if (g->sig->op == OP_LINEAR_DX) { /* dy[N,O] w[O,K] */
        const int64_t k = in[1].dim[1];
        const struct sum s = {rows, k, last, last, 1, 1, k};

        multiply(g, &s, NULL);
    } else { /* dy[N,O] x[N,K] */
        const int64_t o = out[0].dim[0], k = out[0].dim[1];
        const struct sum s = {o, k, rows, 1, o, 1, k};

        multiply(g, &s, NULL);
    }
}
