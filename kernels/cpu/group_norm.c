/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/group_norm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

/* Mean squares that float32 sums of squares get right, as in layer_norm.c. */
#define SQUARE_MIN 1e-25
#define SQUARE_MAX 1e+36

/* Tables of an image: a number for each channel. */
enum {
    MEAN,
    SCALE, /* rstd w; backward rstd */
    SHIFT, /* b; backward w */
    C1,    /* backward: mean of the group's dy w */
    C2,    /* and of dy w xhat */
    N_TABLES
};

struct walk {
    const struct kernel_call *call;
    int64_t images, channels, pixels;
    int64_t n_groups, width; /* channels of a group */
    struct rows_plan plan;   /* of one image */
    double *sums;            /* [image][2][channels] */
    float *tables;           /* [image][N_TABLES][channels] */
};

static struct walk
walk_make(const struct kernel_sig *sig)
{
    const struct tensor_desc *x =
        &sig->in[sig->op == OP_GROUP_NORM_BWD ? 1 : 0];
    struct walk k = {.images = x->dim[0],
                     .channels = x->dim[1],
                     .pixels = 1,
                     .n_groups = sig->params.group_norm.n_groups};

    assert(k.n_groups >= 1 && k.channels % k.n_groups == 0);
    for (int i = 2; i < x->rank; i++)
        k.pixels *= x->dim[i];
    k.width = k.channels / k.n_groups;
    k.plan = rows_make_plan(k.pixels * k.channels, k.channels);
    return k;
}

static bool
supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *x =
        &sig->in[sig->op == OP_GROUP_NORM_BWD ? 1 : 0];

    return x->rank == 2 || x->layout == TENSOR_NHWC;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct walk k = walk_make(sig);

    (void)state;
    return (size_t)(k.images * k.channels) *
           (2 * sizeof(double) + N_TABLES * sizeof(float));
}

static struct walk
walk_open(const struct kernel_call *call)
{
    struct walk k = walk_make(call->sig);

    k.call = call;
    k.sums = call->workspace;
    k.tables = (float *)(void *)(k.sums + k.images * 2 * k.channels);
    return k;
}

static double *
sums_of(const struct walk *k, int64_t image, int which)
{
    return k->sums + (image * 2 + which) * k->channels;
}

static float *
table_of(const struct walk *k, int64_t image, int which)
{
    return k->tables + (image * N_TABLES + which) * k->channels;
}

/* Elements of a group. */
static double
group_count(const struct walk *k)
{
    const int64_t n = k->pixels * k->width;

    return n > 0 ? (double)n : 1;
}

static float
channel_value(const struct walk *k, int in, int64_t c, float otherwise)
{
    if (k->call->in[in] == NULL)
        return otherwise;
    return convert_get(k->call->in[in], k->call->sig->in[in].dtype, c);
}

/* line[j] = channel[(column + j) mod channels] */
static void
spread(const struct walk *k, const float *channel, int64_t column,
       int64_t width, float *line)
{
    int64_t c = column % k->channels;

    for (int64_t j = 0; j < width; j++) {
        line[j] = channel[c];
        if (++c == k->channels)
            c = 0;
    }
}

/* ---- sums over the channels of one image ---------------------------------- */

struct segment {
    int64_t image, begin, end; /* elements of the image */
    int64_t column, width;     /* of the line */
};

static struct rows_group
group_at(const struct walk *k, int in, const struct segment *s, int64_t at,
         float *buf)
{
    const int64_t first = s->image * k->plan.n;

    return rows_view(&k->plan, k->call->in[in], k->call->sig->in[in].dtype,
                     first + at, first + s->end, s->width, buf);
}

/* s1, s2 of one segment of the lines of a chunk. */
typedef void segment_fn(const struct walk *k, const struct segment *s,
                        float *s1, float *s2);

