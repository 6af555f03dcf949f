/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/start_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* id, iteration, live, good, best, name */
#define ITEM(i, it, l, g, b, n)                                                \
    {                                                                          \
        .id = (i), .iteration = (it), .live = (l), .good = (g), .best = (b),   \
        .attempt = 1, .metric = (b) ? 0.9 : (double)(i) / 10, .name = n        \
    }
static struct checkpoints_item items[] = {
    ITEM(1, 100, true, true, false, "it000000100-a1"),
    ITEM(2, 200, true, true, true, "it000000200-a1"),
    ITEM(3, 300, true, false, false, "it000000300-a1"),
    ITEM(6, 350, true, true, false, "it000000350-a2"),
    ITEM(4, 400, false, true, false, "it000000400-a1"),
    ITEM(5, 500, false, false, false, "it000000500-a1"),
};
static const struct checkpoints list = {items, 6, 6};
static const struct checkpoints none = {NULL, 0, 0};

static void
fill(struct start_plan *plan, struct view_start *start)
{
    struct store_job row = {0};
    struct job *job;

    view_init(VIEW_ID_job, &row.view);
    row.view.id = 17;
    row.view.attempt = 3;
    row.view.state = "starting";
    row.spec = "{}";
    row.intent = "";
    job = job_create(&row, NULL);
    start_plan_fill(plan, job, "/dir", "cpu", start);
    assert_int_equal(start->job, 17);
    assert_int_equal(start->attempt, 3);
    assert_string_equal(start->device, "cpu");
    job_destroy(&job);
}

static void
test_start_plan_newest_first(void **ctx)
{
    struct start_plan *plan = start_plan_create();
    struct view_start s;
    struct err err;

    (void)ctx;
    assert_int_equal(start_plan_choose(plan, &list, 0, false, &err), 0);
    fill(plan, &s);
    assert_int_equal(s.resume.n, 3);
    assert_string_equal(s.resume.v[0], "it000000350-a2");
    assert_string_equal(s.resume.v[1], "it000000200-a1");
    assert_string_equal(s.resume.v[2], "it000000100-a1");
    assert_false(s.resume_required);
    assert_int_equal(s.keep.n, 3);
    assert_string_equal(s.keep.v[0], "it000000100-a1");
    assert_string_equal(s.best, "it000000200-a1");
    assert_true(s.best_metric == 0.9);
    /* Of a loss the smaller is better. */
    assert_int_equal(start_plan_choose(plan, &list, 0, true, &err), 0);
    fill(plan, &s);
    assert_string_equal(s.best, "it000000100-a1");
    start_plan_destroy(&plan);
}

/* Back to the start: nothing to resume from, nothing that counts any more. */
static void
test_start_plan_back_to_the_start(void **ctx)
{
    struct start_plan *plan = start_plan_create();
    struct view_start s;
    struct err err;

    (void)ctx;
    assert_int_equal(
        start_plan_choose(plan, &list, STORE_FROM_START, false, &err), 0);
    fill(plan, &s);
    assert_int_equal(s.resume.n, 0);
    assert_int_equal(s.keep.n, 0);
    assert_false(s.resume_required);
    assert_string_equal(s.best, "");
    start_plan_destroy(&plan);
}

/* The worker is told the effective spec and all that a rollback left. */
static void
test_start_plan_tells_changes(void **ctx)
{
    struct start_plan *plan = start_plan_create();
    struct store_job row = {0};
    struct view_start s;
    struct job *job;
    struct err err;

    (void)ctx;
    view_init(VIEW_ID_job, &row.view);
    row.view.state = "starting";
    row.view.guard_rollbacks = 2;
    row.spec = "{\"seed\": 1}";
    row.changes =
        "[{\"attempt\":2,\"iteration\":5,\"uid\":7,\"cause\":\"c\","
        "\"difference\":\"d\",\"change\":\"{\\\"amp\\\":{}}\"},"
        "{\"attempt\":3,\"iteration\":9,\"uid\":7,\"cause\":\"plain\","
        "\"difference\":\"\",\"change\":\"{}\"}]";
    row.skip_windows = "[7,2]";
    row.start_scale = 512;
    job = job_create(&row, NULL);
    start_plan_read(plan, job);
    assert_int_equal(start_plan_choose(plan, &none, 0, false, &err), 0);
    start_plan_fill(plan, job, "/dir", "cpu", &s);
    assert_string_equal(s.spec, "{\"seed\": 1, \"amp\": {}}");
    /* Who it was and plain rollbacks do not go with the weights. */
    assert_string_equal(s.changes, "[{\"attempt\":2,\"iteration\":5,"
                                   "\"cause\":\"c\",\"difference\":\"d\"}]");
    assert_int_equal(s.skip_windows.n, 2);
    assert_int_equal(s.skip_windows.v[0], 7);
    assert_true(s.scale == 512);
    assert_int_equal(s.guard_rollbacks, 2);
    job_destroy(&job);
    start_plan_destroy(&plan);
}

