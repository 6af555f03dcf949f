/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/keyed.h"

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define CPU_X86 1
#else
#define CPU_X86 0
#endif

#include "kernels/cpu/clones.h"
#include "kernels/philox.h"

struct keyed
keyed_make(const struct kernel_step *step, uint32_t stream)
{
    struct keyed k = {.seed = step->seed};

    k.counter[1] = stream;
    k.counter[2] = (uint32_t)step->iteration;
    k.counter[3] =
        step->micro_batch << 16 | (uint32_t)(step->iteration >> 32 & 0xffffu);
    return k;
}

/* uniform = (word >> 8) 2^-24 >= p */
struct keyed_drop
keyed_drop_make(double p)
{
    return (struct keyed_drop){.threshold = (uint32_t)ceil(p * 0x1p24),
                               .scale = p < 1 ? (float)(1 / (1 - p)) : 0};
}

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

/* philox_words() for n indices from first on. */
CPU_CLONES static void
fill_plain(const struct keyed *k, uint32_t first, int64_t n, uint32_t *word)
{
    const uint32_t k0 = (uint32_t)k->seed;
    const uint32_t k1 = (uint32_t)(k->seed >> 32);
    const uint32_t c1 = k->counter[1], c2 = k->counter[2];
    const uint32_t c3 = k->counter[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = first + (uint32_t)i, b = c1, c = c2, d = c3;

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
fill_avx512(const struct keyed *k, uint32_t first, int64_t n, uint32_t *word)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53);
    const __m512i m1 = _mm512_set1_epi64(0xCD9E8D57);
    const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);

    for (int64_t i = 0; i < n; i += 8) {
        uint32_t k0 = (uint32_t)k->seed;
        uint32_t k1 = (uint32_t)(k->seed >> 32);
        __m512i a =
            _mm512_add_epi64(_mm512_set1_epi64(first + (uint32_t)i), lane);
        __m512i b = _mm512_set1_epi64(k->counter[1]);
        __m512i c = _mm512_set1_epi64(k->counter[2]);
        __m512i d = _mm512_set1_epi64(k->counter[3]);
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

void
keyed_words(const struct keyed *k, uint32_t first, int64_t n, uint32_t *word)
{
#if CPU_X86
    if (CPU_HAS_AVX512 && n % 8 == 0) {
        fill_avx512(k, first, n, word);
        return;
    }
#endif
    fill_plain(k, first, n, word);
}
