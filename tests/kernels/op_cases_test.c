/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of real trouble with single ops, on each backend; see extreme_test.c
 * for those of the first ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "tests/kernels/runner.h"

/* A signature of op with nothing in it yet. */
static struct kcase
start(enum op op)
{
    const struct cases_maker m = {.op = op};

    return cases_start(&m);
}

static void
open_runner(struct runner *r, const struct backend *backend,
            const struct kcase *c)
{
    struct err err;

    err_clear(&err);
    if (!runner_open(r, backend, c, 1, 1, &err))
        fail_msg("%s", err.msg);
}

static void
put(struct runner *r, int in, const double *v)
{
    const struct tensor_desc *t = &r->c.sig.in[in];

    for (int64_t i = 0; i < tensor_n_elems(t); i++)
        convert_put(r->in[in].data, t->dtype, i, (float)v[i]);
}

/* ---- C06: norms of halves, of a constant, of huge and tiny numbers --------- */

/* x [1,4] of rms_norm, layer_norm or group_norm (one group), with weight 1 and
 * bias 0; y must be want. */
static void
check_norm(enum op op, enum dtype t, const double *x, double eps,
           const double *want)
{
    static const double ones[4] = {1, 1, 1, 1}, zeros[4] = {0, 0, 0, 0};
    const struct tensor_desc w = cases_vector(DTYPE_F32, 4);
    struct kcase c = start(op);

    if (op == OP_GROUP_NORM) {
        c.sig.params.group_norm.eps = eps;
        c.sig.params.group_norm.n_groups = 1;
    } else {
        c.sig.params.layer_norm.eps = eps;
        c.sig.params.layer_norm.n_dims = 1;
    }
    c.sig.in[0] = c.sig.out[0] = cases_matrix(t, 1, 4);
    c.sig.in[1] = w;
    if (op != OP_RMS_NORM)
        c.sig.in[2] = w;
    for (int i = 1; i < c.sig.n_out; i++)
        c.sig.out[i] = op == OP_GROUP_NORM ? cases_matrix(DTYPE_F32, 1, 1)
                                           : cases_vector(DTYPE_F32, 1);
    for (int b = 0; backend_at(b) != NULL; b++) {
        struct runner r;

        open_runner(&r, backend_at(b), &c);
        put(&r, 0, x);
        put(&r, 1, ones);
        if (op != OP_RMS_NORM)
            put(&r, 2, zeros);
        runner_run(&r, false);
        for (int i = 0; i < 4; i++) {
            const double got = check_get(r.out[0].data, t, i);

            if (!(fabs(got - want[i]) <= 1e-3))
                fail_msg("%s of %s x[%d] = %g, eps %g, on %s: %g, not %g",
                         op_info(op)->name, dtype_short_name(t), i, x[i], eps,
                         backend_at(b)->name, got, want[i]);
        }
        runner_close(&r);
    }
}

static const double signs[4] = {1, -1, 1, -1};

static void
check_signs(enum op op, enum dtype t, double size, double eps)
{
    double x[4];

    for (int i = 0; i < 4; i++)
        x[i] = size * signs[i];
    check_norm(op, t, x, eps, signs);
}

static const enum op norms[] = {OP_RMS_NORM, OP_LAYER_NORM, OP_GROUP_NORM};
static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* The square of 300 is no half. */
static void
test_op_cases_c06_squares_of_halves(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++)
        for (int t = 0; t < 3; t++)
            check_signs(norms[n], types[t], 300, 1e-6);
}

/* eps 1e-12 is no half either. */
static void
test_op_cases_c06_constant(void **state)
{
    static const double zeros[4] = {0, 0, 0, 0}, threes[4] = {3, 3, 3, 3};

    (void)state;
    for (int n = 1; n < 3; n++)
        for (int t = 0; t < 3; t++)
            check_norm(norms[n], types[t], threes, 1e-12, zeros);
}

/* The same one step on: squares out of float32's range. */
static void
test_op_cases_c06_squares_of_floats(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++)
        for (int t = 0; t < 3; t += 2) {
            check_signs(norms[n], types[t], 1e25, 1e-6);
            check_signs(norms[n], types[t], 3e38, 1e-6);
            check_signs(norms[n], types[t], 1e-25, 1e-60);
        }
    for (int n = 0; n < 3; n++) /* the smallest half there is */
        check_signs(norms[n], DTYPE_F16, 0x1p-24, 1e-30);
}

