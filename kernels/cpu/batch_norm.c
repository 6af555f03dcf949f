/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/batch_norm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

/* x is outer x channels x inner. inner == 1: rows of channels (NHWC, or (N,
 * C)); else planes of inner elements (N, C, L). */
struct shape {
    int64_t outer, channels, inner;
    int64_t count; /* elements a channel */
};

static struct shape
shape_of(const struct tensor_desc *x)
{
    struct shape s = {.outer = x->dim[0], .channels = x->dim[1], .inner = 1};

    assert(x->rank >= 2);
    for (int i = 2; i < x->rank; i++)
        s.inner *= x->dim[i];
    s.count = s.outer * s.inner;
    if (x->layout == TENSOR_NHWC) {
        s.outer = s.count;
        s.inner = 1;
    }
    return s;
}

/* ---- one line: loops over neighbouring elements --------------------------- */

/* First and second moment about a mean. */
CPU_CLONES static void
lines_moments(const struct rows_group *x, const float *mean, float *s1,
              float *s2)
{
    for (int j = 0; j < x->n_lines; j++) {
        const float *v = x->line[j];

#pragma omp simd
        for (int64_t i = 0; i < x->width; i++) {
            const float d = v[i] - mean[i];

            s1[i] += d;
            s2[i] += d * d;
        }
    }
}

/* The same for four lines at a time. */
CPU_CLONES static void
lines_moments_four(const struct rows_group *x, const float *mean, float *s1,
                   float *s2)
{
    const float *v0 = x->line[0], *v1 = x->line[1];
    const float *v2 = x->line[2], *v3 = x->line[3];

#pragma omp simd
    for (int64_t i = 0; i < x->width; i++) {
        const float m = mean[i];
        const float a = v0[i] - m, b = v1[i] - m, c = v2[i] - m, d = v3[i] - m;

        s1[i] = s1[i] + a + b + c + d;
        s2[i] = s2[i] + a * a + b * b + c * c + d * d;
    }
}

/* Sums of dy and of dy (x - mean). */
CPU_CLONES static void
lines_products(const struct rows_group *dy, const struct rows_group *x,
               const float *mean, float *s1, float *s2)
{
    for (int j = 0; j < x->n_lines; j++) {
        const float *g = dy->line[j], *v = x->line[j];

#pragma omp simd
        for (int64_t i = 0; i < x->width; i++) {
            s1[i] += g[i];
            s2[i] += g[i] * (v[i] - mean[i]);
        }
    }
}

CPU_CLONES static void
line_apply(const float *x, const float *mean, const float *a, const float *b,
           int64_t n, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * a[i] + b[i];
}

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

/* ---- what all walks share ------------------------------------------------- */

#define MAX_TABLES 4

struct walk {
    const struct kernel_call *call;
    struct shape shape;
    struct rows_plan plan;      /* inner == 1 */
    int x_in, dy_in;            /* which inputs; dy_in -1: forward */
    double *part;               /* [chunk][2][channels] */
    double *total;              /* [2][channels] */
    float *channel[MAX_TABLES]; /* per channel: mean, a, b or c1, c2 */
    float *line[MAX_TABLES];    /* the same, spread over a line */
};

static int64_t
n_parts(const struct walk *w)
{
    return w->shape.inner == 1 ? w->plan.n_chunks : 1;
}

/* Lays the workspace out; with base NULL only measures it. */
static size_t
walk_layout(struct walk *w, void *base)
{
    const size_t c = (size_t)w->shape.channels;
    const size_t part = (size_t)n_parts(w) * 2 * c * sizeof(double);
    const size_t total = 2 * c * sizeof(double);
    const size_t line = (size_t)w->plan.line * sizeof(float);
    char *at = base;

    if (base != NULL) {
        w->part = (double *)(void *)at;
        w->total = (double *)(void *)(at + part);
        at += part + total;
        for (int i = 0; i < MAX_TABLES; i++, at += c * sizeof(float))
            w->channel[i] = (float *)(void *)at;
        for (int i = 0; i < MAX_TABLES; i++, at += line)
            w->line[i] = (float *)(void *)at;
    }
    return part + total + MAX_TABLES * (c * sizeof(float) + line);
}

static struct walk
walk_make(const struct kernel_sig *sig)
{
    const bool backward = sig->op == OP_BATCH_NORM_BWD;
    struct walk w = {.x_in = backward ? 1 : 0, .dy_in = backward ? 0 : -1};

    w.shape = shape_of(&sig->in[w.x_in]);
    if (w.shape.inner == 1)
        w.plan =
            rows_make_plan(tensor_n_elems(&sig->in[w.x_in]), w.shape.channels);
    return w;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    struct walk w = walk_make(sig);

    (void)state;
    return walk_layout(&w, NULL);
}

