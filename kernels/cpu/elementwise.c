/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/elementwise.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fmath.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

/* y may be a or b, never overlap them otherwise. */
typedef void unary_fn(const float *x, float *y, int64_t n);
typedef void binary_fn(const float *a, const float *b, float *y, int64_t n);

#define UNARY(clones, name, expression)                                        \
    clones static void name(const float *x, float *y, int64_t n)               \
    {                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i];                                              \
            y[i] = (expression);                                               \
        }                                                                      \
    }

#define BINARY(clones, name, expression)                                       \
    clones static void name(const float *a, const float *b, float *y,          \
                            int64_t n)                                         \
    {                                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float d = a[i], v = b[i];                                    \
            y[i] = (expression);                                               \
        }                                                                      \
    }

UNARY(CPU_CLONES, relu, v <= 0 ? 0.0f : v) /* NaN <= 0 is false */
UNARY(CPU_CLONES_FMA, gelu, fmath_gelu(v))
UNARY(CPU_CLONES_FMA, gelu_tanh, fmath_gelu_tanh(v))
UNARY(CPU_CLONES, tanh_block, vmath_tanh(v))
UNARY(CPU_CLONES, sigmoid, vmath_sigmoid(v))
UNARY(CPU_CLONES, silu, vmath_silu(v))

/* d: the gradient dy; v: x or y, as ops.def says. */
BINARY(CPU_CLONES, add, d + v)
BINARY(CPU_CLONES, relu_bwd, v <= 0 ? 0.0f : d)
BINARY(CPU_CLONES_FMA, gelu_bwd, fmath_gelu_bwd(d, v))
BINARY(CPU_CLONES_FMA, gelu_tanh_bwd, fmath_gelu_tanh_bwd(d, v))
BINARY(CPU_CLONES, tanh_bwd, d *((1.0f - v) * (1.0f + v)))
BINARY(CPU_CLONES, sigmoid_bwd, d *(v *(1.0f - v)))
BINARY(CPU_CLONES, silu_bwd, vmath_silu_bwd(d, v))

static unary_fn *
find_unary(const struct kernel_sig *sig)
{
    if (sig->op == OP_RELU)
        return relu;
    if (sig->op == OP_GELU)
        return sig->params.gelu.tanh ? gelu_tanh : gelu;
    if (sig->op == OP_TANH)
        return tanh_block;
    if (sig->op == OP_SIGMOID)
        return sigmoid;
    if (sig->op == OP_SILU)
        return silu;
    assert(sig->op == OP_CAST);
    return NULL;
}

static binary_fn *
find_binary(const struct kernel_sig *sig)
{
    if (sig->op == OP_RELU_BWD)
        return relu_bwd;
    if (sig->op == OP_GELU_BWD)
        return sig->params.gelu.tanh ? gelu_tanh_bwd : gelu_bwd;
    if (sig->op == OP_TANH_BWD)
        return tanh_bwd;
    if (sig->op == OP_SIGMOID_BWD)
        return sigmoid_bwd;
    assert(sig->op == OP_SILU_BWD);
    return silu_bwd;
}

/* Everything of one shape, layout and a dtype that convert knows. */
static bool
supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *out = &sig->out[0];

    for (int i = 0; i < sig->n_in; i++)
        if (!tensor_same_shape(&sig->in[i], out) ||
            sig->in[i].layout != out->layout ||
            !dtype_is_float(sig->in[i].dtype) || sig->in[i].dtype == DTYPE_F64)
            return false;
    return dtype_is_float(out->dtype) && out->dtype != DTYPE_F64;
}

struct span {
    const void *a, *b;
    void *y;
    enum dtype ta, tb, ty;
    int64_t n;
    unary_fn *unary; /* NULL with binary NULL: a cast */
    binary_fn *binary;
};

