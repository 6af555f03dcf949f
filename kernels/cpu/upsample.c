/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/upsample.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

/* ---- positions along one axis --------------------------------------------- */

/* Output i reads entries at[0][i] and at[1][i] of the input with weights
 * weight[0][i] and weight[1][i]; nearest: the first alone. The same seen from
 * input j: outputs reader[start[j]] .. reader[start[j + 1] - 1], in order, with
 * weights share[]. */
struct axis {
    int64_t in, out;
    int32_t *at[2];
    float *weight[2];
    int32_t *start, *reader; /* backward */
    float *share;
};

static size_t
axis_bytes(int64_t in, int64_t out)
{
    return (size_t)(8 * out + in + 1) * 4;
}

static void *
axis_layout(struct axis *a, char *at)
{
    for (int i = 0; i < 2; i++) {
        a->at[i] = (int32_t *)(void *)at;
        at += a->out * 4;
        a->weight[i] = (float *)(void *)at;
        at += a->out * 4;
    }
    a->reader = (int32_t *)(void *)at;
    a->share = (float *)(void *)(at + 2 * a->out * 4);
    a->start = (int32_t *)(void *)(at + 4 * a->out * 4);
    return a->start + a->in + 1;
}

static float
scale_of(const struct axis *a, bool align_corners)
{
    if (!align_corners)
        return (float)a->in / (float)a->out;
    return a->out > 1 ? (float)(a->in - 1) / (float)(a->out - 1) : 0;
}

static void
set_nearest(const struct axis *a)
{
    const float scale = scale_of(a, false);

    for (int64_t i = 0; i < a->out; i++) {
        const int64_t at = (int64_t)floorf((float)i * scale);

        a->at[0][i] = a->at[1][i] = (int32_t)(at < a->in ? at : a->in - 1);
        a->weight[0][i] = 1;
        a->weight[1][i] = 0;
    }
}

static void
set_linear(const struct axis *a, bool align_corners)
{
    const float scale = scale_of(a, align_corners);

    for (int64_t i = 0; i < a->out; i++) {
        float where, part;
        int64_t at;

        where =
            align_corners ? scale * (float)i : scale * ((float)i + 0.5f) - 0.5f;
        where = where < 0 ? 0 : where;
        at = (int64_t)floorf(where);
        if (at > a->in - 1)
            at = a->in - 1;
        part = where - (float)at;
        part = part > 1 ? 1 : part;
        if (a->in == a->out) { /* a copy, whatever rounding says */
            at = i;
            part = 0;
        }
        a->at[0][i] = (int32_t)at;
        a->at[1][i] =
            (int32_t)(at + (a->in != a->out && at < a->in - 1 ? 1 : 0));
        a->weight[1][i] = part;
        a->weight[0][i] = 1 - part;
    }
}

static void
set_readers(const struct axis *a, int n_taps)
{
    int32_t *next = a->start + 1; /* of j: where its next reader goes */

    memset(a->start, 0, (size_t)(a->in + 1) * sizeof(*a->start));
    for (int64_t i = 0; i < a->out; i++)
        for (int s = 0; s < n_taps; s++)
            if (a->at[s][i] + 1 < a->in)
                next[a->at[s][i] + 1]++;
    for (int64_t j = 1; j < a->in; j++)
        next[j] += next[j - 1];
    for (int64_t i = 0; i < a->out; i++)
        for (int s = 0; s < n_taps; s++) {
            const int32_t to = next[a->at[s][i]]++;

            a->reader[to] = (int32_t)i;
            a->share[to] = a->weight[s][i];
        }
}

/* ---- one call ------------------------------------------------------------ */

struct sampling {
    const struct kernel_call *call;
    struct axis h, w;
    int64_t images, channels;
    int n_taps; /* along an axis: nearest 1, bilinear 2 */
};

static bool
is_backward(const struct kernel_sig *sig)
{
    return sig->op == OP_UPSAMPLE_BWD;
}

static struct sampling
sampling_make(const struct kernel_sig *sig)
{
    const bool backward = is_backward(sig);
    const struct tensor_desc *x = backward ? &sig->out[0] : &sig->in[0];
    const struct tensor_desc *y = backward ? &sig->in[0] : &sig->out[0];
    const bool nearest = sig->params.upsample.mode == OP_UPSAMPLE_NEAREST;

    return (struct sampling){.h = {.in = x->dim[2], .out = y->dim[2]},
                             .w = {.in = x->dim[3], .out = y->dim[3]},
                             .images = x->dim[0],
                             .channels = x->dim[1],
                             .n_taps = nearest ? 1 : 2};
}

static bool
supports(const struct kernel_sig *sig)
{
    return sig->in[0].rank == 4 && sig->out[0].rank == 4 &&
           sig->in[0].layout == TENSOR_NHWC &&
           sig->out[0].layout == TENSOR_NHWC;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct sampling k = sampling_make(sig);

    (void)state;
    return axis_bytes(k.h.in, k.h.out) + axis_bytes(k.w.in, k.w.out);
}

