/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/linear.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

/* C[m, n] = sum over k of A[m, k] B[k, n] (+ bias[n]), in tiles of TM x TN. */
#define TM 8
#define TN 32

/* One factor: element (i, k) at i x i_step + k x k_step; one step is 1. */
struct factor {
    const void *data;
    enum dtype dtype;
    int64_t n; /* rows of A or columns of B */
    int64_t i_step, k_step;
    float *panel; /* [tile][k][width], zero beyond n */
    int width;
};

struct product {
    struct factor a, b;
    int64_t k;
    const void *bias; /* or NULL */
    enum dtype bias_dtype, c_dtype;
    void *c; /* rows of b.n */
};

static int64_t
n_tiles(const struct factor *f)
{
    return (f->n + f->width - 1) / f->width;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- packing ------------------------------------------------------------- */

/* Lines of the panel are runs of the factor (i_step is 1). */
static void
pack_runs(const struct factor *f, int64_t k, int64_t i0, int64_t n, float *to)
{
    for (int64_t j = 0; j < k; j++, to += f->width) {
        convert_to_f32(to,
                       (const char *)f->data + (size_t)(i0 + j * f->k_step) *
                                                   dtype_size_bytes(f->dtype),
                       f->dtype, n);
        for (int64_t i = n; i < f->width; i++)
            to[i] = 0;
    }
}

/* Columns of the panel are runs of the factor (k_step is 1). */
static void
pack_across(const struct factor *f, int64_t k, int64_t i0, int64_t n, float *to)
{
    if (n < f->width)
        memset(to, 0, (size_t)(k * f->width) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j += CONVERT_BLOCK) {
            const int64_t len = smaller(CONVERT_BLOCK, k - j);
            float buf[CONVERT_BLOCK];
            const float *run = convert_view(f->data, f->dtype,
                                            (i0 + i) * f->i_step + j, len, buf);

            for (int64_t l = 0; l < len; l++)
                to[(j + l) * f->width + i] = run[l];
        }
}

static void
pack_tile(const struct factor *f, int64_t k, int64_t tile)
{
    const int64_t i0 = tile * f->width, n = smaller(f->width, f->n - i0);
    float *to = f->panel + tile * k * f->width;

    if (f->i_step == 1)
        pack_runs(f, k, i0, n, to);
    else
        pack_across(f, k, i0, n, to);
}

static void
pack_item(const void *ctx, int64_t item)
{
    const struct product *p = ctx;
    const int64_t a_tiles = n_tiles(&p->a);

    if (item < a_tiles)
        pack_tile(&p->a, p->k, item);
    else
        pack_tile(&p->b, p->k, item - a_tiles);
}

/* ---- tiles --------------------------------------------------------------- */

CPU_CLONES static void
multiply_tile(const float *a, const float *b, int64_t k, float c[TM][TN])
{
    memset(c, 0, TM * sizeof(c[0]));
    for (int64_t j = 0; j < k; j++, a += TM, b += TN)
        for (int m = 0; m < TM; m++) {
#pragma omp simd
            for (int n = 0; n < TN; n++)
                c[m][n] += a[m] * b[n];
        }
}

static void
product_item(const void *ctx, int64_t a_tile)
{
    const struct product *p = ctx;
    const int64_t m0 = a_tile * TM, n_rows = smaller(TM, p->a.n - m0);
    const size_t size = dtype_size_bytes(p->c_dtype);

    for (int64_t b_tile = 0; b_tile < n_tiles(&p->b); b_tile++) {
        const int64_t n0 = b_tile * TN, n_cols = smaller(TN, p->b.n - n0);
        float c[TM][TN];

        multiply_tile(p->a.panel + a_tile * p->k * TM,
                      p->b.panel + b_tile * p->k * TN, p->k, c);
        for (int64_t i = 0; i < n_rows; i++) {
            if (p->bias != NULL)
                for (int64_t j = 0; j < n_cols; j++)
                    c[i][j] += convert_get(p->bias, p->bias_dtype, n0 + j);
            convert_from_f32((char *)p->c +
                                 (size_t)((m0 + i) * p->b.n + n0) * size,
                             p->c_dtype, c[i], n_cols);
        }
    }
}

/* ---- the three products -------------------------------------------------- */

static int64_t
last_dim(const struct tensor_desc *t)
{
    assert(t->rank >= 1);
    return t->dim[t->rank - 1];
}

/* All but the data pointers. x[N, K], w[O, K], dy[N, O]. */
static struct product
product_make(const struct kernel_sig *sig)
{
    const int64_t first = last_dim(&sig->in[0]), second = last_dim(&sig->in[1]);
    const int64_t rows =
        first > 0
            ? tensor_n_elems(&sig->in[0]) / first
            : tensor_n_elems(&sig->out[0]) /
                  (last_dim(&sig->out[0]) > 0 ? last_dim(&sig->out[0]) : 1);
    struct product p = {.c_dtype = sig->out[0].dtype};

    if (sig->op == OP_LINEAR) { /* in x, w: y[N, O], sum over K */
        p.k = first;
        p.a = (struct factor){.n = rows, .i_step = first, .k_step = 1};
        p.b = (struct factor){
            .n = sig->in[1].dim[0], .i_step = first, .k_step = 1};
    } else if (sig->op == OP_LINEAR_DX) { /* in dy, w: dx[N, K], over O */
        p.k = first;
        p.a = (struct factor){.n = rows, .i_step = first, .k_step = 1};
        p.b = (struct factor){.n = second, .i_step = 1, .k_step = second};
    } else { /* in dy, x: dw[O, K], sum over N */
        assert(sig->op == OP_LINEAR_DW);
        p.k = first > 0 ? rows : 0;
        p.a = (struct factor){.n = first, .i_step = 1, .k_step = first};
        p.b = (struct factor){.n = second, .i_step = 1, .k_step = second};
    }
    p.a.dtype = sig->in[0].dtype;
    p.b.dtype = sig->in[1].dtype;
    p.a.width = TM;
    p.b.width = TN;
    return p;
}

static bool
supports(const struct kernel_sig *sig)
{
    /* The last axis must be the fastest in memory. */
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].layout != TENSOR_ROW)
            return false;
    return sig->out[0].layout == TENSOR_ROW;
}