static void
test_start_plan_from_scratch(void **ctx)
{
    struct start_plan *plan = start_plan_create();
    struct view_start s;
    struct err err;

    (void)ctx;
    assert_int_equal(start_plan_choose(plan, &none, 0, false, &err), 0);
    fill(plan, &s);
    assert_int_equal(s.resume.n, 0);
    assert_false(s.resume_required);
    assert_string_equal(s.best, "");
    start_plan_destroy(&plan);
}

static void
test_start_plan_rollback_is_exact(void **ctx)
{
    struct start_plan *plan = start_plan_create();
    struct view_start s;
    struct err err;

    (void)ctx;
    assert_int_equal(start_plan_choose(plan, &list, 1, false, &err), 0);
    fill(plan, &s);
    assert_int_equal(s.resume.n, 1);
    assert_string_equal(s.resume.v[0], "it000000100-a1");
    assert_true(s.resume_required);
    assert_int_equal(s.keep.n, 1); /* later ones are about to be abandoned */
    /* The best one, too: it is the best of those that are left. */
    assert_string_equal(s.best, "it000000100-a1");
    assert_true(s.best_metric == 0.1);
    /* To an abandoned line: that very one, too. */
    assert_int_equal(start_plan_choose(plan, &list, 4, false, &err), 0);
    fill(plan, &s);
    assert_string_equal(s.resume.v[0], "it000000400-a1");
    assert_int_equal(s.resume.n, 1);
    assert_true(s.best_metric == 0.9);
    /* Not good, not there: never from somewhere else instead. */
    assert_int_equal(start_plan_choose(plan, &list, 5, false, &err), ERR_CKPT);
    assert_int_equal(start_plan_choose(plan, &list, 77, false, &err), ERR_CKPT);
    start_plan_destroy(&plan);
}

static void
test_start_plan_what_a_rollback_names(void **ctx)
{
    struct err err;

    (void)ctx;
    assert_int_equal(checkpoints_choose(&list, "last", &err)->id, 6);
    assert_int_equal(checkpoints_choose(&list, "", &err)->id, 6);
    assert_int_equal(checkpoints_choose(&list, "best", &err)->id, 2);
    assert_int_equal(checkpoints_choose(&list, "4", &err)->id, 4);
    assert_null(checkpoints_choose(&list, "3", &err));
    assert_int_equal(err.code, ERR_CKPT);
    assert_null(checkpoints_choose(&list, "999", &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    assert_non_null(strstr(err.msg, "999"));
    assert_null(checkpoints_choose(&list, "newest", &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    assert_null(checkpoints_choose(&list, "-1", &err));
    assert_null(checkpoints_choose(&none, "last", &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    assert_null(checkpoints_choose(&none, "best", &err));
}

static void
test_start_plan_names_of_directories(void **ctx)
{
    static const char *const bad[] = {"it500-a1",
                                      "it000000500-a0",
                                      "it000000500-a1x",
                                      ".tmp-it1-a1",
                                      "it-00000500-a1",
                                      "it000000500",
                                      "",
                                      "model",
                                      "it000000500-a1/..",
                                      "it0000000500-a1"};
    int64_t iteration, attempt;

    (void)ctx;
    assert_true(
        checkpoints_parse_name("it000000500-a12", &iteration, &attempt));
    assert_int_equal(iteration, 500);
    assert_int_equal(attempt, 12);
    assert_true(
        checkpoints_parse_name("it12345678901-a1", &iteration, &attempt));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(checkpoints_parse_name(bad[i], &iteration, &attempt));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_plan_newest_first),
        cmocka_unit_test(test_start_plan_from_scratch),
        cmocka_unit_test(test_start_plan_back_to_the_start),
        cmocka_unit_test(test_start_plan_tells_changes),
        cmocka_unit_test(test_start_plan_rollback_is_exact),
        cmocka_unit_test(test_start_plan_what_a_rollback_names),
        cmocka_unit_test(test_start_plan_names_of_directories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
