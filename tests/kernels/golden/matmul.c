/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

/* Element (row, col) of entry `entry`, of a matrix that may lie transposed. */
struct matrix {
    const double *data;
    int64_t rows, cols; /* as they lie */
    bool transposed;
};

static struct matrix
matrix_of(const double *data, const struct tensor_desc *t, bool transposed)
{
    return (struct matrix){data, t->dim[t->rank - 2], t->dim[t->rank - 1],
                           transposed};
}

static double
at(const struct matrix *m, int64_t entry, int64_t row, int64_t col)
{
    const int64_t i = m->transposed ? col : row, j = m->transposed ? row : col;

    return m->data[(entry * m->rows + i) * m->cols + j];
}

/* Factors so that out, as it lies, is left x right over k. */
struct factors {
    struct matrix left, right;
    int64_t k;
};

static struct factors
factors_of(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const bool a_t = sig->params.matmul.a_transposed;
    const bool b_t = sig->params.matmul.b_transposed;
    const struct tensor_desc *first = &sig->in[0];
    const int64_t rows = first->dim[first->rank - 2];
    const int64_t cols = first->dim[first->rank - 1];
    struct factors f;

    if (sig->op == OP_MATMUL) {
        f.left = matrix_of(g->in[0], &sig->in[0], a_t);
        f.right = matrix_of(g->in[1], &sig->in[1], b_t);
        f.k = a_t ? rows : cols;
    } else if (sig->op == OP_MATMUL_DA && !a_t) { /* dy b^T */
        f.left = matrix_of(g->in[0], &sig->in[0], false);
        f.right = matrix_of(g->in[1], &sig->in[1], !b_t);
        f.k = cols;
    } else if (sig->op == OP_MATMUL_DA) { /* (dy b^T)^T = b dy^T */
        f.left = matrix_of(g->in[1], &sig->in[1], b_t);
        f.right = matrix_of(g->in[0], &sig->in[0], true);
        f.k = cols;
    } else if (!b_t) { /* a^T dy */
        f.left = matrix_of(g->in[1], &sig->in[1], !a_t);
        f.right = matrix_of(g->in[0], &sig->in[0], false);
        f.k = rows;
    } else { /* dy^T a */
        f.left = matrix_of(g->in[0], &sig->in[0], true);
        f.right = matrix_of(g->in[1], &sig->in[1], a_t);
        f.k = rows;
    }
    return f;
}

void
golden_matmul(const struct golden *g)
{
    const struct factors f = factors_of(g);
    const struct tensor_desc *out = &g->sig->out[0];
    const int64_t m = out->dim[out->rank - 2], n = out->dim[out->rank - 1];

    for (int64_t i = 0; i < tensor_n_elems(out); i++) {
        const int64_t entry = i / (m * n), row = i / n % m, col = i % n;
        double sum = 0, mag = 0;

        for (int64_t k = 0; k < f.k; k++) {
            const double term =
                at(&f.left, entry, row, k) * at(&f.right, entry, k, col);

            sum += term;
            mag += fabs(term);
        }
        g->out[0][i] = sum;
        g->mag[0][i] = mag;
    }
}
