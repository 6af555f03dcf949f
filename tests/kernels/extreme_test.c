/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of real trouble (C05 to C12, C30), each op on each backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "tests/kernels/check.h"

static const enum dtype halves[] = {DTYPE_F16, DTYPE_BF16};

/* A call that owns its memory; values go in and out as doubles. */
struct trial {
    struct kernel_sig sig;
    struct check_buf in[OP_MAX_IN], out[OP_MAX_OUT];
};

static struct trial
trial_make(enum op op)
{
    struct trial t = {.sig = {.op = op, .threads = 1}};

    t.sig.n_in = op_info(op)->n_in;
    t.sig.n_out = op_info(op)->n_out;
    return t;
}

static void
set_in(struct trial *t, int i, struct tensor_desc desc, const double *v)
{
    t->sig.in[i] = desc;
    check_buf_make(&t->in[i], tensor_n_bytes(&desc));
    for (int64_t j = 0; j < tensor_n_elems(&desc); j++) {
        if (desc.dtype == DTYPE_I32)
            ((int32_t *)t->in[i].data)[j] = (int32_t)v[j];
        else
            convert_put(t->in[i].data, desc.dtype, j, (float)v[j]);
    }
}

static void
set_out(struct trial *t, int i, struct tensor_desc desc)
{
    t->sig.out[i] = desc;
    check_buf_make(&t->out[i], tensor_n_bytes(&desc));
}

static void
run(struct trial *t, const char *backend)
{
    const struct kernel *k;
    struct kernel_call call = {.sig = &t->sig};
    const struct kernel_step step = {.seed = 1, .iteration = 1};
    struct check_buf workspace;
    void *state = NULL;
    struct err err;

    k = backend_find_kernel(backend_find(backend), &t->sig, NULL, &err);
    assert_non_null(k);
    if (k->prepare != NULL)
        assert_int_equal(k->prepare(&t->sig, &state, &err), 0);
    check_buf_make(&workspace, k->workspace_bytes != NULL
                                   ? k->workspace_bytes(&t->sig, state)
                                   : 0);
    for (int i = 0; i < t->sig.n_in; i++)
        call.in[i] = t->in[i].base != NULL ? t->in[i].data : NULL;
    for (int i = 0; i < t->sig.n_out; i++)
        call.out[i] = t->out[i].base != NULL ? t->out[i].data : NULL;
    call.state = state;
    call.workspace = workspace.data;
    call.step = &step;
    k->run(&call);
    if (k->release != NULL)
        k->release(state);
    check_buf_free(&workspace);
}

static double
got(const struct trial *t, int out, int64_t i)
{
    return check_get(t->out[out].data, t->sig.out[out].dtype, i);
}

static void
trial_end(struct trial *t)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        check_buf_free(&t->in[i]);
    for (int i = 0; i < OP_MAX_OUT; i++)
        check_buf_free(&t->out[i]);
}

static struct tensor_desc
vector(enum dtype t, int64_t n)
{
    return tensor_make(t, 1, &n);
}

static struct tensor_desc
matrix(enum dtype t, int64_t rows, int64_t cols)
{
    return tensor_make(t, 2, (int64_t[]){rows, cols});
}

static struct tensor_desc
scalar(void)
{
    return tensor_make(DTYPE_F32, 0, NULL);
}

/* C07: the tanh form's gradient is finite for every finite x. */
static void
test_extreme_gelu_tanh(void **state)
{
    static const double x[] = {160, 147, -160}, dy[] = {1, 1, 1};
    static const double y[] = {160, 147, 0}, dx[] = {1, 1, 0};

    (void)state;
    for (int form = 0; form < 2; form++)
        for (int k = 0; k < 2; k++) {
            struct trial f = trial_make(OP_GELU);
            struct trial b = trial_make(OP_GELU_BWD);

            f.sig.params.gelu.tanh = b.sig.params.gelu.tanh = form == 0;
            set_in(&f, 0, vector(halves[k], 3), x);
            set_out(&f, 0, vector(halves[k], 3));
            set_in(&b, 0, vector(halves[k], 3), dy);
            set_in(&b, 1, vector(halves[k], 3), x);
            set_out(&b, 0, vector(halves[k], 3));
            run(&f, "cpu");
            run(&b, "cpu");
            for (int i = 0; i < 3; i++) {
                assert_true(fabs(got(&f, 0, i) - y[i]) <= 1e-3);
                assert_true(fabs(got(&b, 0, i) - dx[i]) <= 1e-3);
            }
            trial_end(&f);
            trial_end(&b);
        }
}

