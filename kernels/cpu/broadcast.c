/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/broadcast.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/fold.h"
#include "kernels/cpu/parallel.h"

/* ---- the loop ------------------------------------------------------------ */

struct pass {
    const struct broadcast_job *job;
    int64_t row;   /* blocks end where rows of this size do */
    int64_t block; /* elements, a multiple of the short trailing axes */
    int64_t chunk; /* elements of an item, a multiple of block */
    bool repeats[WALK_MAX]; /* the same in every block */
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct pass
make_pass(const struct broadcast_job *job)
{
    const struct walk *w = &job->walk;
    struct pass p = {.job = job, .row = WALK_BLOCK, .block = WALK_BLOCK};
    int64_t unit = 1;
    int first = w->rank; /* the axes from here on make a unit */

    while (first > 0 && unit * w->dim[first - 1] <= WALK_BLOCK)
        unit *= w->dim[--first];
    if (first < w->rank)
        p.row = p.block = WALK_BLOCK / unit * unit;
    else if (w->rank > 1) { /* rows in equal parts */
        const int64_t parts =
            (w->dim[w->rank - 1] + WALK_BLOCK - 1) / WALK_BLOCK;

        p.row = w->dim[w->rank - 1];
        p.block = (p.row + parts - 1) / parts;
    }
    p.chunk = KERNEL_CHUNK / p.block * p.block;
    for (int k = 0; k < w->n_operands; k++) {
        p.repeats[k] = first < w->rank && !w->operand[k].whole;
        for (int i = 0; i < first; i++)
            p.repeats[k] = p.repeats[k] && w->operand[k].stride[i] == 0;
        p.repeats[k] = p.repeats[k] || w->operand[k].is_number;
    }
    return p;
}

CPU_CLONES static void
narrow_bits(const float *y, int64_t n, uint8_t *bits)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        bits[i] = y[i] != 0 ? 1 : 0;
}

static void
store(const struct broadcast_job *job, int64_t at, int64_t n, const float *y)
{
    if (dtype_is_half(job->ty))
        convert_from_f32((uint16_t *)job->y + at, job->ty, y, n);
    else if (job->ty == DTYPE_BOOL)
        narrow_bits(y, n, (uint8_t *)job->y + at);
}

static void
run_item(const void *ctx, int64_t item)
{
    const struct pass *p = ctx;
    const struct broadcast_job *job = p->job;
    const struct walk *w = &job->walk;
    const int64_t begin = item * p->chunk;
    const int64_t end = smaller(begin + p->chunk, w->n);
    float buf[WALK_MAX][WALK_BLOCK], y_buf[WALK_BLOCK];
    const float *in[WALK_MAX] = {NULL};
    int64_t n;

    for (int k = 0; k < w->n_operands; k++)
        if (p->repeats[k])
            in[k] = walk_view(w, k, 0, p->block, buf[k]);
    for (int64_t at = begin; at < end; at += n) {
        float *y = job->ty == DTYPE_F32 ? (float *)job->y + at : y_buf;

        n = smaller(p->block, end - at);
        if (p->row > p->block)
            n = smaller(n, p->row - at % p->row);
        for (int k = 0; k < w->n_operands; k++)
            if (!p->repeats[k])
                in[k] = walk_view(w, k, at, n, buf[k]);
        job->fn(in, job->params, n, y);
        store(job, at, n, y);
    }
}

void
broadcast_run(const struct broadcast_job *job)
{
    const int64_t n = job->walk.n;
    struct pass p;

    if (n == 0)
        return;
    p = make_pass(job);
    parallel_run((n + p.chunk - 1) / p.chunk, n, job->threads, run_item, &p);
}

/* ---- two operands -------------------------------------------------------- */

#define BLOCK(name, expression)                                                \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n, float *y) \
    {                                                                          \
        const float *ia = in[0], *ib = in[1];                                  \
                                                                               \
        (void)p;                                                               \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float a = ia[i], b = ib[i];                                  \
            y[i] = (expression);                                               \
        }                                                                      \
    }

