/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN's kernels against loops in double: every op, dtype and table, odd
 * shapes, canaries around outputs and workspace, the same bits in every run,
 * non-finite values where the definition has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/convert.h"
#include "kernels/dnnl/dnnl.h"
#include "tests/kernels/dnnl_naive.h"
#include "tests/kernels/guarded.h"

/* What the loops say, once for all tables and thread counts. */
struct truth {
    double *want, *tolerance;
};

static void
truth_init(struct truth *truth, const struct guarded *c)
{
    const void *in[OP_MAX_IN];
    const int64_t n = tensor_n_elems(&c->sig.out[0]);

    truth->want = guarded_alloc((size_t)n * sizeof(double));
    truth->tolerance = guarded_alloc((size_t)n * sizeof(double));
    for (int i = 0; i < OP_MAX_IN; i++)
        in[i] = c->in[i];
    for (int64_t i = 0; i < n; i++) {
        double terms;

        dnnl_naive_element(&c->sig, in, i, &truth->want[i], &terms);
        truth->tolerance[i] =
            dnnl_naive_tolerance(&c->sig, truth->want[i], terms);
    }
}

static void
truth_fini(struct truth *truth)
{
    free(truth->want);
    free(truth->tolerance);
}

static void
case_compare(const struct guarded *c, const struct truth *truth,
             const char *table)
{
    for (int64_t i = 0; i < tensor_n_elems(&c->sig.out[0]); i++) {
        const double got = guarded_result(c, i);

        if (!(fabs(got - truth->want[i]) <= truth->tolerance[i]))
            guarded_fail(c, table, i, got, truth->want[i], truth->tolerance[i]);
    }
}

static const struct kernel_table *const tables[] = {&dnnl_table,
                                                    &dnnl_native_table};

/* On both tables, one and two threads; must: a slot may not decline. */
static void
check_sig(struct kernel_sig sig, bool must)
{
    struct guarded c;
    struct truth truth;

    guarded_init(&c, &sig);
    truth_init(&truth, &c);
    for (int t = 0; t < 2; t++)
        for (c.sig.threads = 1; c.sig.threads <= 2; c.sig.threads++) {
            const struct kernel *kernel = tables[t]->op[sig.op];

            assert_non_null(kernel);
            if (!kernel->supports(&c.sig)) {
                assert_false(must);
                continue;
            }
            guarded_run(&c, kernel, 4, NULL);
            case_compare(&c, &truth, tables[t]->name);
        }
    truth_fini(&truth);
    guarded_fini(&c);
}

/* ---- linear -------------------------------------------------------------- */

struct linear_shape {
    int64_t n, k, o;
};

static const struct linear_shape linear_shapes[] = {
    {1, 1, 1},   {3, 5, 7},     {17, 33, 10},  {64, 128, 10},
    {5, 257, 1}, {1, 300, 129}, {31, 64, 100},
};

static const enum dtype float_dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* Inputs and output of the op, all of dtype t but the output. */
static struct kernel_sig
linear_sig(enum op op, const struct linear_shape *s, enum dtype t,
           enum dtype out, bool bias)
{
    const struct tensor_desc x = tensor_make(t, 2, (int64_t[]){s->n, s->k});
    const struct tensor_desc w = tensor_make(t, 2, (int64_t[]){s->o, s->k});
    const struct tensor_desc y = tensor_make(t, 2, (int64_t[]){s->n, s->o});
    struct kernel_sig sig = {.op = op, .n_in = 2, .n_out = 1, .threads = 1};

    sig.in[0] = op == OP_LINEAR ? x : y;
    sig.in[1] = op == OP_LINEAR_DW ? x : w;
    sig.out[0] = op == OP_LINEAR ? y : op == OP_LINEAR_DX ? x : w;
    sig.out[0].dtype = out;
    if (op == OP_LINEAR) {
        sig.n_in = 3;
        if (bias)
            sig.in[2] = tensor_make(t, 1, &s->o);
    }
    return sig;
}

static void
check_linear(enum op op, bool bias)
{
    for (size_t s = 0; s < sizeof(linear_shapes) / sizeof(linear_shapes[0]);
         s++)
        for (int t = 0; t < 3; t++) {
            const enum dtype dtype = float_dtypes[t];

            check_sig(linear_sig(op, &linear_shapes[s], dtype, dtype, bias),
                      true);
            if (dtype != DTYPE_F32)
                check_sig(
                    linear_sig(op, &linear_shapes[s], dtype, DTYPE_F32, bias),
                    true);
        }
}

/* [entries,rows,cols], or [entries,cols,rows]. */
static struct tensor_desc
stack(enum dtype t, int64_t n, int64_t rows, int64_t cols, bool transposed)
{
    return tensor_make(
        t, 3,
        (int64_t[]){n, transposed ? cols : rows, transposed ? rows : cols});
}

