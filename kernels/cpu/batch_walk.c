/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/batch_walk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct batch_shape
shape_of(const struct tensor_desc *x)
{
    struct batch_shape s = {
        .outer = x->dim[0], .channels = x->dim[1], .inner = 1};

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

static int64_t
n_parts(const struct batch_walk *w)
{
    return w->shape.inner == 1 ? w->plan.n_chunks : 1;
}

size_t
batch_walk_layout(struct batch_walk *w, void *base)
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
        for (int i = 0; i < BATCH_WALK_TABLES; i++, at += c * sizeof(float))
            w->channel[i] = (float *)(void *)at;
        for (int i = 0; i < BATCH_WALK_TABLES; i++, at += line)
            w->line[i] = (float *)(void *)at;
    }
    return part + total + BATCH_WALK_TABLES * (c * sizeof(float) + line);
}

struct batch_walk
batch_walk_make(const struct kernel_sig *sig)
{
    const bool backward = sig->op == OP_BATCH_NORM_BWD;
    struct batch_walk w = {.x_in = backward ? 1 : 0,
                           .dy_in = backward ? 0 : -1};

    w.shape = shape_of(&sig->in[w.x_in]);
    if (w.shape.inner == 1)
        w.plan =
            rows_make_plan(tensor_n_elems(&sig->in[w.x_in]), w.shape.channels);
    return w;
}

const float *
batch_walk_view(const struct batch_walk *w, int in, int64_t at, int64_t n,
                float *buf)
{
    return convert_view(w->call->in[in], w->call->sig->in[in].dtype, at, n,
                        buf);
}

static struct rows_group
group(const struct batch_walk *w, int in, int64_t at, int64_t end,
      int64_t width, float *buf)
{
    return rows_view(&w->plan, w->call->in[in], w->call->sig->in[in].dtype, at,
                     end, width, buf);
}

/* in holds f32 of any dtype, one a channel; absent: `otherwise`. */
float
batch_walk_channel(const struct kernel_call *call, int in, int64_t c,
                   float otherwise)
{
    if (call->in[in] == NULL)
        return otherwise;
    return convert_get(call->in[in], call->sig->in[in].dtype, c);
}

void
batch_walk_spread(const struct batch_walk *w)
{
    if (w->shape.inner == 1 && w->plan.line > 0)
        for (int i = 0; i < BATCH_WALK_TABLES; i++)
            rows_spread(&w->plan, w->channel[i], w->line[i]);
}

/* ---- statistics ---------------------------------------------------------- */

/* Mean and sum of squared deviations of one chunk of rows, in two passes. */
static void
stats_chunk(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
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

            rows_add_moments(&g, centre, s1, s2);
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
stats_join(const struct batch_walk *w)
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
    const struct batch_walk *w = ctx;
    const struct batch_shape *s = &w->shape;
    double sum = 0, s1 = 0, s2 = 0;
    float centre, buf[CONVERT_BLOCK];

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            sum += block_sum(batch_walk_view(w, w->x_in, at, n, buf), n);
        }
    centre = s->count > 0 ? (float)(sum / (double)s->count) : 0;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            block_moments(batch_walk_view(w, w->x_in, at, n, buf), centre, n,
                          &s1, &s2);
        }
    w->total[c] = (double)centre;
    w->total[s->channels + c] = 0;
    if (s->count > 0) {
        if (isfinite(centre))
            w->total[c] += s1 / (double)s->count;
        w->total[s->channels + c] = s2 - s1 * s1 / (double)s->count;
    }
}

void
batch_walk_stats(const struct batch_walk *w)
{
    const struct batch_shape *s = &w->shape;
    const int threads = w->call->sig->threads;

    if (s->inner == 1) {
        parallel_run(w->plan.n_chunks, s->count * s->channels, threads,
                     stats_chunk, w);
        stats_join(w);
    } else {
        parallel_run(s->channels, s->count * s->channels, threads, stats_plane,
                     w);
    }
}

/* ---- products ------------------------------------------------------------ */

static void
products_chunk(const void *ctx, int64_t item)
{
    const struct batch_walk *w = ctx;
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

            rows_add_products(&dy, &x, w->line[0] + col, s1, s2);
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
    const struct batch_walk *w = ctx;
    const struct batch_shape *s = &w->shape;
    double s1 = 0, s2 = 0;
    float x_buf[CONVERT_BLOCK], dy_buf[CONVERT_BLOCK];

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, s->inner - i);
            const int64_t at = (o * s->channels + c) * s->inner + i;

            block_products(batch_walk_view(w, w->dy_in, at, n, dy_buf),
                           batch_walk_view(w, w->x_in, at, n, x_buf),
                           w->channel[0][c], n, &s1, &s2);
        }
    w->total[c] = s1;
    w->total[s->channels + c] = s2;
}

void
batch_walk_products(const struct batch_walk *w)
{
    const struct batch_shape *s = &w->shape;
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