static void
sum_image(const struct walk *k, int64_t image, segment_fn *fn)
{
    double *first = sums_of(k, image, 0), *second = sums_of(k, image, 1);

    memset(first, 0, (size_t)k->channels * 2 * sizeof(double));
    for (int64_t i = 0; i < k->plan.n_chunks; i++) {
        struct segment s = {.image = image};

        rows_chunk_range(&k->plan, i, &s.begin, &s.end);
        for (; s.column < k->plan.line; s.column += ROWS_SEGMENT) {
            float s1[ROWS_SEGMENT] = {0}, s2[ROWS_SEGMENT] = {0};

            s.width = rows_segment(&k->plan, s.column);
            fn(k, &s, s1, s2);
            rows_fold(&k->plan, s.column, s.width, s1, first);
            rows_fold(&k->plan, s.column, s.width, s2, second);
        }
    }
}

static void
add_values(const struct walk *k, const struct segment *s, float *s1, float *s2)
{
    float buf[ROWS_GROUP * ROWS_SEGMENT];

    (void)s2;
    for (int64_t at = s->begin + s->column; at < s->end;) {
        const struct rows_group g = group_at(k, 0, s, at, buf);

        rows_add(&g, s1);
        at += g.n_lines * k->plan.line;
    }
}

static void
add_moments(const struct walk *k, const struct segment *s, float *s1, float *s2)
{
    float buf[ROWS_GROUP * ROWS_SEGMENT], mean[ROWS_SEGMENT];

    spread(k, table_of(k, s->image, MEAN), s->column, s->width, mean);
    for (int64_t at = s->begin + s->column; at < s->end;) {
        const struct rows_group g = group_at(k, 0, s, at, buf);

        rows_add_moments(&g, mean, s1, s2);
        at += g.n_lines * k->plan.line;
    }
}

static void
add_products(const struct walk *k, const struct segment *s, float *s1,
             float *s2)
{
    float dy_buf[ROWS_GROUP * ROWS_SEGMENT], x_buf[ROWS_GROUP * ROWS_SEGMENT];
    float mean[ROWS_SEGMENT];

    spread(k, table_of(k, s->image, MEAN), s->column, s->width, mean);
    for (int64_t at = s->begin + s->column; at < s->end;) {
        const struct rows_group dy = group_at(k, 0, s, at, dy_buf);
        const struct rows_group x = group_at(k, 1, s, at, x_buf);

        rows_add_products(&dy, &x, mean, s1, s2);
        at += x.n_lines * k->plan.line;
    }
}

static double
sum_group(const struct walk *k, const double *channel, int64_t group)
{
    double sum = 0;

    for (int64_t c = group * k->width; c < (group + 1) * k->width; c++)
        sum += channel[c];
    return sum;
}

/* ---- going over an image once more ---------------------------------------- */

/* Elements first .. first + n - 1 of the tensors, whose tables begin at line. */
typedef void range_fn(const struct walk *k, int64_t first, int64_t n,
                      float line[N_TABLES][ROWS_SEGMENT]);

static void
each_range(const struct walk *k, int64_t image, range_fn *fn)
{
    const int64_t begin = image * k->plan.n, end = begin + k->plan.n;
    float line[N_TABLES][ROWS_SEGMENT];

    for (int64_t col = 0; col < k->plan.line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(&k->plan, col);

        for (int t = 0; t < N_TABLES; t++)
            spread(k, table_of(k, image, t), col, width, line[t]);
        for (int64_t at = begin + col; at < end; at += k->plan.line)
            fn(k, at, end - at < width ? end - at : width, line);
    }
}

/* ---- forward: y = (x - mean) rstd w + b ----------------------------------- */

CPU_CLONES static void
line_apply(const float *x, float line[N_TABLES][ROWS_SEGMENT], int64_t n,
           float *y)
{
    const float *mean = line[MEAN], *a = line[SCALE], *b = line[SHIFT];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * a[i] + b[i];
}

static void
apply_range(const struct walk *k, int64_t first, int64_t n,
            float line[N_TABLES][ROWS_SEGMENT])
{
    const struct kernel_call *call = k->call;
    const enum dtype type = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], y_buf[ROWS_SEGMENT];
    float *y = type == DTYPE_F32 ? (float *)call->out[0] + first : y_buf;

    line_apply(
        convert_view(call->in[0], call->sig->in[0].dtype, first, n, x_buf),
        line, n, y);
    if (type != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + first, type, y, n);
}

