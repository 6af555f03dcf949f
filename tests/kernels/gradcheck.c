/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gradcheck: every gradient op against finite differences in double.
 *
 * L = sum of r y for a random r, y from golden/. Central differences of L
 * towards each differentiable input give the gradient that the golden backward
 * op (given dy = r) must equal, and that each backend's float32 kernel must
 * meet within the op table's tolerance. Which backward op gives which gradient
 * is read off the names in ops.def: dx towards x, dw towards w, db towards b;
 * a backward input is dy, or the forward tensor of the same name. A pair whose
 * backward op serves either operand names the one it is for, and the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "tests/kernels/golden/golden.h"
#include "tests/kernels/runner.h"

#define STEP           1e-5 /* of the difference quotient */
#define MAX_ELEMS      700  /* of a forward input: cost is quadratic */
#define RELATIVE_ERROR 1e-6 /* of a quotient: step^2 and 1e-16 / step */

static const struct {
    enum op forward, backward;
} pairs[] = {
    {OP_LINEAR, OP_LINEAR_DX},
    {OP_LINEAR, OP_LINEAR_DW},
    {OP_MATMUL, OP_MATMUL_DA},
    {OP_MATMUL, OP_MATMUL_DB},
    {OP_ATTENTION, OP_ATTENTION_BWD},
    {OP_CONV2D, OP_CONV2D_DX},
    {OP_CONV2D, OP_CONV2D_DW},
    {OP_CONV2D, OP_BIAS_GRAD},
    {OP_CONV1D, OP_CONV1D_DX},
    {OP_CONV1D, OP_CONV1D_DW},
    {OP_CONV1D, OP_BIAS_GRAD},
    {OP_CONV_TRANSPOSE2D, OP_CONV_TRANSPOSE2D_DX},
    {OP_CONV_TRANSPOSE2D, OP_CONV_TRANSPOSE2D_DW},
    {OP_CONV_TRANSPOSE2D, OP_BIAS_GRAD},
    {OP_EMBEDDING, OP_EMBEDDING_BWD},
    {OP_PRELU, OP_PRELU_DX},
    {OP_PRELU, OP_PRELU_DW},
    {OP_BATCH_NORM, OP_BATCH_NORM_BWD},
    {OP_LAYER_NORM, OP_LAYER_NORM_BWD},
    {OP_GROUP_NORM, OP_GROUP_NORM_BWD},
    {OP_RMS_NORM, OP_RMS_NORM_BWD},
    {OP_SOFTMAX, OP_SOFTMAX_BWD},
    {OP_LOG_SOFTMAX, OP_LOG_SOFTMAX_BWD},
    {OP_CUMSUM, OP_CUMSUM_BWD},
    {OP_PROD, OP_PROD_BWD},
    {OP_COSINE_SIMILARITY, OP_COSINE_SIMILARITY_BWD},
    {OP_SUM, OP_SUM_BWD},
    {OP_MEAN, OP_MEAN_BWD},
    {OP_NORM, OP_NORM_BWD},
    {OP_LOGSUMEXP, OP_LOGSUMEXP_BWD},
    {OP_RELU, OP_RELU_BWD},
    {OP_GELU, OP_GELU_BWD},
    {OP_TANH, OP_TANH_BWD},
    {OP_SIGMOID, OP_SIGMOID_BWD},
    {OP_SILU, OP_SILU_BWD},
    {OP_DROPOUT, OP_DROPOUT_BWD},
    {OP_MAX_POOL2D, OP_MAX_POOL2D_BWD},
    {OP_AVG_POOL2D, OP_AVG_POOL2D_BWD},
    {OP_ADAPTIVE_AVG_POOL2D, OP_ADAPTIVE_AVG_POOL2D_BWD},
    {OP_FLATTEN, OP_UNFLATTEN},
    {OP_RELAYOUT, OP_RELAYOUT},
    {OP_RESHAPE, OP_RESHAPE},
    {OP_TRANSPOSE, OP_TRANSPOSE},
    {OP_NARROW, OP_NARROW_BWD},
    {OP_CAT, OP_NARROW},
    {OP_STACK, OP_STACK_BWD},
    {OP_UPSAMPLE, OP_UPSAMPLE_BWD},
    {OP_EXP, OP_EXP_BWD},
    {OP_LOG, OP_LOG_BWD},
    {OP_POW, OP_POW_BWD},
    {OP_RECIPROCAL, OP_RECIPROCAL_BWD},
    {OP_RSQRT, OP_RSQRT_BWD},
    {OP_SOFTPLUS, OP_SOFTPLUS_BWD},
    {OP_DIV, OP_DIV_BWD_A},
    {OP_DIV, OP_DIV_BWD_B},
    {OP_WHERE, OP_WHERE_BWD_A},
    {OP_WHERE, OP_WHERE_BWD_B},
    {OP_CROSS_ENTROPY, OP_CROSS_ENTROPY_BWD},
    {OP_MSE, OP_MSE_BWD},
    {OP_L1, OP_L1_BWD},
    {OP_BCE_WITH_LOGITS, OP_BCE_WITH_LOGITS_BWD},
    {OP_NLL, OP_NLL_BWD},
    {OP_SMOOTH_L1, OP_SMOOTH_L1_BWD},
    {OP_HUBER, OP_HUBER_BWD},
    {OP_KL_DIV, OP_KL_DIV_BWD},
};
#define N_PAIRS (int)(sizeof(pairs) / sizeof(pairs[0]))

