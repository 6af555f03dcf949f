/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/convert.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define CONVERT_X86 1
#else
#define CONVERT_X86 0
#endif

static inline uint32_t
bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float
float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* ---- the definition ------------------------------------------------------ */

float
convert_f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = h >> 10 & 0x1fu;
    const uint32_t mantissa = h & 0x3ffu;

    if (exponent == 0x1f) /* inf; NaN made quiet */
        return float_of(sign | 0x7f800000u | mantissa << 13 |
                        (mantissa != 0 ? 0x400000u : 0));
    if (exponent == 0) /* zero and subnormals: mantissa x 2^-24 */
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t
convert_f16_of_f32(float f)
{
    const uint32_t u = bits_of(f), abs = u & 0x7fffffffu;
    const uint32_t sign = u >> 16 & 0x8000u;

    if (abs > 0x7f800000u) /* NaN: quiet, upper payload kept */
        return (uint16_t)(sign | 0x7e00u | (abs >> 13 & 0x3ffu));
    if (abs >= 0x477ff000u) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00u);
    if (abs < 0x38800000u) {
        /* Below 2^-14: at 0.5 the last place of a float is 2^-24, that of the
         * result, so the addition rounds, to nearest even. */
        const float rounded = float_of(abs) + 0.5f;

        return (uint16_t)(sign | (bits_of(rounded) - bits_of(0.5f)));
    }
    /* Drop 13 bits, half way to even; a carry moves into the exponent. */
    return (uint16_t)(sign |
                      (abs - (112u << 23) + 0xfffu + (abs >> 13 & 1u)) >> 13);
}

float
convert_f32_of_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t
convert_bf16_of_f32(float f)
{
    const uint32_t u = bits_of(f);
    const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    const uint32_t quiet = u >> 16 | 0x40u;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* ---- blocks of float16 --------------------------------------------------- */

static bool
scalar_usable(void)
{
    return true;
}

static void
scalar_f32_of_f16(float *dst, const uint16_t *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = convert_f32_of_f16(src[i]);
}

static void
scalar_f16_of_f32(uint16_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = convert_f16_of_f32(src[i]);
}

#if CONVERT_X86
/* Every processor with AVX2 has F16C, whose name clang does not know here. */
static bool
f16c_usable(void)
{
    return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx,f16c"))) static void
f16c_f32_of_f16(float *dst, const uint16_t *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m128i h = _mm_loadu_si128((const __m128i *)(src + i));

        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(h));
    }
    scalar_f32_of_f16(dst + i, src + i, n - i);
}

__attribute__((target("avx,f16c"))) static void
f16c_f16_of_f32(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const __m256 f = _mm256_loadu_ps(src + i);

        _mm_storeu_si128((__m128i *)(dst + i),
                         _mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
    }
    scalar_f16_of_f32(dst + i, src + i, n - i);
}

static bool
avx512_usable(void)
{
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f"))) static void
avx512_f32_of_f16(float *dst, const uint16_t *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m256i h = _mm256_loadu_si256((const __m256i *)(src + i));

        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(h));
    }
    scalar_f32_of_f16(dst + i, src + i, n - i);
}

__attribute__((target("avx512f"))) static void
avx512_f16_of_f32(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m512 f = _mm512_loadu_ps(src + i);

        _mm256_storeu_si256((__m256i *)(dst + i),
                            _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
    }
    scalar_f16_of_f32(dst + i, src + i, n - i);
}
#endif

/* ---- blocks of bfloat16: integer arithmetic, vectorized by the compiler -- */

CPU_CLONES static void
block_f32_of_bf16(float *dst, const uint16_t *src, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dst[i] = float_of((uint32_t)src[i] << 16);
}