/* The same over every finite half and over huge floats. */
static void
test_extreme_gelu_bwd_always_finite(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++)
        for (int type = 0; type < 3; type++) {
            const enum dtype t = type == 2 ? DTYPE_F32 : halves[type];
            double *x = calloc(65536, sizeof(*x));
            double *dy = calloc(65536, sizeof(*dy));
            struct check_rng rng = {5};
            struct trial b = trial_make(OP_GELU_BWD);
            int64_t n = 0;

            assert_non_null(x);
            assert_non_null(dy);
            for (uint32_t i = 0; i < 65536; i++) {
                const uint32_t f = (uint32_t)(check_random(&rng) >> 32);
                const uint16_t h = (uint16_t)i;
                const double v = t == DTYPE_F32 ? check_get(&f, DTYPE_F32, 0)
                                                : check_get(&h, t, 0);

                if (isfinite(v))
                    x[n] = v, dy[n++] = 1;
            }
            b.sig.params.gelu.tanh = form == 0;
            set_in(&b, 0, vector(t, n), dy);
            set_in(&b, 1, vector(t, n), x);
            set_out(&b, 0, vector(t, n));
            run(&b, "cpu");
            for (int64_t i = 0; i < n; i++)
                assert_true(isfinite(got(&b, 0, i)));
            trial_end(&b);
            free(x);
            free(dy);
        }
}

/* C06 b: a row of equal values with an eps that half cannot hold. C06 a's
 * values, for layer_norm: +-300 overflow when squared in half. */
static void
test_extreme_layer_norm(void **state)
{
    static const double x[] = {3, 3, 3, 3, 300, -300, 300, -300};
    static const double y[] = {0, 0, 0, 0, 1, -1, 1, -1};
    static const double one[] = {1, 1, 1, 1}, zero[] = {0, 0, 0, 0};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct trial t = trial_make(OP_LAYER_NORM);

        t.sig.params.layer_norm.eps = 1e-12;
        t.sig.params.layer_norm.n_dims = 1;
        set_in(&t, 0, matrix(halves[k], 2, 4), x);
        set_in(&t, 1, vector(DTYPE_F32, 4), one);
        set_in(&t, 2, vector(DTYPE_F32, 4), zero);
        set_out(&t, 0, matrix(halves[k], 2, 4));
        set_out(&t, 1, vector(DTYPE_F32, 2));
        set_out(&t, 2, vector(DTYPE_F32, 2));
        run(&t, "cpu");
        for (int i = 0; i < 8; i++)
            assert_true(fabs(got(&t, 0, i) - y[i]) <= 1e-3);
        trial_end(&t);
    }
}

/* A constant of long rows must not leave the rounding of its mean behind. */
static void
test_extreme_norm_of_constant(void **state)
{
    enum { ROWS = 3, LEN = 1000 };
    double *x = calloc(ROWS * LEN, sizeof(*x));
    struct trial l = trial_make(OP_LAYER_NORM);
    struct trial b = trial_make(OP_BATCH_NORM);

    (void)state;
    assert_non_null(x);
    for (int i = 0; i < ROWS * LEN; i++)
        x[i] = 0.1;
    l.sig.params.layer_norm.eps = b.sig.params.batch_norm.eps = 1e-12;
    l.sig.params.layer_norm.n_dims = 1;
    set_in(&l, 0, matrix(DTYPE_F32, ROWS, LEN), x);
    set_out(&l, 0, matrix(DTYPE_F32, ROWS, LEN));
    set_out(&l, 1, vector(DTYPE_F32, ROWS));
    set_out(&l, 2, vector(DTYPE_F32, ROWS));
    set_in(&b, 0, matrix(DTYPE_F32, LEN, ROWS), x);
    set_out(&b, 0, matrix(DTYPE_F32, LEN, ROWS));
    set_out(&b, 1, vector(DTYPE_F32, ROWS));
    set_out(&b, 2, vector(DTYPE_F32, ROWS));
    run(&l, "cpu");
    run(&b, "cpu");
    for (int i = 0; i < ROWS * LEN; i++) {
        assert_true(got(&l, 0, i) == 0);
        assert_true(got(&b, 0, i) == 0);
    }
    trial_end(&l);
    trial_end(&b);
    free(x);
}

/* C09 */
static void
test_extreme_bce_with_logits(void **state)
{
    static const double x[] = {20, -20, 0}, target[] = {0, 1, 1};
    static const double dx[] = {0.33333333264628207, -0.3333333326462821,
                                -0.16666666666666666};
    const double third = 1.0 / 3, one = 1;
    struct trial f = trial_make(OP_BCE_WITH_LOGITS);
    struct trial b = trial_make(OP_BCE_WITH_LOGITS_BWD);

    (void)state;
    set_in(&f, 0, vector(DTYPE_F32, 3), x);
    set_in(&f, 1, vector(DTYPE_F32, 3), target);
    set_in(&f, 2, scalar(), &third);
    set_out(&f, 0, scalar());
    set_in(&b, 0, scalar(), &one);
    set_in(&b, 1, vector(DTYPE_F32, 3), x);
    set_in(&b, 2, vector(DTYPE_F32, 3), target);
    set_in(&b, 3, scalar(), &third);
    set_out(&b, 0, vector(DTYPE_F32, 3));
    run(&f, "cpu");
    run(&b, "cpu");
    assert_true(fabs(got(&f, 0, 0) - 13.564382394894084) <= 1e-5);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got(&b, 0, i) - dx[i]) <= 1e-5);
    trial_end(&f);
    trial_end(&b);
}