/* Those that need names. */
struct pair {
    enum op forward, backward;
    const char *to, *other; /* forward inputs that stand for x and "other" */
};
static const struct pair operands[] = {
    {OP_LINEAR, OP_BIAS_GRAD, "b", NULL}, {OP_ADD, OP_SUM_TO, "a", NULL},
    {OP_ADD, OP_SUM_TO, "b", NULL},       {OP_SUB, OP_SUM_TO_NEG, "b", NULL},
    {OP_MUL, OP_MUL_BWD, "a", "b"},       {OP_MUL, OP_MUL_BWD, "b", "a"},
};
#define N_OPERANDS (int)(sizeof(operands) / sizeof(operands[0]))
#define N_ALL      (N_PAIRS + N_OPERANDS)

/* Pair i of both tables. */
static struct pair
pair_at(int i)
{
    if (i >= N_PAIRS)
        return operands[i - N_PAIRS];
    return (struct pair){pairs[i].forward, pairs[i].backward, NULL, NULL};
}

/* Everything of one forward case, as doubles that float32 can hold. */
struct forward {
    struct kernel_sig sig;
    struct kernel_step step;
    double *in[OP_MAX_IN], *out[OP_MAX_OUT], *mag[OP_MAX_OUT]; /* owned */
    double *r; /* dL/dy; owned */
    struct check_buf data[OP_MAX_IN];
};

static void
forward_run(const struct forward *f)
{
    struct golden g = {.sig = &f->sig, .step = &f->step};

    for (int i = 0; i < OP_MAX_IN; i++)
        g.in[i] = f->in[i];
    for (int i = 0; i < OP_MAX_OUT; i++) {
        g.out[i] = f->out[i];
        g.mag[i] = f->mag[i];
    }
    golden_run(&g);
}

static void
forward_open(struct forward *f, const struct kcase *c, uint64_t seed)
{
    struct check_rng rng = {seed};

    memset(f, 0, sizeof(*f));
    f->sig = c->sig;
    f->step = (struct kernel_step){.seed = 42, .iteration = 3};
    for (int i = 0; i < c->sig.n_in; i++) {
        if (c->sig.in[i].dtype == DTYPE_NONE)
            continue;
        check_buf_make(&f->data[i], tensor_n_bytes(&c->sig.in[i]));
        check_fill(f->data[i].data, &c->sig.in[i], c->fill[i], &rng, &c->sig,
                   c->classes);
        f->in[i] = check_doubles(f->data[i].data, &c->sig.in[i]);
    }
    for (int i = 0; i < c->sig.n_out; i++) {
        if (c->sig.out[i].dtype == DTYPE_NONE)
            continue;
        f->out[i] = check_doubles(NULL, &c->sig.out[i]);
        f->mag[i] = check_doubles(NULL, &c->sig.out[i]);
    }
    f->r = check_doubles(NULL, &c->sig.out[0]);
    for (int64_t i = 0; i < tensor_n_elems(&c->sig.out[0]); i++)
        f->r[i] = (double)(float)(2 * check_uniform(&rng) - 1);
}

