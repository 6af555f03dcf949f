/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/pool.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

/* Which of the window's four elements: row x 2 + column. */
#define WHICH_ROW(which) ((which) >> 1)
#define WHICH_COL(which) ((which)&1)

static bool
is_two_by_two(const struct kernel_sig *sig, const struct tensor_desc *x,
              const struct tensor_desc *y)
{
    for (int i = 0; i < 2; i++)
        if (sig->params.pool.kernel[i] != 2 ||
            sig->params.pool.stride[i] != 2 || sig->params.pool.padding[i] != 0)
            return false;
    return x->layout == TENSOR_NHWC && y->layout == TENSOR_NHWC &&
           x->dtype == y->dtype && tensor_n_elems(y) > 0 &&
           (x->dtype == DTYPE_F32 || dtype_is_half(x->dtype));
}

/* ---- forward ------------------------------------------------------------- */

/* One row of windows. x: the upper of two rows of the image. */
struct row {
    const void *x;
    void *y;
    int32_t *index;
    int64_t channels, n_windows, width;
    int32_t first; /* position of x in the plane */
};

/* max becomes b where b is greater or NaN; the first of equals stays. */
#define TAKE_F32(b, i)                                                         \
    take = ((b) > max) | ((b) != (b));                                         \
    max = take ? (b) : max;                                                    \
    which = take ? (i) : which;

CPU_CLONES static void
row_f32(const struct row *r)
{
    const int64_t c = r->channels;
    const float *x = r->x;
    float *y = r->y;
    int32_t *index = r->index;

    for (int64_t i = 0; i < r->n_windows; i++, y += c, index += c) {
        const float *a0 = x + 2 * i * c, *a1 = a0 + c;
        const float *b0 = a0 + r->width * c, *b1 = b0 + c;
        const int32_t at = r->first + (int32_t)(2 * i);
        const int32_t width = (int32_t)r->width;

#pragma omp simd
        for (int64_t j = 0; j < c; j++) {
            float max = a0[j];
            int32_t which = 0;
            int take;

            TAKE_F32(a1[j], 1)
            TAKE_F32(b0[j], width)
            TAKE_F32(b1[j], width + 1)
            y[j] = max;
            index[j] = at + which;
        }
    }
}

/* Halves ordered as integers: negative ones mirrored, so that -0 is 0; NaN of
 * either sign above all. With best held below NAN_KEY, greater is enough for a
 * later NaN to win too. Everything is 16 bits wide, for the lanes' sake. */
#define NAN_KEY 0x7fff

static inline int16_t
key_of(uint16_t u, uint16_t inf)
{
    const int16_t size = (int16_t)(u & 0x7fff);
    const int16_t key = (int16_t)u < 0 ? (int16_t)-size : size;

    return size > (int16_t)inf ? NAN_KEY : key;
}

#define TAKE_HALF(b, i)                                                        \
    key = key_of(b, inf);                                                      \
    best = best < NAN_KEY - 1 ? best : NAN_KEY - 1;                            \
    max = key > best ? (b) : max;                                              \
    which = key > best ? (i) : which;                                          \
    best = key > best ? key : best;

CPU_CLONES static void
row_half(const struct row *r, uint16_t inf)
{
    const int64_t c = r->channels;
    const uint16_t *x = r->x;
    uint16_t *y = r->y;
    int32_t *index = r->index;

    for (int64_t i = 0; i < r->n_windows; i++, y += c, index += c) {
        const uint16_t *a0 = x + 2 * i * c, *a1 = a0 + c;
        const uint16_t *b0 = a0 + r->width * c, *b1 = b0 + c;
        const int32_t at = r->first + (int32_t)(2 * i);
        const int32_t width = (int32_t)r->width;

#pragma omp simd
        for (int64_t j = 0; j < c; j++) {
            uint16_t max = a0[j], which = 0;
            int16_t best = key_of(a0[j], inf), key;

            TAKE_HALF(a1[j], 1)
            TAKE_HALF(b0[j], 2)
            TAKE_HALF(b1[j], 3)
            y[j] = max;
            index[j] = at + WHICH_COL(which) + WHICH_ROW(which) * width;
        }
    }
}

static const void *
at_const(const void *base, int64_t at, enum dtype t)
{
    return (const char *)base + (size_t)at * dtype_size_bytes(t);
}

static void *
at_mutable(void *base, int64_t at, enum dtype t)
{
    return (char *)base + (size_t)at * dtype_size_bytes(t);
}

static uint16_t
infinity_bits(enum dtype t)
{
    return t == DTYPE_F16 ? 0x7c00 : 0x7f80;
}

