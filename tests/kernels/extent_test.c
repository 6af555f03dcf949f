/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of tensors against one look at each element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/extent.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const int64_t sizes[] = {0, 1, 7, 64, 1000, 65535, 65537, 300001};

static uint32_t
next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

/* Any bits at all, many of them 0; kind 1: no finite ones, kind 2: zeros. */
static void
fill(uint8_t *x, int64_t n, enum dtype t, int kind, uint64_t seed)
{
    const size_t size = dtype_size_bytes(t);

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = next(&seed);

        if (kind == 0 && next(&seed) % 4 == 0)
            bits &= 0x80000000u;
        if (kind == 1)
            bits =
                i % 2 == 0 ? 0x7f80u << (t == DTYPE_F32 ? 16 : 0) : UINT32_MAX;
        if (kind == 1 && t == DTYPE_F16 && i % 2 == 0)
            bits = 0x7c00u;
        if (kind == 2)
            bits &= 0x80000000u;
        if (size == 2 && kind != 1)
            bits >>= 16;
        memcpy(x + (size_t)i * size, &bits, size);
    }
}

static void
look(const uint8_t *x, int64_t n, enum dtype t, struct extent *e)
{
    e->largest = e->smallest = (double)NAN;
    e->n_nonfinite = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs((double)convert_get(x, t, i));

        if (!isfinite(v)) {
            e->n_nonfinite++;
            continue;
        }
        if (!(v <= e->largest))
            e->largest = v;
        if (v > 0 && !(v >= e->smallest))
            e->smallest = v;
    }
}

static int64_t
count(const uint8_t *x, const float *full, int64_t n, enum dtype t)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += convert_get(x, t, i) == 0 && full[i] != 0;
    return sum;
}

static void
assert_same(double a, double b)
{
    assert_true(isnan(a) ? isnan(b) : a == b);
}

static void
check(int64_t n, enum dtype t, int kind)
{
    uint8_t *x = malloc((size_t)n * 4 + 4);
    float *full = malloc((size_t)n * 4 + 4);

    fill(x, n, t, kind, (uint64_t)n + (uint64_t)t);
    fill((uint8_t *)full, n, DTYPE_F32, 0, 99);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct extent is, want;

        look(x, n, t, &want);
        extent_measure(x, t, n, threads, &is);
        assert_same(is.largest, want.largest);
        assert_same(is.smallest, want.smallest);
        assert_int_equal(is.n_nonfinite, want.n_nonfinite);
        assert_int_equal(extent_count_flushed(x, t, full, n, threads),
                         count(x, full, n, t));
    }
    free(x);
    free(full);
}

static void
test_extent_agrees(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
            for (int kind = 0; kind < 3; kind++)
                check(sizes[k], types[i], kind);
}

/* The ends of each type. */
static void
test_extent_limits(void **unused)
{
    const uint16_t f16[] = {0x7bff, 0x0001, 0x8000, 0xfc00};
    const uint16_t bf16[] = {0xff7f, 0x8001, 0x0000, 0x7fc0};
    struct extent e;

    (void)unused;
    extent_measure(f16, DTYPE_F16, 4, 1, &e);
    assert_true(e.largest == 65504 && e.smallest == 0x1p-24);
    assert_int_equal(e.n_nonfinite, 1);
    extent_measure(bf16, DTYPE_BF16, 4, 1, &e);
    assert_true(e.largest == 0x1.fep127 && e.smallest == 0x1p-133);
    assert_int_equal(e.n_nonfinite, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extent_agrees),
        cmocka_unit_test(test_extent_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