BLOCK(add, a + b)
BLOCK(sub, a - b)
BLOCK(mul, a *b)
BLOCK(divide, a / b)
BLOCK(is_eq, a == b ? 1.0f : 0.0f)
BLOCK(is_ne, a != b ? 1.0f : 0.0f)
BLOCK(is_lt, a < b ? 1.0f : 0.0f)
BLOCK(is_le, a <= b ? 1.0f : 0.0f)
BLOCK(is_gt, a > b ? 1.0f : 0.0f)
BLOCK(is_ge, a >= b ? 1.0f : 0.0f)

static bool
is_float(const struct tensor_desc *t)
{
    return dtype_is_float(t->dtype) && t->dtype != DTYPE_F64;
}

/* A float operand that broadcasts to the output, or none. */
static bool
fits(const struct tensor_desc *out, const struct tensor_desc *t)
{
    return t->dtype == DTYPE_NONE || (is_float(t) && walk_fits(out, t));
}

static bool
binary_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *out = &sig->out[0];

    return is_float(out) && is_float(&sig->in[0]) && fits(out, &sig->in[0]) &&
           fits(out, &sig->in[1]);
}

/* The operands of a call; absent ones are the number. */
static struct broadcast_job
make_job(const struct kernel_call *call, float number)
{
    const struct kernel_sig *sig = call->sig;
    const struct tensor_desc *out = &sig->out[0];
    struct broadcast_job job = {.params = &sig->params,
                                .y = call->out[0],
                                .ty = out->dtype,
                                .threads = sig->threads};

    walk_init(&job.walk, out);
    for (int i = 0; i < sig->n_in; i++) {
        if (sig->in[i].dtype == DTYPE_NONE)
            walk_add_number(&job.walk, number);
        else
            walk_add(&job.walk, out, &sig->in[i], call->in[i]);
    }
    walk_close(&job.walk);
    return job;
}

static void
run_binary(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    struct broadcast_job job = make_job(call, (float)sig->params.binary.value);

    if (sig->op == OP_ADD)
        job.fn = add;
    else if (sig->op == OP_SUB)
        job.fn = sub;
    else if (sig->op == OP_MUL)
        job.fn = mul;
    else
        job.fn = divide;
    assert(sig->op == OP_ADD || sig->op == OP_SUB || sig->op == OP_MUL ||
           sig->op == OP_DIV);
    broadcast_run(&job);
}

const struct kernel broadcast_binary = {.supports = binary_supports,
                                        .run = run_binary};

/* ---- comparing -----------------------------------------------------------
 * An i32 is compared in double, which holds every one; `value` too, so that
 * 2.5 is a bound like any other. */

CPU_CLONES static void
compare_ints(const int32_t *a, const int32_t *b, int64_t n, float *below,
             float *above)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        below[i] = a[i] < b[i] ? 1.0f : 0.0f;
        above[i] = a[i] > b[i] ? 1.0f : 0.0f;
    }
}

CPU_CLONES static void
compare_int(const int32_t *a, double b, int64_t n, float *below, float *above)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        below[i] = (double)a[i] < b ? 1.0f : 0.0f;
        above[i] = (double)a[i] > b ? 1.0f : 0.0f;
    }
}

/* From a < b and a > b, the answer. */
static void
run_ints(const float *below, const float *above, enum op_compare how, int64_t n,
         float *y)
{
    for (int64_t i = 0; i < n; i++) {
        const bool lt = below[i] != 0, gt = above[i] != 0;
        bool holds = false;

        switch (how) {
        case OP_COMPARE_EQ: holds = !lt && !gt; break;
        case OP_COMPARE_NE: holds = lt || gt; break;
        case OP_COMPARE_LT: holds = lt; break;
        case OP_COMPARE_LE: holds = !gt; break;
        case OP_COMPARE_GT: holds = gt; break;
        case OP_COMPARE_GE: holds = !lt; break;
        }
        y[i] = holds ? 1.0f : 0.0f;
    }
}

static void
ints(const float *const *in, const union op_params *p, int64_t n, float *y)
{
    float below[WALK_BLOCK], above[WALK_BLOCK];

    compare_ints((const int32_t *)(const void *)in[0],
                 (const int32_t *)(const void *)in[1], n, below, above);
    run_ints(below, above, p->compare.how, n, y);
}

