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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_cases_c06_squares_of_halves),
        cmocka_unit_test(test_op_cases_c06_constant),
        cmocka_unit_test(test_op_cases_c06_squares_of_floats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
