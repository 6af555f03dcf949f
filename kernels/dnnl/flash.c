/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/flash.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fmath.h"
#include "kernels/cpu/heads.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dnnl/tile.h"

#define BLOCK_MAX   64           /* queries of a block */
#define BLOCK_BYTES (256 * 1024) /* of a block's scores */
#define AHEAD       12           /* rows that are fetched in advance */

/* What a lane holds, float32 and padded with zeros: heads' columns to
 * TILE_COLS (dp), keys to TILE_COLS (sp). */
struct lane {
    float *kt, *vt;    /* [sp / 32][d][32]; vt backward only */
    float *k, *v;      /* [sp][dp]; k backward, v forward only */
    float *dk, *dv;    /* [sp][dp]; backward */
    float *q, *dy, *y; /* [block][dp]: q x scale; y: or dq */
    float *w, *dw;     /* [block][sp]: weights and their gradient */
};

struct flash {
    struct heads h;
    bool backward;
    int64_t dp, sp, block;
    const struct kernel_call *call;
    size_t lane_elems;
};

/* Queries t0 .. t0 + n - 1 of head i of batch entry b. */
struct block {
    int64_t b, i, t0, n;
};

static int64_t
round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- rows of scores; n is a multiple of TILE_COLS ------------------------ */

CPU_CLONES static float
row_max(const float *x, int64_t n)
{
    float max[TILE_COLS], best;

    memcpy(max, x, sizeof(max));
    for (int64_t i = TILE_COLS; i < n; i += TILE_COLS) {
#pragma omp simd
        for (int l = 0; l < TILE_COLS; l++)
            max[l] = x[i + l] > max[l] ? x[i + l] : max[l];
    }
#pragma omp simd
    for (int l = 0; l < 16; l++)
        max[l] = max[l + 16] > max[l] ? max[l + 16] : max[l];
#pragma omp simd
    for (int l = 0; l < 8; l++)
        max[l] = max[l + 8] > max[l] ? max[l + 8] : max[l];
    best = -INFINITY; /* a NaN is not greatest: it returns in the sum */
    for (int l = 0; l < 8; l++)
        best = max[l] > best ? max[l] : best;
    return best;
}

/* Lanes in one fixed order. */
static inline float
lanes_sum(float *sum)
{
    float total = 0;

#pragma omp simd
    for (int l = 0; l < 16; l++)
        sum[l] += sum[l + 16];
#pragma omp simd
    for (int l = 0; l < 8; l++)
        sum[l] += sum[l + 8];
    for (int l = 0; l < 8; l++)
        total += sum[l];
    return total;
}

/* x = e^(x - shift); the sum. */
CPU_CLONES_FMA static float
row_exp(float *x, float shift, int64_t n)
{
    float sum[TILE_COLS] = {0};

    for (int64_t i = 0; i < n; i += TILE_COLS) {
#pragma omp simd
        for (int l = 0; l < TILE_COLS; l++) {
            const float e = fmath_exp(x[i + l] - shift);

            x[i + l] = e;
            sum[l] += e;
        }
    }
    return lanes_sum(sum);
}

CPU_CLONES static float
row_dot(const float *a, const float *b, int64_t n)
{
    float sum[TILE_COLS] = {0};

    for (int64_t i = 0; i < n; i += TILE_COLS) {
#pragma omp simd
        for (int l = 0; l < TILE_COLS; l++)
            sum[l] += a[i + l] * b[i + l];
    }
    return lanes_sum(sum);
}

/* dw = w (dw - delta) */
CPU_CLONES static void
row_gradient(const float *w, float *dw, float delta, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dw[i] = w[i] * (dw[i] - delta);
}

CPU_CLONES static void
row_scale(float *x, float a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= a;
}

CPU_CLONES static void
row_select(float *x, const uint8_t *mask, float hidden, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = mask[i] != 0 ? x[i] : hidden;
}

/* ---- a lane's memory ----------------------------------------------------- */

/* Members stay NULL while base is. */
static float *
take(float *base, size_t *at, int64_t n)
{
    float *p = base != NULL ? base + *at : NULL;

    *at += (size_t)round_up(n, 16);
    return p;
}

/* The floats that a lane needs; its members, from base on. */
static size_t
lane_lay(struct lane *l, const struct flash *f, float *base)
{
    const int64_t across = f->sp * f->h.d, matrix = f->sp * f->dp;
    const int64_t queries = f->block * f->dp, tile = f->block * f->sp;
    size_t at = 0;

    memset(l, 0, sizeof(*l));
    l->kt = take(base, &at, across);
    if (f->backward) {
        l->vt = take(base, &at, across);
        l->k = take(base, &at, matrix);
        l->dk = take(base, &at, matrix);
        l->dv = take(base, &at, matrix);
        l->dy = take(base, &at, queries);
        l->dw = take(base, &at, tile);
    } else {
        l->v = take(base, &at, matrix);
    }
    l->q = take(base, &at, queries);
    l->y = take(base, &at, queries);
    l->w = take(base, &at, tile);
    return at;
}

