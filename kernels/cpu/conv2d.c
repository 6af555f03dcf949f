/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/conv2d.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#define LANES     16 /* channels are padded to a multiple of this */
#define BLOCK_MAX 64 /* and worked on in blocks of at most this */

/* x (N, C, H, W) NHWC, w (O, C/g, kh, kw), y (N, O, oh, ow) NHWC. */
struct conv {
    int64_t images, c, h, w;
    int64_t o, oh, ow;
    int64_t kh, kw;
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t cg, og; /* channels of a group */

    const float *in;  /* the image that is read, as float32 */
    const float *in2; /* weight gradient: x beside dy */
    float *packed;    /* [group][block][kh][kw][n_in][width] */
    int64_t n_in;     /* channels read per group */
    int64_t n_out;    /* channels written per group */
    int64_t width;    /* of a block: 16, 32, 48 or 64 */
    const void *bias; /* or NULL */
    enum dtype t_bias, t_out;
    void *out;
};

static struct conv
conv_make(const struct kernel_sig *sig)
{
    const enum op op = sig->op;
    const union op_params *p = &sig->params;
    const struct tensor_desc *x, *w, *y;
    struct conv k;

    x = op == OP_CONV2D      ? &sig->in[0]
        : op == OP_CONV2D_DX ? &sig->out[0]
                             : &sig->in[1];
    w = op == OP_CONV2D_DW ? &sig->out[0] : &sig->in[1];
    y = op == OP_CONV2D ? &sig->out[0] : &sig->in[0];
    k = (struct conv){.images = x->dim[0],
                      .c = x->dim[1],
                      .h = x->dim[2],
                      .w = x->dim[3],
                      .o = y->dim[1],
                      .oh = y->dim[2],
                      .ow = y->dim[3],
                      .kh = w->dim[2],
                      .kw = w->dim[3],
                      .groups = p->conv.groups,
                      .t_out = sig->out[0].dtype};
    for (int i = 0; i < 2; i++) {
        k.stride[i] = p->conv.stride[i];
        k.padding[i] = p->conv.padding[i];
        k.dilation[i] = p->conv.dilation[i];
    }
    assert(k.groups >= 1 && k.c % k.groups == 0 && k.o % k.groups == 0);
    k.cg = k.c / k.groups;
    k.og = k.o / k.groups;
    k.n_in = op == OP_CONV2D ? k.cg : k.og;
    k.n_out = op == OP_CONV2D ? k.og : k.cg;
    k.width = (k.n_out + LANES - 1) / LANES * LANES;
    if (k.width > BLOCK_MAX)
        k.width = BLOCK_MAX;
    return k;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
n_blocks(const struct conv *k)
{
    return k->width > 0 ? (k->n_out + k->width - 1) / k->width : 0;
}

static int64_t
packed_elems(const struct conv *k)
{
    return k->groups * n_blocks(k) * k->kh * k->kw * k->n_in * k->width;
}

/* ---- weights as float32 blocks of neighbouring output channels ----------- */

static void
pack_weights(const struct conv *k, const void *w, enum dtype dtype,
             bool backward)
{
    float *to = k->packed;
    const int64_t taps = k->kh * k->kw;

    for (int64_t g = 0; g < k->groups; g++)
        for (int64_t b = 0; b < n_blocks(k); b++)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t i = 0; i < k->n_in; i++)
                    for (int64_t j = 0; j < k->width; j++, to++) {
                        const int64_t n = b * k->width + j;
                        /* forward: from c to o; backward: from o to c */
                        const int64_t o = backward ? i : n;
                        const int64_t c = backward ? n : i;
                        const int64_t at =
                            ((g * k->og + o) * k->cg + c) * taps + tap;

                        *to = n < k->n_out ? convert_get(w, dtype, at) : 0;
                    }
}

