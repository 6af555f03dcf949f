/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/layer_norm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

/* Backward: dw and db are summed per chunk of rows; at most so many chunks. */
#define CHUNKS_MAX     64
#define CHUNK_ROWS_MIN 16
/* Forward: elements of an item of parallel_run. */
#define ITEM_ELEMS 8192
/* Mean squares that float32 sums of squares get right; what lies outside goes
 * the slow way, in double. */
#define SQUARE_MIN 1e-25
#define SQUARE_MAX 1e+36

/* A tensor as rows x len in logical order. */
struct matrix {
    const void *data;
    enum dtype dtype;
};

struct norm {
    int64_t rows, len;
    int64_t rows_per_item;
    bool centred; /* false: rms_norm, where the mean is taken as 0 */
    struct matrix x, dy;
    const void *w, *b; /* or NULL */
    enum dtype tw, tb;
    void *y; /* or dx; may be NULL for dx */
    enum dtype ty;
    float *mean, *rstd; /* written forward; no mean in rms_norm */
    const float *mean_in, *rstd_in;
    double eps;
    float *part; /* [item][2][len] */
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const float *
view(const struct matrix *m, int64_t at, int64_t n, float *buf)
{
    return convert_view(m->data, m->dtype, at, n, buf);
}

/* ---- blocks of one row --------------------------------------------------- */

CPU_CLONES static double
block_sum(const float *x, int64_t n)
{
    return lanes_sum_array(x, n);
}

CPU_CLONES static void
block_moments(const float *x, float mean, int64_t n, double *s1, double *s2)
{
    float d[CONVERT_BLOCK], dd[CONVERT_BLOCK];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        d[i] = x[i] - mean;
        dd[i] = d[i] * d[i];
    }
    *s1 += lanes_sum_array(d, n);
    *s2 += lanes_sum_array(dd, n);
}

/* y = (x - mean) rstd w + b */
CPU_CLONES static void
block_apply(const float *x, float mean, float rstd, const float *w,
            const float *b, int64_t n, float *y)
{
    if (w == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd;
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * w[i];
    if (b != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] += b[i];
    }
}

/* xhat = (x - mean) rstd, g = dy w */
CPU_CLONES static void
block_xhat(const float *x, const float *dy, const float *w, float mean,
           float rstd, int64_t n, float *xhat, float *g)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        xhat[i] = (x[i] - mean) * rstd;
        g[i] = w != NULL ? dy[i] * w[i] : dy[i];
    }
}

CPU_CLONES static void
block_dot(const float *a, const float *b, int64_t n, double *sum_a,
          double *sum_ab)
{
    float product[CONVERT_BLOCK];

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        product[i] = a[i] * b[i];
    *sum_a += lanes_sum_array(a, n);
    *sum_ab += lanes_sum_array(product, n);
}

CPU_CLONES static void
block_gradient(const float *g, const float *xhat, float c1, float c2,
               float rstd, int64_t n, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = rstd * (g[i] - c1 - xhat[i] * c2);
}

/* dw += dy xhat, db += dy */
CPU_CLONES static void
block_accumulate(const float *dy, const float *xhat, int64_t n, float *dw,
                 float *db)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        dw[i] += dy[i] * xhat[i];
        db[i] += dy[i];
    }
}

/* ---- forward ------------------------------------------------------------- */

/* False: these are not numbers for float32. */
static bool
row_stats(const struct norm *k, int64_t row, float *mean, float *rstd)
{
    const double len = (double)k->len;
    double sum = 0, s1 = 0, s2 = 0, rest, var;
    float centre, buf[CONVERT_BLOCK];

    for (int64_t i = 0; i < k->len && k->centred; i += CONVERT_BLOCK) {
        const int64_t n = smaller(CONVERT_BLOCK, k->len - i);

        sum += block_sum(view(&k->x, row * k->len + i, n, buf), n);
    }
    centre = (float)(sum / len);
    for (int64_t i = 0; i < k->len; i += CONVERT_BLOCK) {
        const int64_t n = smaller(CONVERT_BLOCK, k->len - i);

        block_moments(view(&k->x, row * k->len + i, n, buf), centre, n, &s1,
                      &s2);
    }
    rest = k->centred ? s1 / len : 0; /* what rounding the mean left over */
    var = s2 / len - rest * rest;
    var = var < 0 ? 0 : var;
    *mean = (float)((double)centre + rest);
    *rstd = (float)(1 / sqrt(var + k->eps));
    return var + k->eps >= SQUARE_MIN && var <= SQUARE_MAX;
}

