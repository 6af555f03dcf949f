/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of events: rows, lines, marks, thinning. */
#include "daemon/store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/store_bench.h"

static void
on_metrics(void *ctx, int rc, const void *items, int n, bool more,
           const struct err *err)
{
    struct store_bench *b = ctx;

    (void)err;
    b->calls++;
    b->rc = rc;
    b->more = more;
    b->n = n;
    for (int i = 0; i < n && i < 64; i++)
        b->metric[i] = ((const struct view_metric *)items)[i];
}

static void
on_scale(void *ctx, int rc, const void *items, int n, bool more,
         const struct err *err)
{
    struct store_bench *b = ctx;

    (void)err;
    (void)more;
    b->calls++;
    b->rc = rc;
    b->n = n;
    for (int i = 0; i < n && i < 64; i++) {
        b->scale[i] = ((const struct view_scale *)items)[i];
        assert_int_equal(b->scale[i].samples.n, 2);
        assert_int_equal(b->scale[i].samples.v[0], 7);
    }
}

static void
on_checkpoints(void *ctx, int rc, const void *items, int n, bool more,
               const struct err *err)
{
    struct store_bench *b = ctx;

    (void)err;
    (void)more;
    b->calls++;
    b->rc = rc;
    b->n = n;
    for (int i = 0; i < n && i < 64; i++) {
        b->checkpoint[i] = ((const struct view_checkpoint *)items)[i];
        snprintf(b->name[i], sizeof(b->name[i]), "%s", b->checkpoint[i].state);
        snprintf(b->label[i], sizeof(b->label[i]), "%s", b->checkpoint[i].name);
    }
}

static void
query(struct store_bench *b, enum message_id what, int64_t job, bool all_lines,
      int64_t max_points, store_rows_fn *fn)
{
    struct view_query q;

    view_init(VIEW_ID_query, &q);
    q.all_lines = all_lines;
    q.max_points = max_points;
    store_query(b->store, what, job, &q, fn, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
}

static void
test_store_ingest_twice_stores_once(void **state)
{
    struct store_bench *b = *state;
    struct store_bench_script s = {0};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", "{}");
    store_bench_put_step(&s, 2.0, false);
    store_bench_put_step(&s, 1.5, true);
    store_bench_ingest(b, job, 1, &s);
    store_bench_ingest(b, job, 1, &s);
    query(b, MESSAGE_ID_metrics, job, true, 0, on_metrics);
    assert_int_equal(b->n, 2);
    query(b, MESSAGE_ID_skips, job, true, 0, on_scale);
    assert_int_equal(b->n, 1);
    assert_int_equal(b->scale[0].iteration, 2);
    assert_true(b->scale[0].after == 512);
}

static void
test_store_ingest_tells_nan_and_inf_apart(void **state)
{
    static const double losses[] = {2.0, NAN, INFINITY, -INFINITY, 1.0};
    struct store_bench *b = *state;
    struct store_bench_script s = {0};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", "{}");
    for (int i = 0; i < 5; i++)
        store_bench_put_step(&s, losses[i], false);
    store_bench_ingest(b, job, 1, &s);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 5);
    assert_true(isnan(b->metric[1].loss));
    assert_true(isinf(b->metric[2].loss) && b->metric[2].loss > 0);
    assert_true(isinf(b->metric[3].loss) && b->metric[3].loss < 0);
    /* One group of all: the mean of what is finite, the extremes kept. */
    query(b, MESSAGE_ID_metrics, job, false, 1, on_metrics);
    assert_int_equal(b->n, 1);
    assert_true(b->metric[0].loss == 1.5);
    assert_int_equal(b->metric[0].n, 5);
    assert_true(b->metric[0].loss_min == 1 && b->metric[0].loss_max == 2);
    assert_int_equal(b->metric[0].n_bad, 3);
}

static void
test_store_ingest_bad_line_does_not_stop_the_rest(void **state)
{
    static const char bad[] = "{\"seq\": oops\n\xff\xfe\n\n";
    struct store_bench *b = *state;
    struct store_bench_script s = {0};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", "{}");
    memcpy(s.text + s.len, bad, sizeof(bad) - 1);
    s.len += sizeof(bad) - 1;
    store_bench_put_step(&s, 2.0, false);
    store_bench_ingest(b, job, 1, &s);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 1);
}

