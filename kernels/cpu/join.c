/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/join.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/parallel.h"

#define ITEM_BYTES 65536 /* about so much makes an item */

/* t as outer x length x inner around an axis, in memory order. */
struct along {
    int64_t outer, length, inner;
};

static struct along
along_axis(const struct tensor_desc *t, int axis)
{
    struct along a;

    tensor_split_axis(t, axis, &a.outer, &a.length, &a.inner);
    return a;
}

/* ---- blocks of rows ------------------------------------------------------ */

/* n rows of width bytes, each so many bytes after the one before; src NULL:
 * zeros. */
struct block {
    const char *src;
    char *dst;
    int64_t n, width, src_step, dst_step;
    int64_t rows_item; /* rows in an item; 0: an item is a piece of a row */
    int64_t n_pieces;  /* of a row */
};

static void
fill(const struct block *b, int64_t row, int64_t at, int64_t width)
{
    char *dst = b->dst + row * b->dst_step + at;

    if (b->src == NULL)
        memset(dst, 0, (size_t)width);
    else
        memcpy(dst, b->src + row * b->src_step + at, (size_t)width);
}

static void
move_item(const void *ctx, int64_t item)
{
    const struct block *b = ctx;

    if (b->rows_item > 0) {
        const int64_t begin = item * b->rows_item;

        for (int64_t i = begin; i < begin + b->rows_item && i < b->n; i++)
            fill(b, i, 0, b->width);
    } else {
        const int64_t at = item % b->n_pieces * ITEM_BYTES;
        const int64_t left = b->width - at;

        fill(b, item / b->n_pieces, at, left < ITEM_BYTES ? left : ITEM_BYTES);
    }
}

static void
move_block(struct block b, int threads)
{
    int64_t n_items;

    b.rows_item = ITEM_BYTES / b.width;
    b.n_pieces = (b.width + ITEM_BYTES - 1) / ITEM_BYTES;
    n_items = b.rows_item > 0 ? (b.n + b.rows_item - 1) / b.rows_item
                              : b.n * b.n_pieces;
    parallel_run(n_items, b.n * b.width / (int64_t)sizeof(float), threads,
                 move_item, &b);
}

/* `length` entries along the axis: from entry `from` of src, whose axis has
 * src_length of them (src NULL: zeros), to entry `to` of output 0. */
struct part {
    const void *src;
    int64_t src_length, from, to, length;
};

static void
move_part(const struct kernel_call *call, const struct along *out,
          const struct part *part)
{
    const int64_t entry =
        out->inner * (int64_t)dtype_size_bytes(call->sig->out[0].dtype);
    struct block b = {
        .dst = (char *)call->out[0] + part->to * entry,
        .n = out->outer,
        .width = part->length * entry,
        .src_step = part->src_length * entry,
        .dst_step = out->length * entry,
    };

    if (b.n == 0 || b.width == 0)
        return;
    if (part->src != NULL)
        b.src = (const char *)part->src + part->from * entry;
    move_block(b, call->sig->threads);
}

/* ---- NARROW -------------------------------------------------------------- */

static bool
supports_one(const struct kernel_sig *sig)
{
    return sig->in[0].dtype == sig->out[0].dtype &&
           sig->in[0].layout == sig->out[0].layout;
}

static void
run_narrow(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int64_t start = sig->params.axis.start;
    const struct along x = along_axis(&sig->in[0], sig->params.axis.axis);
    const struct along y = along_axis(&sig->out[0], sig->params.axis.axis);

    assert(start >= 0 && start + y.length <= x.length);
    move_part(call, &y,
              &(struct part){call->in[0], x.length, start, 0, y.length});
}

static void
run_narrow_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int64_t start = sig->params.axis.start;
    const struct along dy = along_axis(&sig->in[0], sig->params.axis.axis);
    const struct along dx = along_axis(&sig->out[0], sig->params.axis.axis);
    const int64_t end = start + dy.length;

    assert(start >= 0 && end <= dx.length);
    move_part(call, &dx, &(struct part){.to = 0, .length = start});
    move_part(call, &dx,
              &(struct part){call->in[0], dy.length, 0, start, dy.length});
    move_part(call, &dx, &(struct part){.to = end, .length = dx.length - end});
}

/* ---- CAT, STACK ----------------------------------------------------------- */

static bool
supports_all(const struct kernel_sig *sig)
{
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].dtype != DTYPE_NONE &&
            (sig->in[i].dtype != sig->out[0].dtype ||
             sig->in[i].layout != sig->out[0].layout))
            return false;
    return true;
}

static bool
supports_stack(const struct kernel_sig *sig)
{
    return supports_all(sig) && sig->out[0].layout == TENSOR_ROW;
}

static void
run_join(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int axis = sig->params.axis.axis;
    const struct along y = along_axis(&sig->out[0], axis);
    int64_t at = 0;

    for (int i = 0; i < sig->n_in; i++) {
        struct along x = {y.outer, 1, y.inner}; /* STACK: one entry each */

        if (sig->in[i].dtype == DTYPE_NONE)
            continue;
        if (sig->op == OP_CAT)
            x = along_axis(&sig->in[i], axis);
        assert(x.outer == y.outer && x.inner == y.inner);
        move_part(call, &y,
                  &(struct part){call->in[i], x.length, 0, at, x.length});
        at += x.length;
    }
    assert(at == y.length);
}

static bool
supports_stack_backward(const struct kernel_sig *sig)
{
    return supports_one(sig) && sig->in[0].layout == TENSOR_ROW;
}

static void
run_stack_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int64_t entry = sig->params.axis.start;
    const struct along dy = along_axis(&sig->in[0], sig->params.axis.axis);
    const struct along dx = {dy.outer, 1, dy.inner};

    assert(entry >= 0 && entry < dy.length);
    move_part(call, &dx, &(struct part){call->in[0], dy.length, entry, 0, 1});
}

const struct kernel join_narrow = {.supports = supports_one, .run = run_narrow};
const struct kernel join_narrow_backward = {.supports = supports_one,
                                            .run = run_narrow_backward};
const struct kernel join_cat = {.supports = supports_all, .run = run_join};
const struct kernel join_stack = {.supports = supports_stack, .run = run_join};
const struct kernel join_stack_backward = {.supports = supports_stack_backward,
                                           .run = run_stack_backward};
