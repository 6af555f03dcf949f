/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/axis.h"

#include <math.h>

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/parallel.h"

#define BLOCK      CONVERT_BLOCK
#define ITEM_ELEMS 8192

/* A line is a row (inner 1), or a segment of columns of one outer place. */
struct job {
    int64_t outer, n, inner;
    int64_t n_segments, per_item;
    bool from_end;
    const void *x;
    enum dtype tx;
    void *out;
    enum dtype to;
    struct walk walk; /* of dy, which has no axis, along x */
    double *before;   /* products of the elements before */
    void (*line)(const struct job *k, int64_t begin, int64_t width);
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool
is_float(const struct tensor_desc *t)
{
    return dtype_is_float(t->dtype) && t->dtype != DTYPE_F64;
}

static bool
is_alike(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return is_float(a) && is_float(b) && tensor_same_shape(a, b) &&
           a->layout == b->layout;
}

static void
run_item(const void *ctx, int64_t item)
{
    const struct job *k = ctx;
    const int64_t begin = item * k->per_item;
    const int64_t end = smaller(begin + k->per_item, k->outer * k->n_segments);

    for (int64_t i = begin; i < end; i++) {
        const int64_t column = i % k->n_segments * BLOCK;
        const int64_t outer = i / k->n_segments;

        k->line(k, outer * k->n * k->inner + column,
                smaller(BLOCK, k->inner - column));
    }
}

static void
run_lines(struct job *k, const struct tensor_desc *x, int axis, int threads)
{
    int64_t n_lines;

    tensor_split_axis(x, axis, &k->outer, &k->n, &k->inner);
    k->n_segments = (k->inner + BLOCK - 1) / BLOCK;
    k->per_item = 1 + ITEM_ELEMS / (1 + k->n * smaller(BLOCK, k->inner));
    n_lines = k->outer * k->n_segments;
    parallel_run((n_lines + k->per_item - 1) / k->per_item, tensor_n_elems(x),
                 threads, run_item, k);
}

/* n elements at `at`, converted; f32 in place. */
static float *
target(const struct job *k, int64_t at, float *buf)
{
    return k->to == DTYPE_F32 ? (float *)k->out + at : buf;
}

static void
store(const struct job *k, int64_t at, int64_t n, const float *y)
{
    if (k->to != DTYPE_F32)
        convert_from_f32((uint16_t *)k->out + at, k->to, y, n);
}

/* ---- running sums ----------------------------------------------------------- */

static void
cumsum_row(const struct job *k, int64_t begin)
{
    float x_buf[BLOCK], y_buf[BLOCK];
    double sum = 0;

    for (int64_t done = 0; done < k->n; done += BLOCK) {
        const int64_t n = smaller(BLOCK, k->n - done);
        const int64_t at = begin + (k->from_end ? k->n - done - n : done);
        const float *x = convert_view(k->x, k->tx, at, n, x_buf);
        float *y = target(k, at, y_buf);

        for (int64_t i = 0; i < n; i++) {
            const int64_t j = k->from_end ? n - 1 - i : i;

            sum += (double)x[j];
            y[j] = (float)sum;
        }
        store(k, at, n, y);
    }
}

CPU_CLONES static void
add_columns(const float *x, int64_t n, double *sum, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        sum[i] += (double)x[i];
        y[i] = (float)sum[i];
    }
}

static void
cumsum_line(const struct job *k, int64_t begin, int64_t width)
{
    float x_buf[BLOCK], y_buf[BLOCK];
    double sum[BLOCK];

    if (k->inner == 1) {
        cumsum_row(k, begin);
        return;
    }
    for (int64_t i = 0; i < width; i++)
        sum[i] = 0;
    for (int64_t j = 0; j < k->n; j++) {
        const int64_t at = begin + (k->from_end ? k->n - 1 - j : j) * k->inner;
        float *y = target(k, at, y_buf);

        add_columns(convert_view(k->x, k->tx, at, width, x_buf), width, sum, y);
        store(k, at, width, y);
    }
}