/* A submitter can write into its job's events.jsonl what it likes. */
static void
test_store_hostile_events_do_not_stop_the_rest(void **state)
{
    struct store_bench *b = *state;
    struct store_bench_script one = {0}, two = {0}, three = {0};
    struct event e = {.kind = EVENT_SCALE};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&one, "", "");
    store_bench_put_step(&one, 1, false);
    /* What the table refuses: a scale that is no number. */
    e.u.scale.cause = EVENT_SCALE_GROWTH;
    e.u.scale.before = e.u.scale.after = NAN;
    store_bench_put_event(&one, &e);
    store_bench_put_checkpoint(&one, "../../../etc", true);
    store_bench_put_checkpoint(&one, "it000000001-a2", true);
    store_bench_put_checkpoint(&one, "it000000001-a1", true);
    /* It started from a checkpoint of its own. */
    store_bench_put_started(&one, "it000000001-a1", "");
    store_bench_put_step(&one, 1, false);
    store_bench_ingest(b, job, 1, &one);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 2);
    query(b, MESSAGE_ID_checkpoints, job, true, 0, on_checkpoints);
    assert_int_equal(b->n, 1);
    assert_string_equal(b->label[0], "it000000001-a1");

    /* Lines that go in a circle have an end. */
    store_bench_begin_attempt(b, job, 2);
    two.iteration = two.updates = 1;
    store_bench_put_checkpoint(&two, "it000000001-a2", false);
    store_bench_put_started(&two, "it000000001-a2", "");
    store_bench_put_step(&two, 1, false);
    store_bench_ingest(b, job, 2, &two);
    store_bench_begin_attempt(b, job, 3);
    store_bench_put_started(&three, "", "");
    store_bench_ingest(b, job, 3, &three);
    store_bench_begin_attempt(b, job, 4);
    three = two;
    store_bench_ingest(b, job, 4, &three);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->rc, 0);
    assert_true(b->n >= 1);
}

static void
test_store_thinning_has_a_bound(void **state)
{
    struct store_bench *b = *state;
    struct store_bench_script one = {0};
    struct view_query q;
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&one, "", "{}");
    for (int i = 0; i < 5; i++)
        store_bench_put_step(&one, 1, false);
    store_bench_ingest(b, job, 1, &one);
    view_init(VIEW_ID_query, &q);
    q.max_points = INT64_MAX;
    store_query(b->store, MESSAGE_ID_metrics, job, &q, on_metrics, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_equal(b->n, 5);
    assert_int_equal(store_backlog(b->store), 0);
}

static void
test_store_later_attempt_abandons_rows_beyond_its_start(void **state)
{
    struct store_bench *b = *state;
    struct store_bench_script one = {0}, two = {0};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&one, "", "{}");
    for (int i = 0; i < 3; i++)
        store_bench_put_step(&one, 1, false);
    store_bench_put_checkpoint(&one, "it000000003-a1", true);
    for (int i = 0; i < 2; i++)
        store_bench_put_step(&one, 1, i == 1);
    store_bench_put_checkpoint(&one, "it000000005-a1", false);
    store_bench_ingest(b, job, 1, &one);
    store_bench_begin_attempt(b, job, 2);
    two.iteration = two.updates = 3;
    store_bench_put_started(&two, "it000000003-a1", "{}");
    for (int i = 0; i < 4; i++)
        store_bench_put_step(&two, 1, i == 1);
    store_bench_ingest(b, job, 2, &two);

    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 7);
    for (int i = 0; i < b->n; i++) {
        assert_int_equal(b->metric[i].iteration, i + 1);
        assert_int_equal(b->metric[i].attempt, i < 3 ? 1 : 2);
    }
    query(b, MESSAGE_ID_metrics, job, true, 0, on_metrics);
    assert_int_equal(b->n, 9);
    query(b, MESSAGE_ID_skips, job, false, 0, on_scale);
    assert_int_equal(b->n, 1);
    assert_int_equal(b->scale[0].attempt, 2);
    query(b, MESSAGE_ID_checkpoints, job, true, 0, on_checkpoints);
    assert_int_equal(b->n, 2);
    assert_true(b->checkpoint[0].live && b->checkpoint[0].best);
    assert_false(b->checkpoint[1].live);
}

#define BEST_SPEC                                                              \
    "{\"data\": {\"train\": {\"format\": \"npy\", \"input\": \"/x\","          \
    " \"target\": \"/y\"}, \"validation\": {\"format\": \"npy\","              \
    " \"input\": \"/x\", \"target\": \"/y\"}, \"batch_size\": 8},"             \
    " \"model\": [\"relu\"], \"loss\": \"cross_entropy\","                     \
    " \"optimizer\": \"adam\", \"checkpoint\": {\"best\": \"%s\"}}"

/* Name of the one that is marked best, "" for none; never two. */
static const char *
best_of(struct store_bench *b, int64_t job)
{
    const char *name = "";

    query(b, MESSAGE_ID_checkpoints, job, true, 0, on_checkpoints);
    for (int i = 0; i < b->n; i++) {
        if (!b->checkpoint[i].best)
            continue;
        assert_string_equal(name, "");
        assert_true(b->checkpoint[i].live);
        name = b->label[i];
    }
    return name;
}