/* sum[0 .. width) += v[i] w[i][0 .. width) for i = 0, 1, ... */
CPU_CLONES static void
add_tap(const float *v, int64_t n, const float *w, int64_t width, float *sum)
{
    for (int64_t i = 0; i < n; i++, w += width) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++)
            sum[j] += v[i] * w[j];
    }
}

static void
store_pixel(const struct conv *k, int64_t at, int64_t channel, int64_t n,
            float *sum)
{
    if (k->bias != NULL)
        for (int64_t j = 0; j < n; j++)
            sum[j] += convert_get(k->bias, k->t_bias, channel + j);
    convert_from_f32((char *)k->out +
                         (size_t)(at + channel) * dtype_size_bytes(k->t_out),
                     k->t_out, sum, n);
}

static const float *
packed_at(const struct conv *k, int64_t g, int64_t block, int64_t i, int64_t j)
{
    return k->packed + (((g * n_blocks(k) + block) * k->kh + i) * k->kw + j) *
                           k->n_in * k->width;
}

/* ---- forward: y[o, p, q] = sum x[c, p s - pad + i d, q s - pad + j d] w -- */

static void
forward_block(const struct conv *k, int64_t image, int64_t p, int64_t q,
              int64_t g, int64_t block)
{
    const int64_t first = block * k->width;
    const int64_t y_at = ((image * k->oh + p) * k->ow + q) * k->o;
    float sum[BLOCK_MAX] = {0};

    for (int64_t i = 0; i < k->kh; i++)
        for (int64_t j = 0; j < k->kw; j++) {
            const int64_t h =
                p * k->stride[0] - k->padding[0] + i * k->dilation[0];
            const int64_t w =
                q * k->stride[1] - k->padding[1] + j * k->dilation[1];

            if (h < 0 || h >= k->h || w < 0 || w >= k->w)
                continue;
            add_tap(k->in + ((image * k->h + h) * k->w + w) * k->c + g * k->cg,
                    k->cg, packed_at(k, g, block, i, j), k->width, sum);
        }
    store_pixel(k, y_at, g * k->og + first, smaller(k->width, k->n_out - first),
                sum);
}

static void
forward_row(const void *ctx, int64_t item)
{
    const struct conv *k = ctx;

    for (int64_t q = 0; q < k->ow; q++)
        for (int64_t g = 0; g < k->groups; g++)
            for (int64_t b = 0; b < n_blocks(k); b++)
                forward_block(k, item / k->oh, item % k->oh, q, g, b);
}

/* ---- towards the input: the same taps, seen from x ----------------------- */

/* The window that reads element h through tap i, or -1. */
static int64_t
window_of(const struct conv *k, int axis, int64_t h, int64_t i, int64_t n)
{
    const int64_t at = h + k->padding[axis] - i * k->dilation[axis];

    if (at < 0 || at % k->stride[axis] != 0 || at / k->stride[axis] >= n)
        return -1;
    return at / k->stride[axis];
}

static void
input_block(const struct conv *k, int64_t image, int64_t h, int64_t w,
            int64_t g, int64_t block)
{
    const int64_t first = block * k->width;
    const int64_t x_at = ((image * k->h + h) * k->w + w) * k->c;
    float sum[BLOCK_MAX] = {0};

    for (int64_t i = 0; i < k->kh; i++)
        for (int64_t j = 0; j < k->kw; j++) {
            const int64_t p = window_of(k, 0, h, i, k->oh);
            const int64_t q = window_of(k, 1, w, j, k->ow);

            if (p < 0 || q < 0)
                continue;
            add_tap(k->in + ((image * k->oh + p) * k->ow + q) * k->o +
                        g * k->og,
                    k->og, packed_at(k, g, block, i, j), k->width, sum);
        }
    store_pixel(k, x_at, g * k->cg + first, smaller(k->width, k->n_out - first),
                sum);
}

static void
input_row(const void *ctx, int64_t item)
{
    const struct conv *k = ctx;

    for (int64_t w = 0; w < k->w; w++)
        for (int64_t g = 0; g < k->groups; g++)
            for (int64_t b = 0; b < n_blocks(k); b++)
                input_block(k, item / k->h, item % k->h, w, g, b);
}

