/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/fold.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#define ITEM_ELEMS  8192  /* of an item of parallel_run, at least */
#define CHUNK_ELEMS 32768 /* of a chunk, at least */
#define MANY_GROUPS 16    /* so many need no chunks */
#define MAX_CHUNKS  64    /* of all groups together */

/* A group is one place of the kept axes and a segment of the innermost kept
 * run; its rows, of all places of the folded axes, are folded into it. */
struct plan {
    const struct fold_job *job;
    int n_outer;                  /* axes before the rows */
    bool folded[TENSOR_MAX_RANK]; /* of those */
    int64_t n_kept;               /* places of the kept ones */
    int64_t rows_inner;           /* neighbouring rows */
    int64_t rows;                 /* of a group, in all */
    int64_t m;                    /* elements of a row */
    int64_t out_step;             /* between the results of a row */
    int64_t segment, n_segments;
    int64_t line; /* elements added side by side */
    int64_t n_groups, groups_per_item;
    int64_t n_chunks, rows_per_chunk;
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
at_least_one(int64_t a)
{
    return a < 1 ? 1 : a;
}

static const int64_t *
out_strides(const struct fold_job *job)
{
    return job->walk.operand[job->walk.n_operands - 1].stride;
}

/* The axes, last to first: a run that is kept, rows that are folded, others. */
static void
plan_axes(struct plan *p)
{
    const struct walk *w = &p->job->walk;
    const int64_t *out = out_strides(p->job);
    int64_t n_folded = 1;
    int i = w->rank;

    p->m = p->rows_inner = p->n_kept = 1;
    p->out_step = 1;
    if (i > 0 && out[i - 1] != 0) {
        p->m = w->dim[--i];
        p->out_step = out[i];
    }
    if (i > 0 && out[i - 1] == 0)
        p->rows_inner = w->dim[--i];
    p->n_outer = i;
    while (i-- > 0) {
        p->folded[i] = out[i] == 0;
        *(p->folded[i] ? &n_folded : &p->n_kept) *= w->dim[i];
    }
    p->rows = n_folded * p->rows_inner;
}

static struct plan
make_plan(const struct fold_job *job)
{
    struct plan p = {.job = job};
    int64_t chunks;

    plan_axes(&p);
    p.segment = smaller(p.m, WALK_BLOCK);
    p.n_segments = (p.m + p.segment - 1) / p.segment;
    p.line = p.m <= WALK_BLOCK ? WALK_BLOCK / p.m * p.m : p.segment;
    p.n_groups = p.n_kept * p.n_segments;
    p.groups_per_item =
        at_least_one(ITEM_ELEMS / at_least_one(p.rows * p.segment));
    chunks = smaller(MAX_CHUNKS / p.n_groups, p.rows * p.segment / CHUNK_ELEMS);
    if (p.n_groups >= MANY_GROUPS || chunks < 2)
        chunks = 1;
    p.rows_per_chunk = (p.rows + chunks - 1) / chunks;
    p.n_chunks = p.rows_per_chunk > 0
                     ? (p.rows + p.rows_per_chunk - 1) / p.rows_per_chunk
                     : 1;
    return p;
}

size_t
fold_workspace_bytes(const struct fold_job *job)
{
    struct plan p;

    if (job->n_out == 0)
        return 0;
    p = make_plan(job);
    return p.n_chunks > 1
               ? (size_t)(p.n_groups * p.n_chunks * p.segment) * sizeof(double)
               : 0;
}

/* ---- a group ------------------------------------------------------------- */

CPU_CLONES static void
set(double value, int64_t n, double *acc)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        acc[i] = value;
}

CPU_CLONES static void
add(const double *v, int64_t n, double *acc)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        acc[i] += v[i];
}

CPU_CLONES static void
keep_greater(const double *v, int64_t n, double *acc)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        acc[i] = v[i] > acc[i] || v[i] != v[i] ? v[i] : acc[i];
}

CPU_CLONES static void
multiply(const double *v, int64_t n, double *acc)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        acc[i] *= v[i];
}

static void
fold(const struct plan *p, const double *v, int64_t n, double *acc)
{
    switch (p->job->how) {
    case FOLD_SUM: add(v, n, acc); break;
    case FOLD_MAX: keep_greater(v, n, acc); break;
    case FOLD_PRODUCT: multiply(v, n, acc); break;
    }
}

/* Of place `number` among the outer axes that are folded, or are not: where it
 * begins in the base and, by *out, in the output. */
static int64_t
locate(const struct plan *p, bool folded, int64_t number, int64_t *out)
{
    const struct walk *w = &p->job->walk;
    int64_t at = 0;

    for (int i = p->n_outer - 1; i >= 0; i--) {
        if (p->folded[i] != folded)
            continue;
        at += number % w->dim[i] * w->step[i];
        if (out != NULL)
            *out += number % w->dim[i] * out_strides(p->job)[i];
        number /= w->dim[i];
    }
    return at;
}

/* n neighbouring elements from at on, into acc. */
static void
fold_block(const struct plan *p, int64_t at, int64_t n, double *acc)
{
    const struct walk *w = &p->job->walk;
    float buf[WALK_MAX - 1][WALK_BLOCK];
    const float *in[WALK_MAX] = {NULL};
    double v[WALK_BLOCK];

    for (int k = 0; k + 1 < w->n_operands; k++)
        in[k] = walk_view(w, k, at, n, buf[k]);
    p->job->map(in, p->job->params, n, v);
    fold(p, v, n, acc);
}

