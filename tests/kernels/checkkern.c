/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkkern: every slot of every backend against golden/, H23's harness.
 *
 *     checkkern                 all ops, a CMocka test each
 *     checkkern OP              one op
 *     checkkern --bench [OP]    speed beside a copy measured in the same run
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/bench.h"
#include "tests/kernels/golden/golden.h"
#include "tests/kernels/runner.h"

struct golden_copy {
    double *in[OP_MAX_IN], *out[OP_MAX_OUT], *mag[OP_MAX_OUT]; /* owned */
};

static void
golden_open(struct golden_copy *k, const struct runner *r)
{
    const struct kernel_sig *sig = &r->c.sig;
    struct golden g = {.sig = sig, .step = &r->step};

    memset(k, 0, sizeof(*k));
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].dtype != DTYPE_NONE)
            g.in[i] = k->in[i] = check_doubles(r->in[i].data, &sig->in[i]);
    for (int i = 0; i < sig->n_out; i++)
        if (sig->out[i].dtype != DTYPE_NONE) {
            g.out[i] = k->out[i] = check_doubles(NULL, &sig->out[i]);
            g.mag[i] = k->mag[i] = check_doubles(NULL, &sig->out[i]);
        }
    golden_run(&g);
}

static void
golden_close(struct golden_copy *k)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        free(k->in[i]);
    for (int i = 0; i < OP_MAX_OUT; i++) {
        free(k->out[i]);
        free(k->mag[i]);
    }
}

/* Where a case went wrong, for the reader of the log. */
static void
describe(const struct runner *r, char *text, size_t size)
{
    const struct kernel_sig *sig = &r->c.sig;
    size_t at =
        (size_t)snprintf(text, size, "%s by %s, %d threads, fills",
                         op_info(sig->op)->name, r->table, sig->threads);

    for (int i = 0; i < sig->n_in && at < size; i++) {
        char tensor[96];

        at += (size_t)snprintf(
            text + at, size - at, " %d:%s", (int)r->c.fill[i],
            tensor_format(&sig->in[i], tensor, sizeof(tensor)));
    }
    for (int i = 0; i < sig->n_out && at < size; i++) {
        char tensor[96];

        at += (size_t)snprintf(
            text + at, size - at, " -> %s",
            tensor_format(&sig->out[i], tensor, sizeof(tensor)));
    }
}

static void
compare(const struct runner *r, const struct golden_copy *k)
{
    const struct kernel_sig *sig = &r->c.sig;
    const double length =
        (double)op_reduce_length(sig->op, &sig->params, sig->in, sig->out);

    for (int o = 0; o < sig->n_out; o++) {
        const struct tensor_desc *t = &sig->out[o];
        const int64_t n = t->dtype == DTYPE_NONE ? 0 : tensor_n_elems(t);

        for (int64_t i = 0; i < n; i++) {
            const double want = k->out[o][i];
            const double got = check_get(r->out[o].data, t->dtype, i);
            const double tolerance =
                op_info(sig->op)->ulps * check_ulp(t->dtype, want) +
                length * 0x1p-24 * k->mag[o][i];
            char text[512];

            if (check_close(t->dtype, got, want, tolerance))
                continue;
            describe(r, text, sizeof(text));
            fail_msg("%s: output %s[%lld] is %.9g, not %.9g +- %.3g", text,
                     op_info(sig->op)->out_name[o], (long long)i, got, want,
                     tolerance);
        }
    }
}

static void
keep_outputs(const struct runner *r, struct check_buf kept[OP_MAX_OUT])
{
    for (int o = 0; o < r->c.sig.n_out; o++) {
        check_buf_make(&kept[o], r->out[o].bytes);
        memcpy(kept[o].data, r->out[o].data, r->out[o].bytes);
    }
}

static void
expect_same_bits(const struct runner *r, const struct check_buf *kept,
                 const char *when)
{
    char text[512];

    for (int o = 0; o < r->c.sig.n_out; o++)
        if (memcmp(kept[o].data, r->out[o].data, kept[o].bytes) != 0) {
            describe(r, text, sizeof(text));
            fail_msg("%s: other bits %s", text, when);
        }
}

