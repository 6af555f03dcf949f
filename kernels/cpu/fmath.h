/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fmath: exp and GELU in float32 throughout, for vector loops.
 *
 * What vmath.h does in double, at twice the speed and more: branch-free, so that
 * the compiler vectorizes it when inlined into a loop. Where float32 is too
 * narrow a value is carried as two of them. NaN gives NaN. Pure; for kernels/cpu
 * and kernels/dnnl.
 */
#ifndef KERNELS_CPU_FMATH_H
#define KERNELS_CPU_FMATH_H

#include "kernels/cpu/vmath.h"

/* A call that is left over keeps the whole loop from being vectorized. */
#define FMATH_INLINE static inline __attribute__((always_inline))

/* Loops that use these go into functions marked CPU_CLONES_FMA: fused
 * multiply-adds are part of the results.
 *
 * e^x within 1 ulp; 0 below e^-86, near the subnormal numbers, inf above e^88.
 * n ln 2 is taken off in two parts (Cody, Waite); the polynomial is Cephes'
 * expf.c (S. L. Moshier). */
FMATH_INLINE float
fmath_exp(float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer */
    const float low = x < -86.0f ? -86.0f : x;
    const float v = low > 89.0f ? 89.0f : low; /* NaN stays */
    const float t = __builtin_fmaf(v, 0x1.715476p+0f, magic);
    const float n = t - magic;
    float r = __builtin_fmaf(n, -0x1.62e43p-1f, v);
    float p = 1.9875691500e-4f;

    r = __builtin_fmaf(n, 0x1.05c61p-29f, r);
    p = __builtin_fmaf(p, r, 1.3981999507e-3f);
    p = __builtin_fmaf(p, r, 8.3334519073e-3f);
    p = __builtin_fmaf(p, r, 4.1665795894e-2f);
    p = __builtin_fmaf(p, r, 1.6666665459e-1f);
    p = __builtin_fmaf(p, r, 5.0000001201e-1f);
    p = 1.0f + __builtin_fmaf(p, r * r, r);
    /* 2^n in two steps: n may be 128. */
    p *= vmath_float((vmath_bits(t) << 23) + (126u << 23));
    p *= 2.0f;
    return x < -86.0f ? 0.0f : p;
}

/* ---- float32 with a remainder --------------------------------------------- *
 * A value of more than 24 bits is h + l, l below half a place of h. */

/* e^(h + l) for h <= 0 within 1 ulp, as a product of two factors: the second,
 * a power of 2, may take the first below the normal numbers. */
FMATH_INLINE float
fmath_exp_parts(float h, float l, float *scale)
{
    const float magic = 0x1.8p23f;
    const float v = h < -120.0f ? -120.0f : h; /* NaN stays */
    const float t = __builtin_fmaf(v, 0x1.715476p+0f, magic);
    const float n = t - magic;
    float r = __builtin_fmaf(n, -0x1.62e43p-1f, v);
    const int32_t k = (int32_t)(vmath_bits(t) - vmath_bits(magic));
    float p = 1.9875691500e-4f;

    r = __builtin_fmaf(n, 0x1.05c61p-29f, r) + l;
    p = __builtin_fmaf(p, r, 1.3981999507e-3f);
    p = __builtin_fmaf(p, r, 8.3334519073e-3f);
    p = __builtin_fmaf(p, r, 4.1665795894e-2f);
    p = __builtin_fmaf(p, r, 1.6666665459e-1f);
    p = __builtin_fmaf(p, r, 5.0000001201e-1f);
    p = 1.0f + __builtin_fmaf(p, r * r, r);
    *scale = vmath_float((uint32_t)(k - (k >> 1) + 127) << 23);
    p *= vmath_float((uint32_t)((k >> 1) + 127) << 23);
    return h < -120.0f ? 0.0f : p;
}

FMATH_INLINE float
fmath_exp_of(float h, float l)
{
    float scale;
    const float p = fmath_exp_parts(h, l, &scale);

    return p * scale;
}

struct fmath_pair {
    float h, l;
};

/* c0 + c1 z for z = x x >= 0, coefficients as pairs. */
FMATH_INLINE struct fmath_pair
fmath_linear(float x, float c0h, float c0l, float c1h, float c1l)
{
    const float z = x * x, zl = __builtin_fmaf(x, x, -z);
    const float p = c1h * z;
    const float pl = __builtin_fmaf(c1h, z, -p) + (c1h * zl + c1l * z);
    const float s = c0h + p, back = s - c0h;
    const float sl = (c0h - (s - back)) + (p - back);

    return (struct fmath_pair){s, sl + (pl + c0l)};
}

/* x y for a pair y. */
FMATH_INLINE struct fmath_pair
fmath_times(float x, struct fmath_pair y)
{
    const float h = x * y.h;

    return (struct fmath_pair){h, __builtin_fmaf(x, y.h, -h) + x * y.l};
}

/* h + l plus the pair c. */
FMATH_INLINE struct fmath_pair
fmath_plus(struct fmath_pair c, struct fmath_pair y)
{
    const float s = c.h + y.h, back = s - c.h;

    return (struct fmath_pair){s,
                               (c.h - (s - back)) + (y.h - back) + (y.l + c.l)};
}

FMATH_INLINE struct fmath_pair
fmath_product(struct fmath_pair x, struct fmath_pair y)
{
    const float h = x.h * y.h;

    return (struct fmath_pair){h, __builtin_fmaf(x.h, y.h, -h) +
                                      (x.h * y.l + x.l * y.h)};
}

