/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/loss.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#define BLOCK 1024

/* v: prediction, t: target; k: beta of smooth_l1, delta of huber. */
#define TERMS(name, expression)                                                \
    CPU_CLONES static double name(const float *x, const float *target,         \
                                  float k, int64_t n)                          \
    {                                                                          \
        float term[BLOCK];                                                     \
                                                                               \
        (void)k;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i], t = target[i];                               \
            term[i] = (expression);                                            \
        }                                                                      \
        return lanes_sum_array(term, n);                                       \
    }

#define GRADIENT(name, expression)                                             \
    CPU_CLONES static void name(const float *x, const float *target, float k,  \
                                float g, float *dx, int64_t n)                 \
    {                                                                          \
        (void)k;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i], t = target[i];                               \
            (void)v;                                                           \
            dx[i] = g * (expression);                                          \
        }                                                                      \
    }

/* 1, -1, 0, and NaN for NaN. */
static inline float
sign(float d)
{
    return d > 0 ? 1.0f : d < 0 ? -1.0f : d * 0;
}

static inline float
bce_term(float v, float t)
{
    const float positive = v < 0 ? 0.0f : v; /* NaN stays */

    return positive - v * t +
           vmath_log1p_unit(vmath_exp(-(double)vmath_abs(v)));
}

static inline float
smooth_l1_term(float d, float beta)
{
    const float a = vmath_abs(d);

    return a < beta ? 0.5f * a * a / beta : a - 0.5f * beta;
}

static inline float
huber_term(float d, float delta)
{
    const float a = vmath_abs(d);

    return a <= delta ? 0.5f * a * a : delta * (a - 0.5f * delta);
}

/* d within [-delta, delta]; NaN stays. */
static inline float
clamp(float d, float delta)
{
    const float low = d < -delta ? -delta : d;

    return low > delta ? delta : low;
}

/* Logarithms and exponentials of libm: one element at a time. */
static double
kl_div(const float *x, const float *target, float k, int64_t n)
{
    double sum = 0;

    (void)k;
    for (int64_t i = 0; i < n; i++) {
        const double t = (double)target[i];

        sum += t == 0 ? 0 : t * (log(t) - (double)x[i]);
    }
    return sum;
}

static double
kl_div_log(const float *x, const float *target, float k, int64_t n)
{
    double sum = 0;

    (void)k;
    for (int64_t i = 0; i < n; i++) {
        const double t = (double)target[i];

        sum += exp(t) * (t - (double)x[i]);
    }
    return sum;
}

TERMS(mse, (v - t) * (v - t))
TERMS(l1, vmath_abs(v - t))
TERMS(bce, bce_term(v, t))
TERMS(smooth_l1, smooth_l1_term(v - t, k))
TERMS(huber, huber_term(v - t, k))

GRADIENT(mse_bwd, 2.0f * (v - t))
GRADIENT(l1_bwd, sign(v - t))
GRADIENT(bce_bwd, (float)(vmath_sigmoid_wide((double)v) - (double)t))
GRADIENT(smooth_l1_bwd, vmath_abs(v - t) < k ? (v - t) / k : sign(v - t))
GRADIENT(huber_bwd, clamp(v - t, k))
GRADIENT(kl_div_bwd, -t)
GRADIENT(kl_div_log_bwd, -vmath_exp((double)t))

typedef double terms_fn(const float *x, const float *target, float k,
                        int64_t n);
typedef void gradient_fn(const float *x, const float *target, float k, float g,
                         float *dx, int64_t n);

struct loss_args {
    const float *x, *target;
    float *dx;
    double *part;
    int64_t n;
    float k, g;
    terms_fn *terms;
    gradient_fn *gradient;
};

/* What a loss is made of. */
struct recipe {
    terms_fn *terms;
    gradient_fn *gradient;
    float k;
    double factor;
};

