/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/embedding.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#define ITEM_ELEMS  16384
#define COLUMN_UNIT 16 /* columns are dealt out by cache lines */

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct lookup {
    const int32_t *ids;
    int64_t n_ids, n_rows, width;
    const void *from; /* w, or dy */
    void *to;         /* y, or dw */
    enum dtype t_from, t_to;
    int64_t ids_item; /* forward: ids in an item */
    float *sums;      /* backward: dw, or in the workspace */
    int64_t columns;  /* backward: of an item */
    int64_t padding;  /* backward: -1: none */
};

static int64_t
row_of(const struct lookup *k, int64_t i)
{
    assert(k->ids[i] >= 0 && k->ids[i] < k->n_rows);
    return k->ids[i];
}

/* ---- forward ------------------------------------------------------------- */

static void
forward_item(const void *ctx, int64_t item)
{
    const struct lookup *k = ctx;
    const int64_t begin = item * k->ids_item;
    const int64_t end = smaller(begin + k->ids_item, k->n_ids);

    const size_t bytes = (size_t)k->width * dtype_size_bytes(k->t_to);

    for (int64_t i = begin; i < end; i++)
        memcpy((char *)k->to + (size_t)i * bytes,
               (const char *)k->from + (size_t)row_of(k, i) * bytes, bytes);
}

static bool
forward_supports(const struct kernel_sig *sig)
{
    return sig->in[1].dtype == sig->out[0].dtype;
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct lookup k = {.ids = call->in[0],
                       .n_ids = tensor_n_elems(&sig->in[0]),
                       .n_rows = sig->in[1].dim[0],
                       .width = sig->in[1].dim[1],
                       .from = call->in[1],
                       .to = call->out[0],
                       .t_from = sig->in[1].dtype,
                       .t_to = sig->out[0].dtype};

    if (k.n_ids == 0 || k.width == 0)
        return;
    k.ids_item = k.width < ITEM_ELEMS ? ITEM_ELEMS / k.width : 1;
    parallel_run((k.n_ids + k.ids_item - 1) / k.ids_item, k.n_ids * k.width,
                 sig->threads, forward_item, &k);
}

/* ---- backward ------------------------------------------------------------ */

CPU_CLONES static void
add_floats(const float *x, int64_t n, float *sum)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static void
add_columns(const void *ctx, int64_t item)
{
    const struct lookup *k = ctx;
    const int64_t begin = item * k->columns;
    const int64_t end = smaller(begin + k->columns, k->width);
    float buf[CONVERT_BLOCK];

    for (int64_t i = 0; i < k->n_ids; i++) {
        const int64_t row = row_of(k, i);

        if (row == k->padding)
            continue;
        for (int64_t c = begin; c < end; c += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, end - c);

            add_floats(
                convert_view(k->from, k->t_from, i * k->width + c, n, buf), n,
                k->sums + row * k->width + c);
        }
    }
}

static void
clear_item(const void *ctx, int64_t item)
{
    const struct lookup *k = ctx;
    const int64_t at = item * ITEM_ELEMS;

    memset(k->sums + at, 0,
           (size_t)smaller(ITEM_ELEMS, k->n_rows * k->width - at) *
               sizeof(float));
}

static void
round_item(const void *ctx, int64_t item)
{
    const struct lookup *k = ctx;
    const int64_t at = item * ITEM_ELEMS;

    convert_from_f32((uint16_t *)k->to + at, k->t_to, k->sums + at,
                     smaller(ITEM_ELEMS, k->n_rows * k->width - at));
}

static size_t
backward_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    (void)state;
    return sig->out[0].dtype == DTYPE_F32
               ? 0
               : (size_t)tensor_n_elems(&sig->out[0]) * sizeof(float);
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const union op_params *p = &sig->params;
    struct lookup k = {.ids = call->in[1],
                       .n_ids = tensor_n_elems(&sig->in[1]),
                       .n_rows = sig->out[0].dim[0],
                       .width = sig->out[0].dim[1],
                       .from = call->in[0],
                       .to = call->out[0],
                       .t_from = sig->in[0].dtype,
                       .t_to = sig->out[0].dtype,
                       .padding = -1};
    const int64_t n = k.n_rows * k.width;
    const int64_t n_pieces = (n + ITEM_ELEMS - 1) / ITEM_ELEMS;

    if (n == 0)
        return;
    if (p->embedding.has_padding)
        k.padding = p->embedding.padding_index;
    k.sums = k.t_to == DTYPE_F32 ? call->out[0] : call->workspace;
    k.columns = (k.width + sig->threads - 1) / sig->threads;
    k.columns = (k.columns + COLUMN_UNIT - 1) / COLUMN_UNIT * COLUMN_UNIT;
    parallel_run(n_pieces, n, sig->threads, clear_item, &k);
    parallel_run((k.width + k.columns - 1) / k.columns, k.n_ids * k.width,
                 sig->threads, add_columns, &k);
    if (k.t_to != DTYPE_F32)
        parallel_run(n_pieces, n, sig->threads, round_item, &k);
}

const struct kernel embedding_forward = {.supports = forward_supports,
                                         .run = run_forward};
const struct kernel embedding_backward = {
    .workspace_bytes = backward_workspace_bytes, .run = run_backward};
