/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/product.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dnnl/product_private.h"

#define CHUNK 16384

/* ---- conversion ---------------------------------------------------------- */

static void
convert(void *dst, enum dtype to, const void *src, enum dtype from, int64_t n)
{
    if (to == DTYPE_F32) {
        convert_to_f32(dst, src, from, n);
    } else {
        assert(from == DTYPE_F32 || from == to);
        if (from == to)
            memcpy(dst, src, (size_t)n * dtype_size_bytes(to));
        else
            convert_from_f32(dst, to, src, n);
    }
}

struct conversion {
    const void *src;
    void *dst;
    enum dtype from, to;
    int64_t n;
};

static void
convert_chunk(const void *ctx, int64_t item)
{
    const struct conversion *c = ctx;
    const int64_t at = item * CHUNK;
    const int64_t n = c->n - at < CHUNK ? c->n - at : (int64_t)CHUNK;

    convert((char *)c->dst + (size_t)at * dtype_size_bytes(c->to), c->to,
            (const char *)c->src + (size_t)at * dtype_size_bytes(c->from),
            c->from, n);
}

static void
convert_all(const struct conversion *c, int threads)
{
    parallel_run((c->n + CHUNK - 1) / CHUNK, c->n, threads, convert_chunk, c);
}

/* ---- tensors that are not cut -------------------------------------------- */

/* onednn_run() takes tensors that it only reads without const. */
static void *
unconst(const void *p)
{
    union {
        const void *in;
        void *out;
    } u = {.in = p};

    return u.out;
}

/* Where the primitive reads tensor i, made ready. */
static void *
bring(const struct product *p, int i, const void *from, char *workspace)
{
    const struct product_leg *leg = &p->leg[i];
    void *at = unconst(from);

    if (leg->converted_at != PRODUCT_NOWHERE) {
        const struct conversion c = {at, workspace + leg->converted_at,
                                     leg->ours, leg->theirs, leg->n};

        convert_all(&c, p->threads);
        at = c.dst;
    }
    if (leg->reorder != NULL) {
        void *data[PDESC_MAX] = {at, workspace + leg->reordered_at};

        onednn_run(leg->reorder, data, workspace + p->scratch_at);
        at = data[1];
    }
    return at;
}

/* Where the primitive writes its output. */
static void *
landing(const struct product *p, void *to, char *workspace)
{
    const struct product_leg *leg = &p->leg[PDESC_OUT];

    if (leg->reorder != NULL)
        return workspace + leg->reordered_at;
    if (leg->converted_at != PRODUCT_NOWHERE)
        return workspace + leg->converted_at;
    return to;
}

/* From there to the caller. */
static void
carry(const struct product *p, void *from, void *to, char *workspace)
{
    const struct product_leg *leg = &p->leg[PDESC_OUT];
    const bool converts = leg->converted_at != PRODUCT_NOWHERE;

    if (leg->reorder != NULL) {
        void *data[PDESC_MAX] = {from,
                                 converts ? workspace + leg->converted_at : to};

        onednn_run(leg->reorder, data, workspace + p->scratch_at);
        from = data[1];
    }
    if (converts) {
        const struct conversion c = {from, to, leg->theirs, leg->ours, leg->n};

        convert_all(&c, p->threads);
    } else if (from != to) {
        memcpy(to, from, (size_t)leg->n * dtype_size_bytes(leg->ours));
    }
}

/* ---- pieces -------------------------------------------------------------- */

struct run {
    const struct product *p;
    const struct kernel_call *call;
    void *shared[PDESC_MAX]; /* of inputs that are not cut */
};

/* n of length, from `at`, of a cut tensor: how its memory is walked. Rows are
 * one run of memory; columns a run in each row. */
struct walk {
    int64_t n_runs, run, stride, first; /* elements */
};

static struct walk
walk_of(const struct product *p, const struct product_leg *leg, int64_t at,
        int64_t n)
{
    const int64_t other = leg->n / p->length;

    if (leg->is_columns)
        return (struct walk){other, n, p->length, at};
    return (struct walk){1, n * other, 0, at * other};
}

static void *
piece_of(const struct product_leg *leg, const void *base, const struct walk *w,
         char *lane)
{
    if (leg->piece_at != PRODUCT_NOWHERE)
        return lane + leg->piece_at;
    return (char *)unconst(base) +
           (size_t)w->first * dtype_size_bytes(leg->ours);
}

