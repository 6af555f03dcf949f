/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/tile.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define TILE_X86 1
#else
#define TILE_X86 0
#endif

#include "kernels/cpu/clones.h"

/* ---- plain --------------------------------------------------------------- */

CPU_CLONES static void
multiply_plain(const struct tile_factor *a, const float *b, int64_t b_row,
               int64_t k, float *c, int64_t c_row, bool add)
{
    float sum[TILE_ROWS][TILE_COLS] = {{0}};

    for (int i = 0; add && i < TILE_ROWS; i++)
        memcpy(sum[i], c + i * c_row, sizeof(sum[i]));
    for (int64_t j = 0; j < k; j++, b += b_row)
        for (int i = 0; i < TILE_ROWS; i++) {
            const float v = a->data[i * a->row + j * a->col];

#pragma omp simd
            for (int n = 0; n < TILE_COLS; n++)
                sum[i][n] += v * b[n];
        }
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy(c + i * c_row, sum[i], sizeof(sum[i]));
}

static void
transpose_plain(float *to, const float *from, int64_t from_row, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        for (int i = 0; i < TILE_COLS; i++)
            to[j * TILE_COLS + i] = from[i * from_row + j];
}

/* ---- by hand: sixteen sums in registers ---------------------------------- */

#if TILE_X86
#define AVX512 __attribute__((target("avx512f")))

AVX512 static void
multiply_avx512(const struct tile_factor *a, const float *b, int64_t b_row,
                int64_t k, float *c, int64_t c_row, bool add)
{
    const float *at = a->data;
    const int64_t row = a->row, col = a->col;
    __m512 sum[TILE_ROWS][2];

#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++) {
        sum[i][0] = add ? _mm512_loadu_ps(c + i * c_row) : _mm512_setzero_ps();
        sum[i][1] =
            add ? _mm512_loadu_ps(c + i * c_row + 16) : _mm512_setzero_ps();
    }
    for (int64_t j = 0; j < k; j++, b += b_row, at += col) {
        const __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);

#pragma GCC unroll 8
        for (int i = 0; i < TILE_ROWS; i++) {
            const __m512 v = _mm512_set1_ps(at[i * row]);

            sum[i][0] = _mm512_fmadd_ps(v, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(v, b1, sum[i][1]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++) {
        _mm512_storeu_ps(c + i * c_row, sum[i][0]);
        _mm512_storeu_ps(c + i * c_row + 16, sum[i][1]);
    }
}

/* 16 x 16: pairs, then fours, then blocks of 4 x 4 change places. */
AVX512 static void
transpose_16(float *to, const float *from, int64_t from_row, int64_t n)
{
    __m512 r[16], s[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_ps(from + i * from_row);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    /* r[4 g + c]: column c of each block of four columns, rows 4 g .. + 3. */
#pragma GCC unroll 4
    for (int g = 0; g < 16; g += 4) {
        const __m512d s0 = _mm512_castps_pd(s[g]);
        const __m512d s1 = _mm512_castps_pd(s[g + 1]);
        const __m512d s2 = _mm512_castps_pd(s[g + 2]);
        const __m512d s3 = _mm512_castps_pd(s[g + 3]);

        r[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(s0, s2));
        r[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(s0, s2));
        r[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(s1, s3));
        r[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(s1, s3));
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const __m512 lo0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
        const __m512 hi0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
        const __m512 lo1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
        const __m512 hi1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);

        s[c] = _mm512_shuffle_f32x4(lo0, lo1, 0x88);
        s[8 + c] = _mm512_shuffle_f32x4(lo0, lo1, 0xdd);
        s[4 + c] = _mm512_shuffle_f32x4(hi0, hi1, 0x88);
        s[12 + c] = _mm512_shuffle_f32x4(hi0, hi1, 0xdd);
    }
    for (int64_t j = 0; j < n; j++)
        _mm512_storeu_ps(to + j * TILE_COLS, s[j]);
}
#endif

/* ---- by machine ---------------------------------------------------------- */

void
tile_multiply(const struct tile_factor *a, const float *b, int64_t b_row,
              int64_t k, float *c, int64_t c_row, bool add)
{
#if TILE_X86
    if (CPU_HAS_AVX512) {
        multiply_avx512(a, b, b_row, k, c, c_row, add);
        return;
    }
#endif
    multiply_plain(a, b, b_row, k, c, c_row, add);
}

void
tile_transpose(float *to, const float *from, int64_t from_row, int64_t n)
{
#if TILE_X86
    if (CPU_HAS_AVX512) {
        for (int64_t j = 0; j < n; j += 16)
            for (int i = 0; i < TILE_COLS; i += 16)
                transpose_16(to + j * TILE_COLS + i, from + i * from_row + j,
                             from_row, n - j < 16 ? n - j : 16);
        return;
    }
#endif
    transpose_plain(to, from, from_row, n);
}
