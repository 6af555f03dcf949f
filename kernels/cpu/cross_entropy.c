/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cross_entropy.h"

#include <math.h>

#include "kernels/cpu/class_rows.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/fmath.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#define BLOCK      1024
#define ITEM_ELEMS 8192

struct rows_args {
    struct class_rows r;
    const float *x;
    float *dx;
    double *part; /* one an item */
    int64_t rows_per_item;
    double smoothing;
    float g;
};

static struct rows_args
args_make(const struct kernel_sig *sig, int x_in)
{
    struct rows_args a = {.r = class_rows_make(sig, x_in),
                          .smoothing = sig->params.loss.label_smoothing};

    a.rows_per_item = a.r.classes > 0 && a.r.classes < ITEM_ELEMS
                          ? ITEM_ELEMS / a.r.classes
                          : 1;
    return a;
}

static int64_t
n_items(const struct rows_args *a)
{
    return (a->r.rows + a->rows_per_item - 1) / a->rows_per_item;
}

static bool
supports(const struct kernel_sig *sig)
{
    const int x = sig->op == OP_CROSS_ENTROPY_BWD ? 1 : 0;

    return sig->in[x].dtype == DTYPE_F32 && sig->in[x + 1].dtype == DTYPE_I32 &&
           sig->out[0].dtype == DTYPE_F32;
}

/* ---- one row ------------------------------------------------------------- */

/* Maximum, by the order of floats as integers (NaN with a sign bit is least,
 * other NaN greatest: either way it returns in the sum of exponentials). */
CPU_CLONES static float
row_max(const float *x, int64_t n)
{
    int32_t best = INT32_MIN;

#pragma omp simd reduction(max : best)
    for (int64_t i = 0; i < n; i++) {
        const int32_t bits = (int32_t)vmath_bits(x[i]);
        const int32_t key = bits ^ (bits >> 31 & 0x7fffffff);

        best = key > best ? key : best;
    }
    best ^= best >> 31 & 0x7fffffff;
    return vmath_float((uint32_t)best);
}

/* e^(x - max), the difference exact. */
static inline float
exp_below(float x, float max)
{
    const float d = x - max, back = d - x;

    return fmath_exp_of(d, (x - (d - back)) - (max + back));
}

/* e = e^(x - max), at most BLOCK of them; their sum. */
CPU_CLONES_FMA static double
block_exp(const float *x, float max, float *e, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        e[i] = exp_below(x[i], max);
    return lanes_sum_array(e, n);
}

CPU_CLONES static double
block_shifted_sum(const float *x, float max, int64_t n)
{
    float d[BLOCK];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        d[i] = x[i] - max;
    return lanes_sum_array(d, n);
}

/* dx = (p - share) g, from exponentials; share: the smoothed weight of every
 * class. */
CPU_CLONES static void
row_gradient(float *dx, float inv_sum, float share, float g, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = (dx[i] * inv_sum - share) * g;
}

/* e: NULL, or where the row's exponentials go. */
static double
row_exp_sum(const float *x, float max, float *e, int64_t n)
{
    float buf[BLOCK];
    double sum = 0;

    for (int64_t i = 0; i < n; i += BLOCK)
        sum += block_exp(x + i, max, e != NULL ? e + i : buf,
                         n - i < BLOCK ? n - i : BLOCK);
    return sum;
}

/* (1 - s) (-log p[t]) + s mean over classes of -log p. */
static double
row_loss(const struct rows_args *a, const float *x, int64_t t)
{
    const int64_t n = a->r.classes;
    const float max = row_max(x, n);
    const double log_sum = log(row_exp_sum(x, max, NULL, n));
    const double nll = log_sum - ((double)x[t] - (double)max);
    double shifted = 0;

    if (a->smoothing == 0)
        return nll;
    for (int64_t i = 0; i < n; i += BLOCK)
        shifted += block_shifted_sum(x + i, max, n - i < BLOCK ? n - i : BLOCK);
    return (1 - a->smoothing) * nll +
           a->smoothing * (log_sum - shifted / (double)n);
}

/* ---- loss ---------------------------------------------------------------- */

static void
forward_item(const void *ctx, int64_t item)
{
    const struct rows_args *a = ctx;
    const int64_t begin = item * a->rows_per_item;
    double sum = 0;

    for (int64_t row = begin; row < begin + a->rows_per_item && row < a->r.rows;
         row++) {
        const int64_t t = a->r.target[row];

        if (class_rows_ignored(&a->r, t))
            continue;
        sum += class_rows_in_range(&a->r, t)
                   ? row_loss(a, a->x + row * a->r.classes, t)
                   : (double)NAN;
    }
    a->part[item] = sum;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct rows_args a = args_make(sig, 0);

    (void)state;
    return (size_t)n_items(&a) * sizeof(double);
}

static void
run_forward(const struct kernel_call *call)
{
    struct rows_args a = args_make(call->sig, 0);
    const float *inv_count = call->in[2];
    float *loss = call->out[0];
    double sum = 0;

    a.x = call->in[0];
    a.r.target = call->in[1];
    a.part = call->workspace;
    parallel_run(n_items(&a), 4 * a.r.rows * a.r.classes, call->sig->threads,
                 forward_item, &a);
    for (int64_t i = 0; i < n_items(&a); i++)
        sum += a.part[i];
    loss[0] = (float)(sum * (double)inv_count[0]);
}

/* ---- gradient ------------------------------------------------------------ */

static void
backward_row(const struct rows_args *a, int64_t row)
{
    const int64_t n = a->r.classes, t = a->r.target[row];
    const float *x = a->x + row * n;
    float *dx = a->dx + row * n;
    const double share = a->smoothing / (double)n;
    double inv_sum, p;

    if (class_rows_ignored(&a->r, t) || !class_rows_in_range(&a->r, t)) {
        for (int64_t i = 0; i < n; i++)
            dx[i] = class_rows_ignored(&a->r, t) ? 0.0f : NAN;
        return;
    }
    inv_sum = 1 / row_exp_sum(x, row_max(x, n), dx, n);
    p = (double)dx[t] * inv_sum;
    row_gradient(dx, (float)inv_sum, (float)share, a->g, n);
    dx[t] = (float)(p - share - (1 - a->smoothing)) * a->g;
}

static void
backward_item(const void *ctx, int64_t item)
{
    const struct rows_args *a = ctx;
    const int64_t begin = item * a->rows_per_item;

    for (int64_t row = begin; row < begin + a->rows_per_item && row < a->r.rows;
         row++)
        backward_row(a, row);
}

static void
run_backward(const struct kernel_call *call)
{
    struct rows_args a = args_make(call->sig, 1);
    const float *dloss = call->in[0], *inv_count = call->in[3];

    a.x = call->in[1];
    a.r.target = call->in[2];
    a.dx = call->out[0];
    a.g = dloss[0] * inv_count[0];
    parallel_run(n_items(&a), 4 * a.r.rows * a.r.classes, call->sig->threads,
                 backward_item, &a);
}

const struct kernel cross_entropy_forward = {.supports = supports,
                                             .workspace_bytes = workspace_bytes,
                                             .run = run_forward};
const struct kernel cross_entropy_backward = {.supports = supports,
                                              .run = run_backward};
