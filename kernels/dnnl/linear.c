/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/linear.h"

#include "kernels/dnnl/product.h"

/* A matrix; transposed: rows x cols as the product reads it, stored as
 * [cols][rows]. Products are cut along the weight's rows or columns. */
static struct pdesc_tensor
matrix(int64_t rows, int64_t cols, bool transposed, int cut)
{
    return (struct pdesc_tensor){.rank = 2,
                                 .dim = {rows, cols},
                                 .plain = transposed ? dnnl_ba : dnnl_ab,
                                 .cut = cut};
}

static int64_t
last(const struct tensor_desc *t)
{
    return t->rank > 0 ? t->dim[t->rank - 1] : 1;
}

static int64_t
rows(const struct tensor_desc *t)
{
    return tensor_n_elems(t) / last(t);
}

/* y[N,O] = x[N,K] w[O,K]^T + b[O] */
static bool
describe_forward(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *x = &sig->in[0], *w = &sig->in[1];
    const int64_t n = rows(x), k = last(x), o = w->dim[0];

    p->kind = PDESC_MATMUL;
    p->tensor[0] = matrix(n, k, false, -1);
    p->tensor[1] = matrix(k, o, true, 1);
    p->tensor[PDESC_BIAS] = matrix(1, o, false, 1);
    p->tensor[PDESC_OUT] = matrix(n, o, false, 1);
    return w->rank == 2 && w->dim[1] == k;
}

/* dx[N,K] = dy[N,O] w[O,K] */
static bool
describe_dx(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *dy = &sig->in[0], *w = &sig->in[1];
    const int64_t n = rows(dy), o = last(dy), k = w->dim[1];

    p->kind = PDESC_MATMUL;
    p->tensor[0] = matrix(n, o, false, -1);
    p->tensor[1] = matrix(o, k, false, 1);
    p->tensor[PDESC_OUT] = matrix(n, k, false, 1);
    return w->rank == 2 && w->dim[0] == o;
}

/* dw[O,K] = dy[N,O]^T x[N,K], cut along the longer side of dw: the factor of
 * the shorter one is what all pieces share. */
static bool
describe_dw(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *dy = &sig->in[0], *x = &sig->in[1];
    const int64_t n = rows(dy), o = last(dy), k = last(x);
    const bool by_rows = o >= k;

    p->kind = PDESC_MATMUL;
    p->tensor[0] = matrix(o, n, true, by_rows ? 0 : -1);
    p->tensor[1] = matrix(n, k, false, by_rows ? -1 : 1);
    p->tensor[PDESC_OUT] = matrix(o, k, false, by_rows ? 0 : 1);
    return rows(x) == n;
}

PRODUCT_KERNEL(linear_forward, describe_forward)
PRODUCT_KERNEL(linear_dx, describe_dx)
PRODUCT_KERNEL(linear_dw, describe_dw)
