/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of jobs: from the events of their workers to the scrape. */
#include "tests/unit/metrics_stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
test_metrics_unknown_is_left_out(void **ctx)
{
    struct job *job = metrics_stage_add_job(1, "new", "running");

    (void)ctx;
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect_none("job=\"");
    metrics_stage_expect_none("db_size_bytes");
    metrics_stage_expect_none("state_dir_free");
    metrics_stage_expect_none("http_requests");
    metrics_stage_expect(
        "traind_jobs{state=\"paused\"} 0"); /* what is known to be none */
    metrics_stage_expect("traind_queue_oldest_age_seconds 0");
    metrics_stage_tell_start(job, 0, 0);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_job_iteration{job=\"1\"} 0");
    metrics_stage_expect("traind_job_loss_scale_floor{job=\"1\"} 1");
    metrics_stage_expect_none("traind_job_loss{");
    metrics_stage_expect_none("traind_job_loss_scale{");
    metrics_stage_expect_none("traind_job_last_progress");
    metrics_stage_expect_none("traind_job_last_checkpoint");
    metrics_stage_expect_none("NaN");
}

static void
test_metrics_job_ends_with_its_worker(void **ctx)
{
    struct job *late = metrics_stage_add_job(20, "late", "running"),
               *early = metrics_stage_add_job(3, "early", "running");

    (void)ctx;
    metrics_stage_tell_start(late, 0, 0);
    metrics_stage_tell_start(early, 0, 0);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    assert_true(strstr(metrics_stage.text, "job_iteration{job=\"3\"}") <
                strstr(metrics_stage.text, "job_iteration{job=\"20\"}"));
    metrics_stage_tell_end(early, EVENT_OUTCOME_STOPPED);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect_none("job=\"3\"");
    metrics_stage_expect("traind_job_iteration{job=\"20\"} 0");
    metrics_stage_tell_end(late, EVENT_OUTCOME_COMPLETED);
    metrics_stage_tell_end(late,
                           EVENT_OUTCOME_COMPLETED); /* it had none any more */
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect_none("job=\"");
    metrics_stage_expect("traind_worker_exits_total{category=\"stopped\"} 1");
    metrics_stage_expect("traind_worker_exits_total{category=\"completed\"} 2");
}

static void
test_metrics_attempt_counts_what_it_did(void **ctx)
{
    struct job *job = metrics_stage_add_job(1, "again", "running");

    (void)ctx;
    metrics_stage_tell_start(job, 100, 4);
    metrics_stage_tell_step(job, 101, 4, false);
    metrics_stage_tell_step(job, 101, 5, true);
    metrics_stage_tell_incident(job, EVENT_TRIGGER_SKIP,
                                EVENT_VERDICT_BAD_INPUT, 101, 5);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_job_iteration{job=\"1\"} 106");
    metrics_stage_expect("traind_job_updates_total{job=\"1\"} 1");
    metrics_stage_expect("traind_job_updates_skipped_total{job=\"1\"} 1");
    metrics_stage_expect("traind_job_samples_total{job=\"1\"} 64");
    metrics_stage_tell_end(job, EVENT_OUTCOME_GO_BACK);
    metrics_stage_tell_start(job, 50, 2);
    metrics_stage_tell_step(job, 51, 2, false);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_job_updates_total{job=\"1\"} 1");
    metrics_stage_expect("traind_job_updates_skipped_total{job=\"1\"} 0");
    metrics_stage_expect("traind_updates_total 2");
    metrics_stage_expect(
        "traind_updates_skipped_total{verdict=\"bad_input\"} 1");
}