/* The whole row in double: squares of huge numbers do not overflow, those of
 * tiny ones do not vanish, and their reciprocal root need not fit float32. */
static void
wide_row(const struct norm *k, int64_t row, float *mean_out, float *rstd_out)
{
    const double len = (double)k->len;
    const int64_t begin = row * k->len;
    double mean = 0, var = 0, rstd;

    for (int64_t i = 0; i < k->len && k->centred; i++)
        mean += (double)convert_get(k->x.data, k->x.dtype, begin + i) / len;
    for (int64_t i = 0; i < k->len; i++) {
        const double d =
            (double)convert_get(k->x.data, k->x.dtype, begin + i) - mean;

        var += d * d / len;
    }
    rstd = 1 / sqrt(var + k->eps);
    for (int64_t i = 0; i < k->len; i++) {
        double v = convert_get(k->x.data, k->x.dtype, begin + i);

        v = (v - mean) * rstd;
        if (k->w != NULL)
            v *= (double)convert_get(k->w, k->tw, i);
        if (k->b != NULL)
            v += (double)convert_get(k->b, k->tb, i);
        convert_put(k->y, k->ty, begin + i, (float)v);
    }
    *mean_out = (float)mean;
    *rstd_out = (float)rstd;
}

static void
forward_row(const struct norm *k, int64_t row)
{
    float x_buf[CONVERT_BLOCK], y_buf[CONVERT_BLOCK];
    float w_buf[CONVERT_BLOCK], b_buf[CONVERT_BLOCK];
    float mean, rstd;
    const bool ordinary = row_stats(k, row, &mean, &rstd);

    if (!ordinary)
        wide_row(k, row, &mean, &rstd);
    k->rstd[row] = rstd;
    if (k->centred)
        k->mean[row] = mean;
    if (!ordinary)
        return;
    for (int64_t i = 0; i < k->len; i += CONVERT_BLOCK) {
        const int64_t n = smaller(CONVERT_BLOCK, k->len - i);
        const int64_t at = row * k->len + i;
        float *y = k->ty == DTYPE_F32 ? (float *)k->y + at : y_buf;

        block_apply(
            view(&k->x, at, n, x_buf), mean, rstd,
            k->w != NULL ? convert_view(k->w, k->tw, i, n, w_buf) : NULL,
            k->b != NULL ? convert_view(k->b, k->tb, i, n, b_buf) : NULL, n, y);
        if (k->ty != DTYPE_F32)
            convert_from_f32((uint16_t *)k->y + at, k->ty, y, n);
    }
}

static void
forward_item(const void *ctx, int64_t item)
{
    const struct norm *k = ctx;
    const int64_t begin = item * k->rows_per_item;
    const int64_t end = smaller(begin + k->rows_per_item, k->rows);

    for (int64_t row = begin; row < end; row++)
        forward_row(k, row);
}

/* ---- backward --------------------------------------------------------------
 * g = dy w: dx = rstd (g - mean(g) - xhat mean(g xhat)); without mean(g) in
 * rms_norm. */