/* ---- C03: a mask's constant that half does not hold ------------------------- */

static const double scores[6] = {1, 2, 3, 1, 2, 3};
static const bool keep[6] = {1, 1, 0, 0, 0, 0};

static struct kcase
masked(enum op op, enum dtype t)
{
    struct kcase c = start(op);

    for (int i = 0; i < c.sig.n_in; i++)
        c.sig.in[i] = cases_matrix(t, 2, 3);
    c.sig.out[0] = cases_matrix(t, 2, 3);
    c.sig.params.axis.axis = 1; /* of softmax */
    return c;
}

/* where(keep, x, value), or its gradient for op WHERE_BWD_A. */
static void
select_kept(enum op op, enum dtype t, const struct backend *backend,
            const double *x, double value, double *y)
{
    struct kcase c = masked(op, t);
    const int mask = op == OP_WHERE ? 0 : 1;
    struct runner r;

    c.sig.in[mask].dtype = DTYPE_BOOL;
    if (op == OP_WHERE)
        c.sig.in[2].dtype = DTYPE_NONE;
    c.sig.params.binary.value = value;
    open_runner(&r, backend, &c);
    memcpy(r.in[mask].data, keep, sizeof(keep));
    put(&r, 1 - mask, x);
    runner_run(&r, false);
    for (int i = 0; i < 6; i++)
        y[i] = check_get(r.out[0].data, t, i);
    runner_close(&r);
}

/* softmax(a), or its gradient of a and b. */
static void
soften(enum op op, enum dtype t, const struct backend *backend, const double *a,
       const double *b, double *y)
{
    const struct kcase c = masked(op, t);
    struct runner r;

    open_runner(&r, backend, &c);
    put(&r, 0, a);
    if (op == OP_SOFTMAX_BWD)
        put(&r, 1, b);
    runner_run(&r, false);
    for (int i = 0; i < 6; i++)
        y[i] = check_get(r.out[0].data, t, i);
    runner_close(&r);
}

/* -1e9 stays finite: never NaN, a row without any place is even. */
static void
test_op_cases_c03_constant(void **state)
{
    static const double want[6] = {
        0.26894142136999516, 0.7310585786300049, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3};

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int t = 0; t < 3; t++) {
            double x[6], y[6];
            const double tolerance = types[t] == DTYPE_BF16 ? 4e-3 : 1e-3;

            select_kept(OP_WHERE, types[t], backend_at(b), scores, -1e9, x);
            soften(OP_SOFTMAX, types[t], backend_at(b), x, NULL, y);
            for (int i = 0; i < 6; i++)
                assert_true(fabs(y[i] - want[i]) <= tolerance);
        }
}

/* -inf, and zeros chosen after: zeros where nothing may be looked at, and
 * nothing but zeros in the gradient there, though the softmax is NaN. */
static void
test_op_cases_c03_infinity(void **state)
{
    static const double dy[6] = {1, 2, 3, 1, 2, 3};

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int t = 0; t < 3; t++) {
            const struct backend *k = backend_at(b);
            double x[6], y[6], z[6], g[6];

            select_kept(OP_WHERE, types[t], k, scores, -INFINITY, x);
            soften(OP_SOFTMAX, types[t], k, x, NULL, y);
            assert_true(isnan(y[3]));
            select_kept(OP_WHERE, types[t], k, y, 0, z);
            assert_true(fabs(z[0] - 0.26894142136999516) <= 2e-3);
            for (int i = 2; i < 6; i++)
                assert_true(z[i] == 0);
            select_kept(OP_WHERE_BWD_A, types[t], k, dy, 0, g);
            soften(OP_SOFTMAX_BWD, types[t], k, g, y, x);
            select_kept(OP_WHERE_BWD_A, types[t], k, x, 0, g);
            assert_true(fabs(g[0] + 0.19661193324148185) <= 2e-3);
            assert_true(fabs(g[1] - 0.19661193324148185) <= 2e-3);
            for (int i = 2; i < 6; i++)
                assert_true(g[i] == 0);
        }
}