static void
test_metrics_every_skip_has_one_verdict(void **ctx)
{
    struct job *job = metrics_stage_add_job(1, "skips", "running");

    (void)ctx;
    metrics_stage_tell_start(job, 0, 0);
    /* A loss that is no number is an incident, but no skip. */
    metrics_stage_tell_step(job, 1, 0, false);
    metrics_stage_tell_incident(job, EVENT_TRIGGER_LOSS,
                                EVENT_VERDICT_DIVERGENCE, 1, 0);
    /* One of two optimizers was held: an update. */
    metrics_stage_tell_step(job, 2, 0, false);
    metrics_stage_tell_incident(job, EVENT_TRIGGER_SKIP,
                                EVENT_VERDICT_BAD_INPUT, 2, 0);
    /* A skip whose incident got lost, and one at the very end. */
    metrics_stage_tell_step(job, 2, 1, true);
    metrics_stage_tell_step(job, 2, 2, true);
    metrics_stage_tell_incident(job, EVENT_TRIGGER_SKIP,
                                EVENT_VERDICT_FORWARD_OVERFLOW, 2, 2);
    metrics_stage_tell_step(job, 2, 3, true);
    metrics_stage_tell_end(job, EVENT_OUTCOME_FAILED);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_updates_skipped_total{verdict=\"none\"} 2");
    metrics_stage_expect(
        "traind_updates_skipped_total{verdict=\"forward_overflow\"} 1");
    metrics_stage_expect(
        "traind_updates_skipped_total{verdict=\"divergence\"} 0");
    metrics_stage_expect(
        "traind_updates_skipped_total{verdict=\"bad_input\"} 0");
    metrics_stage_expect("traind_incidents_total{verdict=\"divergence\"} 1");
    metrics_stage_expect("traind_incidents_total{verdict=\"bad_input\"} 1");
    metrics_stage_expect("traind_incidents_total{verdict=\"none\"} 0");
}

static void
test_metrics_scale_at_its_floor_does_not_back_off(void **ctx)
{
    struct job *job = metrics_stage_add_job(1, "floor", "running");

    (void)ctx;
    metrics_stage_tell_start(job, 0, 0);
    metrics_stage_tell_scale(job, EVENT_SCALE_SKIP, 2, 1, 0, 0);
    metrics_stage_tell_scale(job, EVENT_SCALE_SKIP, 1, 1, 0, 0);
    metrics_stage_tell_scale(job, EVENT_SCALE_SET, 1, 64, 0, 0);
    metrics_stage_tell_scale(job, EVENT_SCALE_GROWTH, 64, 128, 0, 0);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_job_scale_backoffs_total{job=\"1\"} 1");
    metrics_stage_expect("traind_job_scale_growths_total{job=\"1\"} 1");
    metrics_stage_expect("traind_job_loss_scale{job=\"1\"} 128");
}

static void
test_metrics_lies_of_a_worker_take_nothing_back(void **ctx)
{
    struct job *job = metrics_stage_add_job(1, "liar", "running");
    struct event odd = {
        .kind = EVENT_STEP, .iteration = 9, .updates = 7, .skips = 1};

    (void)ctx;
    metrics_stage_tell_start(job, 10, 0);
    metrics_stage_tell_step(job, 11, 0, false);
    metrics_job_event(metrics_stage.m, job, &odd); /* 9 is not 7 + 1 */
    metrics_stage_tell_step(job, 3, 0, false);
    metrics_stage_tell_start(job, 3, 0);
    odd = (struct event){.kind = EVENT_STEP, .u.step = {.samples = -1000}};
    metrics_stage_tell(job, odd, 4, 0);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_job_updates_total{job=\"1\"} 2");
    metrics_stage_expect("traind_job_samples_total{job=\"1\"} 64");
    metrics_stage_expect("traind_updates_total 2");
    metrics_stage_expect("traind_samples_total 64");
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, metrics_stage_setup,                    \
                                    metrics_stage_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_metrics_unknown_is_left_out),
        TEST(test_metrics_job_ends_with_its_worker),
        TEST(test_metrics_attempt_counts_what_it_did),
        TEST(test_metrics_every_skip_has_one_verdict),
        TEST(test_metrics_scale_at_its_floor_does_not_back_off),
        TEST(test_metrics_lies_of_a_worker_take_nothing_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
