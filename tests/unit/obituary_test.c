/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/obituary.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BASE                                                                   \
    .pid = 42, .status_known = true, .why_killed = "", .start_error = "",      \
    .text = ""

static void
test_obituary_sentences(void **ctx)
{
    static const struct {
        struct obituary_facts facts;
        const char *want;
    } row[] = {
        {{BASE, .signal = SIGSEGV}, "worker 42 died of SIGSEGV"},
        {{BASE, .signal = SIGKILL},
         "worker 42 was killed by SIGKILL, not by traind: out of memory, or a "
         "person"},
        {{BASE, .signal = SIGKILL, .killed_by_us = SIGKILL},
         "worker 42 did not obey and was ended by SIGKILL"},
        {{.pid = 42,
          .status_known = true,
          .signal = SIGABRT,
          .killed_by_us = SIGABRT,
          .why_killed = "no sign of life for 30.0 s",
          .start_error = "",
          .text = ""},
         "worker 42 was ended by SIGABRT: no sign of life for 30.0 s"},
        {{BASE, .exit_code = 3},
         "worker 42 exited with status 3 and reported no outcome"},
        {{BASE, .exit_code = 0},
         "worker 42 exited with status 0 and reported no outcome"},
        {{.pid = 42, .why_killed = "", .start_error = "", .text = ""},
         "worker 42 was lost with an earlier daemon; how it ended is unknown"},
        {{.why_killed = "", .start_error = "", .text = ""},
         "the worker had not been started yet"},
        {{.pid = 42,
          .status_known = true,
          .exit_code = 126,
          .why_killed = "",
          .start_error = "uid 7: Operation not permitted",
          .text = ""},
         "worker could not be started: uid 7: Operation not permitted"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_COMPLETED},
         "worker 42 trained to the end"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_STOPPED},
         "worker 42 stopped as it was told"},
        {{.pid = 42,
          .why_killed = "",
          .start_error = "",
          .finished = true,
          .outcome = EVENT_OUTCOME_FAILED,
          .error = ERR_DATA,
          .text = "x.npy: truncated"},
         "worker 42 ended with an error: x.npy: truncated"},
    };

    (void)ctx;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        char got[ERR_SENTENCE_MAX];

        obituary_write(&row[i].facts, got, sizeof(got));
        assert_string_equal(got, row[i].want);
    }
}

static void
test_obituary_words(void **ctx)
{
    static const struct {
        struct obituary_facts facts;
        const char *want;
    } row[] = {
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_COMPLETED},
         "completed"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_STOPPED}, "stopped"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_PAUSED}, "paused"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_GO_BACK}, "go_back"},
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_FAILED}, "failed"},
        /* Its word counts, whatever came after it. */
        {{BASE, .finished = true, .outcome = EVENT_OUTCOME_STOPPED,
          .signal = SIGKILL, .killed_by_us = SIGKILL},
         "stopped"},
        {{BASE, .signal = SIGSEGV}, "died"},
        {{BASE, .exit_code = 0}, "died"},
        {{BASE, .signal = SIGKILL, .killed_by_us = SIGKILL}, "killed"},
        {{.pid = 42, .why_killed = "", .start_error = "", .text = ""}, "lost"},
        {{.why_killed = "", .start_error = "", .text = ""}, "unstarted"},
        {{.pid = 42,
          .status_known = true,
          .why_killed = "",
          .start_error = "uid 7: Operation not permitted",
          .text = ""},
         "unstarted"},
    };

    (void)ctx;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        assert_string_equal(
            obituary_category_name(obituary_categorize(&row[i].facts)),
            row[i].want);
}

/* What ended, what was asked for, what becomes of the job. */
enum end { DONE, STOPPED, FAILED, DIED, LOST, NEVER, GUARDED, BACK };
struct verdict_row {
    enum end end;
    enum job_intent intent;
    bool shutdown, progress, requeue;
    int lost;
    enum job_state want;
    int error, want_lost;
};
#define NONE     JOB_INTENT_NONE
#define CANCEL   JOB_INTENT_CANCEL
#define PAUSE    JOB_INTENT_PAUSE
#define ROLLBACK JOB_INTENT_ROLLBACK

