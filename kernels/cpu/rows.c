/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/rows.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"

#define CHUNK_ELEMS     32768
#define CHUNK_LINES_MIN 16
#define CHUNK_LINES_MAX 64 /* float32 sums of so many rows stay exact enough */

struct rows_plan
rows_make_plan(int64_t n, int64_t channels)
{
    struct rows_plan plan = {.n = n, .channels = channels};
    int64_t lines;

    if (n == 0 || channels == 0)
        return plan;
    assert(n % channels == 0);
    plan.line =
        channels < ROWS_SEGMENT ? ROWS_SEGMENT / channels * channels : channels;
    lines = CHUNK_ELEMS / plan.line;
    if (lines < CHUNK_LINES_MIN)
        lines = CHUNK_LINES_MIN;
    if (lines > CHUNK_LINES_MAX)
        lines = CHUNK_LINES_MAX;
    plan.chunk = lines * plan.line;
    plan.n_chunks = (n + plan.chunk - 1) / plan.chunk;
    return plan;
}

void
rows_chunk_range(const struct rows_plan *plan, int64_t i, int64_t *begin,
                 int64_t *end)
{
    *begin = i * plan->chunk;
    *end = *begin + plan->chunk < plan->n ? *begin + plan->chunk : plan->n;
}

struct rows_group
rows_view(const struct rows_plan *plan, const void *data, enum dtype dtype,
          int64_t at, int64_t end, int64_t width, float *buf)
{
    struct rows_group g = {.n_lines = 1, .width = width};
    const int64_t step = plan->line;

    assert(at < end);
    if (end - at < width)
        g.width = end - at;
    while (g.n_lines < ROWS_GROUP && end - at >= g.n_lines * step + width)
        g.n_lines++;
    for (int i = 0; i < g.n_lines; i++)
        g.line[i] = convert_view(data, dtype, at + i * step, g.width,
                                 buf + i * ROWS_SEGMENT);
    return g;
}

CPU_CLONES static void
add_four(const float *const line[ROWS_GROUP], int64_t n, float *sum)
{
    const float *a = line[0], *b = line[1], *c = line[2], *d = line[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] = sum[i] + a[i] + b[i] + c[i] + d[i];
}

CPU_CLONES static void
add_one(const float *line, int64_t n, float *sum)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += line[i];
}

void
rows_add(const struct rows_group *g, float *sum)
{
    if (g->n_lines == ROWS_GROUP) {
        add_four(g->line, g->width, sum);
        return;
    }
    for (int i = 0; i < g->n_lines; i++)
        add_one(g->line[i], g->width, sum);
}

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

void
rows_add_moments(const struct rows_group *g, const float *mean, float *s1,
                 float *s2)
{
    if (g->n_lines == ROWS_GROUP)
        lines_moments_four(g, mean, s1, s2);
    else
        lines_moments(g, mean, s1, s2);
}

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

void
rows_add_products(const struct rows_group *dy, const struct rows_group *x,
                  const float *mean, float *s1, float *s2)
{
    lines_products(dy, x, mean, s1, s2);
}

int64_t
rows_segment(const struct rows_plan *plan, int64_t column)
{
    const int64_t left = plan->line - column;

    return left < ROWS_SEGMENT ? left : ROWS_SEGMENT;
}

void
rows_fold(const struct rows_plan *plan, int64_t column, int64_t width,
          const float *sum, double *channel)
{
    int64_t c = column % plan->channels;

    for (int64_t j = 0; j < width; j++) {
        channel[c] += (double)sum[j];
        if (++c == plan->channels)
            c = 0;
    }
}

void
rows_spread(const struct rows_plan *plan, const float *channel, float *line)
{
    int64_t c = 0;

    for (int64_t j = 0; j < plan->line; j++) {
        line[j] = channel[c];
        if (++c == plan->channels)
            c = 0;
    }
}
