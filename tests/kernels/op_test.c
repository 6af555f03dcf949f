/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernels/backend.h"

static void
test_op_table_is_cut_right(void **state)
{
    const struct op_info *linear = op_info(OP_LINEAR);
    const struct op_info *norm = op_info(OP_BATCH_NORM_BWD);

    (void)state;
    assert_string_equal(linear->name, "linear");
    assert_int_equal(linear->n_in, 3);
    assert_string_equal(linear->in_name[2], "b");
    assert_true(linear->in_optional[2]);
    assert_false(linear->in_optional[1]);
    assert_int_equal(linear->cast, OP_CAST_LOWER);
    assert_int_equal(norm->n_in, 5);
    assert_string_equal(norm->in_name[4], "var");
    assert_int_equal(norm->n_out, 3);
    assert_string_equal(norm->out_name[2], "db");
    assert_int_equal(op_info(OP_RELU)->inplace, 0);
}

/* Names are unique; in-place inputs exist. */
static void
test_op_table_is_sane(void **state)
{
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        const struct op_info *a = op_info((enum op)i);

        assert_true(a->n_in >= 1 && a->n_out >= 1);
        assert_true(a->inplace >= -1 && a->inplace < a->n_in);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(a->name, op_info((enum op)j)->name);
    }
}

static void
test_op_window_out(void **state)
{
    (void)state;
    assert_int_equal(op_window_out(28, 3, 1, 1, 1), 28);
    assert_int_equal(op_window_out(28, 2, 2, 0, 1), 14);
    assert_int_equal(op_window_out(7, 3, 2, 0, 1), 3);
    assert_int_equal(op_window_out(9, 3, 1, 2, 2), 9);
    assert_int_equal(op_window_out(2, 3, 1, 0, 1), -1);
    assert_int_equal(op_window_out(3, 3, 1, 0, 1), 1);
    assert_int_equal(op_window_out(3, 3, 0, 0, 1), -1);
}

static void
test_op_reduce_length(void **state)
{
    const struct tensor_desc x = tensor_make_nhwc(DTYPE_F32, 4, 6, 8, 10);
    const struct tensor_desc w =
        tensor_make(DTYPE_F32, 4, (int64_t[]){12, 3, 5, 5});
    const struct tensor_desc y = tensor_make_nhwc(DTYPE_F32, 4, 12, 8, 10);
    const struct tensor_desc in[3] = {x, w}, dx_in[2] = {y, w};
    const struct tensor_desc dw_in[2] = {y, x};
    union op_params p = {.conv = {.groups = 2}};

    (void)state;
    assert_int_equal(op_reduce_length(OP_CONV2D, &p, in, &y), 75);
    assert_int_equal(op_reduce_length(OP_CONV2D_DX, &p, dx_in, &x), 150);
    assert_int_equal(op_reduce_length(OP_CONV2D_DW, &p, dw_in, &w), 320);
    assert_int_equal(op_reduce_length(OP_BATCH_NORM, &p, in, &x), 320);
    assert_int_equal(op_reduce_length(OP_BIAS_GRAD, &p, in, &x), 320);
    assert_int_equal(op_reduce_length(OP_RELU, &p, in, &x), 1);
    assert_true(op_flops(OP_CONV2D, &p, in, &y) == 2.0 * 75 * 4 * 12 * 80);
    assert_true(op_bytes(OP_RELU, in, &x) == 2.0 * 4 * 1920);
}

