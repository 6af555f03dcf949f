/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/order.h"

static struct order
make_order(int64_t n, int64_t batch, int64_t accumulate)
{
    return (struct order){.seed = 1,
                          .n_samples = n,
                          .batch_size = batch,
                          .accumulate = accumulate,
                          .shuffle = true};
}

static void
check_window(const struct order *o, int64_t position, int64_t epoch,
             int64_t first, int64_t n_batches, int64_t n_samples)
{
    const struct order_window w = order_window_at(o, position);
    int64_t sum = 0;

    assert_int_equal(w.epoch, epoch);
    assert_int_equal(w.first, first);
    assert_int_equal(w.n_batches, n_batches);
    assert_int_equal(w.n_samples, n_samples);
    for (int64_t b = 0; b < n_batches; b++)
        sum += order_batch_size_at(o, &w, b);
    assert_int_equal(sum, n_samples);
}

/* Ten samples in batches of four: 4, 4, 2. After iteration 4 comes epoch 1,
 * batch 1. */
static void
test_order_windows(void **state)
{
    const struct order o = make_order(10, 4, 1);

    (void)state;
    assert_int_equal(order_batches_per_epoch(&o), 3);
    assert_int_equal(order_windows_per_epoch(&o), 3);
    check_window(&o, 0, 0, 0, 1, 4);
    check_window(&o, 2, 0, 8, 1, 2);
    check_window(&o, 3, 1, 0, 1, 4);
    check_window(&o, 4, 1, 4, 1, 4);
    assert_int_equal(order_window_at(&o, 4).window_in_epoch, 1);
    check_window(&o, 8, 2, 8, 1, 2);
}

static void
test_order_drop_last(void **state)
{
    struct order o = make_order(10, 4, 1);

    (void)state;
    o.drop_last = true;
    assert_int_equal(order_batches_per_epoch(&o), 2);
    check_window(&o, 1, 0, 4, 1, 4);
    check_window(&o, 2, 1, 0, 1, 4);
    o.batch_size = 11;
    assert_int_equal(order_batches_per_epoch(&o), 0);
    assert_int_equal(order_windows_per_epoch(&o), 0);
}

/* A window of several batches ends with its epoch. */
static void
test_order_accumulate(void **state)
{
    const struct order o = make_order(10, 2, 3);

    (void)state;
    assert_int_equal(order_windows_per_epoch(&o), 2);
    check_window(&o, 0, 0, 0, 3, 6);
    check_window(&o, 1, 0, 6, 2, 4);
    check_window(&o, 2, 1, 0, 3, 6);
}

static void
test_order_batch_larger_than_data(void **state)
{
    const struct order o = make_order(3, 1000, 4);

    (void)state;
    assert_int_equal(order_windows_per_epoch(&o), 1);
    check_window(&o, 0, 0, 0, 1, 3);
    check_window(&o, 1, 1, 0, 1, 3);
}

static void
check_permutation(const int64_t *ids, int64_t n)
{
    uint8_t *seen = calloc((size_t)n, 1);

    for (int64_t i = 0; i < n; i++) {
        assert_true(ids[i] >= 0 && ids[i] < n);
        assert_int_equal(seen[ids[i]], 0);
        seen[ids[i]] = 1;
    }
    free(seen);
}

static void
test_order_permutes(void **state)
{
    struct order o = make_order(10, 4, 1);
    int64_t epoch0[10], epoch1[10], again[10], other[10];

    (void)state;
    order_permute(&o, 0, epoch0);
    order_permute(&o, 1, epoch1);
    order_permute(&o, 0, again);
    o.seed = 2;
    order_permute(&o, 0, other);
    check_permutation(epoch0, 10);
    check_permutation(epoch1, 10);
    assert_memory_equal(epoch0, again, sizeof(epoch0));
    assert_memory_not_equal(epoch0, epoch1, sizeof(epoch0));
    assert_memory_not_equal(epoch0, other, sizeof(epoch0));
    o.shuffle = false;
    order_permute(&o, 5, again);
    for (int i = 0; i < 10; i++)
        assert_int_equal(again[i], i);
}

/* The order is a promise: a resumed job of an older build must go on with the
 * same samples. Computed apart from this code, in Python. */
static void
test_order_stays_the_same(void **state)
{
    static const int64_t want[] = {0, 3, 4, 6, 5, 1, 2, 8, 7, 9};
    struct order o = make_order(10, 4, 1);
    int64_t ids[10];

    (void)state;
    o.seed = 0x123456789abcdef0u;
    order_permute(&o, 3, ids);
    assert_memory_equal(ids, want, sizeof(want));
}

/* All 24 orders of 4 samples, 24000 epochs: each about 1000 times; chi-square
 * with 23 degrees of freedom stays below 49.7 but once in 1000 seeds, and the
 * seed is fixed. */