static void
load_piece(const struct product_leg *leg, const void *base,
           const struct walk *w, void *piece)
{
    const size_t from = dtype_size_bytes(leg->ours);
    const size_t to = dtype_size_bytes(leg->theirs);

    for (int64_t i = 0; i < w->n_runs; i++)
        convert((char *)piece + (size_t)(i * w->run) * to, leg->theirs,
                (const char *)base + (size_t)(w->first + i * w->stride) * from,
                leg->ours, w->run);
}

static void
store_piece(const struct product_leg *leg, void *base, const struct walk *w,
            const void *piece)
{
    const size_t from = dtype_size_bytes(leg->theirs);
    const size_t to = dtype_size_bytes(leg->ours);

    for (int64_t i = 0; i < w->n_runs; i++)
        convert((char *)base + (size_t)(w->first + i * w->stride) * to,
                leg->ours, (const char *)piece + (size_t)(i * w->run) * from,
                leg->theirs, w->run);
}

CPU_CLONES static void
add_floats(float *sum, const float *term, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += term[i];
}

static void
run_piece(const struct run *r, int64_t lane_i, int64_t item, bool is_first)
{
    const struct product *p = r->p;
    const struct product_leg *out = &p->leg[PDESC_OUT];
    char *lane = (char *)r->call->workspace + p->lanes_at +
                 (size_t)lane_i * p->lane_bytes;
    const int64_t at = item * p->piece;
    const bool is_tail = at + p->piece > p->length;
    const int64_t n = is_tail ? p->length - at : p->piece;
    const struct walk out_walk = walk_of(p, out, at, n);
    void *data[PDESC_MAX] = {NULL};

    for (int i = 0; i < PDESC_OUT; i++) {
        const struct product_leg *leg = &p->leg[i];
        const struct walk w = walk_of(p, leg, at, n);

        data[i] = r->shared[i];
        if (!leg->is_cut)
            continue;
        data[i] = piece_of(leg, r->call->in[i], &w, lane);
        if (leg->piece_at != PRODUCT_NOWHERE)
            load_piece(leg, r->call->in[i], &w, data[i]);
    }
    if (out->is_cut)
        data[PDESC_OUT] = piece_of(out, r->call->out[0], &out_walk, lane);
    else
        data[PDESC_OUT] = lane + (is_first ? p->sum_at : p->term_at);
    onednn_run(is_tail ? p->tail : p->lane[lane_i], data,
               lane + p->lane_scratch_at);
    if (out->is_cut && out->piece_at != PRODUCT_NOWHERE)
        store_piece(out, r->call->out[0], &out_walk, data[PDESC_OUT]);
    if (!out->is_cut && !is_first)
        add_floats((float *)(void *)(lane + p->sum_at), data[PDESC_OUT],
                   (int64_t)(p->sum_bytes / sizeof(float)));
}

static void
run_lane(const void *ctx, int64_t lane_i)
{
    const struct run *r = ctx;
    const int64_t first = lane_i * r->p->n_pieces / r->p->n_lanes;
    const int64_t end = (lane_i + 1) * r->p->n_pieces / r->p->n_lanes;

    for (int64_t i = first; i < end; i++)
        run_piece(r, lane_i, i, i == first);
}

/* The lanes' sums, in order, into the first. */
static void *
join_sums(const struct product *p, char *workspace)
{
    char *first = workspace + p->lanes_at + p->sum_at;

    for (int i = 1; i < p->n_lanes; i++)
        add_floats(
            (float *)(void *)first,
            (const float *)(const void *)(first + (size_t)i * p->lane_bytes),
            (int64_t)(p->sum_bytes / sizeof(float)));
    return first;
}

void
product_run(const struct kernel_call *call)
{
    const struct product *p = call->state;
    char *workspace = call->workspace;
    struct run r = {.p = p, .call = call};

    for (int i = 0; i < PDESC_OUT; i++)
        if (p->leg[i].ours != DTYPE_NONE && !p->leg[i].is_cut)
            r.shared[i] = bring(p, i, call->in[i], workspace);
    if (p->n_pieces == 1) {
        r.shared[PDESC_OUT] = landing(p, call->out[0], workspace);
        onednn_run(p->lane[0], r.shared,
                   workspace + p->lanes_at + p->lane_scratch_at);
        carry(p, r.shared[PDESC_OUT], call->out[0], workspace);
        return;
    }
    /* All threads even when there are fewer lanes: OpenMP would end those that
     * a smaller team leaves over. */
    parallel_run(p->n_lanes, INT64_MAX, p->threads, run_lane, &r);
    if (!p->leg[PDESC_OUT].is_cut)
        carry(p, join_sums(p, workspace), call->out[0], workspace);
}