static void
forward_close(struct forward *f)
{
    for (int i = 0; i < OP_MAX_IN; i++) {
        free(f->in[i]);
        check_buf_free(&f->data[i]);
    }
    for (int i = 0; i < OP_MAX_OUT; i++) {
        free(f->out[i]);
        free(f->mag[i]);
    }
    free(f->r);
}

static double
objective(const struct forward *f)
{
    double sum = 0;

    forward_run(f);
    for (int64_t i = 0; i < tensor_n_elems(&f->sig.out[0]); i++)
        sum += f->r[i] * f->out[0][i];
    return sum;
}

/* dL / d in[which], element by element. */
static double *
differences(const struct forward *f, int which)
{
    double *slope = check_doubles(NULL, &f->sig.in[which]);

    for (int64_t i = 0; i < tensor_n_elems(&f->sig.in[which]); i++) {
        double *x = &f->in[which][i];
        const double old = *x;
        double up;

        *x = old + STEP;
        up = objective(f);
        *x = old - STEP;
        slope[i] = (up - objective(f)) / (2 * STEP);
        *x = old;
    }
    forward_run(f);
    return slope;
}

/* ---- the backward op ----------------------------------------------------- */

/* The place of forward input or output `name`; -1 when there is none. */
static int
find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Which part of a cat starts at params.axis.start. */
static int
find_part(const struct kernel_sig *sig)
{
    int64_t at = 0;
    int i = 0;

    for (; at < sig->params.axis.start; i++)
        at += sig->in[i].dim[sig->params.axis.axis];
    return i;
}

/* The forward input that output `out` of the backward op is a gradient of.
 * Where one op serves all parts, params say which. */
static int
find_target(const struct pair *pair, const struct kernel_sig *fwd_sig, int out)
{
    const struct op_info *fwd = op_info(pair->forward);
    const char *name = op_info(pair->backward)->out_name[out];
    int to;

    if (pair->backward == OP_NARROW)
        return find_part(fwd_sig);
    if (pair->backward == OP_STACK_BWD)
        return (int)fwd_sig->params.axis.start;
    if (pair->backward == pair->forward) /* moves, their own gradient */
        return 0;
    to = find_name(fwd->in_name, fwd->n_in,
                   pair->to != NULL ? pair->to : name + 1);
    assert_true(name[0] == 'd' && to >= 0);
    return to;
}

/* Whether input `in` of the backward op is the gradient that comes in. */
static bool
is_incoming(const struct pair *pair, int in)
{
    const char *name = op_info(pair->backward)->in_name[in];

    return strcmp(name, "dy") == 0 || strcmp(name, "dloss") == 0 ||
           pair->backward == pair->forward || pair->backward == OP_NARROW;
}

/* Signature and inputs of the backward op, from the forward's by name. */
static void
backward_describe(const struct forward *f, const struct pair *pair,
                  struct kernel_sig *sig, const double *in[OP_MAX_IN])
{
    const struct op_info *fwd = op_info(f->sig.op);
    const struct op_info *bwd = op_info(pair->backward);

    *sig = f->sig;
    sig->op = pair->backward;
    sig->n_in = bwd->n_in;
    sig->n_out = bwd->n_out;
    for (int i = 0; i < bwd->n_in; i++) {
        const bool is_other =
            pair->other != NULL && strcmp(bwd->in_name[i], "other") == 0;
        const int from = find_name(fwd->in_name, fwd->n_in,
                                   is_other ? pair->other : bwd->in_name[i]);
        const int out = find_name(fwd->out_name, fwd->n_out, bwd->in_name[i]);

        if (is_incoming(pair, i)) {
            in[i] = f->r;
            sig->in[i] = f->sig.out[0];
        } else if (from >= 0) {
            in[i] = f->in[from];
            sig->in[i] = f->sig.in[from];
        } else {
            assert_true(out >= 0);
            in[i] = f->out[out];
            sig->in[i] = f->sig.out[out];
        }
    }
    for (int i = 0; i < bwd->n_out; i++)
        sig->out[i] = f->sig.in[find_target(pair, &f->sig, i)];
}