/* ---- towards the weight: dw[o, c, i, j] = sum dy[o, p, q] x[c, ...] ------ */

#define DW_ROWS 16 /* output channels at once, against LANES input channels */

/* sum[r][.] += dy[r] x[.] over the pixels of one output row: dy and x step by
 * dy_step and x_step. */
CPU_CLONES static void
add_outer(const float *dy, int64_t dy_step, const float *x, int64_t x_step,
          int64_t n, float sum[DW_ROWS][LANES])
{
    for (int64_t q = 0; q < n; q++, dy += dy_step, x += x_step)
        for (int r = 0; r < DW_ROWS; r++) {
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                sum[r][l] += dy[r] * x[l];
        }
}

/* The same where fewer than DW_ROWS x LANES channels are left. */
static void
add_outer_edge(const float *dy, int64_t dy_step, const float *x, int64_t x_step,
               int64_t n, int64_t n_dy, int64_t n_x, float sum[DW_ROWS][LANES])
{
    for (int64_t q = 0; q < n; q++, dy += dy_step, x += x_step)
        for (int64_t r = 0; r < n_dy; r++)
            for (int64_t l = 0; l < n_x; l++)
                sum[r][l] += dy[r] * x[l];
}

/* Output positions whose tap lies inside the input: [begin, end). */
static void
inside(const struct conv *k, int axis, int64_t tap, int64_t in, int64_t out,
       int64_t *begin, int64_t *end)
{
    const int64_t s = k->stride[axis];
    const int64_t lead = k->padding[axis] - tap * k->dilation[axis];
    const int64_t last = in - 1 + lead; /* p s <= last */

    *begin = lead > 0 ? (lead + s - 1) / s : 0;
    *end = last < 0 ? 0 : smaller(last / s + 1, out);
    if (*begin > *end)
        *begin = *end;
}

/* One tap for DW_ROWS x LANES channels of group g: o from o0, c from c0. */
static void
weight_tile(const struct conv *k, int64_t g, int64_t i, int64_t j, int64_t o0,
            int64_t c0)
{
    const int64_t n_o = smaller(DW_ROWS, k->og - o0);
    const int64_t n_c = smaller(LANES, k->cg - c0);
    int64_t p0, p1, q0, q1;
    double total[DW_ROWS][LANES] = {{0}};

    inside(k, 0, i, k->h, k->oh, &p0, &p1);
    inside(k, 1, j, k->w, k->ow, &q0, &q1);
    for (int64_t image = 0; image < k->images; image++) {
        float sum[DW_ROWS][LANES] = {{0}};

        for (int64_t p = p0; p < p1 && q0 < q1; p++) {
            const int64_t h =
                p * k->stride[0] - k->padding[0] + i * k->dilation[0];
            const int64_t w =
                q0 * k->stride[1] - k->padding[1] + j * k->dilation[1];
            const float *dy = k->in +
                              ((image * k->oh + p) * k->ow + q0) * k->o +
                              g * k->og + o0;
            const float *x = k->in2 + ((image * k->h + h) * k->w + w) * k->c +
                             g * k->cg + c0;

            if (n_o == DW_ROWS && n_c == LANES)
                add_outer(dy, k->o, x, k->stride[1] * k->c, q1 - q0, sum);
            else
                add_outer_edge(dy, k->o, x, k->stride[1] * k->c, q1 - q0, n_o,
                               n_c, sum);
        }
        for (int r = 0; r < DW_ROWS; r++)
            for (int l = 0; l < LANES; l++)
                total[r][l] += (double)sum[r][l];
    }
    for (int64_t r = 0; r < n_o; r++)
        for (int64_t l = 0; l < n_c; l++)
            convert_put(k->out, k->t_out,
                        (((g * k->og + o0 + r) * k->cg + c0 + l) * k->kh + i) *
                                k->kw +
                            j,
                        (float)total[r][l]);
}