/* The window of a transposed convolution leads from x to y. */
static void
test_op_reduce_length_lifted(void **state)
{
    const struct tensor_desc x = tensor_make_nhwc(DTYPE_F32, 3, 6, 8, 10);
    const struct tensor_desc w =
        tensor_make(DTYPE_F32, 4, (int64_t[]){6, 4, 5, 5});
    const struct tensor_desc y = tensor_make_nhwc(DTYPE_F32, 3, 8, 12, 14);
    const struct tensor_desc s = tensor_make_nlc(DTYPE_F32, 3, 6, 11);
    const struct tensor_desc u =
        tensor_make(DTYPE_F32, 3, (int64_t[]){8, 3, 5});
    const struct tensor_desc z = tensor_make_nlc(DTYPE_F32, 3, 8, 7);
    const struct tensor_desc xw[3] = {x, w}, yw[2] = {y, w}, yx[2] = {y, x};
    const struct tensor_desc su[3] = {s, u}, zu[2] = {z, u}, zs[2] = {z, s};
    const union op_params p = {.conv = {.groups = 2}};
    const double taps = 3 * 6 * 80 * (4 * 25), taps_1d = 3 * 8 * 7 * (3 * 5);

    (void)state;
    assert_int_equal(op_reduce_length(OP_CONV_TRANSPOSE2D, &p, xw, &y), 75);
    assert_int_equal(op_reduce_length(OP_CONV_TRANSPOSE2D_DX, &p, yw, &x), 100);
    assert_int_equal(op_reduce_length(OP_CONV_TRANSPOSE2D_DW, &p, yx, &w), 240);
    assert_int_equal(op_reduce_length(OP_CONV1D, &p, su, &z), 15);
    assert_int_equal(op_reduce_length(OP_CONV1D_DX, &p, zu, &s), 20);
    assert_int_equal(op_reduce_length(OP_CONV1D_DW, &p, zs, &u), 21);
    /* All three of a trio do the same multiply-adds. */
    assert_true(op_flops(OP_CONV_TRANSPOSE2D, &p, xw, &y) == 2 * taps);
    assert_true(op_flops(OP_CONV_TRANSPOSE2D_DX, &p, yw, &x) == 2 * taps);
    assert_true(op_flops(OP_CONV_TRANSPOSE2D_DW, &p, yx, &w) == 2 * taps);
    assert_true(op_flops(OP_CONV1D, &p, su, &z) == 2 * taps_1d);
    assert_true(op_flops(OP_CONV1D_DX, &p, zu, &s) == 2 * taps_1d);
    assert_true(op_flops(OP_CONV1D_DW, &p, zs, &u) == 2 * taps_1d);
}

static void
test_op_reduce_length_norms(void **state)
{
    const struct tensor_desc x = tensor_make_nlc(DTYPE_F32, 5, 6, 7);
    const struct tensor_desc in[4] = {x, x};
    const struct tensor_desc ids = tensor_make(DTYPE_I32, 2, (int64_t[]){5, 6});
    const struct tensor_desc dy =
        tensor_make(DTYPE_F32, 3, (int64_t[]){5, 6, 8});
    const struct tensor_desc rows[4] = {dy, ids};
    const struct tensor_desc w = tensor_make(DTYPE_F32, 1, (int64_t[]){6});
    const struct tensor_desc one = tensor_make(DTYPE_F32, 1, (int64_t[]){1});
    const union op_params group = {.group_norm = {.n_groups = 3}};
    const union op_params last = {.layer_norm = {.n_dims = 2}};

    (void)state;
    assert_int_equal(op_reduce_length(OP_GROUP_NORM, &group, in, &x), 14);
    assert_int_equal(op_reduce_length(OP_GROUP_NORM_BWD, &group, in, &x), 35);
    assert_int_equal(op_reduce_length(OP_RMS_NORM, &last, in, &x), 42);
    assert_int_equal(op_reduce_length(OP_RMS_NORM_BWD, &last, in, &x), 42);
    assert_int_equal(op_reduce_length(OP_EMBEDDING_BWD, &last, rows, &dy), 30);
    assert_int_equal(op_reduce_length(OP_PRELU_DW, &last, in, &w), 35);
    assert_int_equal(op_reduce_length(OP_PRELU_DW, &last, in, &one), 210);
}

/* Gradients of what was broadcast, along axes and over sets of dims. */
static void
test_op_reduce_length_of_sums(void **state)
{
    const struct tensor_desc dy =
        tensor_make(DTYPE_F32, 3, (int64_t[]){4, 6, 8});
    const struct tensor_desc row = tensor_make(DTYPE_F32, 2, (int64_t[]){1, 8});
    const struct tensor_desc none =
        tensor_make(DTYPE_F32, 2, (int64_t[]){0, 8});
    const struct tensor_desc in[3] = {dy, dy, dy};
    union op_params p = {.axis = {.axis = 1}};

    (void)state;
    assert_int_equal(op_reduce_length(OP_SUM_TO, &p, in, &row), 24);
    assert_int_equal(op_reduce_length(OP_MUL_BWD, &p, in, &dy), 1);
    assert_int_equal(op_reduce_length(OP_WHERE_BWD_A, &p, &none, &row), 0);
    assert_int_equal(op_reduce_length(OP_DIV_BWD_B, &p, &none, &none), 0);
    assert_int_equal(op_reduce_length(OP_SOFTMAX, &p, in, &dy), 6);
    assert_int_equal(
        op_reduce_length(OP_PROD_BWD, &p, (struct tensor_desc[]){row, dy}, &dy),
        6);
    assert_int_equal(op_reduce_length(OP_COSINE_SIMILARITY_BWD, &p,
                                      (struct tensor_desc[]){row, dy, dy}, &dy),
                     6);
    p.reduce.dims = 1u << 0 | 1u << 1;
    assert_int_equal(op_reduce_length(OP_SUM, &p, in, &row), 24);
    assert_int_equal(op_reduce_length(OP_SUM_BWD, &p, in, &dy), 1);
    assert_int_equal(op_reduce_length(OP_LOGSUMEXP, &p, &none, &row), 0);
}

