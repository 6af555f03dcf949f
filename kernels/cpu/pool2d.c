/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/pool2d.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#define CHANNELS 256 /* worked on together */

/* ---- windows ---------------------------------------------------------------
 * Along one axis: in elements, out windows, and window i's bounds. */

struct axis {
    int64_t in, out, kernel, stride, padding;
    bool adaptive;
};

struct range {
    int64_t begin, end; /* clipped to the input */
};

static struct range
axis_window(const struct axis *a, int64_t i)
{
    struct range r;

    if (a->adaptive) /* floor(i H / n) .. ceil((i + 1) H / n) */
        return (struct range){i * a->in / a->out,
                              ((i + 1) * a->in + a->out - 1) / a->out};
    r.begin = i * a->stride - a->padding;
    r.end = r.begin + a->kernel;
    if (r.begin < 0)
        r.begin = 0;
    if (r.end > a->in)
        r.end = a->in;
    return r;
}

/* The windows that cover element h. */
static struct range
axis_covering(const struct axis *a, int64_t h)
{
    struct range r;
    int64_t over;

    if (a->adaptive) {
        r.begin = h * a->out / a->in;
        r.end = ((h + 1) * a->out + a->in - 1) / a->in;
        return r;
    }
    over = h + a->padding - a->kernel + 1; /* first that still reaches h */
    r.begin = over > 0 ? (over + a->stride - 1) / a->stride : 0;
    r.end = (h + a->padding) / a->stride + 1;
    if (r.end > a->out)
        r.end = a->out;
    return r;
}

/* Elements that a mean divides by; padding counts, but not beyond it. */
static int64_t
axis_divisor(const struct axis *a, int64_t i, bool count_padding)
{
    const struct range r = axis_window(a, i);
    int64_t begin, end;

    if (a->adaptive || !count_padding)
        return r.end - r.begin;
    begin = i * a->stride - a->padding;
    end = begin + a->kernel;
    return (end < a->in + a->padding ? end : a->in + a->padding) - begin;
}

struct pool {
    const struct kernel_call *call;
    struct axis h, w;
    int64_t images, channels;
    bool count_padding;
};

/* x: the side of the input, y: the side of the windows. */
static struct pool
pool_make(const struct kernel_call *call, const struct tensor_desc *x,
          const struct tensor_desc *y)
{
    const union op_params *params = &call->sig->params;
    const enum op op = call->sig->op;
    struct pool p = {.call = call, .images = x->dim[0], .channels = x->dim[1]};

    p.h = (struct axis){.in = x->dim[2], .out = y->dim[2]};
    p.w = (struct axis){.in = x->dim[3], .out = y->dim[3]};
    p.h.adaptive =
        op == OP_ADAPTIVE_AVG_POOL2D || op == OP_ADAPTIVE_AVG_POOL2D_BWD;
    p.w.adaptive = p.h.adaptive;
    if (!p.h.adaptive) {
        p.h.kernel = params->pool.kernel[0];
        p.h.stride = params->pool.stride[0];
        p.h.padding = params->pool.padding[0];
        p.w.kernel = params->pool.kernel[1];
        p.w.stride = params->pool.stride[1];
        p.w.padding = params->pool.padding[1];
        p.count_padding = params->pool.count_include_pad;
    }
    return p;
}

static bool
supports(const struct kernel_sig *sig)
{
    return sig->in[0].layout == TENSOR_NHWC &&
           sig->out[0].layout == TENSOR_NHWC;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- maximum -------------------------------------------------------------- */

CPU_CLONES static void
take_max(const float *x, int32_t position, int64_t n, float *max,
         int32_t *index)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        const bool take = !(x[c] <= max[c]); /* greater, or x is NaN ... */
        const bool keep = max[c] != max[c] && x[c] == x[c]; /* ... or max */

        max[c] = take && !keep ? x[c] : max[c];
        index[c] = take && !keep ? position : index[c];
    }
}

/* All windows of one row of one image; c0: first channel of n. */
static void
max_pixel(const struct pool *p, int64_t image, struct range rows,
          struct range cols, int64_t c0, int64_t n, float *max, int32_t *index)
{
    const struct kernel_call *call = p->call;
    const enum dtype tx = call->sig->in[0].dtype;

    for (int64_t c = 0; c < n; c++) {
        max[c] = -INFINITY;
        index[c] = (int32_t)(rows.begin * p->w.in + cols.begin);
    }
    for (int64_t h = rows.begin; h < rows.end; h++)
        for (int64_t w = cols.begin; w < cols.end; w++) {
            const int64_t pixel = h * p->w.in + w;
            const int64_t at =
                (image * p->h.in * p->w.in + pixel) * p->channels + c0;
            float buf[CHANNELS];

            take_max(convert_view(call->in[0], tx, at, n, buf), (int32_t)pixel,
                     n, max, index);
        }
}

