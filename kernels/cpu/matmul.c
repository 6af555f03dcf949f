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

/* One entry's product C = A B, and which input is A. */
struct plan {
    struct panel_product p;
    int a_in;
    int64_t n_entries;
};

/* With a[M,K], b[K,N], y[M,N]:
 *   y = a b             da = dy b^T           db = a^T dy
 *   a transposed:       da^T = b dy^T
 *   b transposed:                             db^T = dy^T a
 * The panels' B is seen as [n][k] when it lies transposed. */
static struct plan
plan_make(const struct kernel_sig *sig)
{
    const struct tensor_desc *in0 = &sig->in[0], *in1 = &sig->in[1];
    const struct tensor_desc *out = &sig->out[0];
    const bool at = sig->params.matmul.a_transposed;
    const bool bt = sig->params.matmul.b_transposed;
    const enum dtype t0 = in0->dtype, t1 = in1->dtype;
    const int64_t m = rows_of(out), n = cols_of(out);
    struct plan plan = {.n_entries = 1};
    struct panel_product *p = &plan.p;

    for (int i = 0; i < out->rank - 2; i++)
        plan.n_entries *= out->dim[i];
    p->c_dtype = out->dtype;
    if (sig->op == OP_MATMUL) { /* in a, b */
        p->k = at ? rows_of(in0) : cols_of(in0);
        p->a = factor(t0, m, p->k, at);
        p->b = factor(t1, n, p->k, !bt);
    } else if (sig->op == OP_MATMUL_DA) { /* in dy, b */
        p->k = cols_of(in0);
        plan.a_in = at ? 1 : 0;
        p->a = at ? factor(t1, m, p->k, bt) : factor(t0, m, p->k, false);
        p->b = at ? factor(t0, n, p->k, false) : factor(t1, n, p->k, bt);
    } else { /* in dy, a */
        assert(sig->op == OP_MATMUL_DB);
        p->k = rows_of(in0);
        plan.a_in = bt ? 0 : 1;
        p->a = bt ? factor(t0, m, p->k, true) : factor(t1, m, p->k, !at);
        p->b = bt ? factor(t1, n, p->k, !at) : factor(t0, n, p->k, true);
    }
    return plan;
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
    const struct plan plan = plan_make(sig);

    (void)state;
    return panel_workspace_bytes(&plan.p);
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct plan plan = plan_make(sig);
    struct panel_product p = plan.p;
    const size_t a_bytes = (size_t)(p.a.n * p.k) * dtype_size_bytes(p.a.dtype);
    const size_t b_bytes = (size_t)(p.b.n * p.k) * dtype_size_bytes(p.b.dtype);
    const size_t c_bytes =
        (size_t)(p.a.n * p.b.n) * dtype_size_bytes(p.c_dtype);

    for (int64_t i = 0; i < plan.n_entries; i++) {
        p.a.data = (const char *)call->in[plan.a_in] + (size_t)i * a_bytes;
        p.b.data = (const char *)call->in[1 - plan.a_in] + (size_t)i * b_bytes;
        p.c = (char *)call->out[0] + (size_t)i * c_bytes;
        panel_multiply(&p, call->workspace, sig->threads);
    }
}

const struct kernel matmul_product = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run};