static void
test_op_products(void **state)
{
    const struct tensor_desc a =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 7, 5});
    const struct tensor_desc b =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 5, 3});
    const struct tensor_desc y =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 7, 3});
    const struct tensor_desc in[2] = {a, b}, da_in[2] = {y, b};
    const struct tensor_desc db_in[2] = {y, a};
    union op_params p = {.matmul = {.a_transposed = false}};

    (void)state;
    assert_int_equal(op_reduce_length(OP_MATMUL, &p, in, &y), 5);
    assert_int_equal(op_reduce_length(OP_MATMUL_DA, &p, da_in, &a), 3);
    assert_int_equal(op_reduce_length(OP_MATMUL_DB, &p, db_in, &b), 7);
    assert_true(op_flops(OP_MATMUL, &p, in, &y) == 2.0 * 2 * 7 * 5 * 3);
    assert_true(op_flops(OP_MATMUL_DB, &p, db_in, &b) == 2.0 * 2 * 7 * 5 * 3);
    p.matmul.a_transposed = true;
    assert_int_equal(op_reduce_length(OP_MATMUL, &p, in, &y), 7);
}

/* A causal triangle counts once; queries that see no key count nothing. */
static void
test_op_attention_flops(void **state)
{
    const struct tensor_desc none = {.dtype = DTYPE_NONE};
    const struct tensor_desc q =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 4, 6});
    const struct tensor_desc k =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 3, 6});
    const struct tensor_desc qkv =
        tensor_make(DTYPE_F32, 3, (int64_t[]){2, 4, 18});
    const struct tensor_desc in[4] = {q, k, k, none};
    const struct tensor_desc packed[4] = {qkv, none, none, none};
    union op_params p = {.attention = {.n_heads = 2}};

    (void)state;
    assert_true(op_flops(OP_ATTENTION, &p, in, &q) == 4.0 * 2 * 12 * 6);
    assert_true(op_flops(OP_ATTENTION, &p, packed, &q) == 4.0 * 2 * 16 * 6);
    p.attention.causal = true; /* 0, 1, 2, 3 keys */
    assert_true(op_flops(OP_ATTENTION, &p, in, &q) == 4.0 * 2 * 6 * 6);
    assert_int_equal(op_reduce_length(OP_ATTENTION, &p, in, &q), 3 + 3);
}

static void
test_op_reduce_length_upsample(void **state)
{
    const struct tensor_desc x = tensor_make_nhwc(DTYPE_F32, 2, 3, 4, 5);
    const struct tensor_desc y = tensor_make_nhwc(DTYPE_F32, 2, 3, 8, 15);
    union op_params p = {.upsample = {.mode = OP_UPSAMPLE_NEAREST}};

    (void)state;
    assert_int_equal(op_reduce_length(OP_UPSAMPLE, &p, &x, &y), 1);
    assert_int_equal(op_reduce_length(OP_UPSAMPLE_BWD, &p, &y, &x), 6);
    p.upsample.mode = OP_UPSAMPLE_BILINEAR;
    assert_int_equal(op_reduce_length(OP_UPSAMPLE, &p, &x, &y), 4);
    assert_int_equal(op_reduce_length(OP_UPSAMPLE_BWD, &p, &y, &x), 35);
}

