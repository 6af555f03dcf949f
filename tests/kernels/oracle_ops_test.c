/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel that a graph can hold against PyTorch's numbers, on each
 * backend: same inputs, outputs compared element by element.
 *
 * The tolerance. ops.def bounds the distance of an output from the exact value
 * e: ulps places of the result, and L x 2^-24 x (sum of absolute terms) for
 * the order of a sum of length L. PyTorch computes the same formulas in the
 * same precision, so the same bound holds for it, and two numbers that are
 * each within b of e are within 2 b of each other:
 *
 *     |ours - theirs| <= 2 (ulps place(e) + L 2^-24 sum|terms|)
 *
 * where PyTorch's formula cancels and ours does not, its own rounding is added
 * (see their_rounding()).
 * A half that PyTorch's own kernel made ("native") gets one place more: those
 * kernels may round a half on the way, and oracle_ops.py takes their number
 * only where it is within one place of the single rounding.
 *
 * Prints, per op and backend, the largest error next to the tolerance there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/kernels/check.h"
#include "tests/kernels/golden/golden.h"
#include "tests/kernels/oracle/oracle.h"

#define DIRECTORY "tests/kernels/oracle"

/* The worst element of an op so far: of the largest share of its tolerance. */
struct worst {
    int n_calls;
    int64_t n_elems;
    double error, tolerance, want;
    enum dtype dtype;
    bool seen;
};

static const char *const names[2] = {"reference", "cpu"};
static struct worst table[2][OP_COUNT];
static int n_failed;

/* ---- one call ------------------------------------------------------------ */

struct run {
    const struct oracle_call *call;
    struct check_buf in[OP_MAX_IN], out[OP_MAX_OUT], workspace;
    double *exact_in[OP_MAX_IN]; /* owned, like the next two */
    double *exact[OP_MAX_OUT], *terms[OP_MAX_OUT];
};

static size_t
bytes_of(const struct tensor_desc *t)
{
    return t->dtype == DTYPE_NONE ? 0 : tensor_n_bytes(t);
}

static double *
doubles_of(const void *data, const struct tensor_desc *t)
{
    const int64_t n = tensor_n_elems(t);
    double *v = calloc((size_t)n + 1, sizeof(*v));

    if (v == NULL)
        abort();
    for (int64_t i = 0; data != NULL && i < n; i++)
        v[i] = t->dtype == DTYPE_BOOL ? (double)((const uint8_t *)data)[i]
                                      : check_get(data, t->dtype, i);
    return v;
}

static void
run_open(struct run *r, const struct oracle_call *call)
{
    const struct kernel_sig *sig = &call->sig;
    static const struct kernel_step step = {.seed = 42, .iteration = 3};
    struct golden g = {.sig = sig, .step = &step};

    memset(r, 0, sizeof(*r));
    r->call = call;
    for (int i = 0; i < sig->n_in; i++) {
        check_buf_make(&r->in[i], bytes_of(&sig->in[i]));
        if (call->in[i] == NULL)
            continue;
        memcpy(r->in[i].data, call->in[i], r->in[i].bytes);
        g.in[i] = r->exact_in[i] = doubles_of(r->in[i].data, &sig->in[i]);
    }
    for (int i = 0; i < sig->n_out; i++) {
        check_buf_make(&r->out[i], bytes_of(&sig->out[i]));
        if (sig->out[i].dtype == DTYPE_NONE)
            continue;
        g.out[i] = r->exact[i] = doubles_of(NULL, &sig->out[i]);
        g.mag[i] = r->terms[i] = doubles_of(NULL, &sig->out[i]);
    }
    golden_run(&g);
}

static void
run_close(struct run *r)
{
    for (int i = 0; i < OP_MAX_IN; i++) {
        check_buf_free(&r->in[i]);
        free(r->exact_in[i]);
    }
    for (int i = 0; i < OP_MAX_OUT; i++) {
        check_buf_free(&r->out[i]);
        free(r->exact[i]);
        free(r->terms[i]);
    }
    check_buf_free(&r->workspace);
}

