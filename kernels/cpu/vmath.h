/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath: exp, tanh, the normal distribution and their kin, for vector loops.
 *
 * Branch-free float32 functions that the compiler vectorizes when they are
 * inlined into a loop (libm's stay scalar). Arguments of exp are reduced in
 * double, so large ones lose nothing; polynomials run in float32. Errors are
 * in units of the last place, checked over all floats. NaN gives NaN, results
 * underflow gradually. Pure; for the kernels of this folder only.
 */
#ifndef KERNELS_CPU_VMATH_H
#define KERNELS_CPU_VMATH_H

#include <stdint.h>
#include <string.h>

static inline uint32_t
vmath_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float
vmath_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline float
vmath_abs(float x)
{
    return vmath_float(vmath_bits(x) & 0x7fffffffu);
}

/* x's magnitude with y's sign. */
static inline float
vmath_copysign(float x, float y)
{
    return vmath_float((vmath_bits(x) & 0x7fffffffu) |
                       (vmath_bits(y) & 0x80000000u));
}

/* e^x, 0.6 ulp. x = n ln 2 + r; e^r by the polynomial of Cephes (expf.c,
 * S. L. Moshier); 2^n in two factors, so that neither overflows early and
 * subnormal results are rounded once. */
static inline float
vmath_exp(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer */
    double t;
    uint64_t bits;
    uint32_t n, n1, n2;
    float r, p;

    x = x < -150.0 ? -150.0 : x;
    x = x > 100.0 ? 100.0 : x;
    t = x * 0x1.71547652b82fep+0 + magic;
    memcpy(&bits, &t, sizeof(bits));
    n = (uint32_t)bits;
    r = (float)(x - (t - magic) * 0x1.62e42fefa39efp-1);
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = 1.0f + (r + p * (r * r));
    n1 = (uint32_t)((int32_t)n >> 1);
    n2 = n - n1;
    return p * vmath_float((n1 + 127) << 23) * vmath_float((n2 + 127) << 23);
}

/* log(1 + e) for e in [0, 1], by 2 atanh(e / (2 + e)). */
static inline float
vmath_log1p_unit(float e)
{
    const float s = e / (2.0f + e), z = s * s;
    float p = 1.0f / 15;

    p = p * z + 1.0f / 13;
    p = p * z + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    return 2.0f * (s + s * z * p);
}

/* 1 / (1 + e^-x) with e = e^-|x|: never overflows, small values stay exact. */
static inline float
vmath_sigmoid_of(float x, float e)
{
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

static inline float
vmath_sigmoid(float x)
{
    return vmath_sigmoid_of(x, vmath_exp(-(double)vmath_abs(x)));
}

/* Cephes tanhf.c: an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above. */
static inline float
vmath_tanh(float x)
{
    const float a = vmath_abs(x), z = x * x;
    const float big = 1.0f - 2.0f / (vmath_exp(2.0 * (double)a) + 1.0f);
    float p = -5.70498872745e-3f;

    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    return a < 0.625f ? p : vmath_copysign(big, x);
}

/* Phi(x), the normal distribution function, given e = e^(-x x / 2), relative
 * error below 3 ulp in both tails: Phi(-a) = e R(a), with R(a) = t P(t), t =
 * 1 / (1 + 0.3 a), a minimax fit to erfcx(a / sqrt 2) / 2 (error 2^-28). */
static inline float
vmath_phi_of(float x, float e)
{
    const float t = 1.0f / (1.0f + 0.3f * vmath_abs(x));
    float p = -0.020623665302991867f, tail;

    p = p * t + 0.11243666708469391f;
    p = p * t - 0.2282160371541977f;
    p = p * t + 0.1917877048254013f;
    p = p * t - 0.07942605018615723f;
    p = p * t + 0.09615834981202126f;
    p = p * t + 0.07838921248912811f;
    p = p * t + 0.11023551225662231f;
    p = p * t + 0.11957180500030518f;
    p = p * t + 0.11968669295310974f;
    tail = p * t * e;
    return x < 0 ? tail : 1.0f - tail;
}

/* GELU: x Phi(x) (Hendrycks, Gimpel, 2016) and its derivative
 * Phi(x) + x phi(x). */
static inline float
vmath_gelu(float x)
{
    return x * vmath_phi_of(x, vmath_exp(-0.5 * ((double)x * (double)x)));
}

static inline float
vmath_gelu_grad(float x)
{
    const float e = vmath_exp(-0.5 * ((double)x * (double)x));

    return vmath_phi_of(x, e) + x * (0.3989422804f * e);
}

/* The tanh form: 0.5 x (1 + tanh u) = x sigmoid(2u), where
 * u = sqrt(2 / pi) (x + 0.044715 x^3). 2u and its derivative in double. */
static inline double
vmath_gelu_2u(double x)
{
    return 1.5957691216057308 * (x + 0.044715 * (x * x * x));
}

static inline float
vmath_gelu_tanh(float x)
{
    const double u = vmath_gelu_2u(x);

    return x * vmath_sigmoid_of(x, vmath_exp(u < 0 ? u : -u));
}

static inline float
vmath_gelu_tanh_grad(float x)
{
    const double d = x, u = vmath_gelu_2u(d);
    const double du = 1.5957691216057308 * (1.0 + 3 * 0.044715 * (d * d));
    const float e = vmath_exp(u < 0 ? u : -u);
    const float bell = e / ((1.0f + e) * (1.0f + e)); /* s (1 - s) */

    return vmath_sigmoid_of(x, e) + (float)((double)bell * (d * du));
}

static inline float
vmath_silu(float x)
{
    return x * vmath_sigmoid(x);
}

/* s (1 + x (1 - s)), 1 - s computed as sigmoid(-x). */
static inline float
vmath_silu_grad(float x)
{
    const float e = vmath_exp(-(double)vmath_abs(x));
    const float s = vmath_sigmoid_of(x, e);
    const float rest = (x < 0 ? 1.0f : e) / (1.0f + e);

    return s * (1.0f + x * rest);
}

#endif