struct backward {
    struct kernel_sig sig;
    const double *in[OP_MAX_IN];
    double *out[OP_MAX_OUT], *mag[OP_MAX_OUT]; /* owned; golden */
};

static void
backward_open(struct backward *b, const struct forward *f,
              const struct pair *pair)
{
    struct golden g = {.sig = &b->sig, .step = &f->step};

    memset(b, 0, sizeof(*b));
    backward_describe(f, pair, &b->sig, b->in);
    for (int i = 0; i < b->sig.n_in; i++)
        g.in[i] = b->in[i];
    for (int i = 0; i < b->sig.n_out; i++)
        if (b->sig.out[i].dtype != DTYPE_NONE) {
            g.out[i] = b->out[i] = check_doubles(NULL, &b->sig.out[i]);
            g.mag[i] = b->mag[i] = check_doubles(NULL, &b->sig.out[i]);
        }
    golden_run(&g);
}

static void
backward_close(struct backward *b)
{
    for (int i = 0; i < OP_MAX_OUT; i++) {
        free(b->out[i]);
        free(b->mag[i]);
    }
}

/* The largest slope: what errors of quotients are relative to. */
static double
largest(const double *v, int64_t n)
{
    double most = 1;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(v[i]));
    return most;
}

static void
compare(const char *who, const struct backward *b, int out, const double *got,
        const double *slope, bool kernel)
{
    const struct op_info *info = op_info(b->sig.op);
    const int64_t n = tensor_n_elems(&b->sig.out[out]);
    const double length = (double)op_reduce_length(b->sig.op, &b->sig.params,
                                                   b->sig.in, b->sig.out);
    const double quotient = RELATIVE_ERROR * largest(slope, n);

    for (int64_t i = 0; i < n; i++) {
        double tolerance = quotient;

        if (kernel)
            tolerance += info->ulps * check_ulp(DTYPE_F32, slope[i]) +
                         length * 0x1p-24 * b->mag[out][i];
        if (fabs(got[i] - slope[i]) <= tolerance)
            continue;
        fail_msg("%s: %s.%s[%lld] is %.9g, the difference quotient %.9g "
                 "+- %.3g",
                 who, info->name, info->out_name[out], (long long)i, got[i],
                 slope[i], tolerance);
    }
}

/* Runs the float32 kernel of a backend on the same inputs. */
static void
run_kernel(const struct backend *backend, const struct backward *b,
           const struct forward *f, double *got[OP_MAX_OUT])
{
    struct kcase c = {.sig = b->sig, .classes = 1};
    struct runner r;
    struct err err;

    if (!runner_open(&r, backend, &c, 1, 1, &err))
        fail_msg("%s", err.msg);
    r.step = f->step;
    for (int i = 0; i < b->sig.n_in; i++) {
        const struct tensor_desc *t = &b->sig.in[i];

        if (t->dtype == DTYPE_NONE)
            continue;
        for (int64_t j = 0; j < tensor_n_elems(t); j++) {
            if (t->dtype == DTYPE_I32)
                ((int32_t *)r.in[i].data)[j] = (int32_t)b->in[i][j];
            else if (t->dtype == DTYPE_BOOL)
                ((uint8_t *)r.in[i].data)[j] = b->in[i][j] != 0;
            else
                convert_put(r.in[i].data, t->dtype, j, (float)b->in[i][j]);
        }
    }
    runner_run(&r, false);
    for (int i = 0; i < b->sig.n_out; i++)
        got[i] = b->sig.out[i].dtype != DTYPE_NONE
                     ? check_doubles(r.out[i].data, &b->sig.out[i])
                     : NULL;
    runner_close(&r);
}

/* ---- one case ------------------------------------------------------------ */

struct progress {
    const struct pair *pair;
    int64_t n_cases;
};

