/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/softmax.h"

#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#define BLOCK      CONVERT_BLOCK
#define COLUMNS    256 /* side by side */
#define ITEM_ELEMS 8192
#define LANES      16 /* partial sums */

struct job {
    bool log;
    int64_t outer, n, inner;
    const void *x, *y_in; /* or dy and y */
    enum dtype tx, ty_in;
    void *out;
    enum dtype to;
    int64_t per_item, n_segments; /* rows, or segments of columns */
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static float *
target(const struct job *k, int64_t at, float *buf)
{
    return k->to == DTYPE_F32 ? (float *)k->out + at : buf;
}

static void
store(const struct job *k, int64_t at, int64_t n, const float *y)
{
    if (k->to != DTYPE_F32)
        convert_from_f32((uint16_t *)k->out + at, k->to, y, n);
}

/* ---- blocks of a row: the same maximum and sum for all ---------------------- */

CPU_CLONES static float
row_max(const float *x, int64_t n, float max)
{
    float m[LANES];
    int64_t i = 0;

    for (int l = 0; l < LANES; l++)
        m[l] = max;
    for (; i + LANES <= n; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            m[l] = x[i + l] > m[l] ? x[i + l] : m[l];
    }
    for (; i < n; i++)
        m[0] = x[i] > m[0] ? x[i] : m[0];
    for (int l = 1; l < LANES; l++)
        m[0] = m[l] > m[0] ? m[l] : m[0];
    return m[0];
}

CPU_CLONES static double
row_sum(const double *v, int64_t n)
{
    double s[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            s[l] += v[i + l];
    }
    for (int l = 0; l < LANES; l++)
        sum += s[l];
    for (; i < n; i++)
        sum += v[i];
    return sum;
}

CPU_CLONES static void
row_exp(const float *x, double max, int64_t n, double *v)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        v[i] = vmath_exp_wide((double)x[i] - max);
}

CPU_CLONES static void
row_scale(const double *v, double factor, int64_t n, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(v[i] * factor);
}

CPU_CLONES static void
row_log(const float *x, double max, double log_sum, int64_t n, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - max) - log_sum);
}

static void
forward_row(const struct job *k, int64_t row)
{
    float x_buf[BLOCK], y_buf[BLOCK], max = -INFINITY;
    double v[BLOCK], sum = 0;
    const int64_t begin = row * k->n, end = begin + k->n;
    const bool once = k->n <= BLOCK; /* v still holds the row */

    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = smaller(BLOCK, end - at);

        max = row_max(convert_view(k->x, k->tx, at, n, x_buf), n, max);
    }
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = smaller(BLOCK, end - at);

        row_exp(convert_view(k->x, k->tx, at, n, x_buf), (double)max, n, v);
        sum += row_sum(v, n);
    }
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = smaller(BLOCK, end - at);
        const float *x = convert_view(k->x, k->tx, at, n, x_buf);
        float *y = target(k, at, y_buf);

        if (!k->log && !once)
            row_exp(x, (double)max, n, v);
        if (k->log)
            row_log(x, (double)max, log(sum), n, y);
        else
            row_scale(v, 1 / sum, n, y);
        store(k, at, n, y);
    }
}

/* ---- columns: a maximum and a sum each ---------------------------------------- */

CPU_CLONES static void
columns_max(const float *x, int64_t n, float *max)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        max[i] = x[i] > max[i] ? x[i] : max[i];
}

CPU_CLONES static void
columns_sum(const float *x, const float *max, int64_t n, double *sum)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += vmath_exp_wide((double)x[i] - (double)max[i]);
}

CPU_CLONES static void
columns_softmax(const float *x, const float *max, const double *sum, int64_t n,
                float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(vmath_exp_wide((double)x[i] - (double)max[i]) / sum[i]);
}

CPU_CLONES static void
columns_log(const float *x, const float *max, const double *log_sum, int64_t n,
            float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - (double)max[i]) - log_sum[i]);
}

/* begin: the first element; width columns. */
static void
forward_columns(const struct job *k, int64_t begin, int64_t width)
{
    float x_buf[COLUMNS], y_buf[COLUMNS], max[COLUMNS];
    double sum[COLUMNS];

    for (int64_t i = 0; i < width; i++) {
        max[i] = -INFINITY;
        sum[i] = 0;
    }
    for (int64_t j = 0; j < k->n; j++)
        columns_max(
            convert_view(k->x, k->tx, begin + j * k->inner, width, x_buf),
            width, max);
    for (int64_t j = 0; j < k->n; j++)
        columns_sum(
            convert_view(k->x, k->tx, begin + j * k->inner, width, x_buf), max,
            width, sum);
    for (int64_t i = 0; i < width && k->log; i++)
        sum[i] = log(sum[i]);
    for (int64_t j = 0; j < k->n; j++) {
        const int64_t at = begin + j * k->inner;
        const float *x = convert_view(k->x, k->tx, at, width, x_buf);
        float *y = target(k, at, y_buf);

        if (k->log)
            columns_log(x, max, sum, width, y);
        else
            columns_softmax(x, max, sum, width, y);
        store(k, at, width, y);
    }
}

