/* SPDX-License-Identifier: Apache-2.0 */
/* Stretches of data that are passed over, against a table of bits. */
#include "engine/data/detour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define SIZE 100

static uint64_t
next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void
test_detour_next(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15u;
        const int n = (int)(next(&random) % 8);
        bool passed[2 * SIZE + 1] = {false};
        int64_t pairs[16];
        struct detour *d;
        struct err err;

        for (int i = 0; i < n; i++) {
            pairs[2 * i] = (int64_t)(next(&random) % SIZE);
            pairs[2 * i + 1] = 1 + (int64_t)(next(&random) % (SIZE / 4));
            for (int64_t k = 0; k < pairs[2 * i + 1]; k++)
                passed[pairs[2 * i] + k] = true;
        }
        assert_int_equal(detour_create(pairs, 2 * n, &d, &err), 0);
        for (int64_t at = 0; at < 2 * SIZE; at++) {
            int64_t want = at;

            while (passed[want])
                want++;
            assert_int_equal(detour_next(d, at), want);
            assert_int_equal(detour_next(NULL, at), at);
        }
        detour_destroy(&d);
        assert_null(d);
    }
}

static void
test_detour_refuses(void **state)
{
    static const int64_t bad[][2] = {
        {-1, 1}, {0, 0}, {0, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
    static const int64_t far[] = {(INT64_C(1) << 53) - 1, 1};
    struct detour *d;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(detour_create(bad[i], 2, &d, &err), ERR_PROTO);
        assert_null(d);
    }
    assert_int_equal(detour_create(bad[0], 1, &d, &err), ERR_PROTO);
    assert_int_equal(detour_create(far, 2, &d, &err), 0);
    assert_int_equal(detour_next(d, far[0]), far[0] + 1);
    detour_destroy(&d);
    assert_int_equal(detour_create(NULL, 0, &d, &err), 0);
    assert_int_equal(detour_next(d, 7), 7);
    detour_destroy(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detour_next),
        cmocka_unit_test(test_detour_refuses),
    };

    return cmocka_run_group_tests_name("detour", tests, NULL, NULL);
}
