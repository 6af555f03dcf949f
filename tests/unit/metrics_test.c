/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry makes of what it is told, as a scrape shows it: all of it
 * at once, and what is said of it. */
#include "daemon/metrics_private.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/metrics_stage.h"

#define GOLDEN "tests/golden/metrics."

/* ---- a busy daemon --------------------------------------------------------*/

static void
run_a_job(void)
{
    struct job *job = metrics_stage_add_job(17, "fashion \"cnn\"", "queued");

    metrics_job_submitted(metrics_stage.m);
    metrics_stage.now_us += 7 * METRICS_STAGE_S;
    metrics_stage_change(job, JOB_STARTING);
    metrics_worker_started(metrics_stage.m);
    metrics_stage_change(job, JOB_RUNNING);
    metrics_stage_tell_start(job, 0, 0);
    metrics_stage_tell_step(job, 1, 0, false);
    metrics_stage.now_us += 3 * METRICS_STAGE_S;
    metrics_stage_tell_step(job, 1, 1, true);
    metrics_stage_tell_scale(job, EVENT_SCALE_SKIP, 1024, 512, 1, 1);
    metrics_stage_tell_incident(job, EVENT_TRIGGER_SKIP,
                                EVENT_VERDICT_SCALE_OVERFLOW, 1, 1);
    metrics_stage_tell(
        job,
        (struct event){.kind = EVENT_GUARD,
                       .u.guard = {.action = EVENT_ACTION_CONTINUE}},
        1, 1);
    metrics_stage_tell_step(job, 2, 1, false);
    metrics_stage_tell_scale(job, EVENT_SCALE_GROWTH, 512, 1024, 2, 1);
    metrics_stage_tell(
        job,
        (struct event){.kind = EVENT_CHECKPOINT,
                       .u.checkpoint = {.name = "0000000003-001"}},
        2, 1);
    metrics_stage_tell(
        job,
        (struct event){.kind = EVENT_CHECKPOINT_FAILED,
                       .u.checkpoint_failed = {.name = "", .text = "full"}},
        2, 1);
}

static void
make_busy(void)
{
    const struct store_commit commit = {0.003, 4096, 8192};
    struct job *failed;

    metrics_jobs_found(metrics_stage.m, JOB_COMPLETED, 5);
    run_a_job();
    failed = metrics_stage_add_job(18, "fails", "running");
    failed->row.view.start_us = metrics_stage.now_us;
    failed->row.view.end_us = metrics_stage.now_us + 100 * METRICS_STAGE_S;
    metrics_stage_tell_end(failed, EVENT_OUTCOME_FAILED);
    metrics_stage_change(failed, JOB_FAILED);
    metrics_stage_add_job(19, "waits", "queued");
    metrics_stage.now_us += 20 * METRICS_STAGE_S;
    metrics_rollback(metrics_stage.m, -1);
    metrics_db_commit(metrics_stage.m, &commit);
    metrics_db_error(metrics_stage.m, ERR_NOSPACE);
    metrics_stage.live.db_backlog = 2;
    metrics_stage.live.ctl_clients = 3;
    metrics_stage.live.http_connections = 4;
    metrics_stage.live.events_dropped = 9;
    metrics_stage.live.free_bytes = INT64_C(123456789012);
    metrics_stage.live.size_bytes = INT64_C(1234567890123);
    metrics_http_request(metrics_stage.m, "/v1/jobs/{id}", "GET", 200, 0.002);
    metrics_http_request(metrics_stage.m, "/v1/jobs/{id}", "GET", 200, 0.2);
    metrics_http_request(metrics_stage.m, "/v1/jobs/{id}", "GET", 0, 60);
    metrics_ctl_request(metrics_stage.m, MESSAGE_ID_ping, 0);
    metrics_ctl_request(metrics_stage.m, MESSAGE_ID_submit, ERR_SPEC);
}

/* Lines that are another each time. */
static bool
is_steady(const char *line)
{
    if (line[0] == '#')
        line += strlen("# HELP "); /* or TYPE, or UNIT */
    return strncmp(line, "process_", 8) != 0 &&
           strncmp(line, "traind_build", 12) != 0;
}

static char *
steady_lines(void)
{
    char *out = calloc(1, strlen(metrics_stage.text) + 1), *to = out,
         *save = metrics_stage.text;
    char *line;

    assert_non_null(out);
    while ((line = strsep(&save, "\n")) != NULL)
        if (*line != '\0' && is_steady(line))
            to += sprintf(to, "%s\n", line);
    free(metrics_stage.text);
    metrics_stage.text = NULL;
    return out;
}

