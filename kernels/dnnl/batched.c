/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/batched.h"

#include "kernels/cpu/matmul.h"
#include "kernels/dnnl/product.h"

/* rows x cols as the product reads it; transposed: stored as [cols][rows].
 * Several are cut by entries, a single one along b's columns. */
static struct pdesc_tensor
matrices(int64_t n, int64_t rows, int64_t cols, bool transposed, int cut)
{
    if (n == 1)
        return (struct pdesc_tensor){.rank = 2,
                                     .dim = {rows, cols},
                                     .plain = transposed ? dnnl_ba : dnnl_ab,
                                     .cut = cut};
    return (struct pdesc_tensor){.rank = 3,
                                 .dim = {n, rows, cols},
                                 .plain = transposed ? dnnl_acb : dnnl_abc,
                                 .cut = 0};
}

static bool
describe(const struct kernel_sig *sig, struct pdesc_problem *p)
{
    const struct tensor_desc *a = &sig->in[0], *y = &sig->out[0];
    const bool a_t = sig->params.matmul.a_transposed;
    const bool b_t = sig->params.matmul.b_transposed;
    const int64_t rows = y->dim[y->rank - 2], cols = y->dim[y->rank - 1];
    const int64_t k = a->dim[a->rank - (a_t ? 2 : 1)];
    const int64_t n = tensor_n_elems(y) / (rows * cols);

    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].layout != TENSOR_ROW || sig->in[i].rank != y->rank)
            return false;
    p->kind = PDESC_MATMUL;
    p->tensor[0] = matrices(n, rows, k, a_t, -1);
    p->tensor[1] = matrices(n, k, cols, b_t, 1);
    p->tensor[PDESC_OUT] = matrices(n, rows, cols, false, 1);
    return true;
}

static bool
supports(const struct kernel_sig *sig, enum product_native native)
{
    bool swapped;
    const struct kernel_sig y = matmul_as_forward(sig, &swapped);

    return product_supports(&y, describe, native);
}

static int
prepare(const struct kernel_sig *sig, enum product_native native, void **state,
        struct err *err)
{
    bool swapped;
    const struct kernel_sig y = matmul_as_forward(sig, &swapped);

    return product_prepare(&y, describe, native, state, err);
}

static void
run(const struct kernel_call *call)
{
    struct kernel_call c = *call;
    bool swapped;

    matmul_as_forward(call->sig, &swapped);
    if (swapped) {
        c.in[0] = call->in[1];
        c.in[1] = call->in[0];
    }
    product_run(&c);
}

static bool
supports_where_it_pays(const struct kernel_sig *sig)
{
    return supports(sig, PRODUCT_NATIVE_PAYS);
}

static bool
supports_always(const struct kernel_sig *sig)
{
    return supports(sig, PRODUCT_NATIVE_ALWAYS);
}

static int
prepare_where_it_pays(const struct kernel_sig *sig, void **state,
                      struct err *err)
{
    return prepare(sig, PRODUCT_NATIVE_PAYS, state, err);
}

static int
prepare_always(const struct kernel_sig *sig, void **state, struct err *err)
{
    return prepare(sig, PRODUCT_NATIVE_ALWAYS, state, err);
}

const struct kernel batched_product = {
    .supports = supports_where_it_pays,
    .prepare = prepare_where_it_pays,
    .workspace_bytes = product_workspace_bytes,
    .run = run,
    .release = product_release,
};
const struct kernel batched_product_native = {
    .supports = supports_always,
    .prepare = prepare_always,
    .workspace_bytes = product_workspace_bytes,
    .run = run,
    .release = product_release,
};