static bool
has_axis(const struct kernel_sig *sig, const struct tensor_desc *x)
{
    return sig->params.axis.axis >= 0 && sig->params.axis.axis < x->rank;
}

static bool
cumsum_supports(const struct kernel_sig *sig)
{
    return is_alike(&sig->in[0], &sig->out[0]) && has_axis(sig, &sig->in[0]);
}

static void
run_cumsum(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct job k = {.from_end = sig->op == OP_CUMSUM_BWD,
                    .x = call->in[0],
                    .tx = sig->in[0].dtype,
                    .out = call->out[0],
                    .to = sig->out[0].dtype,
                    .line = cumsum_line};

    run_lines(&k, &sig->in[0], sig->params.axis.axis, sig->threads);
}

const struct kernel axis_cumsum = {.supports = cumsum_supports,
                                   .run = run_cumsum};

/* ---- products ----------------------------------------------------------------- */

/* Whether y is x without the axis, or with 1 in its place, in memory order. */
static bool
is_without(const struct kernel_sig *sig, const struct tensor_desc *x,
           const struct tensor_desc *y)
{
    int at = 0;

    if (!is_float(x) || !is_float(y) || !has_axis(sig, x))
        return false;
    for (int i = 0; i < x->rank; i++) {
        const bool gone = i == sig->params.axis.axis;

        if (gone && y->rank < x->rank)
            continue;
        if (at >= y->rank || y->dim[at++] != (gone ? 1 : x->dim[i]))
            return false;
    }
    return at == y->rank;
}

#define MAP(name, expression)                                                  \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n,           \
                                double *v)                                     \
    {                                                                          \
        const float *ia = in[0], *ib = in[1];                                  \
                                                                               \
        (void)p;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const double a = (double)ia[i], b = (double)ib[i];                 \
            v[i] = (expression);                                               \
            (void)b;                                                           \
        }                                                                      \
    }

/* Over the axis of a and b, both like x. */
static struct fold_job
make_fold(const struct kernel_sig *sig, const struct tensor_desc *x,
          const struct tensor_desc *y, const void *a, const void *b)
{
    struct fold_job job = {.params = &sig->params,
                           .ty = y->dtype,
                           .n_out = tensor_n_elems(y),
                           .threads = sig->threads};

    walk_init(&job.walk, x);
    walk_add(&job.walk, x, x, a);
    walk_add(&job.walk, x, x, b);
    walk_add_reduced(&job.walk, x, 1u << sig->params.axis.axis, y, NULL);
    walk_close(&job.walk);
    return job;
}

MAP(itself, a)
MAP(times, a *b)

static bool
prod_supports(const struct kernel_sig *sig)
{
    return is_without(sig, &sig->in[0], &sig->out[0]);
}

static size_t
prod_workspace(const struct kernel_sig *sig, void *state)
{
    const struct fold_job job =
        make_fold(sig, &sig->in[0], &sig->out[0], NULL, NULL);

    (void)state;
    return fold_workspace_bytes(&job);
}

static void
run_prod(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct fold_job job =
        make_fold(sig, &sig->in[0], &sig->out[0], call->in[0], call->in[0]);

    job.map = itself;
    job.how = FOLD_PRODUCT;
    job.y = call->out[0];
    job.workspace = call->workspace;
    fold_run(&job);
}

const struct kernel axis_prod = {.supports = prod_supports,
                                 .workspace_bytes = prod_workspace,
                                 .run = run_prod};