static const struct verdict_row rows[] = {
    /* The end of training is believed whatever was asked for meanwhile. */
    {DONE, NONE, false, true, true, 0, JOB_COMPLETED, 0, 0},
    {DONE, CANCEL, false, true, true, 0, JOB_COMPLETED, 0, 0},
    {DONE, ROLLBACK, false, true, true, 0, JOB_COMPLETED, 0, 0},
    {DONE, NONE, true, true, false, 0, JOB_COMPLETED, 0, 0},
    /* So is an error, except that a rollback is the cure for it. */
    {FAILED, NONE, false, true, true, 0, JOB_FAILED, ERR_DATA, 0},
    {FAILED, CANCEL, false, true, true, 0, JOB_FAILED, ERR_DATA, 0},
    {FAILED, ROLLBACK, false, true, true, 0, JOB_QUEUED, 0, 0},
    /* Stopped: what it was stopped for is carried through. */
    {STOPPED, PAUSE, false, true, true, 0, JOB_PAUSED, 0, 0},
    {STOPPED, CANCEL, false, false, true, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
    {STOPPED, ROLLBACK, false, false, true, 2, JOB_QUEUED, 0, 2},
    {STOPPED, NONE, true, true, true, 1, JOB_QUEUED, 0, 0},
    {STOPPED, NONE, false, true, true, 2, JOB_QUEUED, 0, 1},
    {STOPPED, NONE, false, true, false, 0, JOB_INTERRUPTED, ERR_INTERRUPTED, 1},
    /* Died: the same for what was asked, else again from a checkpoint. */
    {DIED, PAUSE, false, false, true, 0, JOB_PAUSED, 0, 0},
    {DIED, CANCEL, false, false, true, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
    {DIED, ROLLBACK, false, false, true, 0, JOB_QUEUED, 0, 0},
    {DIED, NONE, true, false, true, 3, JOB_QUEUED, 0, 3},
    {DIED, NONE, false, false, true, 0, JOB_QUEUED, 0, 1},
    {DIED, NONE, false, false, true, 2, JOB_QUEUED, 0, 3},
    {DIED, NONE, false, false, true, 3, JOB_FAILED, ERR_FAILED, 4},
    {DIED, NONE, false, true, true, 3, JOB_QUEUED, 0, 1},
    /* Lost: never completed, and failed only if somebody saw it fail. */
    {LOST, NONE, false, false, true, 0, JOB_QUEUED, 0, 1},
    {LOST, NONE, false, false, true, 3, JOB_INTERRUPTED, ERR_INTERRUPTED, 4},
    {LOST, NONE, false, false, false, 0, JOB_INTERRUPTED, ERR_INTERRUPTED, 1},
    {LOST, NONE, true, false, true, 0, JOB_QUEUED, 0, 0},
    {LOST, CANCEL, false, false, false, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
    {LOST, PAUSE, false, true, true, 0, JOB_PAUSED, 0, 0},
    /* A guard paused it: so does a daemon that goes down not undo that. */
    {GUARDED, NONE, false, true, true, 0, JOB_PAUSED, 0, 0},
    {GUARDED, NONE, true, true, true, 0, JOB_PAUSED, 0, 0},
    {GUARDED, NONE, false, false, false, 2, JOB_PAUSED, 0, 2},
    {GUARDED, PAUSE, false, true, true, 0, JOB_PAUSED, 0, 0},
    {GUARDED, CANCEL, false, true, true, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
    {GUARDED, ROLLBACK, false, true, true, 0, JOB_QUEUED, 0, 0},
    /* A guard wants it to go back. */
    {BACK, NONE, false, true, true, 0, JOB_QUEUED, 0, 0},
    {BACK, NONE, true, true, true, 0, JOB_QUEUED, 0, 0},
    {BACK, NONE, false, false, false, 2, JOB_QUEUED, 0, 2},
    {BACK, PAUSE, false, true, true, 0, JOB_PAUSED, 0, 0},
    {BACK, CANCEL, false, true, true, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
    {BACK, ROLLBACK, false, true, true, 0, JOB_QUEUED, 0, 0},
    {NEVER, NONE, false, false, true, 0, JOB_QUEUED, 0, 0},
    {NEVER, NONE, false, false, false, 2, JOB_QUEUED, 0, 2},
    {NEVER, CANCEL, false, false, true, 0, JOB_CANCELLED, ERR_CANCELLED, 0},
};

static struct obituary_facts
facts_of(enum end end)
{
    struct obituary_facts f = {BASE};

    f.finished = end != DIED && end != LOST && end != NEVER;
    f.outcome = end == DONE      ? EVENT_OUTCOME_COMPLETED
                : end == STOPPED ? EVENT_OUTCOME_STOPPED
                : end == GUARDED ? EVENT_OUTCOME_PAUSED
                : end == BACK    ? EVENT_OUTCOME_GO_BACK
                                 : EVENT_OUTCOME_FAILED;
    f.text = end == GUARDED || end == BACK ? "guard 0 saw it" : "";
    f.error = end == FAILED ? ERR_DATA : 0;
    f.signal = end == DIED ? SIGSEGV : 0;
    f.status_known = end != LOST && end != NEVER;
    f.pid = end == NEVER ? 0 : 42;
    return f;
}

static void
test_obituary_verdicts(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct verdict_row *r = &rows[i];
        struct obituary_facts f = facts_of(r->end);
        struct obituary_circumstances c = {
            .state =
                r->intent != NONE || r->shutdown ? JOB_STOPPING : JOB_RUNNING,
            .intent = r->intent,
            .shutdown = r->shutdown,
            .progress = r->progress,
            .lost_attempts = r->lost,
            .max_lost_attempts = 3,
            .requeue = r->requeue,
            .max_guard_rollbacks = 1,
            .no_way_back = ""};
        struct obituary_verdict v;

        if (r->end == NEVER && r->intent == NONE)
            c.state = JOB_STARTING;
        obituary_judge(&f, &c, &v);
        if (v.state != r->want)
            print_error("row %zu: %s\n", i, v.reason);
        assert_int_equal(v.state, r->want);
        assert_int_equal(v.error, r->error);
        assert_int_equal(v.lost_attempts, r->want_lost);
        assert_true(job_edge_is_legal(c.state, v.state));
        /* A person's rollback goes before a guard's. */
        assert_int_equal(v.go_back, r->end == BACK && r->intent != CANCEL &&
                                        r->intent != ROLLBACK);
        /* An intent does not outlive its verdict. */
        assert_true(r->intent == NONE || v.clear_intent);
        assert_true(v.state == JOB_COMPLETED || v.reason[0] != '\0');
    }
}

/* A full disk is nobody's fault and must not use up the queue. */
static void
test_obituary_no_room_does_not_count(void **ctx)
{
    struct obituary_facts at_start = {.why_killed = "",
                                      .start_error = "spec.json: no space",
                                      .start_code = ERR_NOSPACE,
                                      .text = ""};
    struct obituary_facts at_end = {BASE, .exit_code = 74};
    struct obituary_circumstances c = {.state = JOB_RUNNING,
                                       .lost_attempts = 3,
                                       .max_lost_attempts = 3,
                                       .requeue = true};
    struct obituary_verdict v;

    (void)ctx;
    obituary_judge(&at_start, &c, &v);
    assert_int_equal(v.state, JOB_QUEUED);
    assert_int_equal(v.lost_attempts, 3);
    assert_int_equal(v.back_off_ms, 5000);
    obituary_judge(&at_end, &c, &v);
    assert_int_equal(v.state, JOB_QUEUED);
    assert_int_equal(v.lost_attempts, 3);
    at_start.start_code = ERR_IO; /* anything else does */
    obituary_judge(&at_start, &c, &v);
    assert_int_equal(v.state, JOB_FAILED);
    c.intent = CANCEL;
    c.state = JOB_STOPPING;
    obituary_judge(&at_end, &c, &v);
    assert_int_equal(v.state, JOB_CANCELLED);
}

static void
test_obituary_waits_longer_each_time(void **ctx)
{
    static const int want[] = {200, 400, 800, 1600, 3200, 5000, 5000};
    struct obituary_facts f = facts_of(DIED);
    struct obituary_circumstances c = {
        .state = JOB_RUNNING, .max_lost_attempts = 1000, .requeue = true};
    struct obituary_verdict v;

    (void)ctx;
    for (int i = 0; i < 7; i++) {
        c.lost_attempts = i;
        obituary_judge(&f, &c, &v);
        assert_int_equal(v.back_off_ms, want[i]);
    }
    f = facts_of(LOST);
    obituary_judge(&f, &c, &v);
    assert_int_equal(v.back_off_ms, 0);
}

/* Whatever is known, the verdict is an edge of the table. */
static void
test_obituary_verdicts_are_legal(void **ctx)
{
    static const enum job_state states[] = {JOB_STARTING, JOB_RUNNING,
                                            JOB_STOPPING};

    (void)ctx;
    for (int n = 0; n < 8 * 3 * 4 * 2 * 2 * 2 * 2 * 3; n++) {
        int k = n;
        struct obituary_facts f = facts_of((enum end)(k % 8));
        struct obituary_circumstances c = {.max_lost_attempts = 3,
                                           .max_guard_rollbacks = 1};
        struct obituary_verdict v;

        c.state = states[(k /= 8) % 3];
        c.intent = (enum job_intent)((k /= 3) % 4);
        c.shutdown = (k /= 4) % 2;
        c.progress = (k /= 2) % 2;
        c.requeue = (k /= 2) % 2;
        c.lost_attempts = (k /= 2) % 2 * 3;
        c.guard_rollbacks = (k /= 2) % 3 == 1;
        c.go_back_error = ERR_SPEC;
        c.no_way_back = k % 3 == 2 ? "no" : "";
        /* A wish always comes with the state that says so. */
        if (c.intent != NONE && c.state != JOB_STOPPING)
            continue;
        obituary_judge(&f, &c, &v);
        assert_true(job_edge_is_legal(c.state, v.state));
        if (v.state == JOB_COMPLETED)
            assert_true(f.finished && f.outcome == EVENT_OUTCOME_COMPLETED);
    }
}

/* Bounded, and only what can be done. */
static void
test_obituary_no_way_back(void **ctx)
{
    struct obituary_facts f = facts_of(BACK);
    struct obituary_circumstances c = {.state = JOB_RUNNING,
                                       .requeue = true,
                                       .guard_rollbacks = 2,
                                       .max_guard_rollbacks = 3,
                                       .no_way_back = ""};
    struct obituary_verdict v;

    (void)ctx;
    obituary_judge(&f, &c, &v);
    assert_true(v.go_back);
    assert_string_equal(v.reason, "goes back: guard 0 saw it");
    assert_string_equal(v.attempt_state, "go_back");
    c.guard_rollbacks = 3;
    obituary_judge(&f, &c, &v);
    assert_false(v.go_back);
    assert_int_equal(v.state, JOB_FAILED);
    assert_int_equal(v.error, ERR_NUMERICS);
    assert_string_equal(v.reason, "3 rollbacks by guards, guard.max_rollbacks "
                                  "is 3: guard 0 saw it");
    c.guard_rollbacks = 0;
    c.go_back_error = ERR_SPEC;
    c.no_way_back = "the change is no JSON";
    obituary_judge(&f, &c, &v);
    assert_false(v.go_back);
    assert_int_equal(v.state, JOB_FAILED);
    assert_int_equal(v.error, ERR_SPEC);
    assert_string_equal(v.reason, "a guard asks for what cannot be done: the "
                                  "change is no JSON");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_obituary_sentences),
        cmocka_unit_test(test_obituary_words),
        cmocka_unit_test(test_obituary_verdicts),
        cmocka_unit_test(test_obituary_no_room_does_not_count),
        cmocka_unit_test(test_obituary_waits_longer_each_time),
        cmocka_unit_test(test_obituary_verdicts_are_legal),
        cmocka_unit_test(test_obituary_no_way_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
