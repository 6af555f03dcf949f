/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/heads.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

/* Heads are dealt to lanes, one for each thread; what a lane holds of a head,
 * as float32. A head's result does not depend on its lane. */
struct lane {
    float *kt, *vt;    /* [d][s]; vt backward only */
    float *k, *v;      /* [s][d]; k backward, v forward only */
    float *dk, *dv;    /* [s][d]; backward */
    float *w, *dw;     /* [s]: weights of a query and their gradient */
    float *q, *dy, *y; /* [d]; y: or dq */
};

struct attention {
    struct heads h;
    bool backward;
    const struct kernel_call *call;
    size_t lane_elems;
    int n_lanes;
};

/* ---- vectors ------------------------------------------------------------- */

/* y += a x */
CPU_CLONES static void
add_scaled(float *y, const float *x, float a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

CPU_CLONES static void
scale_row(float *x, float a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= a;
}

CPU_CLONES static void
exp_row(float *x, double shift, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = vmath_exp((double)x[i] - shift);
}

/* out[j] = sum over i of x[i] m[i][j] */
static void
row_times(float *out, const float *x, const float *m, int64_t rows,
          int64_t cols)
{
    memset(out, 0, (size_t)cols * sizeof(float));
    for (int64_t i = 0; i < rows; i++)
        add_scaled(out, m + i * cols, x[i], cols);
}

/* ---- a lane's memory ----------------------------------------------------- */

/* Members stay NULL while base is. */
static float *
take(float *base, size_t *at, int64_t n)
{
    float *p = base != NULL ? base + *at : NULL;

    *at += (size_t)(n + 15) / 16 * 16;
    return p;
}

/* The floats that a lane needs; its members, from base on. */
static size_t
lane_lay(struct lane *l, const struct attention *a, float *base)
{
    const int64_t matrix = a->h.s * a->h.d;
    size_t at = 0;

    memset(l, 0, sizeof(*l));
    l->kt = take(base, &at, matrix);
    if (a->backward) {
        l->vt = take(base, &at, matrix);
        l->k = take(base, &at, matrix);
        l->dk = take(base, &at, matrix);
        l->dv = take(base, &at, matrix);
    } else {
        l->v = take(base, &at, matrix);
    }
    l->w = take(base, &at, a->h.s);
    l->dw = take(base, &at, a->h.s);
    l->q = take(base, &at, a->h.d);
    l->dy = take(base, &at, a->h.d);
    l->y = take(base, &at, a->h.d);
    return at;
}

static void
load(float *to, const void *from, enum dtype t, int64_t at, int64_t n)
{
    convert_to_f32(to, (const char *)from + (size_t)at * dtype_size_bytes(t), t,
                   n);
}

static void
store(void *to, enum dtype t, int64_t at, const float *from, int64_t n)
{
    if (to != NULL)
        convert_from_f32((char *)to + (size_t)at * dtype_size_bytes(t), t, from,
                         n);
}

static void
transpose(float *to, const float *from, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[j * rows + i] = from[i * cols + j];
}

/* Rows of k or v of a head; data with the element offset of the packed one. */
static void
load_keys(const struct heads *h, int64_t b, int64_t i, const void *data,
          int64_t offset, float *rows)
{
    for (int64_t s = 0; s < h->s; s++)
        load(rows + s * h->d, data, h->dtype, heads_kv_at(h, b, i, s) + offset,
             h->d);
}

static void
store_keys(const struct heads *h, int64_t b, int64_t i, void *data,
           int64_t offset, const float *rows)
{
    for (int64_t s = 0; s < h->s; s++)
        store(data, h->dtype, heads_kv_at(h, b, i, s) + offset, rows + s * h->d,
              h->d);
}

/* ---- one query ----------------------------------------------------------- */

/* Scores of query t into w, those it may see; the number of keys to look at. */
static int64_t
scores(const struct heads *h, struct lane *l, int64_t t)
{
    row_times(l->w, l->q, l->kt, h->d, h->s);
    scale_row(l->w, (float)h->scale, h->s);
    return heads_limit(h, t);
}

/* Whether any of n keys is seen, and the greatest of their scores. */
static bool
greatest(const float *w, const uint8_t *mask, int64_t n, double *max)
{
    bool any = false;

    *max = (double)-INFINITY;
    for (int64_t s = 0; s < n; s++)
        if (mask == NULL || mask[s] != 0) {
            any = true;
            if ((double)w[s] > *max)
                *max = (double)w[s];
        }
    return any;
}

static void
hide(float *w, const uint8_t *mask, int64_t n)
{
    for (int64_t s = 0; mask != NULL && s < n; s++)
        if (mask[s] == 0)
            w[s] = 0;
}

static float
forward_query(const struct heads *h, struct lane *l, int64_t b, int64_t i,
              int64_t t)
{
    const uint8_t *mask = heads_mask_row(h, b, t);
    const int64_t n = scores(h, l, t);
    double max, sum = 0;

    memset(l->y, 0, (size_t)h->d * sizeof(float));
    if (!greatest(l->w, mask, n, &max))
        return -INFINITY;
    exp_row(l->w, max, n);
    hide(l->w, mask, n);
    for (int64_t s = 0; s < n; s++)
        sum += (double)l->w[s];
    scale_row(l->w, (float)(1 / sum), n);
    if (h->p > 0)
        heads_drop(h, b, i, t, l->w, n);
    for (int64_t s = 0; s < n; s++)
        if (mask == NULL || mask[s] != 0)
            add_scaled(l->y, l->v + s * h->d, l->w[s], h->d);
    return (float)(max + log(sum));
}

/* In l->y the query's gradient; adds to those of its keys. */
static void
backward_query(const struct heads *h, struct lane *l, int64_t b, int64_t i,
               int64_t t, double lse)
{
    const uint8_t *mask = heads_mask_row(h, b, t);
    const int64_t n = scores(h, l, t);
    double delta = 0;

    memset(l->y, 0, (size_t)h->d * sizeof(float));
    exp_row(l->w, lse, n);
    hide(l->w, mask, n);
    row_times(l->dw, l->dy, l->vt, h->d, h->s);
    hide(l->dw, mask, n);
    if (h->p > 0)
        heads_drop(h, b, i, t, l->dw, n);
    for (int64_t s = 0; s < n; s++)
        delta += (double)l->w[s] * (double)l->dw[s];
    for (int64_t s = 0; s < n; s++)
        l->dw[s] = l->w[s] * (l->dw[s] - (float)delta) * (float)h->scale;
    if (h->p > 0)
        heads_drop(h, b, i, t, l->w, n);
    for (int64_t s = 0; s < n; s++) {
        if (mask != NULL && mask[s] == 0)
            continue;
        add_scaled(l->dv + s * h->d, l->dy, l->w[s], h->d);
        add_scaled(l->dk + s * h->d, l->q, l->dw[s], h->d);
        add_scaled(l->y, l->k + s * h->d, l->dw[s], h->d);
    }
}

/* ---- one head ------------------------------------------------------------ */

static void
forward_head(const struct attention *a, struct lane *l, int64_t b, int64_t i)
{
    const struct heads *h = &a->h;
    float *lse = a->call->out[1];

    load_keys(h, b, i, h->k, h->k_at, l->v);
    transpose(l->kt, l->v, h->s, h->d);
    load_keys(h, b, i, h->v, h->v_at, l->v);
    for (int64_t t = 0; t < h->t; t++) {
        float row_lse;

        load(l->q, h->q, h->dtype, heads_q_at(h, b, i, t), h->d);
        row_lse = forward_query(h, l, b, i, t);
        store(a->call->out[0], h->dtype, heads_y_at(h, b, i, t), l->y, h->d);
        if (lse != NULL)
            lse[(b * h->h + i) * h->t + t] = row_lse;
    }
}

static void
backward_head(const struct attention *a, struct lane *l, int64_t b, int64_t i)
{
    const struct heads *h = &a->h;
    const void *dy = a->call->in[0];
    const float *lse = a->call->in[6];
    void *const *out = a->call->out;
    const size_t bytes = (size_t)(h->s * h->d) * sizeof(float);

    load_keys(h, b, i, h->v, h->v_at, l->k);
    transpose(l->vt, l->k, h->s, h->d);
    load_keys(h, b, i, h->k, h->k_at, l->k);
    transpose(l->kt, l->k, h->s, h->d);
    memset(l->dk, 0, bytes);
    memset(l->dv, 0, bytes);
    for (int64_t t = 0; t < h->t; t++) {
        load(l->q, h->q, h->dtype, heads_q_at(h, b, i, t), h->d);
        load(l->dy, dy, h->dtype, heads_y_at(h, b, i, t), h->d);
        backward_query(h, l, b, i, t, (double)lse[(b * h->h + i) * h->t + t]);
        store(out[0], h->dtype, heads_q_at(h, b, i, t), l->y, h->d);
    }
    store_keys(h, b, i, out[h->packed ? 0 : 1], h->k_at, l->dk);
    store_keys(h, b, i, out[h->packed ? 0 : 2], h->v_at, l->dv);
}

static void
run_lane(const void *ctx, int64_t lane_i)
{
    const struct attention *a = ctx;
    const int64_t n = a->h.b * a->h.h;
    struct lane l;

    lane_lay(&l, a,
             (float *)a->call->workspace + (size_t)lane_i * a->lane_elems);
    for (int64_t at = lane_i * n / a->n_lanes;
         at < (lane_i + 1) * n / a->n_lanes; at++) {
        if (a->backward)
            backward_head(a, &l, at / a->h.h, at % a->h.h);
        else
            forward_head(a, &l, at / a->h.h, at % a->h.h);
    }
}

/* ---- the slots ----------------------------------------------------------- */

static struct attention
attention_make(const struct kernel_sig *sig)
{
    struct attention a = {.h = heads_make(sig),
                          .backward = sig->op == OP_ATTENTION_BWD,
                          .n_lanes = sig->threads};
    struct lane l;

    a.lane_elems = lane_lay(&l, &a, NULL);
    return a;
}

static size_t
workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct attention a = attention_make(sig);

    (void)state;
    return a.lane_elems * (size_t)a.n_lanes * sizeof(float);
}

static void
run(const struct kernel_call *call)
{
    struct attention a = attention_make(call->sig);
    const double flops = op_flops(call->sig->op, &call->sig->params,
                                  call->sig->in, call->sig->out);

    a.h = heads_of_call(call);
    a.call = call;
    parallel_run(a.n_lanes, (int64_t)flops / 16, call->sig->threads, run_lane,
                 &a);
}

const struct kernel attention_forward = {
    .supports = heads_supports, .workspace_bytes = workspace_bytes, .run = run};
const struct kernel attention_backward = {
    .supports = heads_supports, .workspace_bytes = workspace_bytes, .run = run};