static const float *
view(const struct walk *w, int in, int64_t at, int64_t n, float *buf)
{
    return convert_view(w->call->in[in], w->call->sig->in[in].dtype, at, n,
                        buf);
}

static struct rows_group
group(const struct walk *w, int in, int64_t at, int64_t end, int64_t width,
      float *buf)
{
    return rows_view(&w->plan, w->call->in[in], w->call->sig->in[in].dtype, at,
                     end, width, buf);
}

/* in holds f32 of any dtype, one a channel; absent: `otherwise`. */
static float
channel_value(const struct kernel_call *call, int in, int64_t c,
              float otherwise)
{
    if (call->in[in] == NULL)
        return otherwise;
    return convert_get(call->in[in], call->sig->in[in].dtype, c);
}

static void
walk_spread(const struct walk *w)
{
    if (w->shape.inner == 1 && w->plan.line > 0)
        for (int i = 0; i < MAX_TABLES; i++)
            rows_spread(&w->plan, w->channel[i], w->line[i]);
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- statistics ----------------------------------------------------------- */

/* Mean and sum of squared deviations of one chunk of rows, in two passes. */
static void
stats_chunk(const void *ctx, int64_t item)
{
    const struct walk *w = ctx;
    const struct rows_plan *p = &w->plan;
    double *mean = w->part + item * 2 * p->channels;
    double *m2 = mean + p->channels;
    int64_t begin, end, rows;

    rows_chunk_range(p, item, &begin, &end);
    rows = (end - begin) / p->channels;
    memset(mean, 0, (size_t)p->channels * 2 * sizeof(double));
    for (int64_t col = 0; col < p->line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(p, col);
        const int64_t c0 = col % p->channels;
        float buf[ROWS_GROUP * ROWS_SEGMENT], centre[ROWS_SEGMENT];
        float s1[ROWS_SEGMENT] = {0}, s2[ROWS_SEGMENT] = {0};
        double moment[ROWS_SEGMENT] = {0};
        const int64_t nc = smaller(p->channels, width);

        for (int64_t at = begin + col; at < end;) {
            const struct rows_group g = group(w, w->x_in, at, end, width, buf);

            rows_add(&g, s1);
            at += g.n_lines * p->line;
        }
        rows_fold(p, col, width, s1, mean);
        for (int64_t c = 0; c < nc; c++)
            centre[c] = (float)(mean[c0 + c] / (double)rows);
        for (int64_t j = nc; j < width; j++)
            centre[j] = centre[j - nc];
        memset(s1, 0, sizeof(s1));
        for (int64_t at = begin + col; at < end;) {
            const struct rows_group g = group(w, w->x_in, at, end, width, buf);

            if (g.n_lines == ROWS_GROUP)
                lines_moments_four(&g, centre, s1, s2);
            else
                lines_moments(&g, centre, s1, s2);
            at += g.n_lines * p->line;
        }
        rows_fold(p, col, width, s2, m2);
        /* What the rounded mean left over, folded the same way. */
        for (int64_t j = 0; j < width; j += nc)
            for (int64_t c = 0; c < nc; c++)
                moment[c] += (double)s1[j + c];
        for (int64_t j = 0; j < nc; j++) {
            const double rest = moment[j] / (double)rows;

            /* An infinite mean stays one; its deviations are NaN. */
            mean[c0 + j] = (double)centre[j] + (isfinite(centre[j]) ? rest : 0);
            m2[c0 + j] -= rest * moment[j];
        }
    }
}

/* Joins chunk means and deviations into total, in order (Chan et al.). */
static void
stats_join(const struct walk *w)
{
    const int64_t channels = w->shape.channels;
    double *mean = w->total, *m2 = w->total + channels;
    double have = 0;

    memset(w->total, 0, (size_t)channels * 2 * sizeof(double));
    for (int64_t i = 0; i < w->plan.n_chunks; i++) {
        const double *part = w->part + i * 2 * channels;
        int64_t begin, end;
        double n, share;

        rows_chunk_range(&w->plan, i, &begin, &end);
        n = (double)((end - begin) / channels);
        share = n / (have + n);
        for (int64_t c = 0; c < channels; c++) {
            const double d = part[c] - mean[c];

            /* An infinite mean stays one, unless the other joins it. */
            mean[c] += isfinite(mean[c]) ? d * share : part[c];
            m2[c] += part[channels + c];
            if (have > 0)
                m2[c] += d * d * have * share;
        }
        have += n;
    }
}

CPU_CLONES static double
block_sum(const float *x, int64_t n)
{
    return lanes_sum_array(x, n);
}

CPU_CLONES static void
block_moments(const float *x, float mean, int64_t n, double *s1, double *s2)
{
    float d[CONVERT_BLOCK], dd[CONVERT_BLOCK];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        d[i] = x[i] - mean;
        dd[i] = d[i] * d[i];
    }
    *s1 += lanes_sum_array(d, n);
    *s2 += lanes_sum_array(dd, n);
}

