/* SPDX-License-Identifier: Apache-2.0 */
/* fsck finds what is wrong, each kind by a wound of its own, and nothing in a
 * store that is whole or in mid-flight. */
#include "daemon/store.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/store_bench.h"

/* ---- a job with a history -------------------------------------------------*/

#define POLICY_1 "{\"dtype\":\"float16\"}"
#define POLICY_2 "{\"dtype\":\"bfloat16\"}"

static void
put_scale(struct store_bench_script *s, enum event_scale_cause cause,
          double before, double after)
{
    struct event e = {.kind = EVENT_SCALE};

    e.u.scale.cause = cause;
    e.u.scale.before = before;
    e.u.scale.after = after;
    store_bench_put_event(s, &e);
}

static void
put_step(struct store_bench_script *s, double scale, bool skipped)
{
    struct event e = {.kind = EVENT_STEP};

    s->iteration++;
    s->updates += !skipped;
    s->skips += skipped;
    e.u.step.loss = 1;
    e.u.step.skipped = skipped;
    e.u.step.scale = scale;
    e.u.step.samples = 2;
    e.u.step.step_us = 10;
    store_bench_put_event(s, &e);
}

static void
put_incident(struct store_bench_script *s)
{
    struct event e = {.kind = EVENT_INCIDENT};

    e.u.incident.replayed = true;
    e.u.incident.verdict = EVENT_VERDICT_SCALE_OVERFLOW;
    e.u.incident.layer = e.u.incident.op = e.u.incident.tensor = "";
    store_bench_put_event(s, &e);
}

static void
put_guard(struct store_bench_script *s)
{
    struct event e = {.kind = EVENT_GUARD};

    e.u.guard.condition = "verdict";
    e.u.guard.text = "t";
    e.u.guard.change = "";
    e.u.guard.action = EVENT_ACTION_ROLLBACK;
    store_bench_put_event(s, &e);
}

static void
put_evaluation(struct store_bench_script *s)
{
    struct event e = {.kind = EVENT_EVALUATION};

    e.u.evaluation.loss = 1;
    e.u.evaluation.n = 1;
    store_bench_put_event(s, &e);
}

/* Two attempts: the first skips 2, keeps 4, and is left at 6; the second goes
 * on from 4 under another policy, grows the scale at 5, and ends at 6. */
static int64_t
make_history(struct store_bench *b)
{
    static struct store_bench_script s;
    const int64_t job = store_bench_insert_job(b, "j");

    memset(&s, 0, sizeof(s));
    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", POLICY_1);
    put_step(&s, 1024, false);
    put_step(&s, 1024, true);
    put_scale(&s, EVENT_SCALE_SKIP, 1024, 512);
    put_incident(&s);
    put_step(&s, 512, false);
    put_step(&s, 512, false);
    put_evaluation(&s);
    store_bench_put_measured(&s, "it000000004-a1", 0.5, true);
    put_step(&s, 512, true);
    put_scale(&s, EVENT_SCALE_SKIP, 512, 256);
    put_incident(&s);
    put_step(&s, 256, false);
    put_guard(&s);
    store_bench_ingest(b, job, 1, &s);
    memset(&s, 0, sizeof(s));
    s.iteration = 4;
    s.updates = 3;
    s.skips = 1;
    store_bench_begin_attempt(b, job, 2);
    store_bench_put_started(&s, "it000000004-a1", POLICY_2);
    put_step(&s, 512, false);
    put_scale(&s, EVENT_SCALE_GROWTH, 512, 1024);
    put_step(&s, 1024, false);
    put_evaluation(&s);
    store_bench_put_measured(&s, "it000000006-a2", 0.4, false);
    store_bench_ingest(b, job, 2, &s);
    return job;
}