static void
test_op_tensor_layouts(void **state)
{
    const struct tensor_desc t = tensor_make_nhwc(DTYPE_F16, 2, 3, 4, 5);
    const struct tensor_desc r =
        tensor_make(DTYPE_BF16, 3, (int64_t[]){2, 3, 4});
    const struct tensor_desc s = tensor_make_nlc(DTYPE_F32, 2, 3, 4);
    int64_t index[TENSOR_MAX_RANK];
    char text[64];

    (void)state;
    assert_int_equal(tensor_n_elems(&t), 120);
    assert_int_equal(tensor_n_bytes(&t), 240);
    for (int64_t i = 0; i < 120; i++) {
        tensor_unravel(&t, i, index);
        assert_int_equal(tensor_ravel(&t, index), i);
    }
    tensor_unravel(&t, 1, index); /* channels first of all */
    assert_int_equal(index[1], 1);
    tensor_unravel(&r, 1, index);
    assert_int_equal(index[2], 1);
    assert_string_equal(tensor_format(&t, text, sizeof(text)),
                        "f16[2,3,4,5]nhwc");
    assert_string_equal(tensor_format(&r, text, sizeof(text)), "bf16[2,3,4]");
    assert_string_equal(tensor_format(&r, text, 7), "bf16[2");
    assert_string_equal(tensor_format(&s, text, sizeof(text)), "f32[2,3,4]nlc");
    for (int64_t i = 0; i < 24; i++) {
        tensor_unravel(&s, i, index);
        assert_int_equal(index[1], i % 3);
        assert_int_equal(index[2], i / 3 % 4);
        assert_int_equal(tensor_ravel(&s, index), i);
    }
}

/* Signals are images of one dimension less. */
static void
test_op_tensor_axes(void **state)
{
    struct tensor_desc signal = tensor_make(DTYPE_F32, 3, (int64_t[]){2, 3, 5});
    const struct tensor_desc image = tensor_make_nhwc(DTYPE_F32, 2, 3, 4, 5);
    int64_t index[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
    int64_t outer, n, inner;

    (void)state;
    signal.layout = TENSOR_NHWC;
    for (int64_t i = 0; i < 30; i++) {
        int64_t at = 0;

        tensor_unravel(&signal, i, index);
        assert_int_equal(tensor_ravel(&signal, index), i);
        tensor_strides(&signal, stride);
        for (int j = 0; j < 3; j++)
            at += index[j] * stride[j];
        assert_int_equal(at, i);
    }
    assert_int_equal(stride[1], 1);
    tensor_split_axis(&signal, 1, &outer, &n, &inner);
    assert_true(outer == 10 && n == 3 && inner == 1);
    tensor_split_axis(&signal, 2, &outer, &n, &inner);
    assert_true(outer == 2 && n == 5 && inner == 3);
    tensor_split_axis(&image, 2, &outer, &n, &inner);
    assert_true(outer == 2 && n == 4 && inner == 15);
    tensor_split_axis(&image, 0, &outer, &n, &inner);
    assert_true(outer == 1 && n == 2 && inner == 60);
    signal.layout = TENSOR_ROW;
    tensor_split_axis(&signal, 1, &outer, &n, &inner);
    assert_true(outer == 2 && n == 3 && inner == 5);
}

static void
test_op_backend_names_what_is_missing(void **state)
{
    struct kernel_sig sig = {.op = OP_LINEAR, .n_in = 2, .n_out = 1};
    struct err err;

    (void)state;
    err_clear(&err);
    sig.threads = 1;
    sig.in[0] = tensor_make_nhwc(DTYPE_F16, 1, 2, 3, 4);
    sig.in[1] = tensor_make(DTYPE_F16, 2, (int64_t[]){5, 4});
    sig.out[0] = tensor_make_nhwc(DTYPE_F16, 1, 2, 3, 5);
    assert_null(
        backend_find_kernel(backend_find("reference"), &sig, NULL, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "linear(f16[1,2,3,4]nhwc"));
    assert_null(backend_find("gpu"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_table_is_cut_right),
        cmocka_unit_test(test_op_table_is_sane),
        cmocka_unit_test(test_op_window_out),
        cmocka_unit_test(test_op_reduce_length),
        cmocka_unit_test(test_op_reduce_length_lifted),
        cmocka_unit_test(test_op_reduce_length_norms),
        cmocka_unit_test(test_op_reduce_length_of_sums),
        cmocka_unit_test(test_op_products),
        cmocka_unit_test(test_op_attention_flops),
        cmocka_unit_test(test_op_reduce_length_upsample),
        cmocka_unit_test(test_op_tensor_layouts),
        cmocka_unit_test(test_op_tensor_axes),
        cmocka_unit_test(test_op_backend_names_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