/* A whole group in double, where squares do not fit float32: see wide_row() of
 * layer_norm.c. */
static void
wide_group(const struct walk *k, int64_t image, int64_t group)
{
    const struct kernel_call *call = k->call;
    const enum dtype type = call->sig->in[0].dtype;
    const double count = group_count(k);
    const double eps = call->sig->params.group_norm.eps;
    const int64_t begin = image * k->plan.n + group * k->width;
    double mean = 0, var = 0, rstd;

    for (int pass = 0; pass < 2; pass++)
        for (int64_t p = 0; p < k->pixels; p++)
            for (int64_t c = 0; c < k->width; c++) {
                const double v = (double)convert_get(
                    call->in[0], type, begin + p * k->channels + c);

                if (pass == 0)
                    mean += v / count;
                else
                    var += (v - mean) * (v - mean) / count;
            }
    rstd = 1 / sqrt(var + eps);
    for (int64_t p = 0; p < k->pixels; p++)
        for (int64_t c = 0; c < k->width; c++) {
            const int64_t at = begin + p * k->channels + c;
            const int64_t channel = group * k->width + c;
            const double v = (double)convert_get(call->in[0], type, at);

            convert_put(call->out[0], call->sig->out[0].dtype, at,
                        (float)((v - mean) * rstd *
                                    (double)channel_value(k, 1, channel, 1) +
                                (double)channel_value(k, 2, channel, 0)));
        }
    ((float *)call->out[1])[image * k->n_groups + group] = (float)mean;
    ((float *)call->out[2])[image * k->n_groups + group] = (float)rstd;
}

/* Statistics and tables of one group; false: not numbers for float32. */
static bool
set_group(const struct walk *k, int64_t image, int64_t group)
{
    const double count = group_count(k);
    const double eps = k->call->sig->params.group_norm.eps;
    const double rest = sum_group(k, sums_of(k, image, 0), group) / count;
    const double square = sum_group(k, sums_of(k, image, 1), group) / count;
    double var = square - rest * rest, rstd;
    float mean;

    var = var < 0 ? 0 : var;
    rstd = 1 / sqrt(var + eps);
    mean = (float)((double)table_of(k, image, MEAN)[group * k->width] + rest);
    for (int64_t c = group * k->width; c < (group + 1) * k->width; c++) {
        table_of(k, image, MEAN)[c] = mean;
        table_of(k, image, SCALE)[c] =
            (float)((double)channel_value(k, 1, c, 1) * rstd);
        table_of(k, image, SHIFT)[c] = channel_value(k, 2, c, 0);
    }
    ((float *)k->call->out[1])[image * k->n_groups + group] = mean;
    ((float *)k->call->out[2])[image * k->n_groups + group] = (float)rstd;
    return var + eps >= SQUARE_MIN && var <= SQUARE_MAX;
}

static void
forward_image(const void *ctx, int64_t image)
{
    const struct walk *k = ctx;
    float *is_wide = table_of(k, image, C1); /* of each group */

    memset(table_of(k, image, 0), 0,
           (size_t)(N_TABLES * k->channels) * sizeof(float));
    sum_image(k, image, add_values);
    for (int64_t g = 0; g < k->n_groups; g++) {
        const double sum = sum_group(k, sums_of(k, image, 0), g);

        for (int64_t c = g * k->width; c < (g + 1) * k->width; c++)
            table_of(k, image, MEAN)[c] = (float)(sum / group_count(k));
    }
    sum_image(k, image, add_moments);
    for (int64_t g = 0; g < k->n_groups; g++)
        is_wide[g] = set_group(k, image, g) ? 0 : 1;
    each_range(k, image, apply_range);
    for (int64_t g = 0; g < k->n_groups; g++)
        if (is_wide[g] > 0)
            wide_group(k, image, g);
}

static void
run_forward(const struct kernel_call *call)
{
    const struct walk k = walk_open(call);
    float *mean = call->out[1], *rstd = call->out[2];

    if (k.channels > 0 && k.pixels > 0) {
        parallel_run(k.images, k.images * k.plan.n, call->sig->threads,
                     forward_image, &k);
        return;
    }
    for (int64_t i = 0; i < k.images * k.n_groups; i++) { /* sums are 0 */
        mean[i] = 0;
        rstd[i] = (float)(1 / sqrt(call->sig->params.group_norm.eps));
    }
}