/* n rows of d elements, `step` apart from element `at` on, to rows of dp; rows
 * up to n_all are zero. */
static void
load_rows(const struct flash *f, float *to, const void *from, int64_t at,
          int64_t step, int64_t n, int64_t n_all)
{
    const int64_t d = f->h.d;
    const size_t size = dtype_size_bytes(f->h.dtype);
    const char *row = (const char *)from + (size_t)at * size;

    for (int64_t i = 0; i < n; i++, row += (size_t)step * size, to += f->dp) {
        /* Rows lie too far apart for the processor to see what comes. */
        for (size_t at_line = 0; i + AHEAD < n && at_line < (size_t)d * size;
             at_line += 64)
            __builtin_prefetch(row + AHEAD * (size_t)step * size + at_line);
        convert_to_f32(to, row, f->h.dtype, d);
        memset(to + d, 0, (size_t)(f->dp - d) * sizeof(float));
    }
    memset(to, 0, (size_t)((n_all - n) * f->dp) * sizeof(float));
}

static void
store_rows(const struct flash *f, void *to, int64_t at, int64_t step,
           const float *from, int64_t n)
{
    const size_t size = dtype_size_bytes(f->h.dtype);
    char *row = (char *)to + (size_t)at * size;

    if (to == NULL)
        return;
    for (int64_t i = 0; i < n; i++, row += (size_t)step * size, from += f->dp)
        convert_from_f32(row, f->h.dtype, from, f->h.d);
}

/* Columns of k or v, TILE_COLS keys at a time: what scores are made from. */
static void
turn(const struct flash *f, float *to, const float *from)
{
    for (int64_t s = 0; s < f->sp; s += TILE_COLS)
        tile_transpose(to + s * f->h.d, from + s * f->dp, f->dp, f->h.d);
}

/* ---- products of a block ------------------------------------------------- */

/* Keys that any of TILE_ROWS queries from the block's row r on may see. */
static int64_t
tile_limit(const struct flash *f, const struct block *b, int64_t r)
{
    const int64_t last = smaller(r + TILE_ROWS, b->n) - 1;

    return smaller(heads_limit(&f->h, b->t0 + last), f->h.s);
}

/* w[block][keys] = x (keys)^T for the keys that are seen. */
static void
times_keys(const struct flash *f, const struct block *b, const float *x,
           const float *across, float *w)
{
    for (int64_t s = 0; s < f->sp; s += TILE_COLS)
        for (int64_t r = 0; r < b->n; r += TILE_ROWS) {
            const struct tile_factor a = {x + r * f->dp, f->dp, 1};

            if (tile_limit(f, b, r) > s)
                tile_multiply(&a, across + s * f->h.d, TILE_COLS, f->h.d,
                              w + r * f->sp + s, f->sp, false);
        }
}

/* y[block][dp] = w m, over the keys that are seen. */
static void
times_rows(const struct flash *f, const struct block *b, const float *w,
           const float *m, float *y)
{
    for (int64_t d = 0; d < f->dp; d += TILE_COLS)
        for (int64_t r = 0; r < b->n; r += TILE_ROWS) {
            const struct tile_factor a = {w + r * f->sp, f->sp, 1};

            tile_multiply(&a, m + d, f->dp, tile_limit(f, b, r),
                          y + r * f->dp + d, f->dp, false);
        }
}

/* The first of the block's queries, to a tile's edge, that may see key s. */
static int64_t
first_query(const struct flash *f, const struct block *b, int64_t s)
{
    int64_t r = 0;

    while (r < b->n && tile_limit(f, b, r) <= s)
        r += TILE_ROWS;
    return r;
}

/* dm[keys][dp] += w^T x, over the queries of the block. */
static void
add_turned(const struct flash *f, const struct block *b, const float *w,
           const float *x, float *dm)
{
    for (int64_t s = 0; s < f->h.s; s += TILE_ROWS) {
        const int64_t first = first_query(f, b, s);
        const struct tile_factor a = {w + first * f->sp + s, 1, f->sp};

        if (first >= b->n)
            continue;
        for (int64_t d = 0; d < f->dp; d += TILE_COLS)
            tile_multiply(&a, x + first * f->dp + d, f->dp, b->n - first,
                          dm + s * f->dp + d, f->dp, true);
    }
}