static void
backward_row(const struct norm *k, int64_t row, float *dw, float *db)
{
    const float mean = k->centred ? k->mean_in[row] : 0;
    const float rstd = k->rstd_in[row];
    float x_buf[CONVERT_BLOCK], dy_buf[CONVERT_BLOCK], w_buf[CONVERT_BLOCK];
    float xhat[CONVERT_BLOCK], g[CONVERT_BLOCK];
    double sum_g = 0, sum_gx = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < k->len; i += CONVERT_BLOCK) {
            const int64_t n = smaller(CONVERT_BLOCK, k->len - i);
            const int64_t at = row * k->len + i;
            const float *dy = view(&k->dy, at, n, dy_buf);
            float *dx =
                k->ty == DTYPE_F32 && k->y != NULL ? (float *)k->y + at : x_buf;

            block_xhat(view(&k->x, at, n, x_buf), dy,
                       k->w != NULL ? convert_view(k->w, k->tw, i, n, w_buf)
                                    : NULL,
                       mean, rstd, n, xhat, g);
            if (pass == 0) {
                block_dot(g, xhat, n, &sum_g, &sum_gx);
                block_accumulate(dy, xhat, n, dw + i, db + i);
                continue;
            }
            block_gradient(g, xhat,
                           k->centred ? (float)(sum_g / (double)k->len) : 0,
                           (float)(sum_gx / (double)k->len), rstd, n, dx);
            if (k->ty != DTYPE_F32 && k->y != NULL)
                convert_from_f32((uint16_t *)k->y + at, k->ty, dx, n);
        }
}

static void
backward_item(const void *ctx, int64_t item)
{
    const struct norm *k = ctx;
    const int64_t begin = item * k->rows_per_item;
    const int64_t end = smaller(begin + k->rows_per_item, k->rows);
    float *dw = k->part + item * 2 * k->len, *db = dw + k->len;

    memset(dw, 0, (size_t)k->len * 2 * sizeof(float));
    for (int64_t row = begin; row < end; row++)
        backward_row(k, row, dw, db);
}

/* ---- shapes and workspace ------------------------------------------------ */

static bool
is_backward(const struct kernel_sig *sig)
{
    return sig->op == OP_LAYER_NORM_BWD || sig->op == OP_RMS_NORM_BWD;
}

static struct norm
norm_make(const struct kernel_sig *sig)
{
    const bool backward = is_backward(sig);
    const struct tensor_desc *x = &sig->in[backward ? 1 : 0];
    struct norm k = {.len = 1,
                     .centred = sig->op == OP_LAYER_NORM ||
                                sig->op == OP_LAYER_NORM_BWD,
                     .eps = sig->params.layer_norm.eps};

    assert(sig->params.layer_norm.n_dims <= x->rank);
    for (int i = 0; i < sig->params.layer_norm.n_dims; i++)
        k.len *= x->dim[x->rank - 1 - i];
    k.rows = k.len > 0 ? tensor_n_elems(x) / k.len : 0;
    if (backward) {
        k.rows_per_item = (k.rows + CHUNKS_MAX - 1) / CHUNKS_MAX;
        if (k.rows_per_item < CHUNK_ROWS_MIN)
            k.rows_per_item = CHUNK_ROWS_MIN;
    } else {
        k.rows_per_item =
            k.len < ITEM_ELEMS && k.len > 0 ? ITEM_ELEMS / k.len : 1;
    }
    return k;
}

static int64_t
n_items(const struct norm *k)
{
    return (k->rows + k->rows_per_item - 1) / k->rows_per_item;
}

static bool
is_image(const struct kernel_sig *sig)
{
    return sig->in[0].layout == TENSOR_NHWC;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct norm k = norm_make(sig);
    const bool backward = is_backward(sig);
    /* x, y; backward dy too; each as float32 in logical order. */
    const int64_t images = is_image(sig) ? (backward ? 3 : 2) : 0;
    const int64_t sums = backward ? n_items(&k) * 2 * k.len : 0;

    (void)state;
    return (size_t)(images * k.rows * k.len + sums) * sizeof(float);
}

/* An image of any dtype, channels last, to or from float32 rows. */
static void
image_to_rows(const struct tensor_desc *t, const void *image, float *rows)
{
    struct tensor_desc row_major = *t;
    int64_t index[TENSOR_MAX_RANK];
    const int64_t n = tensor_n_elems(t);

    row_major.layout = TENSOR_ROW;
    for (int64_t at = 0; at < n; at++) {
        tensor_unravel(t, at, index);
        rows[tensor_ravel(&row_major, index)] =
            convert_get(image, t->dtype, at);
    }
}