static void
int_and_value(const float *const *in, const union op_params *p, int64_t n,
              float *y)
{
    float below[WALK_BLOCK], above[WALK_BLOCK];

    compare_int((const int32_t *)(const void *)in[0], p->compare.value, n,
                below, above);
    run_ints(below, above, p->compare.how, n, y);
}

static bool
compare_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *a = &sig->in[0], *b = &sig->in[1];

    if (sig->out[0].dtype != DTYPE_BOOL || !walk_fits(&sig->out[0], a))
        return false;
    if (a->dtype == DTYPE_I32)
        return b->dtype == DTYPE_NONE ||
               (b->dtype == DTYPE_I32 && walk_fits(&sig->out[0], b));
    return is_float(a) && fits(&sig->out[0], b);
}

static void
run_compare(const struct kernel_call *call)
{
    static broadcast_fn *const table[] = {
        [OP_COMPARE_EQ] = is_eq, [OP_COMPARE_NE] = is_ne,
        [OP_COMPARE_LT] = is_lt, [OP_COMPARE_LE] = is_le,
        [OP_COMPARE_GT] = is_gt, [OP_COMPARE_GE] = is_ge};
    const struct kernel_sig *sig = call->sig;
    const enum dtype ta = sig->in[0].dtype;
    float value = (float)sig->params.compare.value;
    uint16_t half[1];
    struct broadcast_job job;

    if (dtype_is_half(ta)) { /* as a holds it */
        convert_from_f32(half, ta, &value, 1);
        value = convert_get(half, ta, 0);
    }
    job = make_job(call, value);
    if (ta == DTYPE_I32)
        job.fn = sig->in[1].dtype == DTYPE_NONE ? int_and_value : ints;
    else
        job.fn = table[sig->params.compare.how];
    broadcast_run(&job);
}

const struct kernel broadcast_compare = {.supports = compare_supports,
                                         .run = run_compare};

/* ---- choosing ------------------------------------------------------------ */

CPU_CLONES static void
choose(const float *const *in, const union op_params *p, int64_t n, float *y)
{
    const float *cond = in[0], *a = in[1], *b = in[2];

    (void)p;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = cond[i] != 0 ? a[i] : b[i];
}

static bool
where_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *out = &sig->out[0];

    return is_float(out) && sig->in[0].dtype == DTYPE_BOOL &&
           walk_fits(out, &sig->in[0]) && fits(out, &sig->in[1]) &&
           fits(out, &sig->in[2]);
}

/* A constant for masked places, -1e9 say, that is finite stays so. */
static float
where_value(const struct kernel_sig *sig)
{
    const enum dtype t = sig->out[0].dtype;
    const double value = sig->params.binary.value;
    const double most = t == DTYPE_F16    ? 65504
                        : t == DTYPE_BF16 ? 0x1.fep127
                                          : (double)FLT_MAX;

    if (!isfinite(value) || fabs(value) <= most)
        return (float)value;
    return (float)copysign(most, value);
}

static void
run_where(const struct kernel_call *call)
{
    struct broadcast_job job = make_job(call, where_value(call->sig));

    job.fn = choose;
    broadcast_run(&job);
}

const struct kernel broadcast_where = {.supports = where_supports,
                                       .run = run_where};

/* ---- gradients: of the operands, then summed to the output's shape --------
 * Each expression twice: rounded, where nothing is summed, and in double. */

#define GRADIENT(name, type, expression)                                       \
    CPU_CLONES static void name(const float *const *in,                        \
                                const union op_params *p, int64_t n, float *y) \
    {                                                                          \
        const float *id = in[0], *ia = in[1], *ib = in[2];                     \
                                                                               \
        (void)p, (void)ia, (void)ib;                                           \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const type d = (type)id[i];                                        \
            y[i] = (float)(expression);                                        \
        }                                                                      \
    }                                                                          \
    CPU_CLONES static void name##_sum(const float *const *in,                  \
                                      const union op_params *p, int64_t n,     \
                                      double *y)                               \
    {                                                                          \
        const float *id = in[0], *ia = in[1], *ib = in[2];                     \
                                                                               \
        (void)p, (void)ia, (void)ib;                                           \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const double d = (double)id[i];                                    \
            y[i] = (double)(expression);                                       \
        }                                                                      \
    }