/* ---- rows of a block ----------------------------------------------------- */

/* A query's row of scores or of their gradients. */
struct row {
    int64_t t;
    int64_t n;           /* keys in front that it may see, but for the mask */
    int64_t n_all;       /* columns that were multiplied */
    const uint8_t *mask; /* or NULL */
};

static struct row
row_of(const struct flash *f, const struct block *b, int64_t r)
{
    const int64_t tile = r / TILE_ROWS * TILE_ROWS;

    return (struct row){
        .t = b->t0 + r,
        .n = smaller(heads_limit(&f->h, b->t0 + r), f->h.s),
        .n_all = round_up(tile_limit(f, b, tile), TILE_COLS),
        .mask = heads_mask_row(&f->h, b->b, b->t0 + r),
    };
}

static void
hide(const struct row *row, float *x, float hidden)
{
    for (int64_t s = row->n; s < row->n_all; s++)
        x[s] = hidden;
    if (row->mask != NULL)
        row_select(x, row->mask, hidden, row->n);
}

static bool
sees_any(const struct row *row)
{
    return row->mask != NULL ? memchr(row->mask, 1, (size_t)row->n) != NULL
                             : row->n > 0;
}

/* Scores to e^(score - max); what y must be multiplied by. */
static float
weigh(const struct flash *f, const struct block *b, int64_t r, float *w,
      float *lse)
{
    const struct row row = row_of(f, b, r);
    float max, sum;

    if (!sees_any(&row)) {
        memset(w, 0, (size_t)row.n_all * sizeof(float));
        *lse = -INFINITY;
        return 0;
    }
    hide(&row, w, -INFINITY);
    max = row_max(w, row.n_all);
    sum = row_exp(w, max, row.n_all);
    *lse = max + logf(sum);
    if (f->h.p == 0)
        return 1 / sum;
    /* Before y, so that what is dropped or hidden is 0 and not NaN. */
    row_scale(w, 1 / sum, row.n);
    if (isnan(sum))
        hide(&row, w, 0);
    heads_drop(&f->h, b->b, b->i, row.t, w, row.n);
    return 1;
}

/* From scores in w and y's gradient times v in dw: dropped weights in w, the
 * scores' gradient in dw. */
static void
weigh_back(const struct flash *f, const struct block *b, int64_t r, float *w,
           float *dw, float lse)
{
    const struct row row = row_of(f, b, r);

    if (!sees_any(&row)) {
        memset(w, 0, (size_t)row.n_all * sizeof(float));
        memset(dw, 0, (size_t)row.n_all * sizeof(float));
        return;
    }
    hide(&row, w, -INFINITY);
    hide(&row, dw, 0);
    row_exp(w, lse, row.n_all);
    if (f->h.p > 0)
        heads_drop(&f->h, b->b, b->i, row.t, dw, row.n);
    row_gradient(w, dw, row_dot(w, dw, row.n_all), row.n_all);
    if (f->h.p > 0)
        heads_drop(&f->h, b->b, b->i, row.t, w, row.n);
}

/* ---- one head ------------------------------------------------------------ */

static void
load_queries(const struct flash *f, struct lane *l, const struct block *b)
{
    const struct heads *h = &f->h;

    load_rows(f, l->q, h->q, heads_q_at(h, b->b, b->i, b->t0), h->q_step, b->n,
              round_up(b->n, TILE_ROWS));
    row_scale(l->q, (float)h->scale, b->n * f->dp);
}

static void
forward_block(const struct flash *f, struct lane *l, const struct block *b)
{
    const struct heads *h = &f->h;
    float *lse = f->call->out[1];
    float inverse[BLOCK_MAX], unread;

    load_queries(f, l, b);
    times_keys(f, b, l->q, l->kt, l->w);
    for (int64_t r = 0; r < b->n; r++)
        inverse[r] =
            weigh(f, b, r, l->w + r * f->sp,
                  lse != NULL ? lse + (b->b * h->h + b->i) * h->t + b->t0 + r
                              : &unread);
    times_rows(f, b, l->w, l->v, l->y);
    for (int64_t r = 0; r < b->n; r++)
        row_scale(l->y + r * f->dp, inverse[r], f->dp);
    store_rows(f, f->call->out[0], heads_y_at(h, b->b, b->i, b->t0),
               h->h * h->d, l->y, b->n);
}

