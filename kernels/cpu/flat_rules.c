/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/flat_rules.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

static int64_t
n_chunks(int64_t n)
{
    return (n + KERNEL_CHUNK - 1) / KERNEL_CHUNK;
}

static int64_t
chunk_size(int64_t n, int64_t chunk)
{
    const int64_t left = n - chunk * KERNEL_CHUNK;

    return left < KERNEL_CHUNK ? left : KERNEL_CHUNK;
}

/* The gradient as it enters: clipped, with weight decay. */
static inline float
entering(float g, float w, float clip, float decay)
{
    return decay != 0 ? g * clip + decay * w : g * clip;
}

/* ---- Adagrad: torch.optim, _single_tensor_adagrad ------------------------ */

struct adagrad_args {
    float *w, *sum;
    const float *g;
    int64_t n;
    float clip, decay, step, eps;
};

CPU_CLONES static void
adagrad_loop(const struct adagrad_args *a, float *w, const float *g, float *sum,
             int64_t n)
{
    const float clip = a->clip, decay = a->decay, step = a->step, eps = a->eps;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = entering(g[i], w[i], clip, decay);
        const float s = sum[i] + d * d;

        sum[i] = s;
        w[i] -= step * (d / (__builtin_sqrtf(s) + eps));
    }
}

static void
adagrad_chunk(const void *ctx, int64_t item)
{
    const struct adagrad_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    adagrad_loop(a, a->w + at, a->g + at, a->sum + at, chunk_size(a->n, item));
}

void
flat_rules_adagrad(float *w, const float *g, float *sum, int64_t n, float clip,
                   const struct kernel_adagrad *p, int threads)
{
    const double rate = p->lr / (1 + (double)(p->t - 1) * p->lr_decay);
    const struct adagrad_args a = {.w = w,
                                   .sum = sum,
                                   .g = g,
                                   .n = n,
                                   .clip = clip,
                                   .decay = (float)p->weight_decay,
                                   .step = (float)rate,
                                   .eps = (float)p->eps};

    assert(p->t >= 1);
    parallel_run(n_chunks(n), n, threads, adagrad_chunk, &a);
}

/* ---- RMSprop: torch.optim, _single_tensor_rmsprop ------------------------ */

struct rmsprop_args {
    float *w, *square, *momentum, *mean; /* the last two NULL: unused */
    const float *g;
    int64_t n;
    float clip, decay, lr, alpha, rest, eps, mu;
};

/* One element of all but the weight: the direction that it goes. */
static inline float
rmsprop_scaled(const struct rmsprop_args *a, float d, float *square)
{
    const float s = a->alpha * *square + a->rest * d * d;

    *square = s;
    return d / (__builtin_sqrtf(s) + a->eps);
}

/* Square less the mean's square is a variance: rounded below 0, where PyTorch
 * takes the root of a negative number, it is 0. */
static inline float
rmsprop_centered(const struct rmsprop_args *a, float d, float *square,
                 float *mean)
{
    const float s = a->alpha * *square + a->rest * d * d;
    const float m = *mean + (d - *mean) * a->rest;
    const float v = s - m * m;

    *square = s;
    *mean = m;
    return d / (__builtin_sqrtf(v < 0 ? 0.0f : v) + a->eps);
}

CPU_CLONES static void
rmsprop_loop(const struct rmsprop_args *args, int64_t at, int64_t n)
{
    const struct rmsprop_args a = *args;
    float *w = a.w + at, *square = a.square + at;
    const float *g = a.g + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = entering(g[i], w[i], a.clip, a.decay);

        w[i] -= a.lr * rmsprop_scaled(&a, d, &square[i]);
    }
}

CPU_CLONES static void
rmsprop_loop_centered(const struct rmsprop_args *args, int64_t at, int64_t n)
{
    const struct rmsprop_args a = *args;
    float *w = a.w + at, *square = a.square + at, *mean = a.mean + at;
    const float *g = a.g + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = entering(g[i], w[i], a.clip, a.decay);

        w[i] -= a.lr * rmsprop_centered(&a, d, &square[i], &mean[i]);
    }
}

CPU_CLONES static void
rmsprop_loop_momentum(const struct rmsprop_args *args, int64_t at, int64_t n)
{
    const struct rmsprop_args a = *args;
    float *w = a.w + at, *square = a.square + at, *buf = a.momentum + at;
    const float *g = a.g + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = entering(g[i], w[i], a.clip, a.decay);
        const float b = a.mu * buf[i] + rmsprop_scaled(&a, d, &square[i]);

        buf[i] = b;
        w[i] -= a.lr * b;
    }
}

