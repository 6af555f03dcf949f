/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/job.h"
#include "daemon/notice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The edges once more, as a person reads them: a change of the table must be
 * made in two places, on purpose. */
static const char *const legal[] = {
    "queued starting",      "queued paused",      "queued cancelled",
    "queued failed",        "starting running",   "starting stopping",
    "starting queued",      "starting failed",    "starting completed",
    "starting interrupted", "running stopping",   "running completed",
    "running failed",       "running queued",     "running interrupted",
    "stopping paused",      "stopping cancelled", "stopping queued",
    "stopping completed",   "stopping failed",    "stopping interrupted",
    "starting paused",      "running paused",     "paused queued",
    "paused cancelled",
};

static bool
is_listed(const char *from, const char *to)
{
    char edge[64];

    snprintf(edge, sizeof(edge), "%s %s", from, to);
    for (size_t i = 0; i < sizeof(legal) / sizeof(legal[0]); i++)
        if (strcmp(legal[i], edge) == 0)
            return true;
    return false;
}

static void
test_job_edges_all(void **ctx)
{
    (void)ctx;
    for (int from = 0; from < JOB_STATE_COUNT; from++)
        for (int to = 0; to < JOB_STATE_COUNT; to++)
            assert_int_equal(
                job_edge_is_legal((enum job_state)from, (enum job_state)to),
                is_listed(job_state_name((enum job_state)from),
                          job_state_name((enum job_state)to)));
}

static void
test_job_final_is_final(void **ctx)
{
    int n_final = 0;

    (void)ctx;
    for (int from = 0; from < JOB_STATE_COUNT; from++) {
        bool out = false;

        for (int to = 0; to < JOB_STATE_COUNT; to++)
            out = out ||
                  job_edge_is_legal((enum job_state)from, (enum job_state)to);
        assert_int_equal(out, !job_state_is_final((enum job_state)from));
        n_final += job_state_is_final((enum job_state)from);
    }
    assert_int_equal(n_final, 4);
}

static void
test_job_names_there_and_back(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        assert_int_equal(job_state_parse(job_state_name((enum job_state)i)), i);
    assert_int_equal(job_state_parse("RUNNING"), JOB_STATE_COUNT);
    assert_int_equal(job_state_parse(""), JOB_STATE_COUNT);
    for (int i = 0; i < JOB_INTENT_COUNT; i++)
        assert_int_equal(job_intent_parse(job_intent_name((enum job_intent)i)),
                         i);
    assert_int_equal(job_intent_parse("nonsense"), JOB_INTENT_NONE);
}

static struct job *
make_job(const char *state)
{
    struct store_job row = {0};
    struct job *job;

    view_init(VIEW_ID_job, &row.view);
    row.view.id = 17;
    row.view.state = state;
    row.view.name = "n";
    row.spec = "{}";
    row.intent = "";
    job = job_create(&row, NULL);
    assert_non_null(job);
    return job;
}

static struct event
step(int64_t iteration, int64_t skips, double loss, bool skipped)
{
    struct event e = {.kind = EVENT_STEP,
                      .iteration = iteration,
                      .updates = iteration - skips,
                      .skips = skips};

    e.u.step.loss = loss;
    e.u.step.scale = 1024;
    e.u.step.lr = 0.5;
    e.u.step.skipped = skipped;
    return e;
}

static void
test_job_applies_steps(void **ctx)
{
    struct job *job = make_job("running");
    struct event e = {.kind = EVENT_STARTED};
    struct view_job view;

    (void)ctx;
    e.u.started.checkpoint = "";
    e.u.started.total_iterations = 1000;
    job_apply_event(job, &e, 0);
    for (int i = 1; i <= 100; i++) {
        e = step(i, 0, 1.0 / i, false);
        job_apply_event(job, &e, i * 100);
    }
    job_view(job, &view);
    assert_int_equal(view.iteration, 100);
    assert_true(view.loss == 1.0 / 100);
    /* Ten a second, so ninety seconds are left. */
    assert_true(fabs(view.iterations_per_s - 10) < 0.5);
    assert_true(fabs(view.eta_s - 90) < 5);

    e = step(101, 1, (double)NAN, true);
    job_apply_event(job, &e, 10100);
    job_view(job, &view);
    assert_int_equal(view.skips, 1);
    assert_true(view.loss == 1.0 / 100); /* of the last update */

    e = step(999, 5, 7, false);
    e.updates = 3; /* 999 is not 3 + 5: the store leaves it out, so do we */
    job_apply_event(job, &e, 10200);
    assert_int_equal(job->row.view.iteration, 101);
    job_destroy(&job);
    assert_null(job);
}