/* The kernel's outputs into r->out. */
static bool
run_on(struct run *r, const struct kernel *k, struct err *err)
{
    static const struct kernel_step step = {.seed = 42, .iteration = 3};
    const struct kernel_sig *sig = &r->call->sig;
    struct kernel_call call = {.sig = sig, .step = &step};

    if (k->prepare != NULL && k->prepare(sig, &call.state, err) != 0)
        return false;
    check_buf_make(&r->workspace, k->workspace_bytes != NULL
                                      ? k->workspace_bytes(sig, call.state)
                                      : 0);
    call.workspace = r->workspace.data;
    for (int i = 0; i < sig->n_in; i++)
        call.in[i] = r->call->in[i] == NULL ? NULL : r->in[i].data;
    for (int i = 0; i < sig->n_out; i++)
        if (sig->out[i].dtype != DTYPE_NONE)
            call.out[i] = r->out[i].data;
    /* Updated where they lie. */
    for (int i = 0; sig->op == OP_STATS_TRACK && i < 2; i++)
        memcpy(r->out[i].data, r->in[i].data, r->in[i].bytes);
    for (int i = 0; sig->op == OP_STATS_TRACK && i < 2; i++)
        call.in[i] = r->out[i].data;
    k->run(&call);
    if (k->release != NULL)
        k->release(call.state);
    return true;
}

/* ---- comparing ----------------------------------------------------------- */

/* Tensors of a file may lie at any address. */
static double
get(const void *data, const struct tensor_desc *t, int64_t i)
{
    const size_t size = dtype_size_bytes(t->dtype);
    _Alignas(8) uint8_t one[8];

    memcpy(one, (const uint8_t *)data + (size_t)i * size, size);
    return t->dtype == DTYPE_BOOL ? (double)one[0]
                                  : check_get(one, t->dtype, 0);
}

/* PyTorch takes gelu as x (1 + t) / 2, t = erf(x / sqrt 2) or tanh(u): far on
 * the negative side 1 + t is a difference of numbers near 1, off by 2^-24 for
 * its rounding and as much for that of t, however small it is. The gradient is
 * dy ((1 + t) / 2 + x s), where s is a density below 0.4, or u' (1 - t t) / 2
 * with u' = 0.8 (1 + 0.134 x x): one more such difference. */
static double
their_rounding(const struct run *r, int64_t i)
{
    const struct kernel_sig *sig = &r->call->sig;
    double x, slope;

    if (sig->op == OP_GELU)
        return 2 * 0x1p-24 * fabs(r->exact_in[0][i]);
    if (sig->op != OP_GELU_BWD)
        return 0;
    x = r->exact_in[1][i];
    slope = sig->params.gelu.tanh ? 0.8 * (1 + 0.134 * x * x) : 0.4;
    return 2 * 0x1p-24 * fabs(r->exact_in[0][i]) * (1 + fabs(x) * slope);
}

static double
tolerance_at(const struct run *r, int o, int64_t i)
{
    const struct kernel_sig *sig = &r->call->sig;
    const enum dtype t = sig->out[o].dtype;
    const double e = r->exact[o][i], place = check_ulp(t, e);
    const double length =
        (double)op_reduce_length(sig->op, &sig->params, sig->in, sig->out);
    const double bound =
        op_info(sig->op)->ulps * place + length * 0x1p-24 * r->terms[o][i];

    if (!dtype_is_float(t))
        return 0;
    return 2 * bound + their_rounding(r, i) +
           (r->call->native && dtype_is_half(t) ? place : 0);
}

static void
note(struct worst *w, double error, double tolerance, double want,
     enum dtype dtype)
{
    const double share = tolerance > 0 ? error / tolerance : error > 0;
    const double before =
        w->tolerance > 0 ? w->error / w->tolerance : w->error > 0;