/* dx[j] = dy (the product before j) (the product after j). */
static void
prod_bwd_line(const struct job *k, int64_t begin, int64_t width)
{
    float d_buf[BLOCK], x_buf[BLOCK], y_buf[BLOCK];
    const float *d = walk_view(&k->walk, 0, begin, width, d_buf);
    double product[BLOCK];

    for (int64_t i = 0; i < width; i++)
        product[i] = 1;
    for (int64_t j = 0; j < k->n; j++) {
        const int64_t at = begin + j * k->inner;
        const float *x = convert_view(k->x, k->tx, at, width, x_buf);

        for (int64_t i = 0; i < width; i++) {
            k->before[at + i] = product[i];
            product[i] *= (double)x[i];
        }
    }
    for (int64_t i = 0; i < width; i++)
        product[i] = 1;
    for (int64_t j = k->n - 1; j >= 0; j--) {
        const int64_t at = begin + j * k->inner;
        const float *x = convert_view(k->x, k->tx, at, width, x_buf);
        float *y = target(k, at, y_buf);

        for (int64_t i = 0; i < width; i++) {
            y[i] = (float)((double)d[i] * (k->before[at + i] * product[i]));
            product[i] *= (double)x[i];
        }
        store(k, at, width, y);
    }
}

static bool
prod_backward_supports(const struct kernel_sig *sig)
{
    return is_alike(&sig->in[1], &sig->out[0]) &&
           is_without(sig, &sig->in[1], &sig->in[0]);
}

static size_t
prod_backward_workspace(const struct kernel_sig *sig, void *state)
{
    (void)state;
    return (size_t)tensor_n_elems(&sig->in[1]) * sizeof(double);
}

static void
run_prod_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *x = &sig->in[1];
    struct job k = {.x = call->in[1],
                    .tx = x->dtype,
                    .out = call->out[0],
                    .to = sig->out[0].dtype,
                    .before = call->workspace,
                    .line = prod_bwd_line};

    if (tensor_n_elems(x) == 0)
        return;
    walk_init(&k.walk, x);
    walk_add_reduced(&k.walk, x, 1u << sig->params.axis.axis, &sig->in[0],
                     call->in[0]);
    walk_close(&k.walk);
    run_lines(&k, x, sig->params.axis.axis, sig->threads);
}

const struct kernel axis_prod_backward = {.supports = prod_backward_supports,
                                          .workspace_bytes =
                                              prod_backward_workspace,
                                          .run = run_prod_backward};

/* ---- cosine similarity ----------------------------------------------------------
 * da = b c - a (c ab / |a|^2) where c = dy / (|a| |b|); the second term only
 * while |a| is not held at eps, nor 0. */

struct sums {
    double *aa, *bb, *ab; /* of each line */
    float *direct, *to_a, *to_b;
};

static size_t
round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static const struct tensor_desc *
line_desc(const struct kernel_sig *sig)
{
    return sig->op == OP_COSINE_SIMILARITY ? &sig->out[0] : &sig->in[0];
}

static size_t
cosine_workspace(const struct kernel_sig *sig, void *state)
{
    const struct tensor_desc *y = line_desc(sig);
    const size_t n = (size_t)tensor_n_elems(y);
    const struct fold_job job =
        make_fold(sig, &sig->in[sig->n_in - 1], y, NULL, NULL);

    (void)state;
    return 3 * round_up(n * sizeof(double)) + 3 * round_up(n * sizeof(float)) +
           fold_workspace_bytes(&job);
}

static struct sums
sum_lines(const struct kernel_call *call, int first)
{
    const struct kernel_sig *sig = call->sig;
    const void *a = call->in[first], *b = call->in[first + 1];
    const size_t n = (size_t)tensor_n_elems(line_desc(sig));
    char *memory = call->workspace;
    double *sum[3];
    float *spread[3];

    for (int i = 0; i < 3; i++, memory += round_up(n * sizeof(double)))
        sum[i] = (double *)(void *)memory;
    for (int i = 0; i < 3; i++, memory += round_up(n * sizeof(float)))
        spread[i] = (float *)(void *)memory;
    for (int i = 0; i < 3; i++) {
        struct fold_job job = make_fold(sig, &sig->in[first], line_desc(sig),
                                        i == 1 ? b : a, i == 0 ? a : b);

        job.map = times;
        job.y = sum[i];
        job.ty = DTYPE_F64;
        job.workspace = memory;
        fold_run(&job);
    }
    return (struct sums){sum[0],    sum[1],    sum[2],
                         spread[0], spread[1], spread[2]};
}

