/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/pool2d.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#define PIECE    2048  /* elements that one call of a loop makes */
#define LANES    16    /* channels of a vector */
#define ROWS_MAX 16384 /* halves are made float32 row by row up to this size */

/* ---- windows ---------------------------------------------------------------
 * Along one axis: in elements, out windows. */

struct axis {
    int64_t in, out, kernel, stride, padding;
    bool adaptive;
};

/* For each element of the side that is written, what is read for it: clipped
 * window bounds forward, covering windows backward. */
struct range {
    int64_t begin, end;
    int64_t divisor; /* forward: of a mean, this axis' part */
};

/* Window i. Padding counts as elements of a mean, but not beyond it. */
static struct range
axis_window(const struct axis *a, int64_t i, bool count_padding)
{
    struct range r;

    if (a->adaptive) { /* floor(i H / n) .. ceil((i + 1) H / n) */
        r.begin = i * a->in / a->out;
        r.end = ((i + 1) * a->in + a->out - 1) / a->out;
        r.divisor = r.end - r.begin;
        return r;
    }
    r.begin = i * a->stride - a->padding;
    r.end = r.begin + a->kernel;
    if (r.end > a->in + a->padding)
        r.end = a->in + a->padding;
    r.divisor = r.end - r.begin;
    if (r.begin < 0)
        r.begin = 0;
    if (r.end > a->in)
        r.end = a->in;
    if (!count_padding)
        r.divisor = r.end - r.begin;
    return r;
}