/* Both factors either way round; entries that threads share, one, a long sum
 * (with more threads than entries in checkkern). */
static void
test_dnnl_matmul(void **state)
{
    static const int64_t shapes[][4] = {
        {1, 17, 33, 10}, {3, 9, 40, 17}, {2, 2, 3000, 3}, {12, 64, 32, 64}};
    static const enum op ops[] = {OP_MATMUL, OP_MATMUL_DA, OP_MATMUL_DB};

    (void)state;
    for (int i = 0; i < 4 * 4 * 3 * 3; i++) {
        const int64_t *s = shapes[i % 4];
        const bool a_t = i / 4 & 1, b_t = i / 8 & 1;
        const enum op op = ops[i / 16 % 3];
        const enum dtype t = float_dtypes[i / 48];
        const struct tensor_desc a = stack(t, s[0], s[1], s[2], a_t);
        const struct tensor_desc b = stack(t, s[0], s[2], s[3], b_t);
        const struct tensor_desc y = stack(t, s[0], s[1], s[3], false);
        struct kernel_sig sig = {.op = op, .n_in = 2, .n_out = 1, .threads = 1};

        sig.params.matmul.a_transposed = a_t;
        sig.params.matmul.b_transposed = b_t;
        sig.in[0] = op == OP_MATMUL ? a : y;
        sig.in[1] = op == OP_MATMUL_DB ? a : b;
        sig.out[0] = op == OP_MATMUL ? y : op == OP_MATMUL_DA ? a : b;
        check_sig(sig, false);
    }
}

static void
test_dnnl_linear(void **state)
{
    (void)state;
    check_linear(OP_LINEAR, false);
    check_linear(OP_LINEAR, true);
}

static void
test_dnnl_linear_dx(void **state)
{
    (void)state;
    check_linear(OP_LINEAR_DX, false);
}

static void
test_dnnl_linear_dw(void **state)
{
    (void)state;
    check_linear(OP_LINEAR_DW, false);
}

/* Leading dimensions are rows; rank 1 is one row. */
static void
test_dnnl_linear_ranks(void **state)
{
    const struct linear_shape flat = {24, 9, 6}, one = {1, 9, 6};
    const enum op ops[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct kernel_sig sig =
            linear_sig(ops[i], &flat, DTYPE_BF16, DTYPE_F32, true);
        struct kernel_sig row =
            linear_sig(ops[i], &one, DTYPE_F16, DTYPE_F32, true);
        struct tensor_desc *rows[2] = {
            &sig.in[0], ops[i] == OP_LINEAR_DW ? &sig.in[1] : &sig.out[0]};
        struct tensor_desc *ones[2] = {
            &row.in[0], ops[i] == OP_LINEAR_DW ? &row.in[1] : &row.out[0]};

        for (int j = 0; j < 2; j++) {
            *rows[j] = tensor_make(
                rows[j]->dtype, 4,
                (int64_t[]){2, 3, 4, rows[j]->dim[rows[j]->rank - 1]});
            *ones[j] = tensor_make(ones[j]->dtype, 1, &ones[j]->dim[1]);
        }
        check_sig(sig, true);
        check_sig(row, true);
    }
}

static void
test_dnnl_linear_zero_size(void **state)
{
    const struct linear_shape empty[] = {{0, 4, 3}, {2, 0, 3}, {2, 4, 0}};
    const enum op ops[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int s = 0; s < 3; s++) {
            const struct kernel_sig sig =
                linear_sig(ops[i], &empty[s], DTYPE_F32, DTYPE_F32, false);

            assert_false(dnnl_table.op[ops[i]]->supports(&sig));
        }
}

/* ---- conv ---------------------------------------------------------------- */

struct conv_shape {
    int64_t n, c, h, w, o, kh, kw, stride, padding, dilation, groups;
    bool must; /* every processor with AVX2 */
};

static const struct conv_shape conv_shapes[] = {
    /*n  c   h   w   o   kh kw s  p  d  g */
    {3, 1, 14, 12, 32, 3, 3, 1, 1, 1, 1, true},
    {1, 32, 14, 14, 64, 3, 3, 1, 1, 1, 1, true},
    {2, 3, 11, 9, 8, 5, 3, 2, 2, 1, 1, true},
    {2, 16, 8, 8, 16, 1, 1, 1, 0, 1, 1, true},
    {1, 5, 7, 6, 7, 3, 3, 1, 1, 1, 1, true},
    {2, 33, 6, 7, 17, 3, 3, 1, 1, 1, 1, true},
    {2, 16, 9, 9, 32, 3, 3, 1, 2, 2, 1, false},
    {1, 7, 10, 10, 5, 3, 3, 3, 2, 2, 1, false},
    {2, 16, 8, 8, 32, 3, 3, 1, 1, 1, 2, false},
    {2, 6, 7, 7, 9, 3, 3, 1, 1, 1, 3, false},
    {2, 16, 9, 9, 16, 3, 3, 1, 1, 1, 16, false},
    {2, 16, 9, 9, 16, 3, 3, 2, 1, 1, 16, false},
    {1, 4, 5, 5, 4, 5, 5, 1, 4, 1, 1, false},
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, true},
};