/* item: a row of windows of an image. */
static void
forward_item(const void *ctx, int64_t item)
{
    const struct kernel_call *call = ctx;
    const struct tensor_desc *x = &call->sig->in[0], *y = &call->sig->out[0];
    const int64_t c = x->dim[1], width = x->dim[3];
    const int64_t image = item / y->dim[2], oh = item % y->dim[2];
    const int64_t out = item * y->dim[3] * c;
    const struct row r = {
        .x = at_const(call->in[0], (image * x->dim[2] + 2 * oh) * width * c,
                      x->dtype),
        .y = at_mutable(call->out[0], out, x->dtype),
        .index = (int32_t *)call->out[1] + out,
        .channels = c,
        .n_windows = y->dim[3],
        .width = width,
        .first = (int32_t)(2 * oh * width)};

    if (x->dtype == DTYPE_F32)
        row_f32(&r);
    else
        row_half(&r, infinity_bits(x->dtype));
}

static bool
supports_max(const struct kernel_sig *sig)
{
    return is_two_by_two(sig, &sig->in[0], &sig->out[0]);
}

static void
run_max(const struct kernel_call *call)
{
    const struct tensor_desc *y = &call->sig->out[0];

    parallel_run(y->dim[0] * y->dim[2], tensor_n_elems(&call->sig->in[0]),
                 call->sig->threads, forward_item, call);
}

const struct kernel pool_max = {.supports = supports_max, .run = run_max};

/* ---- backward: dy goes to one of four elements, the others are zero ----- */

struct gradient_row {
    const void *dy;
    const int32_t *index;
    void *dx; /* the upper of two rows */
    int64_t channels, n_windows, width;
    int32_t first;
};

#define GRADIENT_ROW(name, type)                                               \
    CPU_CLONES static void name(const struct gradient_row *r)                  \
    {                                                                          \
        const int64_t c = r->channels;                                         \
        const type *dy = r->dy;                                                \
        const int32_t *index = r->index;                                       \
        const int32_t width = (int32_t)r->width;                               \
                                                                               \
        for (int64_t i = 0; i < r->n_windows; i++, dy += c, index += c) {      \
            type *a0 = (type *)r->dx + 2 * i * c, *a1 = a0 + c;                \
            type *b0 = a0 + r->width * c, *b1 = b0 + c;                        \
            const int32_t at = r->first + (int32_t)(2 * i);                    \
                                                                               \
            _Pragma("omp simd") for (int64_t j = 0; j < c; j++)                \
            {                                                                  \
                const type d = dy[j];                                          \
                const int32_t k = index[j] - at;                               \
                                                                               \
                a0[j] = k == 0 ? d : 0;                                        \
                a1[j] = k == 1 ? d : 0;                                        \
                b0[j] = k == width ? d : 0;                                    \
                b1[j] = k == width + 1 ? d : 0;                                \
            }                                                                  \
        }                                                                      \
    }

GRADIENT_ROW(gradient_row_f32, float)
GRADIENT_ROW(gradient_row_half, uint16_t)

/* item: a row of windows, or the odd last row of the image below them. */
static void
backward_item(const void *ctx, int64_t item)
{
    const struct kernel_call *call = ctx;
    const struct tensor_desc *dy = &call->sig->in[0], *dx = &call->sig->out[0];
    const enum dtype t = dx->dtype;
    const int64_t c = dx->dim[1], height = dx->dim[2], width = dx->dim[3];
    const int64_t n_rows = (height + 1) / 2;
    const int64_t image = item / n_rows, oh = item % n_rows;
    const int64_t in = (image * dy->dim[2] + oh) * dy->dim[3] * c;
    const int64_t out = (image * height + 2 * oh) * width * c;
    const size_t pixel = (size_t)c * dtype_size_bytes(t);
    const struct gradient_row r = {.dy = at_const(call->in[0], in, t),
                                   .index = (const int32_t *)call->in[1] + in,
                                   .dx = at_mutable(call->out[0], out, t),
                                   .channels = c,
                                   .n_windows = dy->dim[3],
                                   .width = width,
                                   .first = (int32_t)(2 * oh * width)};

    if (oh == dy->dim[2]) {
        memset(r.dx, 0, (size_t)width * pixel);
        return;
    }
    if (t == DTYPE_F32)
        gradient_row_f32(&r);
    else
        gradient_row_half(&r);
    for (int row = 0; row < 2 && width % 2 == 1; row++)
        memset((char *)r.dx + (size_t)((row + 1) * width - 1) * pixel, 0,
               pixel);
}

static bool
supports_max_backward(const struct kernel_sig *sig)
{
    return is_two_by_two(sig, &sig->out[0], &sig->in[0]);
}

static void
run_max_backward(const struct kernel_call *call)
{
    const struct tensor_desc *dx = &call->sig->out[0];

    parallel_run(dx->dim[0] * ((dx->dim[2] + 1) / 2), tensor_n_elems(dx),
                 call->sig->threads, backward_item, call);
}

const struct kernel pool_max_backward = {.supports = supports_max_backward,
                                         .run = run_max_backward};