/* ---- C12: means and norms summed in half ------------------------------------ */

/* op over all of n elements, each of them `value`. */
static double
reduce_all(enum op op, enum dtype t, const struct backend *backend, int64_t n,
           double value)
{
    struct kcase c = start(op);
    struct runner r;
    double y;

    c.sig.params.reduce.dims = 1;
    c.sig.params.reduce.p = 2;
    c.sig.in[0] = cases_vector(t, n);
    c.sig.out[0] = cases_scalar(op == OP_MEAN ? t : DTYPE_F32);
    open_runner(&r, backend, &c);
    for (int64_t i = 0; i < n; i++)
        convert_put(r.in[0].data, t, i, (float)value);
    runner_run(&r, false);
    y = check_get(r.out[0].data, c.sig.out[0].dtype, 0);
    runner_close(&r);
    return y;
}

static void
test_op_cases_c12_sums_of_halves(void **state)
{
    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int t = 0; t < 3; t++) {
            const struct backend *k = backend_at(b);

            assert_true(reduce_all(OP_MEAN, types[t], k, 100000, 1) == 1);
            assert_true(fabs(reduce_all(OP_NORM, types[t], k, 5, 256) /
                                 572.4334022399462 -
                             1) <= 1e-5);
            assert_true(reduce_all(OP_NORM, types[t], k, 9, 100) == 300);
        }
}

/* ---- norms where they have no slope ------------------------------------------ */

static void
norm_gradient(const struct backend *backend, double p, const double *x,
              double y, double *dx)
{
    static const double one = 1;
    struct kcase c = start(OP_NORM_BWD);
    struct runner r;

    c.sig.params.reduce.dims = 1;
    c.sig.params.reduce.p = p;
    c.sig.in[0] = c.sig.in[2] = cases_scalar(DTYPE_F32);
    c.sig.in[1] = c.sig.out[0] = cases_vector(DTYPE_F32, 4);
    open_runner(&r, backend, &c);
    put(&r, 0, &one);
    put(&r, 1, x);
    put(&r, 2, &y);
    runner_run(&r, false);
    for (int i = 0; i < 4; i++)
        dx[i] = check_get(r.out[0].data, DTYPE_F32, i);
    runner_close(&r);
}

/* 0 at the origin; equal maxima share. As in PyTorch. */
static void
test_op_cases_norm_gradient(void **state)
{
    static const double orders[] = {0, 0.5, 1, 2, 3, INFINITY};
    static const double zeros[4] = {0, 0, 0, 0}, ties[4] = {-3, 1, 3, 2};
    static const double shares[4] = {-0.5, 0, 0.5, 0};

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++) {
        double dx[4];

        for (int i = 0; i < 6; i++) {
            norm_gradient(backend_at(b), orders[i], zeros, 0, dx);
            for (int j = 0; j < 4; j++)
                assert_true(dx[j] == 0);
        }
        norm_gradient(backend_at(b), INFINITY, ties, 3, dx);
        for (int j = 0; j < 4; j++)
            assert_true(dx[j] == shares[j]);
    }
}

/* A number is compared as the tensor holds it: 0.1 equals 0.1 in each dtype,
 * and the largest i32 is no float. */
static void
test_op_cases_compare(void **state)
{
    static const int32_t near[2] = {2147483647, 2147483646};

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int t = 0; t < 4; t++) {
            const enum dtype dtype = t < 3 ? types[t] : DTYPE_I32;
            const double tenths[2] = {0.1, 0.2};
            struct kcase c = start(OP_COMPARE);
            struct runner r;

            c.sig.params.compare.how = OP_COMPARE_EQ;
            c.sig.params.compare.value = t < 3 ? 0.1 : 2147483647;
            c.sig.in[0] = cases_vector(dtype, 2);
            c.sig.out[0] = cases_vector(DTYPE_BOOL, 2);
            open_runner(&r, backend_at(b), &c);
            if (t < 3)
                put(&r, 0, tenths);
            else
                memcpy(r.in[0].data, near, sizeof(near));
            runner_run(&r, false);
            assert_true(check_get(r.out[0].data, DTYPE_BOOL, 0) == 1);
            assert_true(check_get(r.out[0].data, DTYPE_BOOL, 1) == 0);
            runner_close(&r);
        }
}