/* |a|, at least eps; NaN stays. */
static double
norm_of(double squares, double eps)
{
    const double norm = sqrt(squares);

    return norm < eps ? eps : norm;
}

static void
run_cosine_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const double eps = sig->params.axis.eps;
    const struct sums s = sum_lines(call, 0);
    const int64_t n = tensor_n_elems(&sig->out[0]);

    for (int64_t i = 0; i < n; i++)
        convert_put(
            call->out[0], sig->out[0].dtype, i,
            (float)(s.ab[i] / (norm_of(s.aa[i], eps) * norm_of(s.bb[i], eps))));
}

CPU_CLONES static void
gradient(const float *const *in, const union op_params *p, int64_t n, float *y)
{
    const float *own = in[0], *other = in[1], *direct = in[2], *back = in[3];

    (void)p;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)((double)other[i] * (double)direct[i] -
                       (double)own[i] * (double)back[i]);
}

static void
run_gradient(const struct kernel_call *call, int own, const float *direct,
             const float *back)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *x = &sig->out[own];
    const struct tensor_desc line =
        tensor_with_dtype(line_desc(sig), DTYPE_F32);
    const unsigned dims = 1u << sig->params.axis.axis;
    struct broadcast_job job = {.fn = gradient,
                                .params = &sig->params,
                                .y = call->out[own],
                                .ty = x->dtype,
                                .threads = sig->threads};

    walk_init(&job.walk, x);
    walk_add(&job.walk, x, &sig->in[1 + own], call->in[1 + own]);
    walk_add(&job.walk, x, &sig->in[2 - own], call->in[2 - own]);
    walk_add_reduced(&job.walk, x, dims, &line, direct);
    walk_add_reduced(&job.walk, x, dims, &line, back);
    walk_close(&job.walk);
    broadcast_run(&job);
}

static void
run_cosine_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const double eps = sig->params.axis.eps;
    const struct sums s = sum_lines(call, 1);
    const int64_t n = tensor_n_elems(&sig->in[0]);

    for (int64_t i = 0; i < n; i++) {
        const double a = norm_of(s.aa[i], eps), b = norm_of(s.bb[i], eps);
        const double dy = (double)convert_get(call->in[0], sig->in[0].dtype, i);
        const double direct = dy / (a * b);
        const bool a_moves = !(sqrt(s.aa[i]) < eps) && s.aa[i] != 0;
        const bool b_moves = !(sqrt(s.bb[i]) < eps) && s.bb[i] != 0;

        s.direct[i] = (float)direct;
        s.to_a[i] = a_moves ? (float)(direct * s.ab[i] / (a * a)) : 0;
        s.to_b[i] = b_moves ? (float)(direct * s.ab[i] / (b * b)) : 0;
    }
    for (int own = 0; own < 2; own++)
        if (call->out[own] != NULL)
            run_gradient(call, own, s.direct, own == 0 ? s.to_a : s.to_b);
}

static bool
cosine_supports(const struct kernel_sig *sig)
{
    const int first = sig->op == OP_COSINE_SIMILARITY ? 0 : 1;
    const struct tensor_desc *a = &sig->in[first];

    if (!is_alike(a, &sig->in[first + 1]) ||
        !is_without(sig, a, line_desc(sig)))
        return false;
    for (int i = 0; i < sig->n_out && first == 1; i++)
        if (sig->out[i].dtype != DTYPE_NONE && !is_alike(a, &sig->out[i]))
            return false;
    return true;
}

static void
run_cosine(const struct kernel_call *call)
{
    if (call->sig->op == OP_COSINE_SIMILARITY)
        run_cosine_forward(call);
    else
        run_cosine_backward(call);
}

const struct kernel axis_cosine = {.supports = cosine_supports,
                                   .workspace_bytes = cosine_workspace,
                                   .run = run_cosine};