/* The same for one channel, without arrays: few channels do not vectorize. */
static float
max_scalar(const struct pool *p, int64_t image, struct range rows,
           struct range cols, int64_t c, int32_t *index)
{
    const struct kernel_call *call = p->call;
    const enum dtype tx = call->sig->in[0].dtype;
    float max = -INFINITY;
    int64_t best = rows.begin * p->w.in + cols.begin;

    for (int64_t h = rows.begin; h < rows.end; h++)
        for (int64_t w = cols.begin; w < cols.end; w++) {
            const int64_t pixel = h * p->w.in + w;
            const float v = convert_get(
                call->in[0], tx,
                (image * p->h.in * p->w.in + pixel) * p->channels + c);

            if (v > max || isnan(v)) {
                max = v;
                best = pixel;
            }
        }
    *index = (int32_t)best;
    return max;
}

static void
max_row(const void *ctx, int64_t item)
{
    const struct pool *p = ctx;
    const enum dtype ty = p->call->sig->out[0].dtype;
    const int64_t image = item / p->h.out, oh = item % p->h.out;
    const struct range rows = axis_window(&p->h, oh);
    void *y = p->call->out[0];
    int32_t *index = p->call->out[1];
    float max[CHANNELS];

    for (int64_t ow = 0; ow < p->w.out; ow++) {
        const struct range cols = axis_window(&p->w, ow);
        const int64_t out = (item * p->w.out + ow) * p->channels;

        if (p->channels < 8) {
            for (int64_t c = 0; c < p->channels; c++)
                convert_put(
                    y, ty, out + c,
                    max_scalar(p, image, rows, cols, c, &index[out + c]));
            continue;
        }
        for (int64_t c = 0; c < p->channels; c += CHANNELS) {
            const int64_t n = smaller(CHANNELS, p->channels - c);

            max_pixel(p, image, rows, cols, c, n, max, &index[out + c]);
            convert_from_f32((char *)y +
                                 (size_t)(out + c) * dtype_size_bytes(ty),
                             ty, max, n);
        }
    }
}

static void
run_max(const struct kernel_call *call)
{
    const struct pool p =
        pool_make(call, &call->sig->in[0], &call->sig->out[0]);

    if (tensor_n_elems(&call->sig->out[0]) == 0)
        return;
    parallel_run(p.images * p.h.out, tensor_n_elems(&call->sig->in[0]),
                 call->sig->threads, max_row, &p);
}

/* ---- gradient of the maximum ---------------------------------------------- */

CPU_CLONES static void
add_where(const float *dy, const int32_t *index, int32_t position, int64_t n,
          float *sum)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        sum[c] += index[c] == position ? dy[c] : 0.0f;
}

/* Sums for n channels of input pixel (h, w). */
static void
max_gather(const struct pool *p, int64_t image, int64_t h, int64_t w,
           int64_t c0, int64_t n, float *sum)
{
    const struct kernel_call *call = p->call;
    const struct range rows = axis_covering(&p->h, h);
    const struct range cols = axis_covering(&p->w, w);
    const int32_t *index = call->in[1];
    const int32_t position = (int32_t)(h * p->w.in + w);

    memset(sum, 0, (size_t)n * sizeof(float));
    for (int64_t oh = rows.begin; oh < rows.end; oh++)
        for (int64_t ow = cols.begin; ow < cols.end; ow++) {
            const int64_t at =
                ((image * p->h.out + oh) * p->w.out + ow) * p->channels + c0;
            float buf[CHANNELS];

            add_where(
                convert_view(call->in[0], call->sig->in[0].dtype, at, n, buf),
                index + at, position, n, sum);
        }
}

static void
max_backward_row(const void *ctx, int64_t item)
{
    const struct pool *p = ctx;
    const enum dtype t = p->call->sig->out[0].dtype;
    const int64_t image = item / p->h.in, h = item % p->h.in;

    for (int64_t w = 0; w < p->w.in; w++)
        for (int64_t c = 0; c < p->channels; c += CHANNELS) {
            const int64_t n = smaller(CHANNELS, p->channels - c);
            const int64_t at = (item * p->w.in + w) * p->channels + c;
            float sum[CHANNELS];

            max_gather(p, image, h, w, c, n, sum);
            convert_from_f32((char *)p->call->out[0] +
                                 (size_t)at * dtype_size_bytes(t),
                             t, sum, n);
        }
}

static void
run_max_backward(const struct kernel_call *call)
{
    const struct pool p =
        pool_make(call, &call->sig->out[0], &call->sig->in[0]);

    if (tensor_n_elems(&call->sig->out[0]) == 0)
        return;
    parallel_run(p.images * p.h.in, tensor_n_elems(&call->sig->out[0]),
                 call->sig->threads, max_backward_row, &p);
}

