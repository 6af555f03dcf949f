/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: what is taken apart, and what is refused whole. */
#include "daemon/http_uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void
takes_a_path_and_a_query_apart(void **state)
{
    struct http_uri u;

    (void)state;
    assert_int_equal(http_uri_parse("/v1/jobs/name:a%20b/logs?tail=5&x=a+b%26c"
                                    "&empty&also=",
                                    &u, NULL),
                     0);
    assert_int_equal(u.n_segments, 4);
    assert_string_equal(u.segment[0], "v1");
    assert_string_equal(u.segment[2], "name:a b");
    assert_string_equal(u.segment[3], "logs");
    assert_int_equal(u.n_pairs, 4);
    assert_string_equal(http_uri_find(&u, "tail"), "5");
    assert_string_equal(http_uri_find(&u, "x"), "a b&c");
    assert_string_equal(http_uri_find(&u, "empty"), "");
    assert_string_equal(http_uri_find(&u, "also"), "");
    assert_null(http_uri_find(&u, "none"));
}

static void
the_root_has_no_parts(void **state)
{
    struct http_uri u;

    (void)state;
    assert_int_equal(http_uri_parse("/", &u, NULL), 0);
    assert_int_equal(u.n_segments, 0);
    assert_int_equal(http_uri_parse("/?a=1", &u, NULL), 0);
    assert_int_equal(u.n_segments, 0);
    assert_int_equal(u.n_pairs, 1);
}

static void
refuses_paths_in_disguise(void **state)
{
    static const char *const wrong[] = {"",
                                        "v1/jobs",
                                        "http://h/v1",
                                        "*",
                                        "//",
                                        "/v1//jobs",
                                        "/v1/jobs/",
                                        "/v1/../etc",
                                        "/v1/.",
                                        "/v1/.hidden",
                                        "/v1/%2e%2e",
                                        "/v1/a%2fb",
                                        "/v1/a%00b",
                                        "/v1/%0a",
                                        "/v1/%",
                                        "/v1/%4",
                                        "/v1/%zz",
                                        "/v1/\x01",
                                        "/v1/%ff",
                                        "/v1/\xc3",
                                        "/v1?a=%00",
                                        "/v1?a=%1",
                                        "/v1?a=1&a=2",
                                        "/v1?%zz=1",
                                        "/1/2/3/4/5/6/7/8/9"};
    struct http_uri u;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err;

        err_clear(&err);
        if (http_uri_parse(wrong[i], &u, &err) == 0)
            fail_msg("taken: %s", wrong[i]);
        assert_true(err.code == ERR_USAGE || err.code == ERR_NOTFOUND);
        assert_true(err.msg[0] != '\0');
    }
}

static void
refuses_what_is_too_long(void **state)
{
    char target[HTTP_URI_MAX + 2];
    char many[8 * (HTTP_URI_PAIRS + 2)] = "/v1?";
    struct http_uri u;

    (void)state;
    memset(target, 'a', sizeof(target));
    target[0] = '/';
    target[HTTP_URI_MAX] = '\0';
    assert_int_equal(http_uri_parse(target, &u, NULL), 0);
    target[HTTP_URI_MAX] = 'a';
    target[HTTP_URI_MAX + 1] = '\0';
    assert_int_equal(http_uri_parse(target, &u, NULL), ERR_USAGE);
    for (int i = 0; i <= HTTP_URI_PAIRS; i++)
        sprintf(many + strlen(many), "k%d=1&", i);
    assert_int_equal(http_uri_parse(many, &u, NULL), ERR_USAGE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_path_and_a_query_apart),
        cmocka_unit_test(the_root_has_no_parts),
        cmocka_unit_test(refuses_paths_in_disguise),
        cmocka_unit_test(refuses_what_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