static double
cross_entropy(const double *x, int64_t classes, double label, double smoothing)
{
    const double one = 1;
    struct trial t = trial_make(OP_CROSS_ENTROPY);
    double loss;

    t.sig.params.loss.label_smoothing = smoothing;
    set_in(&t, 0, matrix(DTYPE_F32, 1, classes), x);
    set_in(&t, 1, vector(DTYPE_I32, 1), &label);
    set_in(&t, 2, scalar(), &one);
    set_out(&t, 0, scalar());
    run(&t, "cpu");
    loss = got(&t, 0, 0);
    trial_end(&t);
    return loss;
}

/* C10 */
static void
test_extreme_cross_entropy(void **state)
{
    static const double a[] = {12, 0};
    static double b[8192] = {20};

    (void)state;
    assert_true(fabs(cross_entropy(a, 2, 1, 0) - 12.000006144193478) <= 1e-4);
    assert_true(fabs(cross_entropy(b, 8192, 0, 0.1) - 1.9997727421419493) <=
                1e-4);
    /* A label outside its range is NaN, and nothing is read there. */
    assert_true(isnan(cross_entropy(a, 2, 2, 0)));
    assert_true(isnan(cross_entropy(a, 2, -1, 0)));
    assert_true(isnan(cross_entropy(a, 2, -2e9, 0)));
}

/* C12 b: 16384 terms of 4 pass the range of half. */
static void
test_extreme_l1_of_many(void **state)
{
    enum { N = 16384 };
    double *x = calloc(N, sizeof(*x)), *target = calloc(N, sizeof(*target));
    const double inv_count = 1.0 / N;
    struct trial t = trial_make(OP_L1);

    (void)state;
    assert_non_null(x);
    assert_non_null(target);
    for (int i = 0; i < N; i++)
        x[i] = 2, target[i] = -2;
    set_in(&t, 0, vector(DTYPE_F32, N), x);
    set_in(&t, 1, vector(DTYPE_F32, N), target);
    set_in(&t, 2, scalar(), &inv_count);
    set_out(&t, 0, scalar());
    run(&t, "cpu");
    assert_true(fabs(got(&t, 0, 0) - 4) <= 4e-5);
    trial_end(&t);
    free(x);
    free(target);
}

/* C12 a: the mean of 100,000 ones in half is one. */
static void
test_extreme_mean_of_many(void **state)
{
    enum { SIDE = 320 };
    double *x = calloc(SIDE * SIDE, sizeof(*x));

    (void)state;
    assert_non_null(x);
    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = 1;
    for (int k = 0; k < 2; k++) {
        struct trial t = trial_make(OP_ADAPTIVE_AVG_POOL2D);

        set_in(&t, 0, tensor_make_nhwc(halves[k], 1, 1, SIDE, SIDE), x);
        set_out(&t, 0, tensor_make_nhwc(halves[k], 1, 1, 1, 1));
        run(&t, "cpu");
        assert_true(got(&t, 0, 0) == 1);
        trial_end(&t);
    }
    free(x);
}

/* C05's scores: a product of 64 terms of 1296 passes the range of half as a
 * sum, but not of float32, in which it is kept before it is rounded. */
static void
test_extreme_scores_in_float32(void **state)
{
    double q[64], k[2 * 64];
    struct trial t = trial_make(OP_LINEAR);

    (void)state;
    for (int i = 0; i < 64; i++)
        q[i] = k[i] = 36, k[64 + i] = 35.96875;
    set_in(&t, 0, matrix(DTYPE_F16, 1, 64), q);
    set_in(&t, 1, matrix(DTYPE_F16, 2, 64), k);
    set_out(&t, 0, matrix(DTYPE_F32, 1, 2));
    run(&t, "reference");
    assert_true(got(&t, 0, 0) == 82944);
    assert_true(got(&t, 0, 1) == 82872);
    trial_end(&t);
}

/* C30 a: the scale is applied in float32. */
static void
test_extreme_scale_loss(void **state)
{
    const double loss = 2, scale = 65536;
    struct trial t = trial_make(OP_SCALE_LOSS);

    (void)state;
    set_in(&t, 0, scalar(), &loss);
    set_in(&t, 1, scalar(), &scale);
    set_out(&t, 0, scalar());
    run(&t, "cpu");
    assert_true(got(&t, 0, 0) == 131072);
    trial_end(&t);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extreme_gelu_tanh),
        cmocka_unit_test(test_extreme_gelu_bwd_always_finite),
        cmocka_unit_test(test_extreme_layer_norm),
        cmocka_unit_test(test_extreme_norm_of_constant),
        cmocka_unit_test(test_extreme_bce_with_logits),
        cmocka_unit_test(test_extreme_cross_entropy),
        cmocka_unit_test(test_extreme_l1_of_many),
        cmocka_unit_test(test_extreme_mean_of_many),
        cmocka_unit_test(test_extreme_scores_in_float32),
        cmocka_unit_test(test_extreme_scale_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