/* The windows that cover element h. */
static struct range
axis_covering(const struct axis *a, int64_t h)
{
    struct range r = {0, 0, 0};
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

struct pool {
    int64_t images, channels;
    struct axis h, w;
    /* Sides: what is read (as float32) and what is written. */
    int64_t in_h, in_w, out_h, out_w;
    const float *in; /* begins with element in_at */
    int64_t in_at;
    const int32_t *index; /* max backward */
    void *out;
    int32_t *index_out; /* max forward */
    enum dtype in_dtype, out_dtype;
    const void *in_half; /* to be made float32 row by row */
    /* Tables, in the workspace. */
    struct range *rows, *cols;               /* of the written side */
    struct range *window_rows, *window_cols; /* avg backward: for divisors */
    void (*piece)(const struct pool *p, int64_t image, int64_t row,
                  const int64_t bounds[4], float *y);
};

/* Elements of one written row are made in pieces: pixels [w0, w1) and channels
 * [c0, c1); they lie together. */
enum { W0, W1, C0, C1 };

/* Where element (image, 0, 0, 0) of the read side is, or would be. */
static inline const float *
image_at(const struct pool *p, int64_t image)
{
    return p->in + (image * p->in_h * p->in_w * p->channels - p->in_at);
}

/* ---- maximum ------------------------------------------------------------- */

/* Selected with masks: what GCC makes of `y = take ? v : y` is a conditional
 * store, which is not forwarded to the next load. */
static inline void
take_max(float v, int32_t position, float *y, int32_t *index)
{
    const uint32_t mask = 0u - (uint32_t)(v > *y || v != v);

    *y = vmath_float((vmath_bits(v) & mask) | (vmath_bits(*y) & ~mask));
    *index =
        (int32_t)(((uint32_t)position & mask) | ((uint32_t)*index & ~mask));
}

/* Element k of one row of all windows of the piece. Windows inside, so that a
 * maximum is not waited for by the next comparison. */
static inline void
max_tap(const struct pool *p, const float *x, int64_t h, int64_t k,
        const int64_t bounds[4], float *y, int32_t *index)
{
    const int64_t n = bounds[C1] - bounds[C0];

    for (int64_t ow = bounds[W0]; ow < bounds[W1]; ow++, y += n, index += n) {
        const int64_t w = p->cols[ow].begin + k;
        const int32_t position = (int32_t)(h * p->in_w + w);
        const float *v = x + position * p->channels + bounds[C0];
        int64_t c = 0;

        if (w >= p->cols[ow].end)
            continue;
        for (; c + LANES <= n; c += LANES) {
#pragma omp simd
            for (int l = 0; l < LANES; l++)
                take_max(v[c + l], position, &y[c + l], &index[c + l]);
        }
        for (; c < n; c++)
            take_max(v[c], position, &y[c], &index[c]);
    }
}

CPU_CLONES static void
max_piece(const struct pool *p, int64_t image, int64_t row,
          const int64_t bounds[4], float *y)
{
    const int64_t n = bounds[C1] - bounds[C0];
    const struct range rows = p->rows[row];
    int64_t widest = 0, at = 0;
    int32_t *index =
        p->index_out +
        ((image * p->out_h + row) * p->out_w + bounds[W0]) * p->channels +
        bounds[C0];

    for (int64_t ow = bounds[W0]; ow < bounds[W1]; ow++) {
        const struct range cols = p->cols[ow];
        const int32_t first = (int32_t)(rows.begin * p->in_w + cols.begin);

#pragma omp simd
        for (int64_t c = 0; c < n; c++) {
            y[at + c] = -INFINITY;
            index[at + c] = first;
        }
        at += n;
        if (cols.end - cols.begin > widest)
            widest = cols.end - cols.begin;
    }
    for (int64_t h = rows.begin; h < rows.end; h++)
        for (int64_t k = 0; k < widest; k++)
            max_tap(p, image_at(p, image), h, k, bounds, y, index);
}

/* dy summed at the positions of the maxima, gathered from the windows that
 * cover a pixel. */
CPU_CLONES static void
max_backward_piece(const struct pool *p, int64_t image, int64_t row,
                   const int64_t bounds[4], float *dx)
{
    const int64_t n = bounds[C1] - bounds[C0];
    const struct range rows = p->rows[row];

    for (int64_t w = bounds[W0]; w < bounds[W1]; w++, dx += n) {
        const struct range cols = p->cols[w];
        const int32_t position = (int32_t)(row * p->out_w + w);

#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            dx[c] = 0;
        for (int64_t oh = rows.begin; oh < rows.end; oh++)
            for (int64_t ow = cols.begin; ow < cols.end; ow++) {
                const int64_t at =
                    ((image * p->in_h + oh) * p->in_w + ow) * p->channels +
                    bounds[C0];
                const float *dy = p->in + (at - p->in_at);
                const int32_t *index = p->index + at;

#pragma omp simd
                for (int64_t c = 0; c < n; c++)
                    dx[c] += index[c] == position ? dy[c] : 0.0f;
            }
    }
}

/* ---- mean ---------------------------------------------------------------- */

CPU_CLONES static void
avg_piece(const struct pool *p, int64_t image, int64_t row,
          const int64_t bounds[4], float *y)
{
    const int64_t n = bounds[C1] - bounds[C0];
    const struct range rows = p->rows[row];
    const float *x = image_at(p, image);

    for (int64_t ow = bounds[W0]; ow < bounds[W1]; ow++, y += n) {
        const struct range cols = p->cols[ow];
        const float divisor = (float)(rows.divisor * cols.divisor);

#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            y[c] = 0;
        for (int64_t h = rows.begin; h < rows.end; h++)
            for (int64_t w = cols.begin; w < cols.end; w++) {
                const float *v =
                    x + (h * p->in_w + w) * p->channels + bounds[C0];

#pragma omp simd
                for (int64_t c = 0; c < n; c++)
                    y[c] += v[c];
            }
#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            y[c] /= divisor;
    }
}

CPU_CLONES static void
avg_backward_piece(const struct pool *p, int64_t image, int64_t row,
                   const int64_t bounds[4], float *dx)
{
    const int64_t n = bounds[C1] - bounds[C0];
    const struct range rows = p->rows[row];
    const float *y = image_at(p, image);

    for (int64_t w = bounds[W0]; w < bounds[W1]; w++, dx += n) {
        const struct range cols = p->cols[w];

#pragma omp simd
        for (int64_t c = 0; c < n; c++)
            dx[c] = 0;
        for (int64_t oh = rows.begin; oh < rows.end; oh++)
            for (int64_t ow = cols.begin; ow < cols.end; ow++) {
                const float divisor = (float)(p->window_rows[oh].divisor *
                                              p->window_cols[ow].divisor);
                const float *dy =
                    y + (oh * p->in_w + ow) * p->channels + bounds[C0];

#pragma omp simd
                for (int64_t c = 0; c < n; c++)
                    dx[c] += dy[c] / divisor;
            }
    }
}

/* ---- one written row ----------------------------------------------------- */

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows [begin, end) that written row `row` reads, as float32 in buf. */
static void
widen_rows(struct pool *p, int64_t image, int64_t row, float *buf)
{
    const struct range r = p->rows[row];
    const int64_t width = p->in_w * p->channels;

    p->in_at = (image * p->in_h + r.begin) * width;
    p->in = convert_view(p->in_half, p->in_dtype, p->in_at,
                         r.end > r.begin ? (r.end - r.begin) * width : 0, buf);
}

static void
write_row(const struct pool *p, int64_t item)
{
    const int64_t row_at = item * p->out_w * p->channels;
    const int64_t step_c = smaller(p->channels, PIECE);
    const int64_t step_w = PIECE / step_c;
    const size_t size = dtype_size_bytes(p->out_dtype);

    for (int64_t w = 0; w < p->out_w; w += step_w)
        for (int64_t c = 0; c < p->channels; c += step_c) {
            const int64_t bounds[4] = {w, smaller(w + step_w, p->out_w), c,
                                       smaller(c + step_c, p->channels)};
            const int64_t at = row_at + w * p->channels + c;
            char *out = (char *)p->out + (size_t)at * size;
            const bool direct = p->out_dtype == DTYPE_F32;
            float buf[PIECE];

            p->piece(p, item / p->out_h, item % p->out_h, bounds,
                     direct ? (float *)(void *)out : buf);
            if (!direct)
                convert_from_f32(out, p->out_dtype, buf,
                                 (bounds[W1] - w) * (bounds[C1] - c));
        }
}

static void
run_row(const void *ctx, int64_t item)
{
    struct pool p = *(const struct pool *)ctx;
    float buf[ROWS_MAX];

    if (p.in_half != NULL)
        widen_rows(&p, item / p.out_h, item % p.out_h, buf);
    write_row(&p, item);
}

/* ---- set up -------------------------------------------------------------- */

static bool
is_backward(enum op op)
{
    return op == OP_MAX_POOL2D_BWD || op == OP_AVG_POOL2D_BWD ||
           op == OP_ADAPTIVE_AVG_POOL2D_BWD;
}

static struct pool
pool_make(const struct kernel_sig *sig)
{
    const union op_params *params = &sig->params;
    const enum op op = sig->op;
    const struct tensor_desc *in = &sig->in[0], *out = &sig->out[0];
    const struct tensor_desc *x = is_backward(op) ? out : in;
    const struct tensor_desc *y = is_backward(op) ? in : out;
    struct pool p = {.images = x->dim[0],
                     .channels = x->dim[1],
                     .in_h = in->dim[2],
                     .in_w = in->dim[3],
                     .out_h = out->dim[2],
                     .out_w = out->dim[3],
                     .in_dtype = in->dtype,
                     .out_dtype = out->dtype};

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
table_ranges(const struct pool *p)
{
    return p->h.in + p->h.out + p->w.in + p->w.out;
}

/* Whether all that any written row reads fits on the stack. */
static bool
fits_rows(const struct pool *p, bool backward)
{
    const struct axis *a = &p->h;
    const int64_t few = backward ? a->in : a->out;
    const int64_t many = backward ? a->out : a->in;
    const int64_t rows = a->adaptive ? (few > 0 ? many / few : 0) + 2
                         : backward  ? a->kernel / a->stride + 1
                                     : a->kernel;

    return rows * p->in_w * p->channels <= ROWS_MAX;
}

/* Elements of the read side to be made float32 at once. */
static int64_t
widened(const struct kernel_sig *sig, const struct pool *p)
{
    if (sig->in[0].dtype == DTYPE_F32 || fits_rows(p, is_backward(sig->op)))
        return 0;
    return tensor_n_elems(&sig->in[0]);
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct pool p = pool_make(sig);

    (void)state;
    return (size_t)table_ranges(&p) * sizeof(struct range) +
           (size_t)widened(sig, &p) * sizeof(float);
}

static void
fill_tables(struct pool *p, bool backward, bool count_padding)
{
    struct range *window_h = p->rows, *cover_h = window_h + p->h.out;
    struct range *window_w = cover_h + p->h.in, *cover_w = window_w + p->w.out;

    for (int64_t i = 0; i < p->h.out; i++)
        window_h[i] = axis_window(&p->h, i, count_padding);
    for (int64_t i = 0; i < p->w.out; i++)
        window_w[i] = axis_window(&p->w, i, count_padding);
    for (int64_t i = 0; i < p->h.in && backward; i++)
        cover_h[i] = axis_covering(&p->h, i);
    for (int64_t i = 0; i < p->w.in && backward; i++)
        cover_w[i] = axis_covering(&p->w, i);
    p->window_rows = window_h;
    p->window_cols = window_w;
    p->rows = backward ? cover_h : window_h;
    p->cols = backward ? cover_w : window_w;
}

struct widen {
    const uint16_t *from;
    float *to;
    enum dtype dtype;
    int64_t n;
};

static void
widen_chunk(const void *ctx, int64_t item)
{
    const struct widen *w = ctx;
    const int64_t at = item * KERNEL_CHUNK;

    convert_to_f32(w->to + at, w->from + at, w->dtype,
                   smaller(KERNEL_CHUNK, w->n - at));
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const enum op op = sig->op;
    struct pool p = pool_make(sig);
    const int64_t n_in = tensor_n_elems(&sig->in[0]);
    const int64_t n_out = tensor_n_elems(&sig->out[0]);

    if (n_out == 0)
        return;
    p.out = call->out[0];
    p.in = call->in[0];
    p.rows = call->workspace;
    if (sig->in[0].dtype != DTYPE_F32 && widened(sig, &p) == 0) {
        p.in_half = call->in[0];
    } else if (sig->in[0].dtype != DTYPE_F32) {
        const struct widen w = {call->in[0],
                                (float *)(p.rows + table_ranges(&p)),
                                sig->in[0].dtype, n_in};

        parallel_run((n_in + KERNEL_CHUNK - 1) / KERNEL_CHUNK, n_in,
                     sig->threads, widen_chunk, &w);
        p.in = w.to;
    }
    fill_tables(&p, is_backward(op),
                !p.h.adaptive && sig->params.pool.count_include_pad);
    p.piece = avg_piece;
    if (op == OP_MAX_POOL2D) {
        p.piece = max_piece;
        p.index_out = call->out[1];
    } else if (op == OP_MAX_POOL2D_BWD) {
        p.piece = max_backward_piece;
        p.index = call->in[1];
    } else if (is_backward(op)) {
        p.piece = avg_backward_piece;
    }
    parallel_run(p.images * p.out_h, n_in > n_out ? n_in : n_out, sig->threads,
                 run_row, &p);
}

const struct kernel pool2d_kernel = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run};