static struct recipe
recipe_of(const struct kernel_sig *sig)
{
    const float beta = (float)sig->params.loss.beta;
    const float delta = (float)sig->params.loss.delta;
    const double factor = sig->params.loss.factor;

    switch ((int)sig->op) {
    case OP_MSE:
    case OP_MSE_BWD: return (struct recipe){mse, mse_bwd, 0, 1};
    case OP_L1:
    case OP_L1_BWD: return (struct recipe){l1, l1_bwd, 0, 1};
    case OP_BCE_WITH_LOGITS:
    case OP_BCE_WITH_LOGITS_BWD: return (struct recipe){bce, bce_bwd, 0, 1};
    case OP_SMOOTH_L1:
    case OP_SMOOTH_L1_BWD:
        return (struct recipe){smooth_l1, smooth_l1_bwd, beta, 1};
    case OP_HUBER:
    case OP_HUBER_BWD: return (struct recipe){huber, huber_bwd, delta, 1};
    }
    assert(sig->op == OP_KL_DIV || sig->op == OP_KL_DIV_BWD);
    if (sig->params.loss.log_target)
        return (struct recipe){kl_div_log, kl_div_log_bwd, 0, factor};
    return (struct recipe){kl_div, kl_div_bwd, 0, factor};
}

static int64_t
n_chunks(int64_t n)
{
    return (n + KERNEL_CHUNK - 1) / KERNEL_CHUNK;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool
supports(const struct kernel_sig *sig)
{
    const int x = sig->n_in == 4 ? 1 : 0; /* dloss first */

    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].dtype != DTYPE_F32)
            return false;
    return sig->out[0].dtype == DTYPE_F32 &&
           tensor_same_shape(&sig->in[x], &sig->in[x + 1]) &&
           sig->in[x].layout == sig->in[x + 1].layout;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    (void)state;
    return (size_t)n_chunks(tensor_n_elems(&sig->in[0])) * sizeof(double);
}

static void
forward_chunk(const void *ctx, int64_t item)
{
    const struct loss_args *a = ctx;
    const int64_t begin = item * KERNEL_CHUNK;
    const int64_t end = smaller(begin + KERNEL_CHUNK, a->n);
    double sum = 0;

    for (int64_t at = begin; at < end; at += BLOCK)
        sum +=
            a->terms(a->x + at, a->target + at, a->k, smaller(BLOCK, end - at));
    a->part[item] = sum;
}

static void
run_forward(const struct kernel_call *call)
{
    const struct recipe recipe = recipe_of(call->sig);
    const float *inv_count = call->in[2];
    float *loss = call->out[0];
    double sum = 0;
    struct loss_args a = {.x = call->in[0],
                          .target = call->in[1],
                          .part = call->workspace,
                          .n = tensor_n_elems(&call->sig->in[0]),
                          .k = recipe.k,
                          .terms = recipe.terms};

    parallel_run(n_chunks(a.n), a.n, call->sig->threads, forward_chunk, &a);
    for (int64_t i = 0; i < n_chunks(a.n); i++)
        sum += a.part[i];
    loss[0] = (float)(sum * (double)inv_count[0] * recipe.factor);
}

static void
backward_chunk(const void *ctx, int64_t item)
{
    const struct loss_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    a->gradient(a->x + at, a->target + at, a->k, a->g, a->dx + at,
                smaller(KERNEL_CHUNK, a->n - at));
}

static void
run_backward(const struct kernel_call *call)
{
    const struct recipe recipe = recipe_of(call->sig);
    const float *dloss = call->in[0], *inv_count = call->in[3];
    const struct loss_args a = {
        .x = call->in[1],
        .target = call->in[2],
        .dx = call->out[0],
        .k = recipe.k,
        .g = (float)((double)dloss[0] * (double)inv_count[0] * recipe.factor),
        .n = tensor_n_elems(&call->sig->in[1]),
        .gradient = recipe.gradient,
    };

    parallel_run(n_chunks(a.n), a.n, call->sig->threads, backward_chunk, &a);
}

const struct kernel loss_forward = {.supports = supports,
                                    .workspace_bytes = workspace_bytes,
                                    .run = run_forward};
const struct kernel loss_backward = {.supports = supports, .run = run_backward};
