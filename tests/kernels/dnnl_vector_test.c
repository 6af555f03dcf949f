/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector code of kernels/dnnl against the reference, bit for bit: every
 * half pattern through relu, windows of special values through pooling.
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
#include "kernels/cpu/cpu.h"
#include "kernels/dnnl/dnnl.h"
#include "tests/kernels/guarded.h"

static const enum dtype float_dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* NaN is NaN; everything else bit for bit. */
static void
assert_same(const struct guarded *got, const struct guarded *want)
{
    for (int64_t i = 0; i < tensor_n_elems(&got->sig.out[0]); i++) {
        const double a = guarded_result(got, i), b = guarded_result(want, i);

        if (!(isnan(a) && isnan(b)) && (a != b || signbit(a) != signbit(b)))
            guarded_fail(got, "dnnl", i, a, b, 0);
    }
}

/* Every bit pattern of a half, in place of x and of y. */
static void
test_dnnl_relu_every_half(void **state)
{
    const int64_t n = 65536;

    (void)state;
    for (int t = 1; t < 3; t++)
        for (int backward = 0; backward < 2; backward++) {
            const enum op op = backward ? OP_RELU_BWD : OP_RELU;
            const struct tensor_desc desc = tensor_make(float_dtypes[t], 1, &n);
            struct kernel_sig sig = {.op = op,
                                     .n_in = backward + 1,
                                     .n_out = 1,
                                     .in = {desc, desc},
                                     .out = {desc},
                                     .threads = 2};
            struct guarded a, b;

            assert_true(dnnl_table.op[op]->supports(&sig));
            guarded_init(&a, &sig);
            guarded_init(&b, &sig);
            for (int64_t i = 0; i < n; i++)
                ((uint16_t *)a.in[backward])[i] =
                    ((uint16_t *)b.in[backward])[i] = (uint16_t)i;
            guarded_run(&a, dnnl_table.op[op], 2, NULL);
            guarded_run(&b, cpu_table.op[op], 2, NULL);
            assert_same(&a, &b);
            guarded_fini(&a);
            guarded_fini(&b);
        }
}

static struct kernel_sig
pool_sig(enum op op, enum dtype t, int64_t channels, int64_t h, int64_t w)
{
    const struct tensor_desc x = tensor_make_nhwc(t, 3, channels, h, w);
    const struct tensor_desc y = tensor_make_nhwc(t, 3, channels, h / 2, w / 2);
    const struct tensor_desc index = tensor_with_dtype(&y, DTYPE_I32);
    struct kernel_sig sig = {.op = op, .threads = 2};

    for (int i = 0; i < 2; i++)
        sig.params.pool.kernel[i] = sig.params.pool.stride[i] = 2;
    if (op == OP_MAX_POOL2D) {
        sig.n_in = 1;
        sig.n_out = 2;
        sig.in[0] = x;
        sig.out[0] = y;
        sig.out[1] = index;
    } else {
        sig.n_in = 2;
        sig.n_out = 1;
        sig.in[0] = y;
        sig.in[1] = index;
        sig.out[0] = x;
    }
    return sig;
}

/* Values from a short list, so that ties, both zeros, infinities and NaNs
 * meet in the windows. */
static void
fill_special(void *p, const struct tensor_desc *t, uint32_t seed)
{
    const float list[] = {0.0f, -0.0f, 1,        -1,        2,   -2,
                          0.5f, 1e-7f, INFINITY, -INFINITY, NAN, -NAN};

    for (int64_t i = 0; i < tensor_n_elems(t); i++)
        convert_put(p, t->dtype, i, list[guarded_random(&seed) % 12]);
}

static void
check_pool(enum dtype t, int64_t channels, int64_t h, int64_t w)
{
    const struct kernel_sig sig = pool_sig(OP_MAX_POOL2D, t, channels, h, w);
    const struct kernel_sig back =
        pool_sig(OP_MAX_POOL2D_BWD, t, channels, h, w);
    const size_t index_bytes = tensor_n_bytes(&sig.out[1]);
    int32_t *index_a = guarded_alloc(index_bytes);
    int32_t *index_b = guarded_alloc(index_bytes);
    struct guarded a, b;

    assert_true(dnnl_table.op[OP_MAX_POOL2D]->supports(&sig));
    assert_true(dnnl_table.op[OP_MAX_POOL2D_BWD]->supports(&back));
    guarded_init(&a, &sig);
    guarded_init(&b, &sig);
    fill_special(a.in[0], &sig.in[0], 3);
    fill_special(b.in[0], &sig.in[0], 3);
    guarded_run(&a, dnnl_table.op[OP_MAX_POOL2D], 2, index_a);
    guarded_run(&b, cpu_table.op[OP_MAX_POOL2D], 2, index_b);
    assert_same(&a, &b);
    assert_memory_equal(index_a, index_b, index_bytes);
    guarded_fini(&a);
    guarded_fini(&b);

    guarded_init(&a, &back);
    guarded_init(&b, &back);
    memcpy(a.in[1], index_a, index_bytes);
    memcpy(b.in[1], index_a, index_bytes);
    guarded_run(&a, dnnl_table.op[OP_MAX_POOL2D_BWD], 2, NULL);
    guarded_run(&b, cpu_table.op[OP_MAX_POOL2D_BWD], 2, NULL);
    assert_same(&a, &b);
    guarded_fini(&a);
    guarded_fini(&b);
    free(index_a);
    free(index_b);
}

static void
test_dnnl_max_pool(void **state)
{
    const int64_t channels[] = {1, 3, 16, 37, 64};

    (void)state;
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < 5; c++) {
            check_pool(float_dtypes[t], channels[c], 8, 6);
            check_pool(float_dtypes[t], channels[c], 7, 9);
            check_pool(float_dtypes[t], channels[c], 2, 3);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dnnl_relu_every_half),
        cmocka_unit_test(test_dnnl_max_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
