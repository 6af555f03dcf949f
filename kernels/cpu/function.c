/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/function.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

/* v: the input; for gradients d is dy, and v is x or y as ops.def says. */
#define UNARY(name, expression)                                                \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n, float *y) \
    {                                                                          \
        const float *x = in[0];                                                \
                                                                               \
        (void)p;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float v = x[i];                                              \
            y[i] = (expression);                                               \
        }                                                                      \
    }

#define BINARY(name, expression)                                               \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n, float *y) \
    {                                                                          \
        const float *dy = in[0], *x = in[1];                                   \
                                                                               \
        (void)p;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float d = dy[i], v = x[i];                                   \
            y[i] = (expression);                                               \
        }                                                                      \
    }

UNARY(exponential, (float)vmath_exp_full((double)v))
BINARY(exponential_bwd, d *v)
UNARY(logarithm, (float)vmath_log_wide((double)v))
BINARY(logarithm_bwd, d / v)
UNARY(reciprocal, 1.0f / v)
BINARY(reciprocal_bwd, (float)(-(double)d *((double)v *(double)v)))
UNARY(rsqrt, 1.0f / sqrtf(v))
BINARY(rsqrt_bwd,
       (float)(-0.5 * (double)d * ((double)v * (double)v * (double)v)))

/* ---- powers: x^y, by y ---------------------------------------------------- */

UNARY(pow_one, v)
UNARY(pow_two, v *v)

/* x^0 is 1, also of NaN; its gradient is 0. */
static void
pow_zero(const float *const *in, const union op_params *p, int64_t n, float *y)
{
    (void)in, (void)p;
    for (int64_t i = 0; i < n; i++)
        y[i] = 1;
}

static void
pow_zero_bwd(const float *const *in, const union op_params *p, int64_t n,
             float *y)
{
    (void)in, (void)p;
    for (int64_t i = 0; i < n; i++)
        y[i] = 0;
}

/* The sign of x^y, or NaN: a negative x has powers of whole y only; -0 and -inf
 * have all. */
struct sign {
    float of_negative, of_extreme;
};

static struct sign
sign_of(double y)
{
    const bool whole = y == floor(y), odd = whole && fmod(y, 2) != 0;

    return (struct sign){whole ? (odd ? -1.0f : 1.0f) : NAN,
                         odd ? -1.0f : 1.0f};
}

static inline double
pow_of(float x, double y, struct sign s)
{
    const float a = vmath_abs(x);
    const double r = vmath_pow_wide((double)a, y);
    const float sign = a == 0 || a == INFINITY ? s.of_extreme : s.of_negative;

    return vmath_bits(x) >> 31 ? (double)sign * r : r;
}

CPU_CLONES static void
pow_any(const float *const *in, const union op_params *p, int64_t n, float *y)
{
    const double exponent = p->pow.exponent;
    const struct sign s = sign_of(exponent);
    const float *x = in[0];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)pow_of(x[i], exponent, s);
}

BINARY(pow_two_bwd, (float)(2.0 * (double)d * (double)v))
BINARY(pow_three_bwd, (float)(3.0 * (double)d * ((double)v * (double)v)))

CPU_CLONES static void
pow_any_bwd(const float *const *in, const union op_params *p, int64_t n,
            float *y)
{
    const double exponent = p->pow.exponent;
    const struct sign s = sign_of(exponent - 1);
    const float *dy = in[0], *x = in[1];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] =
            (float)((double)dy[i] * (exponent * pow_of(x[i], exponent - 1, s)));
}

static broadcast_fn *
find_pow(double exponent)
{
    if (exponent == 0)
        return pow_zero;
    if (exponent == 1)
        return pow_one;
    return exponent == 2 ? pow_two : pow_any;
}

static broadcast_fn *
find_pow_bwd(double exponent)
{
    if (exponent == 0)
        return pow_zero_bwd;
    if (exponent == 1)
        return pow_one; /* dy, which is input 0 */
    if (exponent == 2)
        return pow_two_bwd;
    return exponent == 3 ? pow_three_bwd : pow_any_bwd;
}

/* ---- softplus ------------------------------------------------------------- */

/* max(b x, 0) + log(1 + e^-|b x|), over b */
static inline float
softplus_of(float x, double beta, double threshold)
{
    const double bx = beta * (double)x, a = bx < 0 ? -bx : bx;
    const double rest = vmath_log1p_unit_wide(vmath_exp_wide(-a));
    const float y = (float)(((bx > 0 ? bx : 0) + rest) / beta);

    return bx > threshold ? x : y;
}

static inline float
softplus_bwd_of(float d, float x, double beta, double threshold)
{
    const double bx = beta * (double)x;
    const float dx = (float)((double)d * vmath_sigmoid_wide(bx));

    return bx > threshold ? d : dx;
}

UNARY(softplus, softplus_of(v, p->softplus.beta, p->softplus.threshold))
BINARY(softplus_bwd,
       softplus_bwd_of(d, v, p->softplus.beta, p->softplus.threshold))

/* ---- the slot ------------------------------------------------------------- */

static broadcast_fn *
find_fn(const struct kernel_sig *sig)
{
    switch ((int)sig->op) {
    case OP_EXP: return exponential;
    case OP_EXP_BWD: return exponential_bwd;
    case OP_LOG: return logarithm;
    case OP_LOG_BWD: return logarithm_bwd;
    case OP_POW: return find_pow(sig->params.pow.exponent);
    case OP_POW_BWD: return find_pow_bwd(sig->params.pow.exponent);
    case OP_RECIPROCAL: return reciprocal;
    case OP_RECIPROCAL_BWD: return reciprocal_bwd;
    case OP_RSQRT: return rsqrt;
    case OP_RSQRT_BWD: return rsqrt_bwd;
    case OP_SOFTPLUS: return softplus;
    case OP_SOFTPLUS_BWD: return softplus_bwd;
    default: return NULL;
    }
}

/* Everything of one shape, layout and a dtype that convert knows, with finite
 * parameters. */
static bool
supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *out = &sig->out[0];

    if ((sig->op == OP_POW || sig->op == OP_POW_BWD) &&
        !isfinite(sig->params.pow.exponent))
        return false;
    if ((sig->op == OP_SOFTPLUS || sig->op == OP_SOFTPLUS_BWD) &&
        !(isfinite(sig->params.softplus.beta) && sig->params.softplus.beta > 0))
        return false;
    for (int i = 0; i < sig->n_in; i++)
        if (!tensor_same_shape(&sig->in[i], out) ||
            sig->in[i].layout != out->layout ||
            !dtype_is_float(sig->in[i].dtype) || sig->in[i].dtype == DTYPE_F64)
            return false;
    return dtype_is_float(out->dtype) && out->dtype != DTYPE_F64;
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct broadcast_job job = {.fn = find_fn(sig),
                                .params = &sig->params,
                                .y = call->out[0],
                                .ty = sig->out[0].dtype,
                                .threads = sig->threads};

    assert(job.fn != NULL);
    walk_init(&job.walk, &sig->out[0]);
    for (int i = 0; i < sig->n_in; i++)
        walk_add(&job.walk, &sig->out[0], &sig->in[i], call->in[i]);
    walk_close(&job.walk);
    broadcast_run(&job);
}

const struct kernel function_kernel = {.supports = supports, .run = run};