/* ---- C03, C05: attention in half ------------------------------------------ */

/* q [1,T,C] sees k and v [1,S,C] by one head, float16, perhaps by a mask. */
static struct kcase
attention_case(int64_t t, int64_t s, int64_t c, double scale, bool masked)
{
    struct kcase k = start(OP_ATTENTION);
    const int64_t q[3] = {1, t, c}, kv[3] = {1, s, c}, lse[3] = {1, 1, t};

    k.sig.params.attention.n_heads = 1;
    k.sig.params.attention.scale = scale;
    k.sig.in[0] = k.sig.out[0] = tensor_make(DTYPE_F16, 3, q);
    k.sig.in[1] = k.sig.in[2] = tensor_make(DTYPE_F16, 3, kv);
    if (masked)
        k.sig.in[3] = cases_matrix(DTYPE_BOOL, t, s);
    k.sig.out[1] = tensor_make(DTYPE_F32, 3, lse);
    return k;
}

/* A mask is a choice, so no dtype is too narrow for it: weights of scores 1, 2,
 * 3 with the last hidden, then with all of them hidden. v's rows are unit
 * vectors, so that y shows the weights. */
static void
test_op_cases_c03_masked_attention(void **state)
{
    static const double q[6] = {1, 0, 0, 1, 0, 0};
    static const double k[9] = {1, 0, 0, 2, 0, 0, 3, 0, 0};
    static const double v[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const uint8_t mask[6] = {1, 1, 0, 0, 0, 0};
    static const double want[6] = {0.26894142136999516, 0.7310585786300049, 0};
    const struct kcase c = attention_case(2, 3, 3, 1, true);

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++) {
        struct runner r;

        open_runner(&r, backend_at(b), &c);
        put(&r, 0, q);
        put(&r, 1, k);
        put(&r, 2, v);
        memcpy(r.in[3].data, mask, sizeof(mask));
        runner_run(&r, false);
        for (int i = 0; i < 6; i++) {
            const double got = check_get(r.out[0].data, DTYPE_F16, i);

            assert_true(fabs(got - want[i]) <= 1e-3);
            assert_true(want[i] != 0 || got == 0);
        }
        runner_close(&r);
    }
}

/* 64 products of 36 x 36 pass 65504 before the scale is applied: weights must
 * not notice. */
static void
test_op_cases_c05_large_scores(void **state)
{
    double q[64], k[128], v[128];
    const struct kcase c = attention_case(1, 2, 64, 0.125, false);

    (void)state;
    for (int i = 0; i < 64; i++) {
        q[i] = k[i] = 36;
        k[64 + i] = 35.96875;
        v[i] = i < 32; /* y: the first weight 32 times, then the second */
        v[64 + i] = i >= 32;
    }
    for (int b = 0; backend_at(b) != NULL; b++) {
        struct runner r;

        open_runner(&r, backend_at(b), &c);
        put(&r, 0, q);
        put(&r, 1, k);
        put(&r, 2, v);
        runner_run(&r, false);
        for (int i = 0; i < 64; i++) {
            const double got = check_get(r.out[0].data, DTYPE_F16, i);

            if (i < 32)
                assert_true(fabs(got - 0.9998766054240137) <= 1e-3);
            else
                assert_true(got >= 1e-4 && got <= 4e-4);
        }
        assert_true(fabs(check_get(r.out[1].data, DTYPE_F32, 0) - 10368.0001) <=
                    2e-3);
        runner_close(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_cases_c03_constant),
        cmocka_unit_test(test_op_cases_c03_infinity),
        cmocka_unit_test(test_op_cases_c12_sums_of_halves),
        cmocka_unit_test(test_op_cases_norm_gradient),
        cmocka_unit_test(test_op_cases_compare),
        cmocka_unit_test(test_op_cases_c06_squares_of_halves),
        cmocka_unit_test(test_op_cases_c06_constant),
        cmocka_unit_test(test_op_cases_c06_squares_of_floats),
        cmocka_unit_test(test_op_cases_c03_masked_attention),
        cmocka_unit_test(test_op_cases_c05_large_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