/* Small enough, ordinary values, and no kink within a step. */
static bool
suits(const struct kcase *c)
{
    for (int i = 0; i < c->sig.n_in; i++)
        if (c->sig.in[i].dtype != DTYPE_NONE &&
            (tensor_n_elems(&c->sig.in[i]) > MAX_ELEMS ||
             c->fill[i] == CHECK_WIDE || c->fill[i] == CHECK_SPECIAL ||
             c->fill[i] == CHECK_SUMMED || c->fill[i] == CHECK_CLASS_BAD))
            return false;
    /* What a padding row gets is not its slope, but nothing. */
    if (c->sig.op == OP_EMBEDDING && c->sig.params.embedding.has_padding)
        return false;
    return dtype_is_float(c->sig.out[0].dtype) &&
           tensor_n_elems(&c->sig.out[0]) <= MAX_ELEMS;
}

/* Inputs of ops with kinks or ties, moved off them: relu at 0, l1 at the
 * target, equal maxima. The values form a grid far wider than a step. */
static void
move_off_kinks(struct forward *f)
{
    const enum op op = f->sig.op;

    if (op != OP_RELU && op != OP_PRELU && op != OP_L1 && op != OP_MAX_POOL2D)
        return;
    for (int64_t i = 0; i < tensor_n_elems(&f->sig.in[0]); i++) {
        const double grid = round(f->in[0][i] * 16) / 16;

        /* Distinct in a window: the position breaks ties. */
        f->in[0][i] = (double)(float)(grid + 0.01 + 0.0007 * (double)(i % 61));
    }
    if (op == OP_L1)
        for (int64_t i = 0; i < tensor_n_elems(&f->sig.in[1]); i++)
            f->in[1][i] = round(f->in[1][i] * 16) / 16;
}

static void
check_case(void *ctx, const struct kcase *c)
{
    struct progress *p = ctx;
    struct forward f;
    struct backward b;

    if (!suits(c) ||
        c->sig.in[find_target(p->pair, &c->sig, 0)].dtype == DTYPE_NONE)
        return;
    forward_open(&f, c, (uint64_t)p->n_cases + 1);
    move_off_kinks(&f);
    forward_run(&f);
    backward_open(&b, &f, p->pair);
    for (int out = 0; out < b.sig.n_out; out++) {
        double *slope;

        if (b.sig.out[out].dtype == DTYPE_NONE)
            continue;
        slope = differences(&f, find_target(p->pair, &c->sig, out));
        compare("golden", &b, out, b.out[out], slope, false);
        for (int k = 0; backend_at(k) != NULL; k++) {
            double *got[OP_MAX_OUT] = {NULL};

            run_kernel(backend_at(k), &b, &f, got);
            compare(backend_at(k)->name, &b, out, got[out], slope, true);
            for (int i = 0; i < OP_MAX_OUT; i++)
                free(got[i]);
        }
        free(slope);
    }
    backward_close(&b);
    forward_close(&f);
    p->n_cases++;
}

static void
test_gradcheck_pair(void **state)
{
    const struct pair pair = pair_at(*(const int *)*state);
    struct progress p = {.pair = &pair};

    cases_each(pair.forward, DTYPE_F32, check_case, &p);
    assert_true(p.n_cases > 0);
}

/* No gradient op is without a pair: those whose first input is dy or dloss. */
static void
test_gradcheck_covers_all(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const char *first = op_info((enum op)op)->in_name[0];
        bool covered = false;

        if (strcmp(first, "dy") != 0 && strcmp(first, "dloss") != 0)
            continue;
        for (int i = 0; i < N_ALL; i++)
            covered = covered || (int)pair_at(i).backward == op;
        if (!covered)
            fail_msg("%s has no pair", op_info((enum op)op)->name);
    }
}

int
main(void)
{
    static int numbers[N_ALL];
    static struct CMUnitTest tests[N_ALL + 1];

    for (int i = 0; i < N_ALL; i++) {
        numbers[i] = i;
        tests[i] =
            (struct CMUnitTest){.name = op_info(pair_at(i).backward)->name,
                                .test_func = test_gradcheck_pair,
                                .initial_state = &numbers[i]};
    }
    tests[N_ALL] = (struct CMUnitTest){.name = "covers_all",
                                       .test_func = test_gradcheck_covers_all};
    return _cmocka_run_group_tests("gradcheck", tests, N_ALL + 1, NULL, NULL);
}