    w->n_elems++;
    if (w->seen && share <= before)
        return;
    w->seen = true;
    w->error = error;
    w->tolerance = tolerance;
    w->want = want;
    w->dtype = dtype;
}

static void
compare(const struct run *r, const struct backend *backend, struct worst *w)
{
    const struct kernel_sig *sig = &r->call->sig;

    for (int o = 0; o < sig->n_out; o++) {
        const struct tensor_desc *t = &sig->out[o];

        for (int64_t i = 0; r->call->want[o] != NULL && i < tensor_n_elems(t);
             i++) {
            const double want = get(r->call->want[o], t, i);
            const double got = get(r->out[o].data, t, i);
            const double tolerance = tolerance_at(r, o, i);

            if (r->call->or_zero[o] && got == 0)
                continue;
            if (isfinite(want) && isfinite(got))
                note(w, fabs(got - want), tolerance, want, t->dtype);
            if (check_close(t->dtype, got, want, tolerance))
                continue;
            if (n_failed++ < 40)
                print_error("ops.txt:%d: %s on %s: %s[%lld] is %.9g, "
                            "PyTorch's %.9g, exact %.9g, tolerance %.3g\n",
                            r->call->line, op_info(sig->op)->name,
                            backend->name, op_info(sig->op)->out_name[o],
                            (long long)i, got, want, r->exact[o][i], tolerance);
        }
    }
}

static void
check_call(const struct oracle_call *call, const struct backend *backend,
           struct worst *w)
{
    struct err err;
    const struct kernel *k =
        backend_find_kernel(backend, &call->sig, NULL, &err);
    bool ran = k != NULL;
    struct run r;

    w->n_calls++;
    if (ran) {
        run_open(&r, call);
        ran = run_on(&r, k, &err);
        if (ran)
            compare(&r, backend, w);
        run_close(&r);
    }
    if (ran)
        return;
    n_failed++;
    print_error("ops.txt:%d: %s: %s\n", call->line, backend->name, err.msg);
}

static void
check_backend(int b)
{
    struct oracle *oracle = oracle_open(DIRECTORY);
    struct oracle_call call;

    n_failed = 0;
    while (oracle_next(oracle, &call))
        check_call(&call, backend_find(names[b]), &table[b][call.sig.op]);
    oracle_close(&oracle);
    if (n_failed > 0)
        fail_msg("%s: %d differences from PyTorch", names[b], n_failed);
}

static void
test_oracle_ops_reference(void **state)
{
    (void)state;
    check_backend(0);
}

static void
test_oracle_ops_cpu(void **state)
{
    (void)state;
    check_backend(1);
}

/* An op of the table that no line of ops.txt names is an op unproven. */
static void
test_oracle_ops_all_there(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (op != OP_GRAD_ACCUMULATE && table[0][op].n_calls == 0)
            fail_msg("no numbers for %s: oracle_ops.py", op_info(op)->name);
}

static void
print_table(void)
{
    struct oracle *oracle = oracle_open(DIRECTORY);

    printf("%s\n%-34s %5s %8s   %s\n", oracle_header(oracle), "op", "calls",
           "elements", "largest error of tolerance: reference, cpu");
    oracle_close(&oracle);
    for (int op = 0; op < OP_COUNT; op++) {
        if (table[0][op].n_calls == 0)
            continue;
        printf("%-34s %5d %8lld  ", op_info(op)->name, table[0][op].n_calls,
               (long long)table[0][op].n_elems);
        for (int b = 0; b < 2; b++)
            printf("  %8.2e of %8.2e (%s)", table[b][op].error,
                   table[b][op].tolerance,
                   dtype_short_name(table[b][op].dtype));
        printf("\n");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle_ops_reference),
        cmocka_unit_test(test_oracle_ops_cpu),
        cmocka_unit_test(test_oracle_ops_all_there),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);

    print_table();
    return rc;
}