static void
set_axes(struct sampling *k)
{
    const union op_params *p = &k->call->sig->params;

    axis_layout(&k->w, axis_layout(&k->h, k->call->workspace));
    if (k->n_taps == 1) {
        set_nearest(&k->h);
        set_nearest(&k->w);
    } else {
        set_linear(&k->h, p->upsample.align_corners);
        set_linear(&k->w, p->upsample.align_corners);
    }
    if (is_backward(k->call->sig)) {
        set_readers(&k->h, k->n_taps);
        set_readers(&k->w, k->n_taps);
    }
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const float *
view(const struct sampling *k, int64_t at, int64_t n, float *buf)
{
    return convert_view(k->call->in[0], k->call->sig->in[0].dtype, at, n, buf);
}

static void
store(const struct sampling *k, int64_t at, const float *v, int64_t n)
{
    const enum dtype type = k->call->sig->out[0].dtype;

    convert_from_f32((char *)k->call->out[0] +
                         (size_t)at * dtype_size_bytes(type),
                     type, v, n);
}

/* sum += weight x */
CPU_CLONES static void
add_scaled(const float *x, float weight, int64_t n, float *sum)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += weight * x[i];
}

CPU_CLONES static void
mix_four(const float *const x[4], const float weight[4], int64_t n, float *y)
{
    const float *a = x[0], *b = x[1], *c = x[2], *d = x[3];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = weight[0] * a[i] + weight[1] * b[i] + weight[2] * c[i] +
               weight[3] * d[i];
}

/* ---- forward: one row of output pixels ------------------------------------ */

static void
forward_block(const struct sampling *k, int64_t image, int64_t p, int64_t q,
              int64_t c)
{
    const int64_t n = smaller(CONVERT_BLOCK, k->channels - c);
    const int64_t to = ((image * k->h.out + p) * k->w.out + q) * k->channels;
    float buf[4][CONVERT_BLOCK], y[CONVERT_BLOCK], weight[4];
    const float *x[4];

    for (int i = 0; i < k->n_taps; i++)
        for (int j = 0; j < k->n_taps; j++) {
            const int64_t at =
                (image * k->h.in + k->h.at[i][p]) * k->w.in + k->w.at[j][q];

            x[2 * i + j] = view(k, at * k->channels + c, n, buf[2 * i + j]);
            weight[2 * i + j] = k->h.weight[i][p] * k->w.weight[j][q];
        }
    if (k->n_taps == 2)
        mix_four(x, weight, n, y);
    store(k, to + c, k->n_taps == 2 ? y : x[0], n);
}

static void
forward_row(const void *ctx, int64_t item)
{
    const struct sampling *k = ctx;

    for (int64_t q = 0; q < k->w.out; q++)
        for (int64_t c = 0; c < k->channels; c += CONVERT_BLOCK)
            forward_block(k, item / k->h.out, item % k->h.out, q, c);
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct sampling k = sampling_make(sig);

    if (tensor_n_elems(&sig->in[0]) == 0 || tensor_n_elems(&sig->out[0]) == 0) {
        memset(call->out[0], 0, tensor_n_bytes(&sig->out[0]));
        return;
    }
    k.call = call;
    set_axes(&k);
    parallel_run(k.images * k.h.out, tensor_n_elems(&sig->out[0]), sig->threads,
                 forward_row, &k);
}

/* ---- backward: one row of input pixels ------------------------------------- */

/* Where both taps of an output are the same input, at the edge, both count. */
static void
backward_block(const struct sampling *k, int64_t image, const int64_t hw[2],
               int64_t c)
{
    const int64_t n = smaller(CONVERT_BLOCK, k->channels - c);
    const int64_t to =
        ((image * k->h.in + hw[0]) * k->w.in + hw[1]) * k->channels;
    float sum[CONVERT_BLOCK], buf[CONVERT_BLOCK];

    memset(sum, 0, (size_t)n * sizeof(float));
    for (int32_t i = k->h.start[hw[0]]; i < k->h.start[hw[0] + 1]; i++)
        for (int32_t j = k->w.start[hw[1]]; j < k->w.start[hw[1] + 1]; j++) {
            const int64_t from =
                ((image * k->h.out + k->h.reader[i]) * k->w.out +
                 k->w.reader[j]) *
                k->channels;

            add_scaled(view(k, from + c, n, buf), k->h.share[i] * k->w.share[j],
                       n, sum);
        }
    store(k, to + c, sum, n);
}

static void
backward_row(const void *ctx, int64_t item)
{
    const struct sampling *k = ctx;

    for (int64_t w = 0; w < k->w.in; w++)
        for (int64_t c = 0; c < k->channels; c += CONVERT_BLOCK)
            backward_block(k, item / k->h.in, (int64_t[]){item % k->h.in, w},
                           c);
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct sampling k = sampling_make(sig);

    if (tensor_n_elems(&sig->in[0]) == 0 || tensor_n_elems(&sig->out[0]) == 0) {
        memset(call->out[0], 0, tensor_n_bytes(&sig->out[0]));
        return;
    }
    k.call = call;
    set_axes(&k);
    parallel_run(k.images * k.h.in, tensor_n_elems(&sig->in[0]), sig->threads,
                 backward_row, &k);
}

const struct kernel upsample_forward = {.supports = supports,
                                        .workspace_bytes = workspace_bytes,
                                        .run = run_forward};
const struct kernel upsample_backward = {.supports = supports,
                                         .workspace_bytes = workspace_bytes,
                                         .run = run_backward};