static void
test_job_best_ignores_nan_and_incomplete(void **ctx)
{
    static const struct {
        double accuracy;
        bool incomplete;
        double best;
    } row[] = {{NAN, false, NAN}, {0.5, false, 0.5}, {0.9, true, 0.5},
               {0.7, false, 0.7}, {NAN, false, 0.7}, {0.6, false, 0.7}};
    struct job *job = make_job("running");

    (void)ctx;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct event e = {.kind = EVENT_EVALUATION};
        double best;

        e.u.evaluation.accuracy = row[i].accuracy;
        e.u.evaluation.incomplete = row[i].incomplete;
        job_apply_event(job, &e, 0);
        /* Of a part of the set: not told as if it were of all. */
        if (row[i].incomplete)
            assert_true(job->row.view.accuracy == row[i - 1].accuracy);
        best = job->row.view.best_accuracy;
        assert_true(best == row[i].best || (isnan(best) && isnan(row[i].best)));
    }
    job_destroy(&job);
}

/* What was measured, and nothing that was not. */
static void
test_job_notice_of_an_evaluation(void **ctx)
{
    struct event e = {.kind = EVENT_EVALUATION, .iteration = 7};
    struct job *job = make_job("running");
    struct notice n;

    (void)ctx;
    e.u.evaluation.loss = 0.25;
    e.u.evaluation.accuracy = 0.5;
    e.u.evaluation.top_k = NAN;
    e.u.evaluation.perplexity = INFINITY;
    assert_true(notice_from_event(&n, job, &e));
    assert_string_equal(n.text, "iteration 7: validation loss 0.25, accuracy "
                                "0.5, perplexity inf");
    e.u.evaluation.loss = e.u.evaluation.perplexity = NAN;
    assert_true(notice_from_event(&n, job, &e));
    assert_string_equal(n.text, "iteration 7: accuracy 0.5");
    e.u.evaluation.incomplete = true;
    assert_true(notice_from_event(&n, job, &e));
    assert_string_equal(n.text, "iteration 7: the evaluation was not finished");
    job_destroy(&job);
}

/* With a verdict the sentence, cut where it is too long; without one what is
 * known. */
static void
test_job_notice_of_an_incident(void **ctx)
{
    struct event e = {.kind = EVENT_INCIDENT, .iteration = 7};
    struct job *job = make_job("running");
    char endless[2000];
    struct notice n;

    (void)ctx;
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    e.u.incident.layer = e.u.incident.op = e.u.incident.tensor = "fc1";
    assert_true(notice_from_event(&n, job, &e));
    assert_string_equal(n.text, "iteration 7: non-finite, not replayed");
    e.u.incident.replayed = e.u.incident.located = true;
    e.u.incident.verdict = EVENT_VERDICT_FORWARD_OVERFLOW;
    e.u.incident.sentence = "fc1 made 66304";
    assert_true(notice_from_event(&n, job, &e));
    assert_string_equal(n.text,
                        "iteration 7: forward_overflow: fc1 made 66304");
    e.u.incident.sentence = endless;
    assert_true(notice_from_event(&n, job, &e));
    assert_int_equal(strlen(n.text),
                     strlen("iteration 7: forward_overflow: ") + 400);
    job_destroy(&job);
}

static void
test_job_view_tells_committed_only(void **ctx)
{
    struct job *job = make_job("running");
    struct view_job view;

    (void)ctx;
    job->state = JOB_COMPLETED; /* decided, not stored */
    job->row.view.exit_code = 0;
    job->row.view.end_us = 5;
    job_view(job, &view);
    assert_string_equal(view.state, "running");
    assert_int_equal(view.exit_code, -1);
    assert_int_equal(view.end_us, 0);
    job->stored = JOB_COMPLETED;
    job_view(job, &view);
    assert_string_equal(view.state, "completed");
    assert_int_equal(view.exit_code, 0);
    job_destroy(&job);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_edges_all),
        cmocka_unit_test(test_job_final_is_final),
        cmocka_unit_test(test_job_names_there_and_back),
        cmocka_unit_test(test_job_applies_steps),
        cmocka_unit_test(test_job_best_ignores_nan_and_incomplete),
        cmocka_unit_test(test_job_notice_of_an_evaluation),
        cmocka_unit_test(test_job_notice_of_an_incident),
        cmocka_unit_test(test_job_view_tells_committed_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
