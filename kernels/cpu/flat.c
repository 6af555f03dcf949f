/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/flat.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

/* Chunk results live on the stack, WAVE of them at a time. */
#define WAVE 1024

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

/* ---- unscale --------------------------------------------------------------
 * A product v x inverse is non-finite whenever v is, and squares of floats
 * cannot overflow a double: so the sum of squares is finite exactly when every
 * element was finite before and after. The check costs nothing. */

struct unscale_args {
    float *g;
    int64_t n, first; /* chunk of part[0] */
    float inverse;
    double *part;
};

CPU_CLONES static double
square_sum(const float *g, int64_t n)
{
    double sum[SUM_LANES] = {0}, total = 0;
    int64_t i = 0;

    for (; i + SUM_LANES <= n; i += SUM_LANES) {
#pragma omp simd
        for (int l = 0; l < SUM_LANES; l++)
            sum[l] += (double)g[i + l] * (double)g[i + l];
    }
    for (int l = 0; l < SUM_LANES; l++)
        total += sum[l];
    for (; i < n; i++)
        total += (double)g[i] * (double)g[i];
    return total;
}

CPU_CLONES static void
multiply(float *g, int64_t n, float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        g[i] *= factor;
}

static void
unscale_chunk(const void *ctx, int64_t item)
{
    const struct unscale_args *a = ctx;
    const int64_t chunk = a->first + item, n = chunk_size(a->n, chunk);
    float *g = a->g + chunk * KERNEL_CHUNK;
    double sum = 0;

    /* Small blocks, so that the second loop reads what the first left in the
     * nearest cache. */
    for (int64_t at = 0; at < n; at += 2048) {
        const int64_t len = n - at < 2048 ? n - at : 2048;

        if (a->inverse != 1.0f)
            multiply(g + at, len, a->inverse);
        sum += square_sum(g + at, len);
    }
    a->part[item] = sum;
}

void
flat_unscale(float *g, int64_t n, float inverse, int threads,
             struct kernel_unscale *result)
{
    double part[WAVE], total = 0;
    const int64_t chunks = n_chunks(n);

    for (int64_t first = 0; first < chunks; first += WAVE) {
        const int64_t now = chunks - first < WAVE ? chunks - first : WAVE;
        const struct unscale_args a = {g, n, first, inverse, part};

        parallel_run(now, now * KERNEL_CHUNK, threads, unscale_chunk, &a);
        for (int64_t i = 0; i < now; i++)
            total += part[i];
    }
    result->found_inf = !isfinite(total);
    result->sum_squares = total;
}

/* ---- SGD: torch.optim.SGD, _single_tensor_sgd ---------------------------- */

struct sgd_args {
    float *w, *momentum;
    const float *g;
    int64_t n;
    float clip;
    const struct kernel_sgd *p;
};

/* The gradient as it enters: clipped, with weight decay. */
static inline float
entering(float g, float w, float clip, float weight_decay)
{
    return g * clip + weight_decay * w;
}

CPU_CLONES static void
sgd_plain(float *w, const float *g, int64_t n, float clip, float decay,
          float lr)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d =
            decay != 0 ? entering(g[i], w[i], clip, decay) : g[i] * clip;

        w[i] -= lr * d;
    }
}

CPU_CLONES static void
sgd_momentum(float *w, const float *g, float *buf, int64_t n, float clip,
             const struct kernel_sgd *p)
{
    const float lr = p->lr, momentum = p->momentum, decay = p->weight_decay;
    const float rest = 1.0f - p->dampening;
    const bool first = p->first, nesterov = p->nesterov;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d =
            decay != 0 ? entering(g[i], w[i], clip, decay) : g[i] * clip;
        const float b = first ? d : momentum * buf[i] + rest * d;

        buf[i] = b;
        w[i] -= lr * (nesterov ? d + momentum * b : b);
    }
}

static void
sgd_chunk(const void *ctx, int64_t item)
{
    const struct sgd_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK, n = chunk_size(a->n, item);

    if (a->p->momentum == 0)
        sgd_plain(a->w + at, a->g + at, n, a->clip, a->p->weight_decay,
                  a->p->lr);
    else
        sgd_momentum(a->w + at, a->g + at, a->momentum + at, n, a->clip, a->p);
}

void
flat_sgd(float *w, const float *g, float *momentum, int64_t n, float clip,
         const struct kernel_sgd *p, int threads)
{
    const struct sgd_args a = {w, momentum, g, n, clip, p};

    assert(p->momentum == 0 || momentum != NULL || n == 0);
    parallel_run(n_chunks(n), n, threads, sgd_chunk, &a);
}

/* ---- Adam and AdamW: torch.optim, _single_tensor_adam(w) ----------------- */

struct adam_args {
    float *w, *m, *v;
    const float *g;
    int64_t n;
    float clip;
    float decay_factor; /* AdamW: 1 - lr wd, else 1 */
    float l2;           /* Adam: wd, else 0 */
    float rest1, beta2, rest2, step, root_bc2, eps;
};

