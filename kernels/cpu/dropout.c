/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/dropout.h"

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define CPU_X86 1
#else
#define CPU_X86 0
#endif

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/philox.h"

#define GROUPS (CONVERT_BLOCK / 4) /* Philox counters for a block */

struct mask_args {
    const void *x;
    void *y;
    enum dtype tx, ty;
    int64_t n;
    uint32_t counter[4]; /* [0]: see philox_words(), set per block */
    uint64_t seed;
    uint32_t threshold; /* kept when the upper 24 bits are >= it */
    float scale;        /* 1 / (1 - p) */
};

/* One round of Philox4x32 on a, b, c, d: philox_round(), in registers. */
#define ROUND(r)                                                               \
    do {                                                                       \
        const uint64_t p0 = (uint64_t)0xD2511F53u * a;                         \
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c;                         \
                                                                               \
        a = (uint32_t)(p1 >> 32) ^ b ^ (k0 + (r)*0x9E3779B9u);                 \
        b = (uint32_t)p1;                                                      \
        c = (uint32_t)(p0 >> 32) ^ d ^ (k1 + (r)*0xBB67AE85u);                 \
        d = (uint32_t)p0;                                                      \
    } while (0)

/* philox_words() for GROUPS indices from first on. */
CPU_CLONES static void
fill_words_plain(uint32_t *word, const struct mask_args *args, uint32_t first)
{
    const uint32_t k0 = (uint32_t)args->seed;
    const uint32_t k1 = (uint32_t)(args->seed >> 32);
    const uint32_t c1 = args->counter[1], c2 = args->counter[2];
    const uint32_t c3 = args->counter[3];

#pragma omp simd
    for (uint32_t i = 0; i < GROUPS; i++) {
        uint32_t a = first + i, b = c1, c = c2, d = c3;

        ROUND(0u);
        ROUND(1u);
        ROUND(2u);
        ROUND(3u);
        ROUND(4u);
        ROUND(5u);
        ROUND(6u);
        ROUND(7u);
        ROUND(8u);
        ROUND(9u);
        word[4 * i + 0] = a;
        word[4 * i + 1] = b;
        word[4 * i + 2] = c;
        word[4 * i + 3] = d;
    }
}

#if CPU_X86
/* What the compiler does not find: vpmuludq multiplies the low halves of 64-bit
 * lanes, so the words may carry anything above. */
__attribute__((target("avx512f"))) static void
fill_words_avx512(uint32_t *word, const struct mask_args *args, uint32_t first)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53);
    const __m512i m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);

    for (uint32_t i = 0; i < GROUPS; i += 8) {
        uint32_t k0 = (uint32_t)args->seed;
        uint32_t k1 = (uint32_t)(args->seed >> 32);
        __m512i a = _mm512_add_epi64(_mm512_set1_epi64(first + i), lane);
        __m512i b = _mm512_set1_epi64(args->counter[1]);
        __m512i c = _mm512_set1_epi64(args->counter[2]);
        __m512i d = _mm512_set1_epi64(args->counter[3]);
        __m512i ab, cd;

        for (int round = 0; round < 10; round++) {
            const __m512i p0 = _mm512_mul_epu32(a, m0);
            const __m512i p1 = _mm512_mul_epu32(c, m1);

            a = _mm512_xor_si512(_mm512_srli_epi64(p1, 32), b);
            a = _mm512_xor_si512(a, _mm512_set1_epi64(k0));
            c = _mm512_xor_si512(_mm512_srli_epi64(p0, 32), d);
            c = _mm512_xor_si512(c, _mm512_set1_epi64(k1));
            b = p1;
            d = p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        /* {a0 b0, a1 b1, ...} and {c0 d0, ...} to {a0 b0 c0 d0, ...} */
        ab = _mm512_mask_blend_epi32(0xaaaa, a, _mm512_slli_epi64(b, 32));
        cd = _mm512_mask_blend_epi32(0xaaaa, c, _mm512_slli_epi64(d, 32));
        _mm512_storeu_si512(
            word + 4 * i,
            _mm512_permutex2var_epi64(
                ab, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), cd));
        _mm512_storeu_si512(
            word + 4 * i + 16,
            _mm512_permutex2var_epi64(
                ab, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), cd));
    }
}
#endif

static void
fill_words(uint32_t *word, const struct mask_args *args, uint32_t first)
{
#if CPU_X86
    if (CPU_HAS_AVX512) {
        fill_words_avx512(word, args, first);
        return;
    }
#endif
    fill_words_plain(word, args, first);
}

CPU_CLONES static void
mask_block(const uint32_t *word, const float *x, float *y, int64_t n,
           uint32_t threshold, float scale)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] * scale;

        y[i] = word[i] >> 8 >= threshold ? v : 0.0f;
    }
}

static void
run_chunk(const void *ctx, int64_t item)
{
    const struct mask_args *a = ctx;
    const int64_t begin = item * KERNEL_CHUNK;
    const int64_t end =
        begin + KERNEL_CHUNK < a->n ? begin + KERNEL_CHUNK : a->n;

    for (int64_t at = begin; at < end; at += CONVERT_BLOCK) {
        const int64_t n = end - at < CONVERT_BLOCK ? end - at : CONVERT_BLOCK;
        float x_buf[CONVERT_BLOCK], y_buf[CONVERT_BLOCK];
        const float *x = convert_view(a->x, a->tx, at, n, x_buf);
        float *y = a->ty == DTYPE_F32 ? (float *)a->y + at : y_buf;
        uint32_t word[CONVERT_BLOCK];

        fill_words(word, a, (uint32_t)(at / 4));
        mask_block(word, x, y, n, a->threshold, a->scale);
        if (a->ty != DTYPE_F32)
            convert_from_f32((uint16_t *)a->y + at, a->ty, y, n);
    }
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const double p = sig->params.dropout.p;
    struct mask_args a = {
        .x = call->in[0],
        .y = call->out[0],
        .tx = sig->in[0].dtype,
        .ty = sig->out[0].dtype,
        .n = tensor_n_elems(&sig->out[0]),
        .seed = call->step->seed,
        /* uniform = (word >> 8) 2^-24 >= p */
        .threshold = (uint32_t)ceil(p * 0x1p24),
        .scale = p < 1 ? (float)(1 / (1 - p)) : 0,
    };
    const uint64_t iteration = call->step->iteration;

    a.counter[1] = sig->params.dropout.stream;
    a.counter[2] = (uint32_t)iteration;
    a.counter[3] =
        call->step->micro_batch << 16 | (uint32_t)(iteration >> 32 & 0xffffu);
    parallel_run((a.n + KERNEL_CHUNK - 1) / KERNEL_CHUNK, 4 * a.n, sig->threads,
                 run_chunk, &a);
}

const struct kernel dropout_kernel = {.run = run};