/* Phi(-a) / e^(-a a / 2) for a >= 0, Phi the normal distribution function: t
 * P(t), t = 1 / (1 + a / 4), a minimax fit to erfcx(a / sqrt 2) / 2 on [0,
 * 14.5]; its last two steps are made with remainders. */
FMATH_INLINE struct fmath_pair
fmath_tail(float a)
{
    const struct fmath_pair c1 = {0x1.988f9cp-4f, -0x1.1b599p-29f};
    const struct fmath_pair c2 = {0x1.97a3dp-4f, 0x1.3db9ccp-30f};
    const float b = 0.25f * a, d = 1.0f + b, back = d - 1.0f;
    const float dl = (1.0f - (d - back)) + (b - back), inv = 1.0f / d;
    const struct fmath_pair t = {
        inv, inv * (__builtin_fmaf(-inv, d, 1.0f) - inv * dl)};
    struct fmath_pair r;
    float p = 0.01689242103151659f;

    p = __builtin_fmaf(p, t.h, -0.06453725282781188f);
    p = __builtin_fmaf(p, t.h, 0.05587967189468725f);
    p = __builtin_fmaf(p, t.h, 0.022610638903614165f);
    p = __builtin_fmaf(p, t.h, 0.017734929984054546f);
    p = __builtin_fmaf(p, t.h, 0.08385111198301327f);
    p = __builtin_fmaf(p, t.h, 0.0730128443598388f);
    p = __builtin_fmaf(p, t.h, 0.09528785016500288f);
    r = fmath_times(p, t);
    r = fmath_product(fmath_plus(c2, r), t);
    return fmath_product(fmath_plus(c1, r), t);
}

/* GELU: x Phi(x) (Hendrycks, Gimpel, 2016). Beyond 15 in either direction Phi is
 * 0 or 1 to float32. */
FMATH_INLINE float
fmath_gelu(float x)
{
    const float abs = vmath_abs(x), a = abs > 15.5f ? 15.5f : abs;
    const float z = 0.5f * a * a;
    const float zl = __builtin_fmaf(0.5f * a, a, -z);
    const struct fmath_pair r = fmath_tail(a);
    const float e = fmath_exp_of(-z, -zl);
    const float tail = r.h * e + r.l * e;

    return x * (x < 0 ? tail : 1.0f - tail);
}

/* dy (Phi(x) + x phi(x)): for x < 0 dy e (tail - a phi0), where the difference
 * may cancel; else 1 less that. */
FMATH_INLINE float
fmath_gelu_bwd(float dy, float x)
{
    const struct fmath_pair phi0 = {-0x1.988454p-2f, 0x1.857936p-27f};
    const float abs = vmath_abs(x), a = abs > 15.5f ? 15.5f : abs;
    const float z = 0.5f * a * a;
    const float zl = __builtin_fmaf(0.5f * a, a, -z);
    const struct fmath_pair r = fmath_plus(fmath_times(a, phi0), fmath_tail(a));
    float scale;
    const float part = fmath_exp_parts(-z, -zl, &scale);
    const float v = part * (r.h + (r.l + x * 0.0f)) * scale;

    return dy * (x < 0 ? v : 1.0f - v);
}

/* The tanh form of GELU: x sigmoid(2u), 2u = x (c + 0.044715 c x x), c = 2
 * sqrt(2 / pi). Beyond 16 the sigmoid is 0 or 1 to float32. */
FMATH_INLINE float
fmath_gelu_tanh(float x)
{
    const float abs = vmath_abs(x), a = abs > 16.0f ? 16.0f : abs;
    const struct fmath_pair u =
        fmath_times(a, fmath_linear(a, 0x1.988454p+0f, -0x1.857936p-25f,
                                    0x1.2444f2p-4f, 0x1.49b16ap-29f));
    const float e = fmath_exp_of(-u.h, -u.l);

    return x * ((x < 0 ? e : 1.0f) / (1.0f + e));
}

/* dy s (1 + w), w = (1 - s) x d(2u)/dx; where w is near -1 its error is what
 * is left, so it is made with a remainder. */
FMATH_INLINE float
fmath_gelu_tanh_bwd(float dy, float x)
{
    const float abs = vmath_abs(x), a = abs > 16.0f ? 16.0f : abs;
    const struct fmath_pair u =
        fmath_times(a, fmath_linear(a, 0x1.988454p+0f, -0x1.857936p-25f,
                                    0x1.2444f2p-4f, 0x1.49b16ap-29f));
    float scale;
    const float part = fmath_exp_parts(-u.h, -u.l, &scale), e = part * scale;
    const struct fmath_pair z = fmath_times(
        vmath_copysign(a, x), fmath_linear(a, 0x1.988454p+0f, -0x1.857936p-25f,
                                           0x1.b6676cp-3f, -0x1.175e2p-32f));
    /* 1 / (1 + e) is 1 - s for x < 0, else s. */
    const float d = 1.0f + e, dl = e - (d - 1.0f), inv = 1.0f / d;
    const float rest = x < 0 ? 1.0f : e; /* (1 - s) d */
    const float zh = z.h * rest;
    const float q = zh * inv;
    const float zl = x < 0 ? z.l : 0.0f;
    const float left = __builtin_fmaf(-q, d, zh) + (zl - q * dl);

    /* x 0 is NaN where x is infinite; s is scaled last, as it may vanish. */
    const float sum = (1.0f + q) + (left * inv + x * 0.0f);
    const float v = (x < 0 ? part : 1.0f) * (inv * sum);

    return dy * (v * (x < 0 ? scale : 1.0f));
}

#endif