/* One (group, tap). */
static void
weight_item(const void *ctx, int64_t item)
{
    const struct conv *k = ctx;
    const int64_t taps = k->kh * k->kw;
    const int64_t g = item / taps, tap = item % taps;

    for (int64_t o = 0; o < k->og; o += DW_ROWS)
        for (int64_t c = 0; c < k->cg; c += LANES)
            weight_tile(k, g, tap / k->kw, tap % k->kw, o, c);
}

/* ---- workspace and entry ------------------------------------------------- */

static bool
supports(const struct kernel_sig *sig)
{
    const bool dw = sig->op == OP_CONV2D_DW;

    return sig->in[0].layout == TENSOR_NHWC &&
           sig->in[1].layout == (dw ? TENSOR_NHWC : TENSOR_ROW) &&
           sig->out[0].layout == (dw ? TENSOR_ROW : TENSOR_NHWC);
}

static int64_t
image_elems(const struct tensor_desc *t)
{
    return t->dtype == DTYPE_F32 ? 0 : tensor_n_elems(t);
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct conv k = conv_make(sig);

    (void)state;
    if (sig->op == OP_CONV2D_DW)
        return (size_t)(image_elems(&sig->in[0]) + image_elems(&sig->in[1])) *
               sizeof(float);
    return (size_t)(image_elems(&sig->in[0]) + packed_elems(&k)) *
           sizeof(float);
}

struct image {
    const void *from;
    float *to;
    enum dtype dtype;
    int64_t n;
};

static void
convert_chunk(const void *ctx, int64_t item)
{
    const struct image *m = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    convert_to_f32(m->to + at, (const uint16_t *)m->from + at, m->dtype,
                   smaller(KERNEL_CHUNK, m->n - at));
}

/* Input `in` as float32; *ws moves past what that takes. */
static const float *
as_f32(const struct kernel_call *call, int in, float **ws)
{
    const struct tensor_desc *t = &call->sig->in[in];
    const struct image m = {call->in[in], *ws, t->dtype, tensor_n_elems(t)};

    if (t->dtype == DTYPE_F32)
        return call->in[in];
    *ws += m.n;
    parallel_run((m.n + KERNEL_CHUNK - 1) / KERNEL_CHUNK, m.n,
                 call->sig->threads, convert_chunk, &m);
    return m.to;
}

static void
run_image(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const bool backward = sig->op == OP_CONV2D_DX;
    struct conv k = conv_make(sig);
    float *ws = call->workspace;
    const int64_t work =
        tensor_n_elems(&sig->out[0]) * (k.n_in * k.kh * k.kw / 8 + 1);

    if (tensor_n_elems(&sig->out[0]) == 0)
        return;
    k.packed = ws;
    ws += packed_elems(&k);
    pack_weights(&k, call->in[1], sig->in[1].dtype, backward);
    k.in = as_f32(call, 0, &ws);
    k.out = call->out[0];
    if (!backward) {
        k.bias = call->in[2];
        k.t_bias = sig->in[2].dtype;
    }
    parallel_run(k.images * (backward ? k.h : k.oh), work, sig->threads,
                 backward ? input_row : forward_row, &k);
}

static void
run_weight(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct conv k = conv_make(sig);
    float *ws = call->workspace;

    if (tensor_n_elems(&sig->out[0]) == 0)
        return;
    k.in = as_f32(call, 0, &ws);
    k.in2 = as_f32(call, 1, &ws);
    k.out = call->out[0];
    parallel_run(k.groups * k.kh * k.kw,
                 tensor_n_elems(&sig->in[0]) * k.cg * k.kh * k.kw / 8,
                 sig->threads, weight_item, &k);
}

const struct kernel conv2d_forward = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run_image};
const struct kernel conv2d_backward_input = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run_image};
const struct kernel conv2d_backward_weight = {.supports = supports,
                                              .workspace_bytes =
                                                  workspace_bytes,
                                              .run = run_weight};