CPU_CLONES static void
adam_loop(const struct adam_args *a, float *w, const float *g, float *m,
          float *v, int64_t n)
{
    const float clip = a->clip, l2 = a->l2, factor = a->decay_factor;
    const float rest1 = a->rest1, beta2 = a->beta2, rest2 = a->rest2;
    const float step = a->step, root_bc2 = a->root_bc2, eps = a->eps;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = l2 != 0 ? entering(g[i], w[i], clip, l2) : g[i] * clip;
        const float m1 = m[i] + (d - m[i]) * rest1;
        const float v1 = beta2 * v[i] + rest2 * d * d;
        const float denominator = __builtin_sqrtf(v1) / root_bc2 + eps;

        m[i] = m1;
        v[i] = v1;
        w[i] = w[i] * factor - step * (m1 / denominator);
    }
}

static void
adam_chunk(const void *ctx, int64_t item)
{
    const struct adam_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    adam_loop(a, a->w + at, a->g + at, a->m + at, a->v + at,
              chunk_size(a->n, item));
}

void
flat_adam(float *w, const float *g, float *m, float *v, int64_t n, float clip,
          const struct kernel_adam *p, int threads)
{
    const double bc1 = 1 - pow(p->beta1, (double)p->t);
    const double bc2 = 1 - pow(p->beta2, (double)p->t);
    const struct adam_args a = {
        .w = w,
        .m = m,
        .v = v,
        .g = g,
        .n = n,
        .clip = clip,
        .decay_factor =
            p->decoupled ? (float)(1 - p->lr * p->weight_decay) : 1.0f,
        .l2 = p->decoupled ? 0.0f : (float)p->weight_decay,
        .rest1 = (float)(1 - p->beta1),
        .beta2 = (float)p->beta2,
        .rest2 = (float)(1 - p->beta2),
        .step = (float)(p->lr / bc1),
        .root_bc2 = (float)sqrt(bc2),
        .eps = (float)p->eps,
    };

    assert(p->t >= 1);
    parallel_run(n_chunks(n), n, threads, adam_chunk, &a);
}

/* ---- the first non-finite element ---------------------------------------- */

struct find_args {
    const void *x;
    enum dtype dtype;
    int64_t n, first;
    int64_t *part; /* position in x, or -1 */
};

/* Whether any element has all exponent bits set. */
CPU_CLONES static bool
any_u16(const uint16_t *x, int64_t n, uint16_t exponent)
{
    unsigned any = 0;

#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < n; i++)
        any |= (x[i] & exponent) == exponent;
    return any != 0;
}

CPU_CLONES static bool
any_u32(const uint32_t *x, int64_t n)
{
    unsigned any = 0;

#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < n; i++)
        any |= (x[i] & 0x7f800000u) == 0x7f800000u;
    return any != 0;
}

static bool
any_u64(const uint64_t *x, int64_t n)
{
    const uint64_t exponent = 0x7ff0000000000000u;
    bool any = false;

    for (int64_t i = 0; i < n; i++)
        any |= (x[i] & exponent) == exponent;
    return any;
}

static bool
any_nonfinite(const void *x, enum dtype dtype, int64_t at, int64_t n)
{
    if (dtype == DTYPE_F16)
        return any_u16((const uint16_t *)x + at, n, 0x7c00u);
    if (dtype == DTYPE_BF16)
        return any_u16((const uint16_t *)x + at, n, 0x7f80u);
    if (dtype == DTYPE_F32)
        return any_u32((const uint32_t *)x + at, n);
    assert(dtype == DTYPE_F64);
    return any_u64((const uint64_t *)x + at, n);
}

static void
find_chunk(const void *ctx, int64_t item)
{
    const struct find_args *a = ctx;
    const int64_t chunk = a->first + item;
    int64_t at = chunk * KERNEL_CHUNK, n = chunk_size(a->n, chunk);

    a->part[item] = -1;
    if (!any_nonfinite(a->x, a->dtype, at, n))
        return;
    while (n > 1) { /* it is in the first half, or else in the second */
        const int64_t half = n / 2;

        if (!any_nonfinite(a->x, a->dtype, at, half)) {
            at += half;
            n -= half;
        } else {
            n = half;
        }
    }
    a->part[item] = at;
}

int64_t
flat_find_nonfinite(const void *x, enum dtype dtype, int64_t n, int threads)
{
    int64_t part[WAVE];
    const int64_t chunks = n_chunks(n);

    for (int64_t first = 0; first < chunks; first += WAVE) {
        const int64_t now = chunks - first < WAVE ? chunks - first : WAVE;
        const struct find_args a = {x, dtype, n, first, part};

        parallel_run(now, now * KERNEL_CHUNK, threads, find_chunk, &a);
        for (int64_t i = 0; i < now; i++)
            if (part[i] >= 0)
                return part[i];
    }
    return -1;
}