static void
expect_intact(const struct runner *r)
{
    char text[512];

    if (runner_intact(r))
        return;
    describe(r, text, sizeof(text));
    fail_msg("%s: wrote outside its outputs", text);
}

struct progress {
    const struct backend *backend;
    int64_t n_cases;
};

/* What is right does not depend on threads: found once a case. Sanitizers look
 * at what is read and written, and golden/ under them takes minutes: there the
 * values are not compared. */
struct expected {
    struct golden_copy golden;
    struct check_buf one_thread[OP_MAX_OUT];
};

static void
expect_values(const struct runner *r, struct expected *e)
{
    if (TRAIND_SANITIZED)
        return;
    if (r->c.sig.threads == 1)
        golden_open(&e->golden, r);
    compare(r, &e->golden);
}

/* One case: right, the same again, the same in place, within its bounds. */
static void
check_threads(const struct progress *p, const struct kcase *c, int threads,
              struct expected *e)
{
    struct runner r;
    struct check_buf kept[OP_MAX_OUT];
    struct err err;

    err_clear(&err);
    if (!runner_open(&r, p->backend, c, threads,
                     (uint64_t)p->n_cases * OP_COUNT + c->sig.op, &err))
        fail_msg("%s", err.msg);
    runner_run(&r, false);
    expect_intact(&r);
    expect_values(&r, e);
    keep_outputs(&r, kept);
    runner_run(&r, false);
    expect_same_bits(&r, kept, "when run again");
    if (runner_may_alias(&r)) {
        runner_run(&r, true);
        expect_intact(&r);
        expect_same_bits(&r, kept, "in place");
    }
    /* The reference promises more than the contract: any thread count. */
    if (threads == 1)
        keep_outputs(&r, e->one_thread);
    else if (strcmp(r.table, "cpu") == 0)
        expect_same_bits(&r, e->one_thread, "on one thread");
    for (int o = 0; o < r.c.sig.n_out; o++)
        check_buf_free(&kept[o]);
    runner_close(&r);
}

static void
check_case(void *ctx, const struct kcase *c)
{
    struct progress *p = ctx;
    struct expected e = {.golden = {{NULL}, {NULL}, {NULL}}};

    check_threads(p, c, 1, &e);
    check_threads(p, c, 3, &e);
    golden_close(&e.golden);
    for (int o = 0; o < OP_MAX_OUT; o++)
        check_buf_free(&e.one_thread[o]);
    p->n_cases++;
}

static void
test_checkkern_op(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const enum op op = *(const enum op *)*state;

    for (int b = 0; backend_at(b) != NULL; b++) {
        struct progress p = {.backend = backend_at(b)};

        for (int t = 0; t < 3; t++)
            cases_each(op, types[t], check_case, &p);
        assert_true(p.n_cases > 0);
    }
}

/* Every op has a slot in the table that is the definition. */
static void
test_checkkern_slots_filled(void **state)
{
    const struct backend *reference = backend_find("reference");

    (void)state;
    assert_non_null(reference);
    for (int op = 0; op < OP_COUNT; op++)
        if (reference->tables[0]->op[op] == NULL)
            fail_msg("no reference kernel for %s", op_info(op)->name);
    assert_non_null(backend_flat(reference).unscale);
    assert_non_null(backend_flat(backend_find("cpu")).adam);
}

static int
find_op(const char *name)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(op_info(op)->name, name) == 0)
            return op;
    fprintf(stderr, "checkkern: no op is called %s\n", name);
    exit(2);
}

int
main(int argc, char **argv)
{
    static enum op ops[OP_COUNT];
    static struct CMUnitTest tests[OP_COUNT + 1];
    int n = 0;

    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench_main(argc > 2 ? find_op(argv[2]) : -1);
    if (argc == 1)
        tests[n++] = (struct CMUnitTest){
            .name = "slots_filled", .test_func = test_checkkern_slots_filled};
    for (int op = 0; op < OP_COUNT; op++) {
        if (argc > 1 && find_op(argv[1]) != op)
            continue;
        ops[op] = op;
        tests[n++] = (struct CMUnitTest){.name = op_info(op)->name,
                                         .test_func = test_checkkern_op,
                                         .initial_state = &ops[op]};
    }
    return _cmocka_run_group_tests("checkkern", tests, (size_t)n, NULL, NULL);
}