/* ---- backward: d is dy ----------------------------------------------------------- */

CPU_CLONES static void
add_terms(const float *d, const float *y, bool log, int64_t n, double *sum)
{
    if (log) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)d[i];
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += (double)d[i] * (double)y[i];
}

CPU_CLONES static void
gradient(const float *d, const float *y, const double *sum, int64_t n,
         float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = (float)((double)y[i] * ((double)d[i] - sum[i]));
}

CPU_CLONES static void
gradient_log(const float *d, const float *y, const double *sum, int64_t n,
             float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = (float)((double)d[i] - vmath_exp_full((double)y[i]) * sum[i]);
}

static void
backward_block(const struct job *k, int64_t at, int64_t n, const double *sum)
{
    float d_buf[BLOCK], y_buf[BLOCK], dx_buf[BLOCK];
    const float *d = convert_view(k->x, k->tx, at, n, d_buf);
    const float *y = convert_view(k->y_in, k->ty_in, at, n, y_buf);
    float *dx = target(k, at, dx_buf);

    if (k->log)
        gradient_log(d, y, sum, n, dx);
    else
        gradient(d, y, sum, n, dx);
    store(k, at, n, dx);
}

static void
add_block(const struct job *k, int64_t at, int64_t n, double *sum)
{
    float d_buf[BLOCK], y_buf[BLOCK];

    add_terms(convert_view(k->x, k->tx, at, n, d_buf),
              convert_view(k->y_in, k->ty_in, at, n, y_buf), k->log, n, sum);
}

static void
backward_row(const struct job *k, int64_t row)
{
    const int64_t begin = row * k->n, end = begin + k->n;
    const int64_t width = smaller(BLOCK, k->n);
    double sum[BLOCK] = {0}, total;

    for (int64_t at = begin; at < end; at += BLOCK)
        add_block(k, at, smaller(BLOCK, end - at), sum);
    total = row_sum(sum, width);
    for (int64_t i = 0; i < width; i++)
        sum[i] = total;
    for (int64_t at = begin; at < end; at += BLOCK)
        backward_block(k, at, smaller(BLOCK, end - at), sum);
}

static void
backward_columns(const struct job *k, int64_t begin, int64_t width)
{
    double sum[COLUMNS];

    for (int64_t i = 0; i < width; i++)
        sum[i] = 0;
    for (int64_t j = 0; j < k->n; j++)
        add_block(k, begin + j * k->inner, width, sum);
    for (int64_t j = 0; j < k->n; j++)
        backward_block(k, begin + j * k->inner, width, sum);
}

/* ---- the slots ---------------------------------------------------------------------- */

static void
run_item(const void *ctx, int64_t item)
{
    const struct job *k = ctx;
    const int64_t n_places =
        k->inner == 1 ? k->outer : k->outer * k->n_segments;
    const int64_t begin = item * k->per_item;
    const int64_t end = smaller(begin + k->per_item, n_places);

    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % k->n_segments * COLUMNS;
        const int64_t first = i / k->n_segments * k->n * k->inner + column;
        const int64_t width = smaller(COLUMNS, k->inner - column);

        if (k->inner == 1 && k->y_in == NULL)
            forward_row(k, i);
        else if (k->inner == 1)
            backward_row(k, i);
        else if (k->y_in == NULL)
            forward_columns(k, first, width);
        else
            backward_columns(k, first, width);
    }
}

static bool
supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *out = &sig->out[0];

    for (int i = 0; i < sig->n_in; i++)
        if (!tensor_same_shape(&sig->in[i], out) ||
            sig->in[i].layout != out->layout ||
            !dtype_is_float(sig->in[i].dtype) || sig->in[i].dtype == DTYPE_F64)
            return false;
    return dtype_is_float(out->dtype) && out->dtype != DTYPE_F64 &&
           sig->params.axis.axis >= 0 && sig->params.axis.axis < out->rank;
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const bool backward = sig->n_in > 1;
    struct job k = {.log = sig->op == OP_LOG_SOFTMAX ||
                           sig->op == OP_LOG_SOFTMAX_BWD,
                    .x = call->in[0],
                    .tx = sig->in[0].dtype,
                    .y_in = backward ? call->in[1] : NULL,
                    .ty_in = backward ? sig->in[1].dtype : DTYPE_NONE,
                    .out = call->out[0],
                    .to = sig->out[0].dtype};
    int64_t n_places;

    if (tensor_n_elems(&sig->out[0]) == 0)
        return;
    tensor_split_axis(&sig->out[0], sig->params.axis.axis, &k.outer, &k.n,
                      &k.inner);
    k.n_segments = (k.inner + COLUMNS - 1) / COLUMNS;
    k.per_item = ITEM_ELEMS / (k.n * smaller(COLUMNS, k.inner));
    k.per_item = k.per_item < 1 ? 1 : k.per_item;
    n_places = k.outer * k.n_segments;
    parallel_run((n_places + k.per_item - 1) / k.per_item,
                 tensor_n_elems(&sig->out[0]), sig->threads, run_item, &k);
}

const struct kernel softmax_forward = {.supports = supports, .run = run};
const struct kernel softmax_backward = {.supports = supports, .run = run};
