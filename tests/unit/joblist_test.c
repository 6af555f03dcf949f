/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ctl/joblist.h"

/* The references of one word with blanks between them. */
static void
assert_list(const char *word, const char *wanted)
{
    struct joblist list = {0};
    char text[256] = "";

    assert_int_equal(joblist_add(&list, word, NULL), 0);
    for (int i = 0; i < list.n; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, list.ref[i]);
    }
    assert_string_equal(text, wanted);
    joblist_fini(&list);
}

static void
test_joblist_forms(void **state)
{
    (void)state;
    assert_list("17", "17");
    assert_list("@", "@");
    assert_list("12,15-18", "12 15 16 17 18");
    assert_list("3-3,@,1", "3 @ 1");
    assert_list("007", "7");
    assert_list("name:foo", "name:foo");
    assert_list("name:a,b-9 @", "name:a,b-9 @");
    assert_list("9223372036854775806", "9223372036854775806");
}

static void
test_joblist_refuses(void **state)
{
    static const char *const wrong[] = {
        "",
        "foo",
        "0",
        "-3",
        "3-",
        "5-3",
        "1,,2",
        "1,",
        ",1",
        "1-2-3",
        "@1",
        "name:",
        "1 2",
        "0x10",
        "+4",
        "1.5",
        "9223372036854775807",
        "99999999999999999999",
        "1-9223372036854775806",
        "1-20000",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct joblist list = {0};
        struct err err = {0};
        assert_int_equal(joblist_add(&list, wrong[i], &err), ERR_USAGE);
        assert_true(err.msg[0] != '\0');
        joblist_fini(&list);
    }
}

static void
test_joblist_is_bounded(void **state)
{
    struct joblist list = {0};

    (void)state;
    assert_int_equal(joblist_add(&list, "1-10000", NULL), 0);
    assert_int_equal(list.n, JOBLIST_MAX);
    assert_int_equal(joblist_add(&list, "10001", NULL), ERR_USAGE);
    joblist_fini(&list);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joblist_forms),
        cmocka_unit_test(test_joblist_refuses),
        cmocka_unit_test(test_joblist_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
