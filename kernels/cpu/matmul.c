/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/matmul.h"

#include <assert.h>

#include "kernels/cpu/panel.h"

static int64_t
rows_of(const struct tensor_desc *t)
{
    assert(t->rank >= 2);
    return t->dim[t->rank - 2];
}

static int64_t
cols_of(const struct tensor_desc *t)
{
    return t->dim[t->rank - 1];
}

/* A factor of n x k that lies as [n][k], or transposed as [k][n]. */
static struct panel_factor
factor(enum dtype dtype, int64_t n, int64_t k, bool transposed)
{
    if (transposed)
        return (struct panel_factor){
            .dtype = dtype, .n = n, .i_step = 1, .k_step = n};
    return (struct panel_factor){
        .dtype = dtype, .n = n, .i_step = k, .k_step = 1};
}

/* With a[M,K], b[K,N], y[M,N]:
 *   y = a b             da = dy b^T           db = a^T dy
 *   a transposed:       da^T = b dy^T
 *   b transposed:                             db^T = dy^T a */
struct kernel_sig
matmul_as_forward(const struct kernel_sig *sig, bool *swapped)
{
    const bool a_t = sig->params.matmul.a_transposed;
    const bool b_t = sig->params.matmul.b_transposed;
    struct kernel_sig y = *sig;

    *swapped = false;
    y.op = OP_MATMUL;
    if (sig->op == OP_MATMUL_DA) { /* in dy, b */
        *swapped = a_t;
        y.params.matmul.a_transposed = a_t && b_t;
        y.params.matmul.b_transposed = a_t || !b_t;
    } else if (sig->op == OP_MATMUL_DB) { /* in dy, a */
        *swapped = !b_t;
        y.params.matmul.a_transposed = b_t || !a_t;
        y.params.matmul.b_transposed = b_t && a_t;
    }
    if (*swapped) {
        y.in[0] = sig->in[1];
        y.in[1] = sig->in[0];
    }
    return y;
}

/* One entry's product. The panels' B is seen as [n][k] when it lies
 * transposed. */
static struct panel_product
entry_make(const struct kernel_sig *sig)
{
    const struct tensor_desc *a = &sig->in[0], *b = &sig->in[1];
    const bool a_t = sig->params.matmul.a_transposed;
    struct panel_product p = {.c_dtype = sig->out[0].dtype,
                              .k = a_t ? rows_of(a) : cols_of(a)};

    assert(sig->op == OP_MATMUL);
    p.a = factor(a->dtype, rows_of(&sig->out[0]), p.k, a_t);
    p.b = factor(b->dtype, cols_of(&sig->out[0]), p.k,
                 !sig->params.matmul.b_transposed);
    return p;
}

static bool
supports(const struct kernel_sig *sig)
{
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].layout != TENSOR_ROW || sig->in[i].rank < 2)
            return false;
    return sig->out[0].layout == TENSOR_ROW;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    bool swapped;
    const struct kernel_sig y = matmul_as_forward(sig, &swapped);
    const struct panel_product p = entry_make(&y);

    (void)state;
    return panel_workspace_bytes(&p);
}

static size_t
bytes_of(int64_t rows, int64_t cols, enum dtype dtype)
{
    return (size_t)(rows * cols) * dtype_size_bytes(dtype);
}

static void
run(const struct kernel_call *call)
{
    bool swapped;
    const struct kernel_sig y = matmul_as_forward(call->sig, &swapped);
    struct panel_product p = entry_make(&y);
    const char *a = call->in[swapped ? 1 : 0], *b = call->in[swapped ? 0 : 1];
    char *c = call->out[0];
    int64_t n_entries = 1;

    for (int i = 0; i < y.out[0].rank - 2; i++)
        n_entries *= y.out[0].dim[i];
    for (int64_t i = 0; i < n_entries; i++) {
        p.a.data = a;
        p.b.data = b;
        p.c = c;
        panel_multiply(&p, call->workspace, call->sig->threads);
        a += bytes_of(p.a.n, p.k, p.a.dtype);
        b += bytes_of(p.b.n, p.k, p.b.dtype);
        c += bytes_of(p.a.n, p.b.n, p.c_dtype);
    }
}

const struct kernel matmul_product = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run};