GRADIENT(same, float, d)
GRADIENT(negative, float, -d)
GRADIENT(times, float, d *ia[i])
GRADIENT(over, float, d / ia[i])
/* -dy a / (b b) */
GRADIENT(over_bwd_b, double,
         -d *(double)ia[i] / ((double)ib[i] * (double)ib[i]))
GRADIENT(where_holds, float, ia[i] != 0 ? d : 0)
GRADIENT(where_not, float, ia[i] != 0 ? 0 : d)

struct gradient {
    broadcast_fn *block;
    fold_map_fn *sum;
};

static struct gradient
find_gradient(enum op op)
{
    if (op == OP_SUM_TO)
        return (struct gradient){same, same_sum};
    if (op == OP_SUM_TO_NEG)
        return (struct gradient){negative, negative_sum};
    if (op == OP_MUL_BWD)
        return (struct gradient){times, times_sum};
    if (op == OP_DIV_BWD_A)
        return (struct gradient){over, over_sum};
    if (op == OP_DIV_BWD_B)
        return (struct gradient){over_bwd_b, over_bwd_b_sum};
    if (op == OP_WHERE_BWD_A)
        return (struct gradient){where_holds, where_holds_sum};
    assert(op == OP_WHERE_BWD_B);
    return (struct gradient){where_not, where_not_sum};
}

static bool
gradient_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *dy = &sig->in[0];
    const bool has_cond =
        sig->op == OP_WHERE_BWD_A || sig->op == OP_WHERE_BWD_B;

    if (!is_float(dy) || !is_float(&sig->out[0]) ||
        !walk_fits(dy, &sig->out[0]))
        return false;
    if (has_cond)
        return sig->in[1].dtype == DTYPE_BOOL && walk_fits(dy, &sig->in[1]);
    for (int i = 1; i < sig->n_in; i++)
        if (!fits(dy, &sig->in[i]))
            return false;
    return true;
}

/* The inputs of a gradient along dy; with the output when it is a sum. */
static void
walk_inputs(struct walk *w, const struct kernel_sig *sig,
            const void *const *data, bool sums)
{
    const struct tensor_desc *dy = &sig->in[0];

    walk_init(w, dy);
    for (int i = 0; i < sig->n_in; i++) {
        if (sig->in[i].dtype == DTYPE_NONE)
            walk_add_number(w, (float)sig->params.binary.value);
        else
            walk_add(w, dy, &sig->in[i], data != NULL ? data[i] : NULL);
    }
    if (sums)
        walk_add(w, dy, &sig->out[0], NULL);
    walk_close(w);
}

/* As many elements in the same order: nothing to sum. */
static bool
is_sum(const struct kernel_sig *sig)
{
    struct walk w;

    walk_inputs(&w, sig, NULL, true);
    return !w.operand[w.n_operands - 1].whole;
}

static size_t
gradient_workspace(const struct kernel_sig *sig, void *state)
{
    struct fold_job job = {.n_out = tensor_n_elems(&sig->out[0])};

    (void)state;
    if (!is_sum(sig))
        return 0;
    walk_inputs(&job.walk, sig, NULL, true);
    return fold_workspace_bytes(&job);
}

static void
run_gradient(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const struct gradient gradient = find_gradient(sig->op);

    if (is_sum(sig)) {
        struct fold_job job = {.map = gradient.sum,
                               .params = &sig->params,
                               .y = call->out[0],
                               .ty = sig->out[0].dtype,
                               .n_out = tensor_n_elems(&sig->out[0]),
                               .workspace = call->workspace,
                               .threads = sig->threads};

        walk_inputs(&job.walk, sig, call->in, true);
        fold_run(&job);
    } else {
        struct broadcast_job job = {.fn = gradient.block,
                                    .params = &sig->params,
                                    .y = call->out[0],
                                    .ty = sig->out[0].dtype,
                                    .threads = sig->threads};

        walk_inputs(&job.walk, sig, call->in, false);
        broadcast_run(&job);
    }
}

const struct kernel broadcast_gradient = {.supports = gradient_supports,
                                          .workspace_bytes = gradient_workspace,
                                          .run = run_gradient};
