/* SPDX-License-Identifier: Apache-2.0 */
/* Which headers let a request in, door by door. */
#include "daemon/http_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct http_guard tcp = {
    .port = 9477, .hosts = "gpu.lab, gpu2", .origins = "https://board.lab"};
static const struct http_guard local = {
    .local = true, .hosts = "", .origins = ""};

static int
ask(const struct http_guard *g, const struct http_guard_headers *h,
    bool changes, bool body)
{
    const char *sentence = NULL;
    int status = http_guard_check(g, h, true, changes, body, &sentence);

    assert_true((status != 0) == (sentence != NULL));
    return status;
}

static int
host(const struct http_guard *g, const char *name)
{
    const struct http_guard_headers h = {.host = name, .n_hosts = 1};

    return ask(g, &h, false, false);
}

static void
knows_its_own_names_only(void **state)
{
    (void)state;
    assert_int_equal(host(&tcp, "localhost"), 0);
    assert_int_equal(host(&tcp, "LOCALHOST:9477"), 0);
    assert_int_equal(host(&tcp, "127.0.0.1:9477"), 0);
    assert_int_equal(host(&tcp, "[::1]:9477"), 0);
    assert_int_equal(host(&tcp, "gpu.lab"), 0);
    assert_int_equal(host(&tcp, "gpu2:9477"), 0);
    assert_int_equal(host(&tcp, "localhost:80"), 421);
    assert_int_equal(host(&tcp, "localhost.evil"), 421);
    assert_int_equal(host(&tcp, "gpu"), 421);
    assert_int_equal(host(&tcp, "evil.example"), 421);
    assert_int_equal(host(&tcp, ""), 421);
    assert_int_equal(host(&tcp, NULL), 421);
    assert_int_equal(host(&local, "anything"), 0);
    assert_int_equal(host(&local, NULL), 0);
}

static int
origin(const char *from, const char *to)
{
    const struct http_guard_headers h = {
        .host = to, .n_hosts = 1, .origin = from};

    return ask(&tcp, &h, false, false);
}

static void
pages_of_others_may_not_ask(void **state)
{
    const struct http_guard_headers cross = {
        .host = "localhost", .n_hosts = 1, .fetch_site = "cross-site"};
    const struct http_guard_headers same = {
        .host = "localhost", .n_hosts = 1, .fetch_site = "same-origin"};
    const char *sentence;

    (void)state;
    assert_int_equal(origin("http://localhost:9477", "localhost:9477"), 0);
    assert_int_equal(origin("https://board.lab", "localhost:9477"), 0);
    assert_int_equal(origin("http://127.0.0.1:9477", "localhost:9477"), 403);
    assert_int_equal(origin("https://board.lab.evil", "localhost"), 403);
    assert_int_equal(origin("null", "localhost"), 403);
    assert_int_equal(origin("", "localhost"), 403);
    assert_int_equal(ask(&tcp, &cross, false, false), 403);
    assert_int_equal(ask(&tcp, &same, false, false), 0);
    /* A link may lead to the page itself. */
    assert_int_equal(
        http_guard_check(&tcp, &cross, false, false, false, &sentence), 0);
}

static void
changes_are_told_in_json(void **state)
{
    struct http_guard_headers h = {.host = "localhost", .n_hosts = 1};

    (void)state;
    assert_int_equal(ask(&tcp, &h, true, false), 0);
    assert_int_equal(ask(&tcp, &h, true, true), 415);
    h.content_type = "application/json";
    assert_int_equal(ask(&tcp, &h, true, true), 0);
    h.content_type = "application/json; charset=utf-8";
    assert_int_equal(ask(&tcp, &h, true, true), 0);
    h.content_type = "application/jsonx";
    assert_int_equal(ask(&tcp, &h, true, true), 415);
    h.content_type = "text/plain";
    assert_int_equal(ask(&tcp, &h, true, false), 415);
    assert_int_equal(ask(&tcp, &h, false, false), 0);
}

static void
no_request_can_be_read_in_two_ways(void **state)
{
    const struct http_guard_headers two_hosts = {.host = "localhost",
                                                 .n_hosts = 2};
    const struct http_guard_headers two_lengths = {
        .host = "localhost", .n_hosts = 1, .n_lengths = 2};
    const struct http_guard_headers both = {
        .host = "localhost", .n_hosts = 1, .n_lengths = 1, .n_encodings = 1};

    (void)state;
    assert_int_equal(ask(&local, &two_hosts, false, false), 400);
    assert_int_equal(ask(&tcp, &two_lengths, true, true), 400);
    assert_int_equal(ask(&tcp, &both, true, true), 400);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_its_own_names_only),
        cmocka_unit_test(pages_of_others_may_not_ask),
        cmocka_unit_test(changes_are_told_in_json),
        cmocka_unit_test(no_request_can_be_read_in_two_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
