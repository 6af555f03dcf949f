/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/batch_norm.h"

#include <math.h>

#include "kernels/cpu/batch_walk.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    struct batch_walk w = batch_walk_make(sig);

    (void)state;
    return batch_walk_layout(&w, NULL);
}

/* ---- y = (x - mean) a + b ------------------------------------------------ */

CPU_CLONES static void
line_apply(const float *x, const float *mean, const float *a, const float *b,
           int64_t n, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * a[i] + b[i];
}

static void
apply_range(const struct batch_walk *w, int64_t at, int64_t n,
            const float *const table[3])
{
    const struct kernel_call *call = w->call;
    const enum dtype ty = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], y_buf[ROWS_SEGMENT];
    const float *x = batch_walk_view(w, w->x_in, at, n, x_buf);
    float *y = ty == DTYPE_F32 ? (float *)call->out[0] + at : y_buf;

    line_apply(x, table[0], table[1], table[2], n, y);
    if (ty != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + at, ty, y, n);
}

static void
apply_chunk(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
    const struct rows_plan *p = &w->plan;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    for (int64_t line = begin; line < end; line += p->line)
        for (int64_t col = 0; col < p->line && line + col < end;
             col += ROWS_SEGMENT) {
            const float *const table[3] = {w->line[0] + col, w->line[1] + col,
                                           w->line[2] + col};

            apply_range(w, line + col,
                        smaller(rows_segment(p, col), end - line - col), table);
        }
}

/* Channel c's numbers as three runs of a block's length. */
static void
fill_tables(const struct batch_walk *w, int64_t c, int n_tables,
            float table[][CONVERT_BLOCK])
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < CONVERT_BLOCK; i++)
            table[t][i] = w->channel[t][c];
}

static void
apply_plane(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
    const struct batch_shape *s = &w->shape;
    float run[3][CONVERT_BLOCK];
    const float *const table[3] = {run[0], run[1], run[2]};

    fill_tables(w, item % s->channels, 3, run);
    for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK)
        apply_range(w, item * s->inner + i,
                    smaller(CONVERT_BLOCK, s->inner - i), table);
}

static void
walk_apply(const struct batch_walk *w)
{
    const struct batch_shape *s = &w->shape;
    const int threads = w->call->sig->threads;
    const int64_t work = s->count * s->channels;

    batch_walk_spread(w);
    if (s->inner == 1)
        parallel_run(w->plan.n_chunks, work, threads, apply_chunk, w);
    else
        parallel_run(s->outer * s->channels, work, threads, apply_plane, w);
}

/* ---- forward ops --------------------------------------------------------- */

/* a = w / sqrt(var + eps), b, for one channel. */
static void
set_affine(const struct batch_walk *w, int64_t c, float mean, double var,
           double eps)
{
    const double weight = (double)batch_walk_channel(w->call, 1, c, 1.0f);

    w->channel[0][c] = mean;
    w->channel[1][c] = (float)(weight / sqrt(var + eps));
    w->channel[2][c] = batch_walk_channel(w->call, 2, c, 0.0f);
    w->channel[3][c] = 0;
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct batch_walk w = batch_walk_make(sig);
    const struct batch_shape *s = &w.shape;
    float *mean = call->out[1], *var = call->out[2];

    w.call = call;
    batch_walk_layout(&w, call->workspace);
    batch_walk_stats(&w);
    for (int64_t c = 0; c < s->channels; c++) {
        const double n = s->count > 0 ? (double)s->count : 1;
        const double m2 = w.total[s->channels + c];
        /* Not below 0, but NaN stays. */
        const double v = m2 < 0 ? 0 : m2 / n;

        mean[c] = (float)w.total[c];
        var[c] = (float)v;
        set_affine(&w, c, mean[c], v, sig->params.batch_norm.eps);
    }
    walk_apply(&w);
}

static void
run_eval(const struct kernel_call *call)
{
    struct batch_walk w = batch_walk_make(call->sig);

    w.call = call;
    batch_walk_layout(&w, call->workspace);
    for (int64_t c = 0; c < w.shape.channels; c++)
        set_affine(&w, c, batch_walk_channel(call, 3, c, 0.0f),
                   (double)batch_walk_channel(call, 4, c, 1.0f),
                   call->sig->params.batch_norm.eps);
    walk_apply(&w);
}

/* ---- backward --------------------------------------------------------------
 * dx = w rstd (dy - sum(dy) / M - xhat sum(dy xhat) / M), M elements a channel;
 * dw = sum(dy xhat), db = sum(dy), xhat = (x - mean) rstd. */