static struct kernel_sig
conv_sig(enum op op, const struct conv_shape *s, enum dtype t, enum dtype out,
         bool bias)
{
    struct kernel_sig sig = {.op = op, .n_in = 2, .n_out = 1, .threads = 1};
    const struct tensor_desc x = tensor_make_nhwc(t, s->n, s->c, s->h, s->w);
    const struct tensor_desc w =
        tensor_make(t, 4, (int64_t[]){s->o, s->c / s->groups, s->kh, s->kw});
    const struct tensor_desc y = tensor_make_nhwc(
        t, s->n, s->o,
        op_window_out(s->h, s->kh, s->stride, s->padding, s->dilation),
        op_window_out(s->w, s->kw, s->stride, s->padding, s->dilation));

    for (int i = 0; i < 2; i++) {
        sig.params.conv.stride[i] = s->stride;
        sig.params.conv.padding[i] = s->padding;
        sig.params.conv.dilation[i] = s->dilation;
    }
    sig.params.conv.groups = s->groups;
    sig.in[0] = op == OP_CONV2D ? x : y;
    sig.in[1] = op == OP_CONV2D_DW ? x : w;
    sig.out[0] = op == OP_CONV2D ? y : op == OP_CONV2D_DX ? x : w;
    sig.out[0].dtype = out;
    if (op == OP_CONV2D) {
        sig.n_in = 3;
        if (bias)
            sig.in[2] = tensor_make(t, 1, &s->o);
    }
    return sig;
}

static void
check_conv(enum op op, bool bias)
{
    for (size_t s = 0; s < sizeof(conv_shapes) / sizeof(conv_shapes[0]); s++)
        for (int t = 0; t < 3; t++) {
            const struct conv_shape *shape = &conv_shapes[s];
            const enum dtype dtype = float_dtypes[t];

            check_sig(conv_sig(op, shape, dtype, dtype, bias), shape->must);
            if (dtype != DTYPE_F32)
                check_sig(conv_sig(op, shape, dtype, DTYPE_F32, bias),
                          shape->must);
        }
}

static void
test_dnnl_conv2d(void **state)
{
    (void)state;
    check_conv(OP_CONV2D, false);
    check_conv(OP_CONV2D, true);
}

static void
test_dnnl_conv2d_dx(void **state)
{
    (void)state;
    check_conv(OP_CONV2D_DX, false);
}

static void
test_dnnl_conv2d_dw(void **state)
{
    (void)state;
    check_conv(OP_CONV2D_DW, false);
}

static void
test_dnnl_conv2d_zero_size(void **state)
{
    const struct conv_shape empty = {0, 4, 5, 5, 4, 3, 3, 1, 1, 1, 1, false};
    const enum op ops[] = {OP_CONV2D, OP_CONV2D_DX, OP_CONV2D_DW};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kernel_sig sig =
            conv_sig(ops[i], &empty, DTYPE_F32, DTYPE_F32, false);

        assert_false(dnnl_table.op[ops[i]]->supports(&sig));
    }
}

/* ---- non-finite values --------------------------------------------------- */

static int
class_of(double v)
{
    return isnan(v) ? 2 : isinf(v) ? (v > 0 ? 1 : -1) : 0;
}

/* One element of one input is bad: the output is NaN, inf or finite exactly
 * where the loops say so, in particular not behind padding. */
static void
check_bad(struct kernel_sig sig, int input, float bad, bool must)
{
    const void *in[OP_MAX_IN];
    const struct kernel *kernel = dnnl_table.op[sig.op];
    struct guarded c;

    sig.threads = 2;
    if (!kernel->supports(&sig)) {
        assert_false(must);
        return;
    }
    guarded_init(&c, &sig);
    convert_put(c.in[input], sig.in[input].dtype,
                tensor_n_elems(&sig.in[input]) / 2, bad);
    guarded_run(&c, kernel, 1, NULL);
    for (int i = 0; i < OP_MAX_IN; i++)
        in[i] = c.in[i];
    for (int64_t i = 0; i < tensor_n_elems(&sig.out[0]); i++) {
        double want, terms;

        dnnl_naive_element(&sig, in, i, &want, &terms);
        if (class_of(guarded_result(&c, i)) != class_of(want))
            guarded_fail(&c, dnnl_table.name, i, guarded_result(&c, i), want,
                         0);
    }
    guarded_fini(&c);
}