CPU_CLONES static void
rmsprop_loop_both(const struct rmsprop_args *args, int64_t at, int64_t n)
{
    const struct rmsprop_args a = *args;
    float *w = a.w + at, *square = a.square + at, *buf = a.momentum + at;
    float *mean = a.mean + at;
    const float *g = a.g + at;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = entering(g[i], w[i], a.clip, a.decay);
        const float b =
            a.mu * buf[i] + rmsprop_centered(&a, d, &square[i], &mean[i]);

        buf[i] = b;
        w[i] -= a.lr * b;
    }
}

static void
rmsprop_chunk(const void *ctx, int64_t item)
{
    const struct rmsprop_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK, n = chunk_size(a->n, item);

    if (a->momentum != NULL && a->mean != NULL)
        rmsprop_loop_both(a, at, n);
    else if (a->momentum != NULL)
        rmsprop_loop_momentum(a, at, n);
    else if (a->mean != NULL)
        rmsprop_loop_centered(a, at, n);
    else
        rmsprop_loop(a, at, n);
}

void
flat_rules_rmsprop(float *w, const float *g, float *square, float *momentum,
                   float *mean, int64_t n, float clip,
                   const struct kernel_rmsprop *p, int threads)
{
    const struct rmsprop_args a = {
        .w = w,
        .square = square,
        .momentum = p->momentum != 0 ? momentum : NULL,
        .mean = p->centered ? mean : NULL,
        .g = g,
        .n = n,
        .clip = clip,
        .decay = (float)p->weight_decay,
        .lr = (float)p->lr,
        .alpha = (float)p->alpha,
        .rest = (float)(1 - p->alpha),
        .eps = (float)p->eps,
        .mu = (float)p->momentum,
    };

    assert(p->momentum == 0 || momentum != NULL || n == 0);
    assert(!p->centered || mean != NULL || n == 0);
    parallel_run(n_chunks(n), n, threads, rmsprop_chunk, &a);
}

/* ---- Lion ---------------------------------------------------------------- */

struct lion_args {
    float *w, *m;
    const float *g;
    int64_t n;
    float clip, factor, lr, rest1, rest2;
};

CPU_CLONES static void
lion_loop(const struct lion_args *a, float *w, const float *g, float *m,
          int64_t n)
{
    const float clip = a->clip, factor = a->factor, lr = a->lr;
    const float rest1 = a->rest1, rest2 = a->rest2;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = g[i] * clip;
        const float c = m[i] + (d - m[i]) * rest1;
        const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c; /* 0, NaN */

        m[i] += (d - m[i]) * rest2;
        w[i] = w[i] * factor - lr * sign;
    }
}

static void
lion_chunk(const void *ctx, int64_t item)
{
    const struct lion_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    lion_loop(a, a->w + at, a->g + at, a->m + at, chunk_size(a->n, item));
}

void
flat_rules_lion(float *w, const float *g, float *m, int64_t n, float clip,
                const struct kernel_lion *p, int threads)
{
    const struct lion_args a = {.w = w,
                                .m = m,
                                .g = g,
                                .n = n,
                                .clip = clip,
                                .factor = (float)(1 - p->lr * p->weight_decay),
                                .lr = (float)p->lr,
                                .rest1 = (float)(1 - p->beta1),
                                .rest2 = (float)(1 - p->beta2)};

    parallel_run(n_chunks(n), n, threads, lion_chunk, &a);
}

/* ---- the average of the weights ------------------------------------------ */

struct ema_args {
    float *ema;
    const float *w;
    int64_t n;
    float rest;
};

CPU_CLONES static void
ema_loop(float *ema, const float *w, int64_t n, float rest)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        ema[i] += (w[i] - ema[i]) * rest;
}

static void
ema_chunk(const void *ctx, int64_t item)
{
    const struct ema_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    ema_loop(a->ema + at, a->w + at, chunk_size(a->n, item), a->rest);
}

void
flat_rules_ema(float *ema, const float *w, int64_t n, double decay, int threads)
{
    const struct ema_args a = {ema, w, n, (float)(1 - decay)};

    parallel_run(n_chunks(n), n, threads, ema_chunk, &a);
}
