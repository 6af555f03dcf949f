/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/dropout.h"

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/keyed.h"
#include "kernels/cpu/parallel.h"

#define GROUPS (CONVERT_BLOCK / 4) /* Philox counters for a block */

struct mask_args {
    const void *x;
    void *y;
    enum dtype tx, ty;
    int64_t n;
    struct keyed key;
    struct keyed_drop drop;
};

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

        keyed_words(&a->key, (uint32_t)(at / 4), GROUPS, word);
        mask_block(word, x, y, n, a->drop.threshold, a->drop.scale);
        if (a->ty != DTYPE_F32)
            convert_from_f32((uint16_t *)a->y + at, a->ty, y, n);
    }
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct mask_args a = {
        .x = call->in[0],
        .y = call->out[0],
        .tx = sig->in[0].dtype,
        .ty = sig->out[0].dtype,
        .n = tensor_n_elems(&sig->out[0]),
        .key = keyed_make(call->step, sig->params.dropout.stream),
        .drop = keyed_drop_make(sig->params.dropout.p),
    };

    parallel_run((a.n + KERNEL_CHUNK - 1) / KERNEL_CHUNK, 4 * a.n, sig->threads,
                 run_chunk, &a);
}

const struct kernel dropout_kernel = {.run = run};