static void
test_dnnl_nonfinite(void **state)
{
    const enum op linear[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW};
    const enum op conv[] = {OP_CONV2D, OP_CONV2D_DX, OP_CONV2D_DW};
    const float bad[] = {INFINITY, -INFINITY, NAN};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int b = 0; b < 3; b++)
            for (int input = 0; input < 2; input++)
                for (int t = 0; t < 3; t++) {
                    const enum dtype dtype = float_dtypes[t];

                    check_bad(linear_sig(linear[i], &linear_shapes[2], dtype,
                                         dtype, false),
                              input, bad[b], true);
                    for (int s = 2; s < 7; s++)
                        check_bad(conv_sig(conv[i], &conv_shapes[s], dtype,
                                           dtype, false),
                                  input, bad[b], conv_shapes[s].must);
                }
}

/* A float16 sum that leaves the range becomes inf, one that only passes
 * through a large value does not: sums are float32. */
static void
test_dnnl_f16_range(void **state)
{
    const struct linear_shape shape = {1, 4, 1};
    struct kernel_sig sig =
        linear_sig(OP_LINEAR, &shape, DTYPE_F16, DTYPE_F16, false);
    const float x[2][4] = {{60000, 60000, -60000, 1}, {60000, 5520, 0, 0}};
    const double want[2] = {60001 - 1, INFINITY}; /* 60001 rounds to 60000 */

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct guarded c;

        guarded_init(&c, &sig);
        for (int k = 0; k < 4; k++) {
            convert_put(c.in[0], DTYPE_F16, k, x[i][k]);
            convert_put(c.in[1], DTYPE_F16, k, 1);
        }
        guarded_run(&c, dnnl_table.op[OP_LINEAR], 1, NULL);
        assert_true(guarded_result(&c, 0) == want[i]);
        guarded_fini(&c);
    }
}

/* 1-D and transposed convolutions are the library's work too, with bias and
 * output padding; checkkern says that they are right. */
static void
test_dnnl_takes_lifted(void **state)
{
    const struct tensor_desc x = tensor_make_nlc(DTYPE_BF16, 2, 16, 40);
    const struct tensor_desc w =
        tensor_make(DTYPE_BF16, 3, (int64_t[]){8, 16, 3});
    const struct tensor_desc y = tensor_make_nlc(DTYPE_BF16, 2, 8, 40);
    const struct tensor_desc small = tensor_make_nhwc(DTYPE_BF16, 2, 16, 5, 4);
    const struct tensor_desc up =
        tensor_make(DTYPE_BF16, 4, (int64_t[]){16, 4, 3, 3});
    const struct tensor_desc big = tensor_make_nhwc(DTYPE_BF16, 2, 8, 10, 8);
    const struct tensor_desc b = tensor_make(DTYPE_BF16, 1, (int64_t[]){8});
    struct kernel_sig sig = {
        .op = OP_CONV1D, .n_in = 3, .n_out = 1, .threads = 1};

    (void)state;
    sig.params.conv.stride[1] = sig.params.conv.padding[1] = 1;
    sig.params.conv.dilation[1] = sig.params.conv.groups = 1;
    sig.in[0] = x, sig.in[1] = w, sig.in[2] = b, sig.out[0] = y;
    assert_true(dnnl_table.op[OP_CONV1D]->supports(&sig));
    sig.op = OP_CONV_TRANSPOSE2D;
    for (int i = 0; i < 2; i++) {
        sig.params.conv.stride[i] = 2;
        sig.params.conv.padding[i] = sig.params.conv.dilation[i] = 1;
        sig.params.conv.output_padding[i] = 1;
    }
    sig.params.conv.groups = 2;
    sig.in[0] = small, sig.in[1] = up, sig.out[0] = big;
    assert_true(dnnl_table.op[OP_CONV_TRANSPOSE2D]->supports(&sig));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dnnl_linear),
        cmocka_unit_test(test_dnnl_matmul),
        cmocka_unit_test(test_dnnl_linear_dx),
        cmocka_unit_test(test_dnnl_linear_dw),
        cmocka_unit_test(test_dnnl_linear_ranks),
        cmocka_unit_test(test_dnnl_linear_zero_size),
        cmocka_unit_test(test_dnnl_conv2d),
        cmocka_unit_test(test_dnnl_conv2d_dx),
        cmocka_unit_test(test_dnnl_conv2d_dw),
        cmocka_unit_test(test_dnnl_conv2d_zero_size),
        cmocka_unit_test(test_dnnl_takes_lifted),
        cmocka_unit_test(test_dnnl_nonfinite),
        cmocka_unit_test(test_dnnl_f16_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
