/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/reduce.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

/* ---- what an element adds -------------------------------------------------- */

#define MAP(name, expression)                                                  \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n,           \
                                double *v)                                     \
    {                                                                          \
        const float *ix = in[0], *iy = in[1];                                  \
                                                                               \
        (void)p, (void)iy;                                                     \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const double x = (double)ix[i];                                    \
            v[i] = (expression);                                               \
        }                                                                      \
    }

MAP(itself, x)
MAP(size, x < 0 ? -x : x)
MAP(square, x *x)
MAP(is_there, x != x ? x : x != 0 ? 1.0 : 0.0)
MAP(power, vmath_pow_wide(x, p->reduce.p))
/* in 1: the maximum, then the norm. */
MAP(exp_below, vmath_exp_full(x - (double)iy[i]))
MAP(is_norm, (x < 0 ? -x : x) == (double)iy[i] ? 1.0 : 0.0)

static void
finish_mean(const union op_params *p, int64_t length, int64_t n, double *result)
{
    (void)p;
    for (int64_t i = 0; i < n; i++)
        result[i] /= (double)length;
}

static void
finish_root(const union op_params *p, int64_t length, int64_t n, double *result)
{
    (void)p, (void)length;
    for (int64_t i = 0; i < n; i++)
        result[i] = sqrt(result[i]);
}

static void
finish_power(const union op_params *p, int64_t length, int64_t n,
             double *result)
{
    (void)length;
    for (int64_t i = 0; i < n; i++)
        result[i] = pow(result[i], 1 / p->reduce.p);
}

/* The greatest of no sizes is 0. */
static void
finish_size(const union op_params *p, int64_t length, int64_t n, double *result)
{
    (void)p;
    for (int64_t i = 0; i < n && length == 0; i++)
        result[i] = 0;
}

/* ---- forward ---------------------------------------------------------------- */

static bool
is_float(const struct tensor_desc *t)
{
    return dtype_is_float(t->dtype) && t->dtype != DTYPE_F64;
}

/* Whether y is x without the dims, or with ones in their place. */
static bool
is_reduced(const struct tensor_desc *x, unsigned dims,
           const struct tensor_desc *y)
{
    const bool keeps = y->rank == x->rank;
    int at = 0;

    for (int i = 0; i < x->rank; i++) {
        const bool reduced = dims >> i & 1;

        if (reduced && !keeps)
            continue;
        if (at >= y->rank || y->dim[at] != (reduced ? 1 : x->dim[i]))
            return false;
        at++;
    }
    return at == y->rank;
}

static bool
forward_supports(const struct kernel_sig *sig)
{
    const double p = sig->params.reduce.p;

    if (sig->op == OP_NORM && (isnan(p) || p < 0))
        return false;
    return is_float(&sig->in[0]) && is_float(&sig->out[0]) &&
           is_reduced(&sig->in[0], sig->params.reduce.dims, &sig->out[0]);
}

/* x, perhaps a tensor of y's shape, folded to y's shape. */
static struct fold_job
make_fold(const struct kernel_sig *sig, const struct tensor_desc *x,
          const void *x_data, const struct tensor_desc *y, const float *operand)
{
    const struct tensor_desc t = tensor_with_dtype(y, DTYPE_F32);
    struct fold_job job = {.params = &sig->params,
                           .ty = y->dtype,
                           .n_out = tensor_n_elems(y),
                           .threads = sig->threads};

    walk_init(&job.walk, x);
    walk_add(&job.walk, x, x, x_data);
    if (operand != NULL)
        walk_add_reduced(&job.walk, x, sig->params.reduce.dims, &t, operand);
    walk_add_reduced(&job.walk, x, sig->params.reduce.dims, y, NULL);
    walk_close(&job.walk);
    return job;
}

static size_t
forward_workspace(const struct kernel_sig *sig, void *state)
{
    const struct fold_job job =
        make_fold(sig, &sig->in[0], NULL, &sig->out[0], NULL);

    (void)state;
    return fold_workspace_bytes(&job);
}

static void
choose_norm(struct fold_job *job, double p)
{
    if (isinf(p)) {
        job->map = size;
        job->finish = finish_size;
        job->how = FOLD_MAX;
    } else if (p == 0) {
        job->map = is_there;
    } else if (p == 1) {
        job->map = size;
    } else if (p == 2) {
        job->map = square;
        job->finish = finish_root;
    } else {
        job->map = power;
        job->finish = finish_power;
    }
}