static void
run_block(const struct span *s, int64_t at, int64_t n)
{
    float a_buf[CONVERT_BLOCK], b_buf[CONVERT_BLOCK], y_buf[CONVERT_BLOCK];
    const float *a = convert_view(s->a, s->ta, at, n, a_buf);
    float *y = s->ty == DTYPE_F32 ? (float *)s->y + at : y_buf;

    if (s->binary != NULL)
        s->binary(a, convert_view(s->b, s->tb, at, n, b_buf), y, n);
    else if (s->unary != NULL)
        s->unary(a, y, n);
    if (s->ty != DTYPE_F32)
        convert_from_f32((uint16_t *)s->y + at, s->ty, y, n);
}

/* The element type only changes; equal types are a copy. */
static void
cast_block(const struct span *s, int64_t at, int64_t n)
{
    float buf[CONVERT_BLOCK];

    if (s->ta == s->ty)
        memcpy((char *)s->y + (size_t)at * dtype_size_bytes(s->ty),
               (const char *)s->a + (size_t)at * dtype_size_bytes(s->ta),
               (size_t)n * dtype_size_bytes(s->ta));
    else if (s->ty == DTYPE_F32)
        convert_to_f32((float *)s->y + at, (const uint16_t *)s->a + at, s->ta,
                       n);
    else
        convert_from_f32((uint16_t *)s->y + at, s->ty,
                         convert_view(s->a, s->ta, at, n, buf), n);
}

static void
run_chunk(const void *ctx, int64_t item)
{
    const struct span *s = ctx;
    const int64_t begin = item * KERNEL_CHUNK;
    const int64_t end =
        begin + KERNEL_CHUNK < s->n ? begin + KERNEL_CHUNK : s->n;

    for (int64_t at = begin; at < end; at += CONVERT_BLOCK) {
        const int64_t n = end - at < CONVERT_BLOCK ? end - at : CONVERT_BLOCK;

        if (s->unary == NULL && s->binary == NULL)
            cast_block(s, at, n);
        else
            run_block(s, at, n);
    }
}

static void
run_span(const struct span *s, int threads)
{
    parallel_run((s->n + KERNEL_CHUNK - 1) / KERNEL_CHUNK, s->n, threads,
                 run_chunk, s);
}

static void
run_unary(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct span s = {.a = call->in[0],
                           .y = call->out[0],
                           .ta = sig->in[0].dtype,
                           .ty = sig->out[0].dtype,
                           .n = tensor_n_elems(&sig->out[0]),
                           .unary = find_unary(sig)};

    run_span(&s, sig->threads);
}

static void
run_binary(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct span s = {.a = call->in[0],
                           .b = call->in[1],
                           .y = call->out[0],
                           .ta = sig->in[0].dtype,
                           .tb = sig->in[1].dtype,
                           .ty = sig->out[0].dtype,
                           .n = tensor_n_elems(&sig->out[0]),
                           .binary = find_binary(sig)};

    run_span(&s, sig->threads);
}

/* sum (f32, in 0 and out 0) = g or += g (in 1). */
static void
run_grad_accumulate(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct span s = {.a = call->in[0],
                     .b = call->in[1],
                     .y = call->out[0],
                     .ta = sig->in[0].dtype,
                     .tb = sig->in[1].dtype,
                     .ty = sig->out[0].dtype,
                     .n = tensor_n_elems(&sig->out[0]),
                     .binary = add};

    if (call->step->micro_batch == 0) {
        s.a = s.b;
        s.ta = s.tb;
        s.binary = NULL;
    }
    run_span(&s, sig->threads);
}

static bool
scale_loss_supports(const struct kernel_sig *sig)
{
    return sig->in[0].dtype == DTYPE_F32 && sig->in[1].dtype == DTYPE_F32 &&
           sig->out[0].dtype == DTYPE_F32;
}

static void
run_scale_loss(const struct kernel_call *call)
{
    const float *loss = call->in[0], *scale = call->in[1];
    float *y = call->out[0];

    y[0] = loss[0] * scale[0];
}

const struct kernel elementwise_unary = {.supports = supports,
                                         .run = run_unary};
const struct kernel elementwise_binary = {.supports = supports,
                                          .run = run_binary};
const struct kernel elementwise_grad_accumulate = {.supports = supports,
                                                   .run = run_grad_accumulate};
const struct kernel elementwise_scale_loss = {.supports = scale_loss_supports,
                                              .run = run_scale_loss};