static char *
read_source(const char *name)
{
    const char *source = getenv("TRAIND_SOURCE");
    char path[1024];
    char *text = calloc(1, 1 << 20);
    FILE *f;

    assert_non_null(source);
    assert_non_null(text);
    snprintf(path, sizeof(path), "%s/%s", source, name);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s is not there", path);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* A new family or another word: look at it, then write it anew with
 * TRAIND_UPDATE_GOLDEN=1. */
static void
compare_golden(enum metrics_format format, const char *name)
{
    char *now, *golden;

    metrics_stage_scrape(format);
    now = steady_lines();
    if (getenv("TRAIND_UPDATE_GOLDEN") != NULL) {
        FILE *f = fopen(name, "w");

        assert_non_null(f);
        fputs(now, f);
        fclose(f);
    }
    golden = read_source(name);
    assert_string_equal(now, golden);
    free(now);
    free(golden);
}

static void
test_metrics_golden(void **ctx)
{
    (void)ctx;
    make_busy();
    compare_golden(METRICS_PROMETHEUS, GOLDEN "prom");
    compare_golden(METRICS_OPENMETRICS, GOLDEN "om");
}

/* The label names of a sample, joined, without le. */
static void
read_labels(const char *line, char out[128])
{
    const char *p = strchr(line, '{');
    size_t n = 0;

    out[0] = '\0';
    while (p != NULL && *p != '}') {
        size_t len = strcspn(++p, "=");

        if (len != 2 || strncmp(p, "le", 2) != 0)
            n += (size_t)snprintf(out + n, 128 - n, "%s%.*s", n > 0 ? "," : "",
                                  (int)len, p);
        for (p += len + 2; *p != '"'; p++)
            if (*p == '\\')
                p++;
        p++;
    }
}

static const struct exposition_family *
family_of(const char *line)
{
    static const char *const part[] = {"", "_bucket", "_sum", "_count"};
    const size_t n = strcspn(line, "{ ");

    for (int i = 0; i < METRICS_ID_COUNT; i++) {
        const struct exposition_family *f = &metrics_families[i];
        const size_t len = strlen(f->name);

        for (int k = 0; k < (f->type == EXPOSITION_HISTOGRAM ? 4 : 1); k++)
            if (n == len + strlen(part[k]) &&
                strncmp(line, f->name, len) == 0 &&
                strncmp(line + len, part[k], n - len) == 0)
                return f;
    }
    fail_msg("of no family: %s", line);
    return NULL;
}

/* Every family is there, once and whole, in the table's order, with its
 * labels. */
static void
test_metrics_families_are_as_the_table_says(void **ctx)
{
    const struct exposition_family *last = NULL;
    char *save, *line, labels[128];
    int n = 0;

    (void)ctx;
    make_busy();
    metrics_stage_scrape(METRICS_PROMETHEUS);
    save = metrics_stage.text;
    while ((line = strsep(&save, "\n")) != NULL && *line != '\0') {
        const struct exposition_family *f;

        if (*line == '#')
            continue;
        f = family_of(line);
        if (f != last) {
            assert_ptr_equal(f, &metrics_families[n]);
            n++;
        }
        last = f;
        read_labels(line, labels);
        assert_string_equal(labels, f->labels);
    }
    assert_int_equal(n, METRICS_ID_COUNT);
}

static bool
ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

static void
test_metrics_names_follow_the_rules(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < METRICS_ID_COUNT; i++) {
        const struct exposition_family *f = &metrics_families[i];
        char unit[64];

        assert_true(strncmp(f->name, "traind_", 7) == 0 ||
                    strncmp(f->name, "process_", 8) == 0);
        assert_int_equal(ends_in(f->name, "_total"),
                         f->type == EXPOSITION_COUNTER);
        assert_int_equal(ends_in(f->name, "_info"), f->type == EXPOSITION_INFO);
        snprintf(unit, sizeof(unit), "_%s%s", f->unit,
                 f->type == EXPOSITION_COUNTER ? "_total" : "");
        assert_true(f->unit[0] == '\0' || ends_in(f->name, unit));
        assert_true(ends_in(f->help, "."));
        assert_null(strpbrk(f->help, "\\\"\n"));
        /* Totals of all jobs have no job, histograms nobody's name. */
        assert_int_equal(strstr(f->labels, "job") != NULL,
                         strncmp(f->name, "traind_job_", 11) == 0 &&
                             f->type != EXPOSITION_HISTOGRAM);
        assert_true(strstr(f->labels, "user") == NULL || i == METRICS_ID_job);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(f->name, metrics_families[k].name);
    }
}