static void
rows_to_image(const struct tensor_desc *t, const float *rows, void *image)
{
    struct tensor_desc row_major = *t;
    int64_t index[TENSOR_MAX_RANK];
    const int64_t n = tensor_n_elems(t);

    row_major.layout = TENSOR_ROW;
    for (int64_t at = 0; at < n; at++) {
        tensor_unravel(t, at, index);
        convert_put(image, t->dtype, at, rows[tensor_ravel(&row_major, index)]);
    }
}

/* Input `in` as a matrix; *ws moves past what an image needs of it. */
static struct matrix
matrix_of(const struct kernel_call *call, int in, float **ws)
{
    const struct tensor_desc *t = &call->sig->in[in];
    struct matrix m = {call->in[in], t->dtype};

    if (t->layout == TENSOR_NHWC) {
        image_to_rows(t, call->in[in], *ws);
        m = (struct matrix){*ws, DTYPE_F32};
        *ws += tensor_n_elems(t);
    }
    return m;
}

static void
set_output(struct norm *k, const struct kernel_call *call, float **ws)
{
    const struct tensor_desc *t = &call->sig->out[0];

    k->y = call->out[0];
    k->ty = t->dtype;
    if (t->layout == TENSOR_NHWC && k->y != NULL) {
        k->y = *ws;
        k->ty = DTYPE_F32;
        *ws += tensor_n_elems(t);
    }
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct norm k = norm_make(sig);
    const int rstd_out = k.centred ? 2 : 1;
    float *ws = call->workspace;

    k.mean = k.centred ? call->out[1] : NULL;
    k.rstd = call->out[rstd_out];
    if (k.len == 0) { /* rows of nothing: sums are 0 */
        for (int64_t i = 0; i < tensor_n_elems(&sig->out[rstd_out]); i++) {
            if (k.centred)
                k.mean[i] = 0;
            k.rstd[i] = (float)(1 / sqrt(k.eps));
        }
        return;
    }
    k.x = matrix_of(call, 0, &ws);
    set_output(&k, call, &ws);
    k.w = call->in[1];
    k.tw = sig->in[1].dtype;
    if (k.centred) {
        k.b = call->in[2];
        k.tb = sig->in[2].dtype;
    }
    parallel_run(n_items(&k), k.rows * k.len, sig->threads, forward_item, &k);
    if (k.y != call->out[0])
        rows_to_image(&sig->out[0], k.y, call->out[0]);
}

/* Joins the chunks' sums, in order; out may be NULL. */
static void
join(const struct norm *k, int which, float *out)
{
    if (out == NULL)
        return;
    for (int64_t j = 0; j < k->len; j++) {
        double sum = 0;

        for (int64_t i = 0; i < n_items(k); i++)
            sum += (double)k->part[(2 * i + which) * k->len + j];
        out[j] = (float)sum;
    }
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct norm k = norm_make(sig);
    float *ws = call->workspace;

    if (k.len == 0)
        return;
    k.dy = matrix_of(call, 0, &ws);
    k.x = matrix_of(call, 1, &ws);
    set_output(&k, call, &ws);
    k.w = call->in[2];
    k.tw = sig->in[2].dtype;
    k.mean_in = k.centred ? call->in[3] : NULL;
    k.rstd_in = call->in[k.centred ? 4 : 3];
    k.part = ws;
    parallel_run(n_items(&k), k.rows * k.len, sig->threads, backward_item, &k);
    join(&k, 0, call->out[1]);
    if (k.centred)
        join(&k, 1, call->out[2]);
    if (call->out[0] != NULL && k.y != call->out[0])
        rows_to_image(&sig->out[0], k.y, call->out[0]);
}

const struct kernel layer_norm_forward = {.workspace_bytes = workspace_bytes,
                                          .run = run_forward};
const struct kernel layer_norm_backward = {.workspace_bytes = workspace_bytes,
                                           .run = run_backward};
