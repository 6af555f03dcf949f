/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/dropout.h"

#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/philox.h"

#define GROUPS (CONVERT_BLOCK / 4) /* Philox blocks in a block of elements */

struct words {
    uint32_t word[4][GROUPS]; /* word j of block first + i at [j][i] */
};

struct mask_args {
    const void *x;
    void *y;
    enum dtype tx, ty;
    int64_t n;
    uint32_t counter[4]; /* [0]: see philox_words(), set per block */
    uint64_t seed;
    uint32_t threshold; /* kept when the upper 24 bits are >= it */
    double scale;       /* 1 / (1 - p) */
};

/* Philox4x32-10 as kernels/philox.h, for GROUPS counters side by side. */
CPU_CLONES static void
fill_words(struct words *w, const struct mask_args *a, uint32_t first)
{
    uint32_t *c0 = w->word[0], *c1 = w->word[1], *c2 = w->word[2],
             *c3 = w->word[3];
    uint32_t k0 = (uint32_t)a->seed, k1 = (uint32_t)(a->seed >> 32);

    for (int i = 0; i < GROUPS; i++) {
        c0[i] = first + (uint32_t)i;
        c1[i] = a->counter[1];
        c2[i] = a->counter[2];
        c3[i] = a->counter[3];
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < GROUPS; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];

            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

CPU_CLONES static void
mask_block(const struct words *w, const float *x, float *y, int64_t n,
           uint32_t threshold, double scale)
{
    uint32_t word[CONVERT_BLOCK];

#pragma omp simd
    for (int i = 0; i < GROUPS; i++) {
        word[4 * i + 0] = w->word[0][i];
        word[4 * i + 1] = w->word[1][i];
        word[4 * i + 2] = w->word[2][i];
        word[4 * i + 3] = w->word[3][i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)((double)x[i] * scale);

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
        struct words w;

        fill_words(&w, a, (uint32_t)(at / 4));
        mask_block(&w, x, y, n, a->threshold, a->scale);
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
        .scale = p < 1 ? 1 / (1 - p) : 0,
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