static void
test_order_is_unbiased(void **state)
{
    const struct order o = make_order(4, 1, 1);
    int64_t count[256] = {0};
    double chi2 = 0;
    int n = 0;

    (void)state;
    for (int64_t e = 0; e < 24000; e++) {
        int64_t ids[4];

        order_permute(&o, e, ids);
        count[ids[0] | ids[1] << 2 | ids[2] << 4 | ids[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        const double d = (double)count[i] - 1000.0;

        n += count[i] > 0;
        chi2 += count[i] > 0 ? d * d / 1000.0 : 0.0;
    }
    assert_int_equal(n, 24);
    assert_true(chi2 < 49.7);
}

static void
test_order_large(void **state)
{
    const struct order o = make_order(60000, 128, 1);
    int64_t *ids = malloc(60000 * sizeof(*ids));
    int64_t fixed = 0;

    (void)state;
    order_permute(&o, 0, ids);
    check_permutation(ids, 60000);
    for (int64_t i = 0; i < 60000; i++)
        fixed += ids[i] == i;
    assert_true(fixed < 10); /* about one on average */
    free(ids);
}

/* ---- starts that are drawn ----------------------------------------------- */

static struct order
make_drawn(int64_t n_samples, int64_t batch, int64_t accumulate,
           int64_t n_starts)
{
    struct order o = make_order(n_samples, batch, accumulate);

    o.seed = 0x123456789abcdef0u;
    o.id_step = 8;
    o.n_starts = n_starts;
    return o;
}

static void
check_ids(const struct order *o, int64_t position, const int64_t *want, int n)
{
    int64_t ids[64];

    assert_int_equal(order_window_at(o, position).n_samples, n);
    order_ids_at(o, position, NULL, ids);
    assert_memory_equal(ids, want, (size_t)n * sizeof(*ids));
}

/* As computed apart from this code, in Python: by data position, micro-batch
 * and index, and never by epoch. */
static void
test_order_draws_starts(void **state)
{
    static const int64_t at0[] = {538, 829, 148, 404, 831, 428, 874, 506};
    static const int64_t at7[] = {775, 801, 944, 549};
    const struct order o = make_drawn(8, 4, 2, 1000);
    const struct order short_one = make_drawn(4, 4, 2, 1000);

    (void)state;
    assert_false(order_is_permuted(&o));
    check_ids(&o, 0, at0, 8);
    check_ids(&short_one, 7, at7, 4);
    check_ids(&short_one, 0, at0, 4);
}

/* Of 3 x 2^61 + 1 starts a quarter of the tries is drawn again; sample DRAWN
 * needs a second block. */
static void
test_order_draws_again(void **state)
{
    enum { DRAWN = 5 };
    const struct order o =
        make_drawn(DRAWN + 1, DRAWN + 1, 1, 3 * (INT64_C(1) << 61) + 1);
    int64_t ids[DRAWN + 1];

    (void)state;
    order_ids_at(&o, 5, NULL, ids);
    assert_int_equal(ids[0], 4122654430886930106);
    assert_int_equal(ids[DRAWN], 2337530292116921898);
    for (int i = 0; i <= DRAWN; i++)
        assert_true(ids[i] >= 0 && ids[i] < o.n_starts);
}

/* 60000 draws over 6 starts: chi-square with 5 degrees of freedom. */
static void
test_order_draws_evenly(void **state)
{
    const struct order o = make_drawn(60000, 60000, 1, 6);
    int64_t *ids = malloc(60000 * sizeof(*ids)), count[6] = {0};
    double chi2 = 0;

    (void)state;
    order_ids_at(&o, 3, NULL, ids);
    for (int i = 0; i < 60000; i++)
        count[ids[i]]++;
    for (int i = 0; i < 6; i++)
        chi2 += ((double)count[i] - 1e4) * ((double)count[i] - 1e4) / 1e4;
    assert_true(chi2 < 20.5); /* but once in 1000 seeds */
    free(ids);
}

/* Side by side, in order: validation, or shuffle off. */
static void
test_order_steps(void **state)
{
    static const int64_t first[] = {0, 8, 16, 24}, last[] = {32, 40};
    struct order o = make_drawn(6, 4, 1, 1000);

    (void)state;
    o.shuffle = false;
    check_ids(&o, 0, first, 4);
    check_ids(&o, 1, last, 2);
    check_ids(&o, 2, first, 4);
}

/* Ids of permuted data are the permutation's. */
static void
test_order_ids_permuted(void **state)
{
    struct order o = make_order(10, 4, 2);
    int64_t permutation[10], ids[10];

    (void)state;
    assert_true(order_is_permuted(&o));
    order_permute(&o, 1, permutation);
    order_ids_at(&o, 2, permutation, ids);
    assert_memory_equal(ids, permutation, 8 * sizeof(*ids));
    order_ids_at(&o, 3, permutation, ids);
    assert_memory_equal(ids, permutation + 8, 2 * sizeof(*ids));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_windows),
        cmocka_unit_test(test_order_drop_last),
        cmocka_unit_test(test_order_accumulate),
        cmocka_unit_test(test_order_batch_larger_than_data),
        cmocka_unit_test(test_order_permutes),
        cmocka_unit_test(test_order_stays_the_same),
        cmocka_unit_test(test_order_is_unbiased),
        cmocka_unit_test(test_order_large),
        cmocka_unit_test(test_order_draws_starts),
        cmocka_unit_test(test_order_draws_again),
        cmocka_unit_test(test_order_draws_evenly),
        cmocka_unit_test(test_order_steps),
        cmocka_unit_test(test_order_ids_permuted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