static void
run_forward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct fold_job job =
        make_fold(sig, &sig->in[0], call->in[0], &sig->out[0], NULL);

    assert(sig->op == OP_SUM || sig->op == OP_MEAN || sig->op == OP_NORM);
    job.map = itself;
    job.finish = sig->op == OP_MEAN ? finish_mean : NULL;
    if (sig->op == OP_NORM)
        choose_norm(&job, sig->params.reduce.p);
    job.y = call->out[0];
    job.workspace = call->workspace;
    fold_run(&job);
}

const struct kernel reduce_forward = {.supports = forward_supports,
                                      .workspace_bytes = forward_workspace,
                                      .run = run_forward};

/* ---- log-sum-exp: the maxima, the sums below them, their logarithms ---------- */

static size_t
round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t
logsumexp_workspace(const struct kernel_sig *sig, void *state)
{
    const size_t n = (size_t)tensor_n_elems(&sig->out[0]);

    return round_up(n * sizeof(float)) + round_up(n * sizeof(double)) +
           forward_workspace(sig, state);
}

static void
run_logsumexp(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *x = &sig->in[0], *y = &sig->out[0];
    const size_t n = (size_t)tensor_n_elems(y);
    float *max = call->workspace;
    double *sum = (double *)(void *)((char *)max + round_up(n * sizeof(*max)));
    void *rest = (char *)sum + round_up(n * sizeof(*sum));
    struct fold_job job = make_fold(sig, x, call->in[0], y, NULL);

    if (n == 0)
        return;
    job.map = itself;
    job.how = FOLD_MAX;
    job.y = max;
    job.ty = DTYPE_F32;
    job.workspace = rest;
    fold_run(&job);
    job = make_fold(sig, x, call->in[0], y, max);
    job.map = exp_below;
    job.y = sum;
    job.ty = DTYPE_F64;
    job.workspace = rest;
    fold_run(&job);
    /* An infinite or NaN maximum is the result. */
    for (size_t i = 0; i < n; i++)
        convert_put(call->out[0], y->dtype, (int64_t)i,
                    isfinite(max[i]) ? (float)((double)max[i] + log(sum[i]))
                                     : max[i]);
}

const struct kernel reduce_logsumexp = {.supports = forward_supports,
                                        .workspace_bytes = logsumexp_workspace,
                                        .run = run_logsumexp};

/* ---- backward: in 0 dy, in 1 x, in 2 y, in 3 how many reach the norm ---------- */

#define BLOCK(name, expression)                                                \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n, float *y) \
    {                                                                          \
        const float *id = in[0], *ix = in[1], *iy = in[2], *in_3 = in[3];      \
                                                                               \
        (void)p, (void)id, (void)ix, (void)iy, (void)in_3;                     \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] =             \
            (float)(expression);                                               \
    }

/* 1, -1, or x itself for 0 and NaN. */
static inline double
sign(float x)
{
    return x > 0 ? 1.0 : x < 0 ? -1.0 : (double)x;
}

static inline double
norm_bwd(double d, float x, float y, double factor)
{
    return x == 0 || y == 0 ? 0.0 : d * (sign(x) * factor);
}

/* dy exp(x - y); the log of a sum of nothing but zeros moves nothing. */
static inline double
logsumexp_bwd(double d, double x, float y)
{
    return d * vmath_exp_full(x - (y == -INFINITY ? 0.0 : (double)y));
}

BLOCK(copy_dy, id[i])
BLOCK(divided, id[i] / ix[i]) /* in 1: the count */
BLOCK(norm_0_bwd, 0.0f)
BLOCK(norm_1_bwd, norm_bwd((double)id[i], ix[i], iy[i], 1.0))
BLOCK(norm_2_bwd,
      iy[i] == 0 ? 0.0 : (double)id[i] * ((double)ix[i] / (double)iy[i]))
BLOCK(norm_p_bwd,
      norm_bwd((double)id[i], ix[i], iy[i],
               vmath_pow_wide((double)ix[i] / (double)iy[i], p->reduce.p - 1)))