/* ---- backward --------------------------------------------------------------
 * g = dy w: dx = rstd (g - mean(g) - xhat mean(g xhat)) over each group;
 * dw = sum of dy xhat, db = sum of dy, over the images in order. */

CPU_CLONES static void
line_gradient(const float *dy, const float *x,
              float line[N_TABLES][ROWS_SEGMENT], int64_t n, float *dx)
{
    const float *mean = line[MEAN], *rstd = line[SCALE], *w = line[SHIFT];
    const float *c1 = line[C1], *c2 = line[C2];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = rstd[i] *
                (dy[i] * w[i] - c1[i] - (x[i] - mean[i]) * rstd[i] * c2[i]);
}

static void
gradient_range(const struct walk *k, int64_t first, int64_t n,
               float line[N_TABLES][ROWS_SEGMENT])
{
    const struct kernel_call *call = k->call;
    const enum dtype type = call->sig->out[0].dtype;
    float x_buf[ROWS_SEGMENT], dy_buf[ROWS_SEGMENT], dx_buf[ROWS_SEGMENT];
    float *dx = type == DTYPE_F32 ? (float *)call->out[0] + first : dx_buf;

    line_gradient(
        convert_view(call->in[0], call->sig->in[0].dtype, first, n, dy_buf),
        convert_view(call->in[1], call->sig->in[1].dtype, first, n, x_buf),
        line, n, dx);
    if (type != DTYPE_F32)
        convert_from_f32((uint16_t *)call->out[0] + first, type, dx, n);
}

static void
backward_image(const void *ctx, int64_t image)
{
    const struct walk *k = ctx;
    const float *mean = k->call->in[3], *rstd = k->call->in[4];
    const double *s1 = sums_of(k, image, 0), *s2 = sums_of(k, image, 1);
    float *const w = table_of(k, image, SHIFT);

    for (int64_t c = 0; c < k->channels; c++) {
        const int64_t at = image * k->n_groups + c / k->width;

        table_of(k, image, MEAN)[c] = mean[at];
        table_of(k, image, SCALE)[c] = rstd[at];
        w[c] = channel_value(k, 2, c, 1);
    }
    sum_image(k, image, add_products);
    for (int64_t g = 0; g < k->n_groups; g++) {
        const double r = (double)rstd[image * k->n_groups + g];
        double c1 = 0, c2 = 0;

        for (int64_t c = g * k->width; c < (g + 1) * k->width; c++) {
            c1 += (double)w[c] * s1[c];
            c2 += (double)w[c] * s2[c] * r;
        }
        for (int64_t c = g * k->width; c < (g + 1) * k->width; c++) {
            table_of(k, image, C1)[c] = (float)(c1 / group_count(k));
            table_of(k, image, C2)[c] = (float)(c2 / group_count(k));
        }
    }
    if (k->call->out[0] != NULL)
        each_range(k, image, gradient_range);
}

static void
run_backward(const struct kernel_call *call)
{
    const struct walk k = walk_open(call);
    const float *rstd = call->in[4];
    float *dw = call->out[1], *db = call->out[2];

    parallel_run(k.images, k.images * k.plan.n, call->sig->threads,
                 backward_image, &k);
    for (int64_t c = 0; c < k.channels; c++) {
        double sum_w = 0, sum_b = 0;

        for (int64_t i = 0; i < k.images; i++) {
            sum_b += sums_of(&k, i, 0)[c];
            sum_w += sums_of(&k, i, 1)[c] *
                     (double)rstd[i * k.n_groups + c / k.width];
        }
        if (dw != NULL)
            dw[c] = (float)sum_w;
        if (db != NULL)
            db[c] = (float)sum_b;
    }
}

const struct kernel group_norm_forward = {.supports = supports,
                                          .workspace_bytes = workspace_bytes,
                                          .run = run_forward};
const struct kernel group_norm_backward = {.supports = supports,
                                           .workspace_bytes = workspace_bytes,
                                           .run = run_backward};