static int64_t
panel_elems(const struct product *p, const struct factor *f)
{
    return n_tiles(f) * p->k * f->width;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct product p = product_make(sig);

    (void)state;
    return (size_t)(panel_elems(&p, &p.a) + panel_elems(&p, &p.b)) *
           sizeof(float);
}

static void
run_product(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct product p = product_make(sig);
    const int64_t work = p.a.n * p.b.n * (p.k / 8 + 1);

    p.a.data = call->in[0];
    p.b.data = call->in[1];
    p.c = call->out[0];
    if (sig->op == OP_LINEAR) {
        p.bias = call->in[2];
        p.bias_dtype = sig->in[2].dtype;
    }
    p.b.panel = call->workspace; /* first: lines are cache lines */
    p.a.panel = p.b.panel + panel_elems(&p, &p.b);
    if (p.a.n == 0 || p.b.n == 0)
        return;
    if (p.k > 0)
        parallel_run(n_tiles(&p.a) + n_tiles(&p.b), work, sig->threads,
                     pack_item, &p);
    parallel_run(n_tiles(&p.a), work, sig->threads, product_item, &p);
}

/* ---- bias gradient: db[c] = sum of dy over rows -------------------------- */

struct bias {
    const void *dy;
    enum dtype dtype;
    struct rows_plan plan;
    double *part; /* [chunk][channels] */
};

static struct bias
bias_make(const struct kernel_sig *sig)
{
    const struct tensor_desc *dy = &sig->in[0];
    const int64_t channels =
        dy->layout == TENSOR_NHWC ? dy->dim[1] : last_dim(dy);

    return (struct bias){.dtype = dy->dtype,
                         .plan = rows_make_plan(tensor_n_elems(dy), channels)};
}

static void
bias_chunk(const void *ctx, int64_t item)
{
    const struct bias *b = ctx;
    const struct rows_plan *p = &b->plan;
    double *part = b->part + item * p->channels;
    int64_t begin, end;

    rows_chunk_range(p, item, &begin, &end);
    memset(part, 0, (size_t)p->channels * sizeof(double));
    for (int64_t col = 0; col < p->line; col += ROWS_SEGMENT) {
        const int64_t width = rows_segment(p, col);
        float sum[ROWS_SEGMENT] = {0}, buf[ROWS_GROUP * ROWS_SEGMENT];

        for (int64_t at = begin + col; at < end;) {
            const struct rows_group g =
                rows_view(p, b->dy, b->dtype, at, end, width, buf);

            rows_add(&g, sum);
            at += g.n_lines * p->line;
        }
        rows_fold(p, col, width, sum, part);
    }
}

static size_t
bias_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct bias b = bias_make(sig);

    (void)state;
    return (size_t)(b.plan.n_chunks * b.plan.channels) * sizeof(double);
}

static void
run_bias_grad(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct bias b = bias_make(sig);

    b.dy = call->in[0];
    b.part = call->workspace;
    parallel_run(b.plan.n_chunks, b.plan.n, sig->threads, bias_chunk, &b);
    for (int64_t c = 0; c < b.plan.channels; c++) {
        double sum = 0;

        for (int64_t i = 0; i < b.plan.n_chunks; i++)
            sum += b.part[i * b.plan.channels + c];
        convert_put(call->out[0], sig->out[0].dtype, c, (float)sum);
    }
}

const struct kernel linear_product = {.supports = supports,
                                      .workspace_bytes = workspace_bytes,
                                      .run = run_product};
const struct kernel linear_bias_grad = {.workspace_bytes = bias_workspace_bytes,
                                        .run = run_bias_grad};