static void
backward_block(const struct flash *f, struct lane *l, const struct block *b)
{
    const struct heads *h = &f->h;
    const float *lse = f->call->in[6];

    load_queries(f, l, b);
    load_rows(f, l->dy, f->call->in[0], heads_y_at(h, b->b, b->i, b->t0),
              h->h * h->d, b->n, round_up(b->n, TILE_ROWS));
    times_keys(f, b, l->q, l->kt, l->w);
    times_keys(f, b, l->dy, l->vt, l->dw);
    for (int64_t r = 0; r < b->n; r++)
        weigh_back(f, b, r, l->w + r * f->sp, l->dw + r * f->sp,
                   lse[(b->b * h->h + b->i) * h->t + b->t0 + r]);
    add_turned(f, b, l->w, l->dy, l->dv);
    add_turned(f, b, l->dw, l->q, l->dk);
    times_rows(f, b, l->dw, l->k, l->y);
    row_scale(l->y, (float)h->scale, b->n * f->dp);
    store_rows(f, f->call->out[0], heads_q_at(h, b->b, b->i, b->t0), h->q_step,
               l->y, b->n);
}

static void
load_keys(const struct flash *f, struct lane *l, int64_t b, int64_t i)
{
    const struct heads *h = &f->h;
    const int64_t at = heads_kv_at(h, b, i, 0);
    float *rows = f->backward ? l->k : l->v;

    /* Backward k stays at the end, forward v. */
    if (f->backward) {
        load_rows(f, rows, h->v, at + h->v_at, h->kv_step, h->s, f->sp);
        turn(f, l->vt, rows);
    }
    load_rows(f, rows, h->k, at + h->k_at, h->kv_step, h->s, f->sp);
    turn(f, l->kt, rows);
    if (!f->backward)
        load_rows(f, rows, h->v, at + h->v_at, h->kv_step, h->s, f->sp);
}

static void
run_head(const struct flash *f, struct lane *l, int64_t b, int64_t i)
{
    const struct heads *h = &f->h;
    const int64_t at = heads_kv_at(h, b, i, 0);
    const size_t bytes = (size_t)(f->sp * f->dp) * sizeof(float);

    load_keys(f, l, b, i);
    if (f->backward) {
        memset(l->dk, 0, bytes);
        memset(l->dv, 0, bytes);
    }
    for (int64_t t = 0; t < h->t; t += f->block) {
        const struct block block = {b, i, t, smaller(f->block, h->t - t)};

        if (f->backward)
            backward_block(f, l, &block);
        else
            forward_block(f, l, &block);
    }
    if (f->backward) {
        store_rows(f, f->call->out[h->packed ? 0 : 1], at + h->k_at, h->kv_step,
                   l->dk, h->s);
        store_rows(f, f->call->out[h->packed ? 0 : 2], at + h->v_at, h->kv_step,
                   l->dv, h->s);
    }
}

static void
run_lane(const void *ctx, int64_t lane_i)
{
    const struct flash *f = ctx;
    const int64_t n = f->h.b * f->h.h, n_lanes = f->call->sig->threads;
    struct lane l;

    lane_lay(&l, f,
             (float *)f->call->workspace + (size_t)lane_i * f->lane_elems);
    for (int64_t at = lane_i * n / n_lanes; at < (lane_i + 1) * n / n_lanes;
         at++)
        run_head(f, &l, at / f->h.h, at % f->h.h);
}

/* ---- the slots ----------------------------------------------------------- */

static struct flash
flash_make(const struct kernel_sig *sig)
{
    struct flash f = {.h = heads_make(sig),
                      .backward = sig->op == OP_ATTENTION_BWD,
                      .block = BLOCK_MAX};
    struct lane l;

    f.dp = round_up(f.h.d, TILE_COLS);
    f.sp = round_up(f.h.s, TILE_COLS);
    while (f.block > TILE_ROWS &&
           f.block * f.sp * (int64_t)sizeof(float) > BLOCK_BYTES)
        f.block /= 2;
    f.lane_elems = lane_lay(&l, &f, NULL);
    return f;
}

/* Empty sizes are the definition's business. */
static bool
supports(const struct kernel_sig *sig)
{
    struct heads h;

    if (!heads_supports(sig))
        return false;
    h = heads_make(sig);
    return h.b > 0 && h.t > 0 && h.s > 0 && h.d > 0;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    (void)state;
    return flash_make(sig).lane_elems * (size_t)sig->threads * sizeof(float);
}

static void
run(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct flash f = flash_make(sig);
    const double flops = op_flops(sig->op, &sig->params, sig->in, sig->out);

    f.h = heads_of_call(call);
    f.call = call;
    parallel_run(sig->threads, (int64_t)flops / 16, sig->threads, run_lane, &f);
}

const struct kernel flash_forward = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run};
const struct kernel flash_backward = {
    .supports = supports, .workspace_bytes = workspace_bytes, .run = run};
