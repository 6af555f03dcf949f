/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/linear.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/panel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

/* ---- the three products -------------------------------------------------- */

static int64_t
last_dim(const struct tensor_desc *t)
{
    assert(t->rank >= 1);
    return t->dim[t->rank - 1];
}

/* All but the data pointers. x[N, K], w[O, K], dy[N, O]. */
static struct panel_product
product_make(const struct kernel_sig *sig)
{
    const int64_t first = last_dim(&sig->in[0]), second = last_dim(&sig->in[1]);
    const int64_t rows =
        first > 0
            ? tensor_n_elems(&sig->in[0]) / first
            : tensor_n_elems(&sig->out[0]) /
                  (last_dim(&sig->out[0]) > 0 ? last_dim(&sig->out[0]) : 1);
    struct panel_product p = {.c_dtype = sig->out[0].dtype};

    if (sig->op == OP_LINEAR) { /* in x, w: y[N, O], sum over K */
        p.k = first;
        p.a = (struct panel_factor){.n = rows, .i_step = first, .k_step = 1};
        p.b = (struct panel_factor){
            .n = sig->in[1].dim[0], .i_step = first, .k_step = 1};
    } else if (sig->op == OP_LINEAR_DX) { /* in dy, w: dx[N, K], over O */
        p.k = first;
        p.a = (struct panel_factor){.n = rows, .i_step = first, .k_step = 1};
        p.b = (struct panel_factor){.n = second, .i_step = 1, .k_step = second};
    } else { /* in dy, x: dw[O, K], sum over N */
        assert(sig->op == OP_LINEAR_DW);
        p.k = first > 0 ? rows : 0;
        p.a = (struct panel_factor){.n = first, .i_step = 1, .k_step = first};
        p.b = (struct panel_factor){.n = second, .i_step = 1, .k_step = second};
    }
    p.a.dtype = sig->in[0].dtype;
    p.b.dtype = sig->in[1].dtype;
    return p;
}

static bool
supports(const struct kernel_sig *sig)
{
    /* The last axis must be the fastest in memory. */
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].layout != TENSOR_ROW)
            return false;
    return sig->out[0].layout == TENSOR_ROW;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct panel_product p = product_make(sig);

    (void)state;
    return panel_workspace_bytes(&p);
}

static void
run_product(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct panel_product p = product_make(sig);

    p.a.data = call->in[0];
    p.b.data = call->in[1];
    p.c = call->out[0];
    if (sig->op == OP_LINEAR) {
        p.bias = call->in[2];
        p.bias_dtype = sig->in[2].dtype;
    }
    panel_multiply(&p, call->workspace, sig->threads);
}

/* ---- bias gradient: db[c] = sum of dy over rows -------------------------- */

struct bias {
    const void *dy;
    enum dtype dtype;
    struct rows_plan plan;
    double *part; /* [chunk][channels] */
};

static struct bias
bias_make(const struct kernel_sig *sig)
{
    const struct tensor_desc *dy = &sig->in[0];
    const int64_t channels =
        dy->layout == TENSOR_NHWC ? dy->dim[1] : last_dim(dy);

    return (struct bias){.dtype = dy->dtype,
                         .plan = rows_make_plan(tensor_n_elems(dy), channels)};
}

static void
bias_chunk(const void *ctx, int64_t item)
{
    const struct bias *b = ctx;
    const struct rows_plan *p = &b->plan;
    double *part = b->part + item * p->channels;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    memset(part, 0, (size_t)p->channels * sizeof(double));
    for (int64_t col = 0; col < p->line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(p, col);
        float sum[ROWS_SEGMENT] = {0}, buf[ROWS_GROUP * ROWS_SEGMENT];

        for (int64_t at = begin + col; at < end;) {
            const struct rows_group g =
                rows_view(p, b->dy, b->dtype, at, end, width, buf);

            rows_add(&g, sum);
            at += g.n_lines * p->line;
        }
        rows_fold(p, col, width, sum, part);
    }
}

static size_t
bias_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct bias b = bias_make(sig);

    (void)state;
    return (size_t)(b.plan.n_chunks * b.plan.channels) * sizeof(double);
}

static void
run_bias_grad(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct bias b = bias_make(sig);

    b.dy = call->in[0];
    b.part = call->workspace;
    parallel_run(b.plan.n_chunks, b.plan.n, sig->threads, bias_chunk, &b);
    for (int64_t c = 0; c < b.plan.channels; c++) {
        double sum = 0;

        for (int64_t i = 0; i < b.plan.n_chunks; i++)
            sum += b.part[i * b.plan.channels + c];
        convert_put(call->out[0], sig->out[0].dtype, c, (float)sum);
    }
}

const struct kernel linear_product = {.supports = supports,
                                      .workspace_bytes = workspace_bytes,
                                      .run = run_product};
const struct kernel linear_bias_grad = {.workspace_bytes = bias_workspace_bytes,
                                        .run = run_bias_grad};
