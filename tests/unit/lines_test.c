/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ctl/lines.h"

/* 1 from scratch; 2 goes back to 50 of it; 3 goes on from 80 of 2; 5 goes back
 * to 90 of 1, which 2 had left behind; 6 from scratch. */
static void
grow(struct lines *l)
{
    static const struct lines_attempt attempts[] = {
        {1, 0, 0, 10},  {2, 1, 50, 20}, {3, 2, 80, 30},
        {5, 1, 90, 50}, {6, 0, 0, 60},
    };

    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
        assert_true(lines_add(l, &attempts[i]));
}

static void
test_lines_at(void **state)
{
    struct lines l = {0};

    (void)state;
    assert_int_equal(lines_last(&l), 0);
    assert_int_equal(lines_at(&l, 0, 1), 0);
    grow(&l);
    assert_int_equal(lines_last(&l), 6);
    assert_int_equal(lines_at(&l, 1, 1), 1);
    assert_int_equal(lines_at(&l, 3, 50), 1);
    assert_int_equal(lines_at(&l, 3, 51), 2);
    assert_int_equal(lines_at(&l, 3, 80), 2);
    assert_int_equal(lines_at(&l, 3, 81), 3);
    assert_int_equal(lines_at(&l, 5, 90), 1);
    assert_int_equal(lines_at(&l, 6, 1), 6);
    assert_int_equal(lines_at(&l, 6, 0), 0);
    lines_fini(&l);
}

static void
test_lines_fork(void **state)
{
    struct lines l = {0};

    (void)state;
    grow(&l);
    assert_int_equal(lines_fork(&l, 2, 1, 100), 50);
    assert_int_equal(lines_fork(&l, 2, 1, 30), 30); /* no further was seen */
    assert_int_equal(lines_fork(&l, 3, 2, 80), 80);
    assert_int_equal(lines_fork(&l, 5, 3, 90), 50);
    assert_int_equal(lines_fork(&l, 6, 5, 100), 0);
    assert_int_equal(lines_fork(&l, 1, 0, 100), 0);
    lines_fini(&l);
}

static void
test_lines_limit(void **state)
{
    struct lines l = {0};

    (void)state;
    grow(&l);
    assert_true(lines_limit(&l, 5, 5) == INT64_MAX);
    assert_int_equal(lines_limit(&l, 5, 1), 90);
    assert_int_equal(lines_limit(&l, 5, 2), -1);
    assert_int_equal(lines_limit(&l, 3, 1), 50);
    assert_int_equal(lines_limit(&l, 3, 2), 80);
    lines_fini(&l);
}

/* What the daemon says of parents may be nonsense; no walk is endless. */
static void
test_lines_odd_parents(void **state)
{
    struct lines l = {0};

    (void)state;
    assert_true(lines_add(&l, &(struct lines_attempt){1, 1, 10, 0}));
    assert_true(lines_add(&l, &(struct lines_attempt){2, 7, 20, 0}));
    assert_int_equal(lines_at(&l, 1, 5), 0);
    assert_int_equal(lines_at(&l, 2, 15), 0);
    assert_int_equal(lines_fork(&l, 2, 1, 30), 10);
    assert_int_equal(lines_limit(&l, 2, 1), -1);
    lines_fini(&l);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_at),
        cmocka_unit_test(test_lines_fork),
        cmocka_unit_test(test_lines_limit),
        cmocka_unit_test(test_lines_odd_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