CPU_CLONES static void
block_bf16_of_f32(uint16_t *dst, const float *src, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const uint32_t u = bits_of(src[i]);
        const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
        const uint32_t quiet = u >> 16 | 0x40u;

        dst[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

#if CONVERT_X86
/* The same by hand: the compiler narrows 32 to 16 bits in too many steps. */
__attribute__((target("avx512f"))) static void
avx512_bf16_of_f32(uint16_t *dst, const float *src, int64_t n)
{
    const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff);
    const __m512i abs = _mm512_set1_epi32(0x7fffffff);
    const __m512i inf = _mm512_set1_epi32(0x7f800000);
    const __m512i quiet = _mm512_set1_epi32(0x400000);
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m512i u = _mm512_loadu_si512(src + i);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
        const __m512i sum = _mm512_add_epi32(u, _mm512_add_epi32(odd, half));
        const __mmask16 nan =
            _mm512_cmpgt_epu32_mask(_mm512_and_si512(u, abs), inf);
        const __m512i bits = _mm512_mask_or_epi32(sum, nan, u, quiet);

        _mm256_storeu_si256((__m256i *)(dst + i),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
    }
    block_bf16_of_f32(dst + i, src + i, n - i);
}

__attribute__((target("avx512f"))) static void
avx512_f32_of_bf16(float *dst, const uint16_t *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m256i h = _mm256_loadu_si256((const __m256i *)(src + i));

        _mm512_storeu_si512(dst + i,
                            _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
    block_f32_of_bf16(dst + i, src + i, n - i);
}
#endif

/* ---- the paths, best first; the last is always usable -------------------- */

static const struct convert_path paths[] = {
#if CONVERT_X86
    {"avx512", avx512_usable, avx512_f32_of_f16, avx512_f16_of_f32,
     avx512_f32_of_bf16, avx512_bf16_of_f32},
    {"f16c", f16c_usable, f16c_f32_of_f16, f16c_f16_of_f32, block_f32_of_bf16,
     block_bf16_of_f32},
#endif
    {"scalar", scalar_usable, scalar_f32_of_f16, scalar_f16_of_f32,
     block_f32_of_bf16, block_bf16_of_f32},
};

#define N_PATHS (int)(sizeof(paths) / sizeof(paths[0]))

const struct convert_path *
convert_path_at(int i)
{
    return i >= 0 && i < N_PATHS ? &paths[i] : NULL;
}

static const struct convert_path *
best_path(void)
{
    const struct convert_path *path = paths;

    while (!path->usable())
        path++;
    return path;
}

/* ---- by dtype ------------------------------------------------------------ */

void
convert_to_f32(float *dst, const void *src, enum dtype t, int64_t n)
{
    if (n == 0)
        return;
    if (t == DTYPE_F32) {
        memcpy(dst, src, (size_t)n * sizeof(float));
    } else if (t == DTYPE_F16) {
        best_path()->f32_of_f16(dst, src, n);
    } else {
        assert(t == DTYPE_BF16);
        best_path()->f32_of_bf16(dst, src, n);
    }
}

void
convert_from_f32(void *dst, enum dtype t, const float *src, int64_t n)
{
    if (n == 0)
        return;
    if (t == DTYPE_F32) {
        memcpy(dst, src, (size_t)n * sizeof(float));
    } else if (t == DTYPE_F16) {
        best_path()->f16_of_f32(dst, src, n);
    } else {
        assert(t == DTYPE_BF16);
        best_path()->bf16_of_f32(dst, src, n);
    }
}

const float *
convert_view(const void *base, enum dtype t, int64_t at, int64_t n, float *buf)
{
    if (t == DTYPE_F32)
        return (const float *)base + at;
    convert_to_f32(buf, (const uint16_t *)base + at, t, n);
    return buf;
}

float
convert_get(const void *base, enum dtype t, int64_t at)
{
    if (t == DTYPE_F32)
        return ((const float *)base)[at];
    return t == DTYPE_F16 ? convert_f32_of_f16(((const uint16_t *)base)[at])
                          : convert_f32_of_bf16(((const uint16_t *)base)[at]);
}

void
convert_put(void *base, enum dtype t, int64_t at, float value)
{
    if (t == DTYPE_F32)
        ((float *)base)[at] = value;
    else
        ((uint16_t *)base)[at] = t == DTYPE_F16 ? convert_f16_of_f32(value)
                                                : convert_bf16_of_f32(value);
}