/* ---- mean ----------------------------------------------------------------- */

CPU_CLONES static void
add_scaled(const float *x, float scale, int64_t n, float *sum)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        sum[c] += x[c] * scale;
}

CPU_CLONES static void
divide(float *sum, float divisor, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        sum[c] /= divisor;
}

static float
divisor_of(const struct pool *p, int64_t oh, int64_t ow)
{
    return (float)(axis_divisor(&p->h, oh, p->count_padding) *
                   axis_divisor(&p->w, ow, p->count_padding));
}

static void
avg_row(const void *ctx, int64_t item)
{
    const struct pool *p = ctx;
    const struct kernel_call *call = p->call;
    const enum dtype tx = call->sig->in[0].dtype, ty = call->sig->out[0].dtype;
    const int64_t image = item / p->h.out, oh = item % p->h.out;
    const struct range rows = axis_window(&p->h, oh);

    for (int64_t ow = 0; ow < p->w.out; ow++) {
        const struct range cols = axis_window(&p->w, ow);

        for (int64_t c = 0; c < p->channels; c += CHANNELS) {
            const int64_t n = smaller(CHANNELS, p->channels - c);
            const int64_t out = (item * p->w.out + ow) * p->channels + c;
            float sum[CHANNELS] = {0}, buf[CHANNELS];

            for (int64_t h = rows.begin; h < rows.end; h++)
                for (int64_t w = cols.begin; w < cols.end; w++) {
                    const int64_t pixel = (image * p->h.in + h) * p->w.in + w;

                    add_scaled(convert_view(call->in[0], tx,
                                            pixel * p->channels + c, n, buf),
                               1.0f, n, sum);
                }
            divide(sum, divisor_of(p, oh, ow), n);
            convert_from_f32((char *)call->out[0] +
                                 (size_t)out * dtype_size_bytes(ty),
                             ty, sum, n);
        }
    }
}

static void
run_avg(const struct kernel_call *call)
{
    const struct pool p =
        pool_make(call, &call->sig->in[0], &call->sig->out[0]);

    if (tensor_n_elems(&call->sig->out[0]) == 0)
        return;
    parallel_run(p.images * p.h.out, tensor_n_elems(&call->sig->in[0]),
                 call->sig->threads, avg_row, &p);
}

/* ---- gradient of the mean ------------------------------------------------- */

CPU_CLONES static void
add_divided(const float *x, float divisor, int64_t n, float *sum)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        sum[c] += x[c] / divisor;
}

static void
avg_backward_row(const void *ctx, int64_t item)
{
    const struct pool *p = ctx;
    const struct kernel_call *call = p->call;
    const enum dtype ty = call->sig->in[0].dtype, tx = call->sig->out[0].dtype;
    const int64_t image = item / p->h.in;
    const struct range rows = axis_covering(&p->h, item % p->h.in);

    for (int64_t w = 0; w < p->w.in; w++) {
        const struct range cols = axis_covering(&p->w, w);

        for (int64_t c = 0; c < p->channels; c += CHANNELS) {
            const int64_t n = smaller(CHANNELS, p->channels - c);
            const int64_t at = (item * p->w.in + w) * p->channels + c;
            float sum[CHANNELS] = {0}, buf[CHANNELS];

            for (int64_t oh = rows.begin; oh < rows.end; oh++)
                for (int64_t ow = cols.begin; ow < cols.end; ow++) {
                    const int64_t pixel =
                        (image * p->h.out + oh) * p->w.out + ow;

                    add_divided(convert_view(call->in[0], ty,
                                             pixel * p->channels + c, n, buf),
                                divisor_of(p, oh, ow), n, sum);
                }
            convert_from_f32((char *)call->out[0] +
                                 (size_t)at * dtype_size_bytes(tx),
                             tx, sum, n);
        }
    }
}

static void
run_avg_backward(const struct kernel_call *call)
{
    const struct pool p =
        pool_make(call, &call->sig->out[0], &call->sig->in[0]);

    if (tensor_n_elems(&call->sig->out[0]) == 0)
        return;
    parallel_run(p.images * p.h.in, tensor_n_elems(&call->sig->out[0]),
                 call->sig->threads, avg_backward_row, &p);
}

const struct kernel pool2d_max = {.supports = supports, .run = run_max};
const struct kernel pool2d_max_backward = {.supports = supports,
                                           .run = run_max_backward};
const struct kernel pool2d_avg = {.supports = supports, .run = run_avg};
const struct kernel pool2d_avg_backward = {.supports = supports,
                                           .run = run_avg_backward};