/* Rows [begin, end) of the group at `base`, column onwards. */
static void
fold_rows(const struct plan *p, int64_t base, int64_t begin, int64_t end,
          int64_t width, double *acc)
{
    for (int64_t row = begin; row < end;) {
        const int64_t inner = row % p->rows_inner;
        const int64_t n = smaller(p->rows_inner - inner, end - row);
        const int64_t at =
            base + inner * p->m + locate(p, true, row / p->rows_inner, NULL);

        if (p->n_segments > 1) {
            for (int64_t i = 0; i < n; i++)
                fold_block(p, at + i * p->m, width, acc);
        } else {
            for (int64_t i = 0; i < n * p->m; i += p->line)
                fold_block(p, at + i, smaller(p->line, n * p->m - i), acc);
        }
        row += n;
    }
}

/* Leaves the group's results over rows [begin, end) in acc; their number, and
 * in *out where they go. */
static int64_t
fold_group(const struct plan *p, int64_t group, int64_t begin, int64_t end,
           double *acc, int64_t *out)
{
    const int64_t column = group % p->n_segments * p->segment;
    const int64_t width = smaller(p->segment, p->m - column);
    static const double start[] = {0, -(double)INFINITY, 1};
    /* Lines that nothing fills need no place. */
    int64_t used =
        p->n_segments > 1 ? width : smaller(p->line, (end - begin) * p->m);
    int64_t base;

    used = used < width ? width : used;
    *out = column * p->out_step;
    base = locate(p, false, group / p->n_segments, out) + column;
    set(start[p->job->how], used, acc);
    fold_rows(p, base, begin, end, width, acc);
    /* The rows of the line into one: the upper half onto the lower. */
    for (int64_t n = used / width; n > 1; n -= n / 2)
        fold(p, acc + (n - n / 2) * width, n / 2 * width, acc);
    return width;
}

/* ---- results ------------------------------------------------------------- */

static void
store(const struct plan *p, int64_t out, int64_t n, double *result)
{
    const struct fold_job *job = p->job;
    float rounded[WALK_BLOCK];

    if (job->finish != NULL)
        job->finish(job->params, job->n_out > 0 ? job->walk.n / job->n_out : 0,
                    n, result);
    for (int64_t i = 0; i < n && job->ty == DTYPE_F64; i++)
        ((double *)job->y)[out + i * p->out_step] = result[i];
    if (job->ty == DTYPE_F64)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        rounded[i] = (float)result[i];
    if (p->out_step == 1 && dtype_is_half(job->ty))
        convert_from_f32((uint16_t *)job->y + out, job->ty, rounded, n);
    else
        for (int64_t i = 0; i < n; i++)
            convert_put(job->y, job->ty, out + i * p->out_step, rounded[i]);
}

static void
run_groups(const void *ctx, int64_t item)
{
    const struct plan *p = ctx;
    const int64_t begin = item * p->groups_per_item;
    const int64_t end = smaller(begin + p->groups_per_item, p->n_groups);
    double acc[WALK_BLOCK];

    for (int64_t group = begin; group < end; group++) {
        int64_t out;
        const int64_t n = fold_group(p, group, 0, p->rows, acc, &out);

        store(p, out, n, acc);
    }
}

static double *
partial(const struct plan *p, int64_t item)
{
    return (double *)p->job->workspace + item * p->segment;
}

/* Item: chunk by chunk of group by group. */
static void
run_chunk(const void *ctx, int64_t item)
{
    const struct plan *p = ctx;
    const int64_t begin = item % p->n_chunks * p->rows_per_chunk;
    double acc[WALK_BLOCK];
    int64_t out;
    const int64_t n =
        fold_group(p, item / p->n_chunks, begin,
                   smaller(begin + p->rows_per_chunk, p->rows), acc, &out);

    for (int64_t i = 0; i < n; i++)
        partial(p, item)[i] = acc[i];
}

static void
join_chunks(const void *ctx, int64_t group)
{
    const struct plan *p = ctx;
    const int64_t column = group % p->n_segments * p->segment;
    const int64_t n = smaller(p->segment, p->m - column);
    double *sum = partial(p, group * p->n_chunks);
    int64_t out = column * p->out_step;

    locate(p, false, group / p->n_segments, &out);
    for (int64_t c = 1; c < p->n_chunks; c++)
        fold(p, partial(p, group * p->n_chunks + c), n, sum);
    store(p, out, n, sum);
}

void
fold_run(const struct fold_job *job)
{
    struct plan p;

    if (job->n_out == 0)
        return;
    p = make_plan(job);
    if (p.n_chunks == 1) {
        parallel_run((p.n_groups + p.groups_per_item - 1) / p.groups_per_item,
                     job->walk.n, job->threads, run_groups, &p);
        return;
    }
    parallel_run(p.n_groups * p.n_chunks, job->walk.n, job->threads, run_chunk,
                 &p);
    parallel_run(p.n_groups, p.n_groups * p.n_chunks * p.segment, job->threads,
                 join_chunks, &p);
}
