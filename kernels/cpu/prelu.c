/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/prelu.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

/* ---- y = x or w x; dx = dy or w dy ---------------------------------------- */

struct pointwise {
    const struct kernel_call *call;
    struct rows_plan plan;
    int x_in; /* decides; input 0 is what passes */
    float *line;
};

static bool
is_backward(const struct kernel_sig *sig)
{
    return sig->op == OP_PRELU_DX;
}

static struct rows_plan
plan_for(const struct tensor_desc *x, const struct tensor_desc *w)
{
    const int64_t n_weights = tensor_n_elems(w);

    assert(n_weights <= 1 ||
           n_weights == x->dim[tensor_axis_order(x)[x->rank - 1]]);
    return rows_make_plan(tensor_n_elems(x), n_weights);
}

static struct pointwise
pointwise_make(const struct kernel_sig *sig)
{
    const int x_in = is_backward(sig) ? 1 : 0;

    return (struct pointwise){
        .plan = plan_for(&sig->in[x_in], &sig->in[x_in + 1]), .x_in = x_in};
}

static size_t
pointwise_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    (void)state;
    return (size_t)pointwise_make(sig).plan.line * sizeof(float);
}

CPU_CLONES static void
block_select(const float *x, const float *v, const float *w, int64_t n,
             float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float scaled = w[i] * v[i];

        y[i] = x[i] > 0 ? v[i] : scaled;
    }
}

static void
select_chunk(const void *ctx, int64_t item)
{
    const struct pointwise *k = ctx;
    const struct kernel_call *call = k->call;
    const struct kernel_sig *sig = call->sig;
    const enum dtype type = sig->out[0].dtype;
    int64_t begin, end;

    rows_chunk_range(&k->plan, item, &begin, &end);
    for (int64_t at = begin; at < end;) {
        const int64_t column = (at - begin) % k->plan.line;
        int64_t n = rows_segment(&k->plan, column);
        float x_buf[ROWS_SEGMENT], v_buf[ROWS_SEGMENT], y_buf[ROWS_SEGMENT];
        float *y = type == DTYPE_F32 ? (float *)call->out[0] + at : y_buf;

        if (n > end - at)
            n = end - at;
        block_select(convert_view(call->in[k->x_in], sig->in[k->x_in].dtype, at,
                                  n, x_buf),
                     convert_view(call->in[0], sig->in[0].dtype, at, n, v_buf),
                     k->line + column, n, y);
        if (type != DTYPE_F32)
            convert_from_f32((uint16_t *)call->out[0] + at, type, y, n);
        at += n;
    }
}

static void
run_pointwise(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct pointwise k = pointwise_make(sig);
    const int w_in = k.x_in + 1;

    k.call = call;
    k.line = call->workspace;
    for (int64_t i = 0; i < k.plan.line; i++)
        k.line[i] = convert_get(call->in[w_in], sig->in[w_in].dtype,
                                i % k.plan.channels);
    parallel_run(k.plan.n_chunks, k.plan.n, sig->threads, select_chunk, &k);
}

/* ---- dw = sum of dy x where x is not above 0 ------------------------------- */

struct weight {
    const struct kernel_call *call;
    struct rows_plan plan;
    double *part; /* [chunk][channels] */
};

CPU_CLONES static void
lines_negative(const struct rows_group *dy, const struct rows_group *x,
               float *sum)
{
    for (int j = 0; j < x->n_lines; j++) {
        const float *g = dy->line[j], *v = x->line[j];

#pragma omp simd
        for (int64_t i = 0; i < x->width; i++) {
            const float product = g[i] * v[i];

            sum[i] += v[i] > 0 ? 0 : product;
        }
    }
}

static void
weight_chunk(const void *ctx, int64_t item)
{
    const struct weight *k = ctx;
    const struct rows_plan *p = &k->plan;
    const struct kernel_call *call = k->call;
    double *part = k->part + item * p->channels;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    memset(part, 0, (size_t)p->channels * sizeof(double));
    for (int64_t col = 0; col < p->line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(p, col);
        float dy_buf[ROWS_GROUP * ROWS_SEGMENT];
        float x_buf[ROWS_GROUP * ROWS_SEGMENT], sum[ROWS_SEGMENT] = {0};

        for (int64_t at = begin + col; at < end;) {
            const struct rows_group dy = rows_view(
                p, call->in[0], call->sig->in[0].dtype, at, end, width, dy_buf);
            const struct rows_group x = rows_view(
                p, call->in[1], call->sig->in[1].dtype, at, end, width, x_buf);

            lines_negative(&dy, &x, sum);
            at += x.n_lines * p->line;
        }
        rows_fold(p, col, width, sum, part);
    }
}

static size_t
weight_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct rows_plan plan = plan_for(&sig->in[0], &sig->out[0]);

    (void)state;
    return (size_t)(plan.n_chunks * plan.channels) * sizeof(double);
}

static void
run_weight(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct weight k = {.call = call,
                             .plan = plan_for(&sig->in[0], &sig->out[0]),
                             .part = call->workspace};

    parallel_run(k.plan.n_chunks, k.plan.n, sig->threads, weight_chunk, &k);
    for (int64_t c = 0; c < k.plan.channels; c++) {
        double sum = 0;

        for (int64_t i = 0; i < k.plan.n_chunks; i++)
            sum += k.part[i * k.plan.channels + c];
        convert_put(call->out[0], sig->out[0].dtype, c, (float)sum);
    }
}

const struct kernel prelu_pointwise = {
    .workspace_bytes = pointwise_workspace_bytes, .run = run_pointwise};
const struct kernel prelu_backward_weight = {
    .workspace_bytes = weight_workspace_bytes, .run = run_weight};