/* dx = a (dy - c1 - (x - mean) c2) */
CPU_CLONES static void
line_gradient(const float *dy, const float *x, const float *const table[4],
              int64_t n, float *dx)
{
    const float *mean = table[0], *a = table[1], *c1 = table[2], *c2 = table[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = a[i] * (dy[i] - c1[i] - (x[i] - mean[i]) * c2[i]);
}

static void
gradient_range(const struct batch_walk *w, int64_t at, int64_t n,
               const float *const table[4])
{
    const struct kernel_call *call = w->call;
    const enum dtype type = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], dy_buf[ROWS_SEGMENT], dx_buf[ROWS_SEGMENT];
    float *dx = type == DTYPE_F32 ? (float *)call->out[0] + at : dx_buf;

    line_gradient(batch_walk_view(w, w->dy_in, at, n, dy_buf),
                  batch_walk_view(w, w->x_in, at, n, x_buf), table, n, dx);
    if (type != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + at, type, dx, n);
}

static void
gradient_chunk(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
    const struct rows_plan *p = &w->plan;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    for (int64_t line = begin; line < end; line += p->line)
        for (int64_t col = 0; col < p->line && line + col < end;
             col += ROWS_SEGMENT) {
            const float *const table[4] = {w->line[0] + col, w->line[1] + col,
                                           w->line[2] + col, w->line[3] + col};

            gradient_range(w, line + col,
                           smaller(rows_segment(p, col), end - line - col),
                           table);
        }
}

static void
gradient_plane(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
    const struct batch_shape *s = &w->shape;
    float run[4][CONVERT_BLOCK];
    const float *const table[4] = {run[0], run[1], run[2], run[3]};

    fill_tables(w, item % s->channels, 4, run);
    for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK)
        gradient_range(w, item * s->inner + i,
                       smaller(CONVERT_BLOCK, s->inner - i), table);
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const double eps = sig->params.batch_norm.eps;
    struct batch_walk w = batch_walk_make(sig);
    const struct batch_shape *s = &w.shape;
    float *dw = call->out[1], *db = call->out[2];
    const double n = s->count > 0 ? (double)s->count : 1;
    const int64_t work = s->count * s->channels;

    w.call = call;
    batch_walk_layout(&w, call->workspace);
    for (int64_t c = 0; c < s->channels; c++) {
        const double var = (double)batch_walk_channel(call, 4, c, 1.0f);
        const double weight = (double)batch_walk_channel(call, 2, c, 1.0f);

        w.channel[0][c] = batch_walk_channel(call, 3, c, 0.0f);
        w.channel[1][c] = (float)(weight / sqrt(var + eps));
        w.channel[2][c] = w.channel[3][c] = 0;
    }
    batch_walk_spread(&w);
    batch_walk_products(&w);
    for (int64_t c = 0; c < s->channels; c++) {
        const double var = (double)batch_walk_channel(call, 4, c, 1.0f);
        const double s1 = w.total[c], s2 = w.total[s->channels + c];

        if (dw != NULL)
            dw[c] = (float)(s2 / sqrt(var + eps));
        if (db != NULL)
            db[c] = (float)s1;
        w.channel[2][c] = (float)(s1 / n);
        w.channel[3][c] = (float)(s2 / (var + eps) / n);
    }
    if (call->out[0] == NULL)
        return;
    batch_walk_spread(&w);
    if (s->inner == 1)
        parallel_run(w.plan.n_chunks, work, sig->threads, gradient_chunk, &w);
    else
        parallel_run(s->outer * s->channels, work, sig->threads, gradient_plane,
                     &w);
}

/* ---- running statistics -------------------------------------------------- */

/* r = (1 - momentum) r + momentum batch: float32 in double, rounded once. */
static void
track(const float *old, const float *batch, float *new, int64_t n,
      double momentum, double factor)
{
    for (int64_t i = 0; i < n; i++)
        new[i] = (float)((1 - momentum) * (double)old[i] +
                         momentum * (factor * (double)batch[i]));
}

static void
run_stats_track(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int64_t channels = tensor_n_elems(&sig->in[0]);
    const double n = (double)sig->params.batch_norm.n;
    const double momentum = sig->params.batch_norm.momentum;

    track(call->in[0], call->in[2], call->out[0], channels, momentum, 1);
    /* One element has no unbiased variance; its biased one, 0, stands. */
    track(call->in[1], call->in[3], call->out[1], channels, momentum,
          n > 1 ? n / (n - 1) : 1);
}

const struct kernel batch_norm_forward = {.workspace_bytes = workspace_bytes,
                                          .run = run_forward};
const struct kernel batch_norm_eval = {.workspace_bytes = workspace_bytes,
                                       .run = run_eval};
const struct kernel batch_norm_backward = {.workspace_bytes = workspace_bytes,
                                           .run = run_backward};
const struct kernel batch_norm_stats_track = {.run = run_stats_track};