/* One channel of (N, C, L), in two passes. */
static void
stats_plane(const void *ctx, int64_t c)
{
    const struct walk *w = ctx;
    const struct shape *s = &w->shape;
    double sum = 0, s1 = 0, s2 = 0;
    float centre, buf[CONVERT_BLOCK];

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            sum += block_sum(view(w, w->x_in, at, n, buf), n);
        }
    centre = s->count > 0 ? (float)(sum / (double)s->count) : 0;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            block_moments(view(w, w->x_in, at, n, buf), centre, n, &s1, &s2);
        }
    w->total[c] = (double)centre;
    w->total[s->channels + c] = 0;
    if (s->count > 0) {
        if (isfinite(centre))
            w->total[c] += s1 / (double)s->count;
        w->total[s->channels + c] = s2 - s1 * s1 / (double)s->count;
    }
}

/* ---- y = (x - mean) a + b ------------------------------------------------- */

static void
apply_range(const struct walk *w, int64_t at, int64_t n,
            const float *const table[3])
{
    const struct kernel_call *call = w->call;
    const enum dtype ty = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], y_buf[ROWS_SEGMENT];
    const float *x = view(w, w->x_in, at, n, x_buf);
    float *y = ty == DTYPE_F32 ? (float *)call->out[0] + at : y_buf;

    line_apply(x, table[0], table[1], table[2], n, y);
    if (ty != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + at, ty, y, n);
}

static void
apply_chunk(const void *ctx, int64_t item)
{
    const struct walk *w = ctx;
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
fill_tables(const struct walk *w, int64_t c, int n_tables,
            float table[][CONVERT_BLOCK])
{
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < CONVERT_BLOCK; i++)
            table[t][i] = w->channel[t][c];
}

static void
apply_plane(const void *ctx, int64_t item)
{
    const struct walk *w = ctx;
    const struct shape *s = &w->shape;
    float run[3][CONVERT_BLOCK];
    const float *const table[3] = {run[0], run[1], run[2]};

    fill_tables(w, item % s->channels, 3, run);
    for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK)
        apply_range(w, item * s->inner + i,
                    smaller(CONVERT_BLOCK, s->inner - i), table);
}

static void
walk_apply(const struct walk *w)
{
    const struct shape *s = &w->shape;
    const int threads = w->call->sig->threads;
    const int64_t work = s->count * s->channels;

    walk_spread(w);
    if (s->inner == 1)
        parallel_run(w->plan.n_chunks, work, threads, apply_chunk, w);
    else
        parallel_run(s->outer * s->channels, work, threads, apply_plane, w);
}

/* ---- forward ops ---------------------------------------------------------- */

/* a = w / sqrt(var + eps), b, for one channel. */
static void
set_affine(const struct walk *w, int64_t c, float mean, double var, double eps)
{
    const double weight = (double)channel_value(w->call, 1, c, 1.0f);

    w->channel[0][c] = mean;
    w->channel[1][c] = (float)(weight / sqrt(var + eps));
    w->channel[2][c] = channel_value(w->call, 2, c, 0.0f);
    w->channel[3][c] = 0;
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct walk w = walk_make(sig);
    const struct shape *s = &w.shape;
    float *mean = call->out[1], *var = call->out[2];

    w.call = call;
    walk_layout(&w, call->workspace);
    if (s->inner == 1) {
        parallel_run(w.plan.n_chunks, s->count * s->channels, sig->threads,
                     stats_chunk, &w);
        stats_join(&w);
    } else {
        parallel_run(s->channels, s->count * s->channels, sig->threads,
                     stats_plane, &w);
    }
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
    struct walk w = walk_make(call->sig);

    w.call = call;
    walk_layout(&w, call->workspace);
    for (int64_t c = 0; c < w.shape.channels; c++)
        set_affine(&w, c, channel_value(call, 3, c, 0.0f),
                   (double)channel_value(call, 4, c, 1.0f),
                   call->sig->params.batch_norm.eps);
    walk_apply(&w);
}

/* ---- backward --------------------------------------------------------------
 * dx = w rstd (dy - sum(dy) / M - xhat sum(dy xhat) / M), M elements a channel;
 * dw = sum(dy xhat), db = sum(dy), xhat = (x - mean) rstd. */

