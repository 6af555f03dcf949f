/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath: exp, log, tanh and their kin, for vector loops.
 *
 * Branch-free functions that the compiler vectorizes when they are inlined
 * into a loop (libm's stay scalar). What cancels or underflows runs in double,
 * the rest in float32, so that results are rounded once: each is within 1 ulp
 * of the true value. NaN gives NaN. Pure; for the kernels of this folder only.
 */
#ifndef KERNELS_CPU_VMATH_H
#define KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdbool.h>
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

/* e^x, relative error 2^-26; 0 below -700, e^700 above 700. x = n ln 2 + r, e^r
 * by the polynomial of Cephes (expf.c, S. L. Moshier), its terms from r^2 on in
 * float32. */
static inline double
vmath_exp_wide(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer */
    double t, r, power;
    uint64_t bits;
    float f, p;
    const bool gone = x < -700.0;

    x = gone ? -700.0 : x;
    x = x > 700.0 ? 700.0 : x;
    t = x * 0x1.71547652b82fep+0 + magic;
    memcpy(&bits, &t, sizeof(bits)); /* n in the low bits */
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof(power));
    r = x - (t - magic) * 0x1.62e42fefa39efp-1;
    f = (float)r;
    p = 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    r = (1.0 + (r + (double)p * (r * r))) * power;
    return gone ? 0.0 : r;
}

/* The same, but inf above 700: where inf has to stay inf. */
static inline double
vmath_exp_full(double x)
{
    return x > 700.0 ? (double)INFINITY : vmath_exp_wide(x);
}

static inline float
vmath_exp(double x)
{
    return (float)vmath_exp_wide(x);
}

/* 1 / d for d >= 1, relative error 2^-45: a float division and one step of
 * Newton, faster than a division in double. */
static inline double
vmath_inverse(double d)
{
    const double q = (double)(1.0f / (float)d);

    return q * (2.0 - d * q);
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

/* The same in double, relative error 2^-32. */
static inline double
vmath_log1p_unit_wide(double e)
{
    const double s = e / (2.0 + e), z = s * s;
    double p = 1.0 / 17;

    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return 2.0 * (s + s * z * p);
}

/* log x for the doubles that float32 and its products hold (no subnormal ones),
 * relative error 2^-48; -inf of 0, NaN below. x = 2^e m, m in [sqrt 1/2, sqrt 2),
 * log m = 2 atanh((m - 1) / (m + 1)). */
static inline double
vmath_log_wide(double x)
{
    const uint64_t one = 0x3ff0000000000000u, root_half = 0x3fe6a09e667f3bcdu;
    const uint64_t two_52 = 0x4330000000000000u;
    uint64_t bits, up, m_bits, e_bits;
    double m, e, s, z, p;

    memcpy(&bits, &x, sizeof(bits));
    up = bits + (one - root_half);
    m_bits = bits - (up & 0xfff0000000000000u) + one;
    e_bits = up >> 52 | two_52;
    memcpy(&m, &m_bits, sizeof(m));
    memcpy(&e, &e_bits, sizeof(e));
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    p = 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = (e - (0x1p52 + 1023)) * 0x1.62e42fefa39efp-1 + 2.0 * (s + s * z * p);
    p = x > 0 ? p : x == 0 ? -(double)INFINITY : (double)NAN;
    return x > 0x1.fffffffffffffp1023 ? x : p;
}

/* |x|^y for a finite y other than 0, relative error 2^-25. */
static inline double
vmath_pow_wide(double x, double y)
{
    return vmath_exp_full(y * vmath_log_wide(x < 0 ? -x : x));
}

/* 1 / (1 + e^-x): from e^-|x|, which never overflows. */
static inline double
vmath_sigmoid_wide(double x)
{
    const double e = vmath_exp_wide(x < 0 ? x : -x);

    return (x < 0 ? e : 1.0) * vmath_inverse(1.0 + e);
}

static inline float
vmath_sigmoid(float x)
{
    return (float)vmath_sigmoid_wide((double)x);
}

/* Cephes tanhf.c: an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above. */
static inline float
vmath_tanh(float x)
{
    const float a = vmath_abs(x), z = x * x;
    const double e = vmath_exp_wide(2.0 * (double)a);
    const float big = (float)(1.0 - 2.0 * vmath_inverse(e + 1.0));
    float p = -5.70498872745e-3f;

    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    return a < 0.625f ? p : vmath_copysign(big, x);
}

static inline float
vmath_silu(float x)
{
    return (float)((double)x * vmath_sigmoid_wide((double)x));
}

/* s (1 + x (1 - s)) */
static inline float
vmath_silu_bwd(float dy, float x)
{
    const double d = (double)x, s = vmath_sigmoid_wide(d);

    return (float)((double)dy * (s * (1.0 + d * (1.0 - s))));
}

#endif