static void
run_sql(struct store_bench *b, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;

    assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    /* The tables' own checks would keep some wounds out. */
    sqlite3_exec(db,
                 "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys ="
                 " OFF;",
                 NULL, NULL, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

/* ---- findings -------------------------------------------------------------*/

struct seen {
    int n;
    char table[256][32], text[256][256];
    int64_t job[256];
};

static void
on_findings(void *ctx, int rc, const void *items, int n, bool more,
            const struct err *err)
{
    struct store_bench *b = ctx;
    struct seen *seen = b->seen;
    const struct view_finding *f = items;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    b->calls++;
    seen->n = n < 256 ? n : 256;
    for (int i = 0; i < seen->n; i++) {
        snprintf(seen->table[i], sizeof(seen->table[i]), "%s", f[i].table);
        snprintf(seen->text[i], sizeof(seen->text[i]), "%s", f[i].text);
        seen->job[i] = f[i].job;
    }
}

static void
fsck(struct store_bench *b, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    b->seen = seen;
    store_fsck(b->store, on_findings, b);
    store_bench_settle(b);
}

static void
expect_clean(struct store_bench *b, const char *when)
{
    static struct seen seen;

    fsck(b, &seen);
    if (seen.n > 0)
        fail_msg("%s: %s: %s", when, seen.table[0], seen.text[0]);
}

static void
test_fsck_of_whole_stores(void **state)
{
    struct store_bench *b = *state;

    expect_clean(b, "an empty store");
    make_history(b);
    expect_clean(b, "two attempts");
    make_history(b);
    expect_clean(b, "two jobs");
}

/* A commit may end behind any event. */
static void
test_fsck_in_mid_flight(void **state)
{
    static struct store_bench_script s;
    struct store_bench *b = *state;
    const int64_t job = store_bench_insert_job(b, "j");
    size_t stored = 0;

    memset(&s, 0, sizeof(s));
    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", POLICY_1);
    put_step(&s, 1024, false);
    put_step(&s, 1024, true);
    put_scale(&s, EVENT_SCALE_SKIP, 1024, 512);
    put_incident(&s);
    put_step(&s, 512, true);
    put_scale(&s, EVENT_SCALE_SKIP, 512, 256);
    put_incident(&s);
    store_bench_put_measured(&s, "it000000003-a1", 0.5, true);
    while (stored < s.len) {
        const char *end = memchr(s.text + stored, '\n', s.len - stored);
        const size_t n = (size_t)(end - (s.text + stored)) + 1;

        store_ingest(b->store, job, 1, (int64_t)stored, s.text + stored, n,
                     true, store_bench_on_done, b);
        store_bench_settle(b);
        assert_int_equal(b->rc, 0);
        stored += n;
        expect_clean(b, "half a history");
    }
}

static const struct wound {
    const char *sql, *table, *text;
} wounds[] = {
    {"UPDATE metric SET updates = updates + 1 WHERE iteration = 3 AND live",
     "metric", "iteration 3 is not"},
    {"UPDATE job SET iteration = 7", "job", "iteration 7 is not"},
    {"DELETE FROM metric WHERE iteration = 3", "metric", "follows on 2"},
    {"INSERT INTO metric SELECT id + 1000, job, attempt, iteration, updates,"
     " skips, live, skipped, loss, loss_flag, grad_norm, grad_norm_flag, lr,"
     " scale, samples, step_us, t_us FROM metric WHERE iteration = 3",
     "metric", "is there twice"},
    {"UPDATE metric SET updates = 2, skips = 1 WHERE iteration = 3 AND live;"
     " UPDATE metric SET updates = 1, skips = 3 WHERE iteration = 4 AND live",
     "metric", "1 updates and 3 skips after 2 and 1"},
    {"DELETE FROM scale_event WHERE iteration = 2", "metric",
     "has 0 rows of its skip"},
    {"INSERT INTO scale_event SELECT id + 1000, job, attempt, seq + 1000,"
     " iteration, updates, skips, live, cause, before, after, growth_tracker,"
     " samples, t_us, partial, optimizers FROM scale_event WHERE iteration = 2",
     "metric", "has 2 rows of its skip"},
    {"UPDATE metric SET skipped = 0 WHERE iteration = 2", "scale_event",
     "a skip of iteration 2, which was none"},
    {"UPDATE scale_event SET before = 2048 WHERE cause = 'growth'",
     "scale_event", "the scale is 2048"},
    {"UPDATE scale_event SET after = 100 WHERE cause = 'growth'", "scale_event",
     "cause growth took the scale"},
    {"UPDATE metric SET scale = 77 WHERE iteration = 2", "metric",
     "used the scale 77"},
    {"UPDATE metric SET scale = 77 WHERE iteration = 6 AND live", "metric",
     "used the scale 77"},
    {"UPDATE incident SET iteration = 3, updates = 2, skips = 1 WHERE live",
     "incident", "iteration 3 was not skipped"},
    {"DELETE FROM incident WHERE live", "metric",
     "was skipped and is no incident"},
    {"UPDATE incident SET replayed = 0", "incident", "was never replayed"},
    {"UPDATE attempt SET start_iteration = 3 WHERE attempt = 2", "attempt",
     "which is of iteration 4"},
    {"DELETE FROM checkpoint WHERE iteration = 4", "attempt",
     "of which there is no row"},
    {"UPDATE metric SET live = 1 WHERE iteration = 6 AND attempt = 1", "metric",
     "of attempt 1 is live, and attempt 2 began at 4"},
    {"UPDATE scale_event SET live = 1 WHERE iteration = 5 AND attempt = 1",
     "scale_event", "of attempt 1 is live"},
    {"UPDATE incident SET live = 1 WHERE iteration = 5", "incident",
     "of attempt 1 is live"},
    {"UPDATE guard SET live = 1", "guard", "of attempt 1 is live"},
    {"UPDATE evaluation SET iteration = 6, updates = 5, skips = 1 WHERE"
     " attempt = 1",
     "evaluation", "of attempt 1 is live"},
    {"UPDATE checkpoint SET iteration = 6, updates = 5, skips = 1 WHERE"
     " attempt = 1",
     "checkpoint", "of attempt 1 is live"},
    {"UPDATE metric SET live = 0 WHERE iteration = 6", "metric",
     "of the latest attempt is not live"},
    {"UPDATE scale_event SET live = 0 WHERE cause = 'growth'", "scale_event",
     "of the latest attempt is not live"},
    {"UPDATE evaluation SET live = 0 WHERE attempt = 2", "evaluation",
     "of the latest attempt is not live"},
    {"UPDATE checkpoint SET live = 0 WHERE attempt = 2", "checkpoint",
     "of the latest attempt is not live"},
    {"UPDATE attempt SET policy_changed = 0", "attempt", "nothing says so"},
    {"UPDATE attempt SET policy = (SELECT policy FROM attempt WHERE attempt ="
     " 1)",
     "attempt", "it is said to have changed"},
    {"UPDATE checkpoint SET updates = 2, skips = 2 WHERE iteration = 4",
     "checkpoint", "counts 2 updates"},
    {"UPDATE checkpoint SET iteration = 9, updates = 8 WHERE attempt = 2",
     "checkpoint", "is live, and iteration 9 is not"},
    {"UPDATE checkpoint SET best = 1", "checkpoint", "are the best one"},
    {"INSERT INTO rollback (job, uid, checkpoint, from_iteration, to_iteration,"
     " cause, t_us) SELECT job + 1, 0, id, 6, iteration, 'x', 1 FROM checkpoint"
     " LIMIT 1",
     "rollback", "its checkpoint is of job"},
    {"INSERT INTO rollback (job, uid, checkpoint, from_iteration, to_iteration,"
     " cause, t_us) SELECT job, 0, id, 6, 1, 'x', 1 FROM checkpoint LIMIT 1",
     "rollback", "it leads to iteration 1"},
    {"INSERT INTO rollback (job, uid, checkpoint, from_iteration, to_iteration,"
     " cause, t_us) SELECT id, 0, NULL, 6, 1, 'x', 1 FROM job",
     "rollback", "it leads to the start"},
    {"UPDATE job SET rollbacks = 3, state = 'cancelled', end_us = 1, exit_code"
     " = 3",
     "job", "it counts 3 rollbacks"},
    {"UPDATE job SET guard_rollbacks = 2, state = 'cancelled', end_us = 1,"
     " exit_code = 3",
     "job", "it counts 2 rollbacks by guards"},
    {"UPDATE job SET state = 'failed', exit_code = 1, end_us = 0", "job",
     "has no end"},
    {"UPDATE job SET state = 'failed', exit_code = 0, end_us = 1", "job",
     "says exit code 0"},
    {"UPDATE job SET state = 'completed', exit_code = 0, end_us = 1", "job",
     "the last live one is 6"},
    {"UPDATE job SET state = 'cancelled', exit_code = 3, end_us = 1", "attempt",
     "it is running, and its job is cancelled"},
    {"INSERT INTO rollback (job, uid, checkpoint, from_iteration, to_iteration,"
     " cause, t_us) SELECT id, 0, 12345, 6, 4, 'x', 1 FROM job",
     "rollback", "points to a row of checkpoint"},
};

static void
test_fsck_finds_each_wound(void **state)
{
    static struct seen seen;
    struct store_bench *b = *state;

    for (size_t i = 0; i < sizeof(wounds) / sizeof(wounds[0]); i++) {
        const struct wound *w = &wounds[i];
        bool found = false;

        make_history(b);
        run_sql(b, w->sql);
        fsck(b, &seen);
        for (int k = 0; k < seen.n && !found; k++)
            found = strcmp(seen.table[k], w->table) == 0 &&
                    strstr(seen.text[k], w->text) != NULL;
        if (!found)
            fail_msg("%s: %d findings, none in %s with \"%s\"; the first: %s: "
                     "%s",
                     w->sql, seen.n, w->table, w->text,
                     seen.n > 0 ? seen.table[0] : "",
                     seen.n > 0 ? seen.text[0] : "");
        run_sql(b, "DELETE FROM rollback; DELETE FROM metric; DELETE FROM"
                   " scale_event; DELETE FROM incident; DELETE FROM guard;"
                   " DELETE FROM evaluation; DELETE FROM checkpoint; DELETE"
                   " FROM attempt; DELETE FROM job;");
        expect_clean(b, "after the wound");
    }
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, store_bench_setup, store_bench_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fsck_of_whole_stores),
        TEST(test_fsck_in_mid_flight),
        TEST(test_fsck_finds_each_wound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