/* ---- parts ----------------------------------------------------------------*/

static void
test_metrics_queue_ages_by_the_oldest(void **ctx)
{
    struct job *first = metrics_stage_add_job(1, "first", "queued");

    (void)ctx;
    metrics_stage.now_us += 30 * METRICS_STAGE_S;
    metrics_stage_add_job(2, "second", "queued");
    metrics_stage.now_us += 10 * METRICS_STAGE_S;
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_queue_oldest_age_seconds 40");
    metrics_stage_change(first, JOB_STARTING);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_queue_oldest_age_seconds 10");
    metrics_stage_expect("traind_job_queue_wait_seconds_bucket{le=\"15\"} 0");
    metrics_stage_expect("traind_job_queue_wait_seconds_bucket{le=\"60\"} 1");
    metrics_stage_expect("traind_job_queue_wait_seconds_sum 40");
    /* A clock that was put back. */
    metrics_stage.now_us -= 1000 * METRICS_STAGE_S;
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect("traind_queue_oldest_age_seconds 0");
}

static void
test_metrics_requests_have_few_names(void **ctx)
{
    static char route[METRICS_KINDS_MAX + 8][16];

    (void)ctx;
    metrics_http_request(metrics_stage.m, "other", "BREW", 405, 0.1);
    metrics_http_request(metrics_stage.m, "other", "x\"y", 405, 0.1);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect(
        "traind_http_requests_total{handler=\"other\",method=\"other\","
        "code=\"405\"} 2");
    /* More than there is room for are counted all the same. */
    for (int i = 0; i < METRICS_KINDS_MAX + 8; i++) {
        snprintf(route[i], sizeof(route[i]), "/r%d", i);
        metrics_http_request(metrics_stage.m, route[i], "GET", 200, 0.1);
    }
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect(
        "traind_http_requests_total{handler=\"/r510\",method=\"GET\","
        "code=\"200\"} 10");
    metrics_stage_expect(
        "traind_http_request_duration_seconds_count{handler=\"/r62\"} 458");
}

static void
test_metrics_errors_have_known_names(void **ctx)
{
    (void)ctx;
    metrics_ctl_request(metrics_stage.m, MESSAGE_ID_status, ERR_NOTFOUND);
    metrics_ctl_request(metrics_stage.m, MESSAGE_ID_status, -12345);
    metrics_ctl_request(metrics_stage.m, MESSAGE_ID_status, 1);
    metrics_db_error(metrics_stage.m, ERR_AGAIN);
    metrics_stage_scrape(METRICS_PROMETHEUS);
    metrics_stage_expect(
        "traind_ctl_requests_total{verb=\"status\",result=\"notfound\"} 1");
    metrics_stage_expect(
        "traind_ctl_requests_total{verb=\"status\",result=\"internal\"} 2");
    metrics_stage_expect("traind_db_errors_total{code=\"again\"} 1");
    metrics_stage_expect("traind_db_errors_total{code=\"io\"} 0");
}

/* ---- the manual -----------------------------------------------------------*/

static const char *
type_word(enum exposition_type type)
{
    static const char *const word[] = {"info", "gauge", "counter", "histogram"};

    return word[type];
}

/* Each family as the page has it: name, kind, labels, meaning. */
static void
test_metrics_manual_is_complete(void **ctx)
{
    char *manual = read_source("daemon/traind-metrics.7");

    (void)ctx;
    for (int i = 0; i < METRICS_ID_COUNT; i++) {
        const struct exposition_family *f = &metrics_families[i];
        char want[512];
        int n = snprintf(want, sizeof(want), "\n.It Sy %s Pq %s", f->name,
                         type_word(f->type));

        if (f->labels[0] != '\0')
            n += snprintf(want + n, sizeof(want) - (size_t)n, " Brq %s",
                          f->labels);
        snprintf(want + n, sizeof(want) - (size_t)n, "\n%s\n", f->help);
        if (strstr(manual, want) == NULL)
            fail_msg("traind-metrics.7 does not have:%s", want);
    }
    free(manual);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, metrics_stage_setup,                    \
                                    metrics_stage_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_metrics_golden),
        TEST(test_metrics_families_are_as_the_table_says),
        TEST(test_metrics_names_follow_the_rules),
        TEST(test_metrics_queue_ages_by_the_oldest),
        TEST(test_metrics_requests_have_few_names),
        TEST(test_metrics_errors_have_known_names),
        TEST(test_metrics_manual_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