/* The elements as large as the norm share it. */
BLOCK(norm_inf_bwd, ix[i] != ix[i] ? (double)ix[i]
                    : vmath_abs(ix[i]) == iy[i]
                        ? (double)id[i] * (sign(ix[i]) / (double)in_3[i])
                        : 0.0)
BLOCK(logsumexp_bwd_block, logsumexp_bwd((double)id[i], (double)ix[i], iy[i]))

static bool
backward_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *dx = &sig->out[0];
    const unsigned dims = sig->params.reduce.dims;

    if (!is_float(dx) || !is_float(&sig->in[0]) ||
        !is_reduced(dx, dims, &sig->in[0]))
        return false;
    if (sig->n_in == 1)
        return true;
    if (sig->op == OP_NORM_BWD &&
        (isnan(sig->params.reduce.p) || sig->params.reduce.p < 0))
        return false;
    return is_float(&sig->in[1]) && tensor_same_shape(&sig->in[1], dx) &&
           is_float(&sig->in[2]) && is_reduced(dx, dims, &sig->in[2]);
}

static bool
needs_count(const struct kernel_sig *sig)
{
    return sig->op == OP_NORM_BWD && isinf(sig->params.reduce.p);
}

/* Counts of the elements that reach the norm: floats of y's shape, y in
 * float32 before them. */
static size_t
backward_workspace(const struct kernel_sig *sig, void *state)
{
    struct fold_job job;

    (void)state;
    if (!needs_count(sig))
        return 0;
    job = make_fold(sig, &sig->in[1], NULL, &sig->in[2], NULL);
    return 2 * round_up((size_t)job.n_out * sizeof(float)) +
           fold_workspace_bytes(&job);
}

static const float *
count_norms(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *y = &sig->in[2];
    const int64_t n = tensor_n_elems(y);
    const size_t bytes = round_up((size_t)n * sizeof(float));
    float *norm = call->workspace;
    float *count = (float *)(void *)((char *)norm + bytes);
    struct fold_job job = make_fold(sig, &sig->in[1], call->in[1], y, norm);

    for (int64_t i = 0; i < n; i++)
        norm[i] = convert_get(call->in[2], y->dtype, i);
    job.map = is_norm;
    job.y = count;
    job.ty = DTYPE_F32;
    job.workspace = (char *)count + bytes;
    fold_run(&job);
    return count;
}

static broadcast_fn *
find_backward(const struct kernel_sig *sig)
{
    const double p = sig->params.reduce.p;

    if (sig->op == OP_SUM_BWD)
        return copy_dy;
    if (sig->op == OP_MEAN_BWD)
        return divided;
    if (sig->op == OP_LOGSUMEXP_BWD)
        return logsumexp_bwd_block;
    assert(sig->op == OP_NORM_BWD);
    if (p == 0)
        return norm_0_bwd;
    if (p == 1)
        return norm_1_bwd;
    if (p == 2)
        return norm_2_bwd;
    return isinf(p) ? norm_inf_bwd : norm_p_bwd;
}

static void
run_backward(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *dx = &sig->out[0], *dy = &sig->in[0];
    const unsigned dims = sig->params.reduce.dims;
    const int64_t n = tensor_n_elems(dx), n_dy = tensor_n_elems(dy);
    struct broadcast_job job = {.fn = find_backward(sig),
                                .params = &sig->params,
                                .y = call->out[0],
                                .ty = dx->dtype,
                                .threads = sig->threads};

    if (n == 0)
        return;
    walk_init(&job.walk, dx);
    walk_add_reduced(&job.walk, dx, dims, dy, call->in[0]);
    if (sig->op == OP_MEAN_BWD)
        walk_add_number(&job.walk, (float)(n / n_dy));
    if (sig->n_in > 1) {
        walk_add(&job.walk, dx, &sig->in[1], call->in[1]);
        walk_add_reduced(&job.walk, dx, dims, &sig->in[2], call->in[2]);
    }
    if (needs_count(sig)) {
        const struct tensor_desc t = tensor_with_dtype(&sig->in[2], DTYPE_F32);

        walk_add_reduced(&job.walk, dx, dims, &t, count_norms(call));
    }
    walk_close(&job.walk);
    broadcast_run(&job);
}

const struct kernel reduce_backward = {.supports = backward_supports,
                                       .workspace_bytes = backward_workspace,
                                       .run = run_backward};