static void
products_chunk(const void *ctx, int64_t item)
{
    const struct walk *w = ctx;
    const struct rows_plan *p = &w->plan;
    double *part = w->part + item * 2 * p->channels;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    memset(part, 0, (size_t)p->channels * 2 * sizeof(double));
    for (int64_t col = 0; col < p->line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(p, col);
        float x_buf[ROWS_GROUP * ROWS_SEGMENT];
        float dy_buf[ROWS_GROUP * ROWS_SEGMENT];
        float s1[ROWS_SEGMENT] = {0}, s2[ROWS_SEGMENT] = {0};

        for (int64_t at = begin + col; at < end;) {
            const struct rows_group x =
                group(w, w->x_in, at, end, width, x_buf);
            const struct rows_group dy =
                group(w, w->dy_in, at, end, width, dy_buf);

            lines_products(&dy, &x, w->line[0] + col, s1, s2);
            at += x.n_lines * p->line;
        }
        rows_fold(p, col, width, s1, part);
        rows_fold(p, col, width, s2, part + p->channels);
    }
}

CPU_CLONES static void
block_products(const float *dy, const float *x, float mean, int64_t n,
               double *s1, double *s2)
{
    float product[CONVERT_BLOCK];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        product[i] = dy[i] * (x[i] - mean);
    *s1 += lanes_sum_array(dy, n);
    *s2 += lanes_sum_array(product, n);
}

static void
products_plane(const void *ctx, int64_t c)
{
    const struct walk *w = ctx;
    const struct shape *s = &w->shape;
    double s1 = 0, s2 = 0;
    float x_buf[CONVERT_BLOCK], dy_buf[CONVERT_BLOCK];

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            block_products(view(w, w->dy_in, at, n, dy_buf),
                           view(w, w->x_in, at, n, x_buf), w->channel[0][c], n,
                           &s1, &s2);
        }
    w->total[c] = s1;
    w->total[s->channels + c] = s2;
}

static void
gradient_range(const struct walk *w, int64_t at, int64_t n,
               const float *const table[4])
{
    const struct kernel_call *call = w->call;
    const enum dtype type = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], dy_buf[ROWS_SEGMENT], dx_buf[ROWS_SEGMENT];
    float *dx = type == DTYPE_F32 ? (float *)call->out[0] + at : dx_buf;

    line_gradient(view(w, w->dy_in, at, n, dy_buf),
                  view(w, w->x_in, at, n, x_buf), table, n, dx);
    if (type != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + at, type, dx, n);
}

static void
gradient_chunk(const void *ctx, int64_t item)
{
    const struct walk *w = ctx;
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
    const struct walk *w = ctx;
    const struct shape *s = &w->shape;
    float run[4][CONVERT_BLOCK];
    const float *const table[4] = {run[0], run[1], run[2], run[3]};

    fill_tables(w, item % s->channels, 4, run);
    for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK)
        gradient_range(w, item * s->inner + i,
                       smaller(CONVERT_BLOCK, s->inner - i), table);
}

static void
sum_products(const struct walk *w)
{
    const struct shape *s = &w->shape;
    const int64_t pair = 2 * s->channels;

    if (s->inner != 1) {
        parallel_run(s->channels, s->count * s->channels, w->call->sig->threads,
                     products_plane, w);
        return;
    }
    parallel_run(w->plan.n_chunks, s->count * s->channels,
                 w->call->sig->threads, products_chunk, w);
    memset(w->total, 0, (size_t)pair * sizeof(double));
    for (int64_t i = 0; i < w->plan.n_chunks; i++)
        for (int64_t c = 0; c < pair; c++)
            w->total[c] += w->part[i * pair + c];
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const double eps = sig->params.batch_norm.eps;
    struct walk w = walk_make(sig);
    const struct shape *s = &w.shape;
    float *dw = call->out[1], *db = call->out[2];
    const double n = s->count > 0 ? (double)s->count : 1;
    const int64_t work = s->count * s->channels;

    w.call = call;
    walk_layout(&w, call->workspace);
    for (int64_t c = 0; c < s->channels; c++) {
        const double var = (double)channel_value(call, 4, c, 1.0f);
        const double weight = (double)channel_value(call, 2, c, 1.0f);

        w.channel[0][c] = channel_value(call, 3, c, 0.0f);
        w.channel[1][c] = (float)(weight / sqrt(var + eps));
        w.channel[2][c] = w.channel[3][c] = 0;
    }
    walk_spread(&w);
    sum_products(&w);
    for (int64_t c = 0; c < s->channels; c++) {
        const double var = (double)channel_value(call, 4, c, 1.0f);
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
    walk_spread(&w);
    if (s->inner == 1)
        parallel_run(w.plan.n_chunks, work, sig->threads, gradient_chunk, &w);
    else
        parallel_run(s->outer * s->channels, work, sig->threads, gradient_plane,
                     &w);
}

/* ---- running statistics --------------------------------------------------- */

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