static void
best_is_of_the_live_line(struct store_bench *b, const char *rule, double sign)
{
    char spec[1024];
    struct store_bench_script one = {0}, two = {0}, three = {0};
    struct store_job row = store_bench_make_job("a");
    int64_t job;

    snprintf(spec, sizeof(spec), BEST_SPEC, rule);
    row.spec = spec;
    store_insert_job(b->store, &row, store_bench_on_done, b);
    store_bench_settle(b);
    job = b->id;
    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&one, "", "{}");
    store_bench_put_step(&one, 1, false);
    store_bench_put_measured(&one, "it000000001-a1", sign * 0.5, true);
    store_bench_put_step(&one, 1, false);
    store_bench_put_measured(&one, "it000000002-a1", sign * 0.7, true);
    store_bench_put_step(&one, 1, false);
    store_bench_put_measured(&one, "it000000003-a1", sign * 0.6, false);
    store_bench_put_step(&one, 1, false);
    store_bench_put_measured(&one, "it000000004-a1", sign * 0.9, true);
    store_bench_ingest(b, job, 1, &one);
    assert_string_equal(best_of(b, job), "it000000004-a1");

    /* Back to before the best one. */
    store_bench_begin_attempt(b, job, 2);
    two.iteration = two.updates = 3;
    store_bench_put_started(&two, "it000000003-a1", "{}");
    store_bench_ingest(b, job, 2, &two);
    assert_string_equal(best_of(b, job), "it000000002-a1");

    /* That line again. */
    store_bench_begin_attempt(b, job, 3);
    three.iteration = three.updates = 4;
    store_bench_put_started(&three, "it000000004-a1", "{}");
    store_bench_ingest(b, job, 3, &three);
    assert_string_equal(best_of(b, job), "it000000004-a1");

    /* It turns out to be damaged. */
    store_mark_checkpoint(b->store, b->checkpoint[b->n - 1].id, "bad",
                          store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    assert_string_equal(best_of(b, job), "it000000002-a1");
}

static void
test_store_best_is_of_the_live_line(void **state)
{
    best_is_of_the_live_line(*state, "accuracy", 1);
    best_is_of_the_live_line(*state, "loss", -1);
}

static void
test_store_going_back_to_an_abandoned_line_revives_it(void **state)
{
    struct store_bench *b = *state;
    struct store_bench_script one = {0}, two = {0}, three = {0};
    int64_t job = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&one, "", "{}");
    for (int i = 0; i < 2; i++)
        store_bench_put_step(&one, 1, false);
    store_bench_put_checkpoint(&one, "it000000002-a1", false);
    for (int i = 0; i < 2; i++)
        store_bench_put_step(&one, 1, false);
    store_bench_put_checkpoint(&one, "it000000004-a1", false);
    store_bench_ingest(b, job, 1, &one);
    store_bench_begin_attempt(b, job, 2);
    two.iteration = two.updates = 2;
    store_bench_put_started(&two, "it000000002-a1", "{}");
    for (int i = 0; i < 4; i++)
        store_bench_put_step(&two, 1, false);
    store_bench_ingest(b, job, 2, &two);
    store_bench_begin_attempt(b, job, 3);
    three.iteration = three.updates = 4;
    store_bench_put_started(&three, "it000000004-a1", "{}");
    store_bench_put_step(&three, 1, false);
    store_bench_ingest(b, job, 3, &three);

    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 5);
    for (int i = 0; i < b->n; i++)
        assert_int_equal(b->metric[i].attempt, i < 4 ? 1 : 3);
    query(b, MESSAGE_ID_checkpoints, job, false, 0, on_checkpoints);
    assert_int_equal(b->n, 2);
}

static void
test_store_page_limit_says_more(void **state)
{
    struct store_bench *b = *state;
    int64_t job = store_bench_insert_job(b, "a");
    struct store_bench_script s = {0};
    struct view_query q;

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", "{}");
    store_bench_ingest(b, job, 1, &s);
    for (int chunk = 0; chunk < 11; chunk++) {
        s.len = 0;
        for (int i = 0; i < 100; i++)
            store_bench_put_step(&s, 1, false);
        store_bench_ingest(b, job, 1, &s);
    }
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 1000);
    assert_true(b->more);
    view_init(VIEW_ID_query, &q);
    q.after_row = 1000; /* rows are numbered from 1 in a fresh database */
    store_query(b->store, MESSAGE_ID_metrics, job, &q, on_metrics, b);
    store_bench_settle(b);
    assert_int_equal(b->n, 100);
    assert_false(b->more);
    query(b, MESSAGE_ID_metrics, job, false, 50, on_metrics);
    assert_int_equal(b->n, 50);
    for (int i = 0, first = 1; i < 50; i++) {
        assert_int_equal(b->metric[i].first, first);
        assert_in_range(b->metric[i].n, 1, 32);
        first = (int)b->metric[i].iteration + 1;
    }
    assert_int_equal(b->metric[49].iteration, 1100);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, store_bench_setup, store_bench_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_store_ingest_twice_stores_once),
        TEST(test_store_ingest_tells_nan_and_inf_apart),
        TEST(test_store_ingest_bad_line_does_not_stop_the_rest),
        TEST(test_store_hostile_events_do_not_stop_the_rest),
        TEST(test_store_thinning_has_a_bound),
        TEST(test_store_later_attempt_abandons_rows_beyond_its_start),
        TEST(test_store_best_is_of_the_live_line),
        TEST(test_store_going_back_to_an_abandoned_line_revives_it),
        TEST(test_store_page_limit_says_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
