/* SPDX-License-Identifier: Apache-2.0 */
/* A query's parameters become the fields of a view, or one clear sentence. */
#include "daemon/http_args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int
query(const char *target, struct view_query *q, struct err *err)
{
    static struct http_uri u; /* the view borrows from it */

    view_init(VIEW_ID_query, q);
    err_clear(err);
    assert_int_equal(http_uri_parse(target, &u, err), 0);
    return http_args_query(&u, VIEW_ID_query, NULL, q, err);
}

static void
fills_fields_of_each_type(void **state)
{
    struct view_rollback r;
    struct view_query q;
    struct err err;

    (void)state;
    assert_int_equal(
        query("/m?from=5&to=-1&all_lines=true&confusion=0", &q, &err), 0);
    assert_int_equal(q.from, 5);
    assert_int_equal(q.to, -1);
    assert_true(q.all_lines);
    assert_false(q.confusion);
    view_init(VIEW_ID_rollback, &r);
    assert_int_equal(
        http_args_set(VIEW_ID_rollback, "scale", "1024.5", &r, &err), 0);
    assert_true(r.scale == 1024.5);
    assert_int_equal(http_args_set(VIEW_ID_rollback, "to", "best", &r, &err),
                     0);
    assert_string_equal(r.to, "best");
}

static void
refuses_with_the_name(void **state)
{
    static const struct {
        const char *target, *word;
    } wrong[] = {{"/m?from=x", "from"},
                 {"/m?from=", "from"},
                 {"/m?from=1x", "from"},
                 {"/m?from=99999999999999999999", "from"},
                 {"/m?all_lines=yes", "all_lines"},
                 {"/m?job=3", "job"},
                 {"/m?max_point=3", "max_points"}};
    struct view_query q;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(query(wrong[i].target, &q, &err), ERR_USAGE);
        if (strstr(err.msg, wrong[i].word) == NULL)
            fail_msg("%s: %s", wrong[i].target, err.msg);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_fields_of_each_type),
        cmocka_unit_test(refuses_with_the_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
