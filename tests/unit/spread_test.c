/* SPDX-License-Identifier: Apache-2.0 */
/* Median and spread against sorting all of it each time. */
#include "engine/run/spread.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
naive_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    return v[(n - 1) / 2] / 2 + v[n / 2] / 2;
}

/* Of the last ones of all; v is scratch of n. */
static void
naive(const double *all, int n, double *v, double *median, double *width)
{
    memcpy(v, all, (size_t)n * sizeof(*v));
    *median = naive_median(v, n);
    for (int i = 0; i < n; i++)
        v[i] = fabs(all[i] - *median);
    *width = 1.4826 * naive_median(v, n);
}

static uint64_t
next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Many equal ones, a few wild ones, both signs. */
static double
draw(uint64_t *s)
{
    switch (next(s) % 8) {
    case 0: return (double)(next(s) % 3);
    case 1: return ldexp((double)(next(s) % 1000), (int)(next(s) % 60) - 30);
    case 2: return -1e30;
    case 3: return 3e38;
    default: return (double)(next(s) >> 40) * 0x1p-24 - 0.5;
    }
}

static void
test_spread_is_that_of_sorting(void **state)
{
    const int sizes[] = {2, 3, 4, 5, 16, 17, 100};
    double all[600], v[600];

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            const int size = sizes[k];
            struct spread *s = spread_create(size);
            uint64_t random = seed * 77 + k;

            assert_non_null(s);
            for (int i = 0; i < 600; i++) {
                const int n = i + 1 < size ? i + 1 : size;
                double median, width;

                assert_int_equal(spread_is_full(s), i >= size);
                all[i] = draw(&random);
                spread_add(s, all[i]);
                naive(all + i + 1 - n, n, v, &median, &width);
                assert_true(spread_median(s) == median);
                assert_true(spread_width(s) == width);
            }
            spread_destroy(&s);
            assert_null(s);
        }
}

/* Less than half may be anything. */
static void
test_spread_is_robust(void **state)
{
    struct spread *s = spread_create(101);

    (void)state;
    for (int i = 0; i < 101; i++)
        spread_add(s, i % 2 == 0 ? 10 + (i % 3 - 1) * 0.5 : 1e30);
    assert_true(spread_median(s) == 10.5);
    assert_true(spread_width(s) == 1.4826);
    spread_destroy(&s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread_is_that_of_sorting),
        cmocka_unit_test(test_spread_is_robust),
    };

    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
