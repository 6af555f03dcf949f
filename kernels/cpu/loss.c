/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/loss.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#define BLOCK 1024

/* v: prediction, t: target. */
#define TERMS(name, expression)                                                \
    CPU_CLONES static double name(const float *x, const float *target,         \
                                  int64_t n)                                   \
    {                                                                          \
        float term[BLOCK];                                                     \
                                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i], t = target[i];                               \
            term[i] = (expression);                                            \
        }                                                                      \
        return lanes_sum_array(term, n);                                       \
    }

#define GRADIENT(name, expression)                                             \
    CPU_CLONES static void name(const float *x, const float *target, float g,  \
                                float *dx, int64_t n)                          \
    {                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i], t = target[i];                               \
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

TERMS(mse, (v - t) * (v - t))
TERMS(l1, vmath_abs(v - t))
TERMS(bce, bce_term(v, t))

GRADIENT(mse_bwd, 2.0f * (v - t))
GRADIENT(l1_bwd, sign(v - t))
GRADIENT(bce_bwd, (float)(vmath_sigmoid_wide((double)v) - (double)t))

struct loss_args {
    const float *x, *target;
    float *dx;
    double *part;
    int64_t n;
    float g;
    double (*terms)(const float *x, const float *target, int64_t n);
    void (*gradient)(const float *x, const float *target, float g, float *dx,
                     int64_t n);
};

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
        sum += a->terms(a->x + at, a->target + at, smaller(BLOCK, end - at));
    a->part[item] = sum;
}

static void
run_forward(const struct kernel_call *call)
{
    const enum op op = call->sig->op;
    const float *inv_count = call->in[2];
    float *loss = call->out[0];
    double sum = 0;
    struct loss_args a = {.x = call->in[0],
                          .target = call->in[1],
                          .part = call->workspace,
                          .n = tensor_n_elems(&call->sig->in[0])};

    assert(op == OP_MSE || op == OP_L1 || op == OP_BCE_WITH_LOGITS);
    a.terms = op == OP_MSE ? mse : op == OP_L1 ? l1 : bce;
    parallel_run(n_chunks(a.n), a.n, call->sig->threads, forward_chunk, &a);
    for (int64_t i = 0; i < n_chunks(a.n); i++)
        sum += a.part[i];
    loss[0] = (float)(sum * (double)inv_count[0]);
}

static void
backward_chunk(const void *ctx, int64_t item)
{
    const struct loss_args *a = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    a->gradient(a->x + at, a->target + at, a->g, a->dx + at,
                smaller(KERNEL_CHUNK, a->n - at));
}

static void
run_backward(const struct kernel_call *call)
{
    const enum op op = call->sig->op;
    const float *dloss = call->in[0], *inv_count = call->in[3];
    struct loss_args a = {.x = call->in[1],
                          .target = call->in[2],
                          .dx = call->out[0],
                          .g = dloss[0] * inv_count[0],
                          .n = tensor_n_elems(&call->sig->in[1])};

    assert(op == OP_MSE_BWD || op == OP_L1_BWD || op == OP_BCE_WITH_LOGITS_BWD);
    a.gradient = op == OP_MSE_BWD  ? mse_bwd
                 : op == OP_L1_BWD ? l1_bwd
                                   : bce_bwd;
    parallel_run(n_chunks(a.n), a.n, call->sig->threads, backward_chunk, &a);
}

const struct kernel loss_forward = {.supports = supports,
                                    .workspace_bytes = workspace_bytes,
                                    .run = run_forward};
const struct kernel loss_backward = {.supports = supports, .run = run_backward};
