/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/metrics_stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POLICY                                                                 \
    "{\"dtype\":\"float16\",\"scaler\":{\"dynamic\":true,\"enabled\":true,"    \
    "\"min_scale\":1.0}}"

struct metrics_stage metrics_stage;

static int64_t
clock_us(void)
{
    return metrics_stage.now_us;
}

static void
look(void *ctx, struct metrics_live *out)
{
    (void)ctx;
    *out = metrics_stage.live;
}

int
metrics_stage_setup(void **ctx)
{
    const struct metrics_options o = {.look = look, .wall_us = clock_us};
    struct metrics_stage *t = &metrics_stage;

    (void)ctx;
    memset(t, 0, sizeof(*t));
    t->now_us = 1000 * METRICS_STAGE_S;
    t->live = (struct metrics_live){
        .jobs = &t->jobs, .free_bytes = -1, .size_bytes = -1};
    t->m = metrics_create(&o);
    return t->m == NULL;
}

int
metrics_stage_teardown(void **ctx)
{
    (void)ctx;
    metrics_destroy(&metrics_stage.m);
    jobs_fini(&metrics_stage.jobs);
    free(metrics_stage.text);
    return 0;
}

/* ---- what is told ---------------------------------------------------------*/

struct job *
metrics_stage_add_job(int64_t id, const char *name, const char *state)
{
    struct store_job row = {.spec = "{}"};
    struct job *job;

    view_init(VIEW_ID_job, &row.view);
    row.view.id = id;
    row.view.name = name;
    row.view.user = "ada";
    row.view.device = "cpu0";
    row.view.state = state;
    row.view.submit_us = metrics_stage.now_us;
    job = job_create(&row, NULL);
    assert_non_null(job);
    assert_true(jobs_add_take(&metrics_stage.jobs, job));
    return job;
}

void
metrics_stage_tell(struct job *job, struct event e, int64_t updates,
                   int64_t skips)
{
    e.iteration = updates + skips;
    e.updates = updates;
    e.skips = skips;
    job_apply_event(job, &e, metrics_stage.now_us / 1000);
    metrics_job_event(metrics_stage.m, job, &e);
}

void
metrics_stage_tell_start(struct job *job, int64_t updates, int64_t skips)
{
    metrics_stage_tell(job,
                       (struct event){.kind = EVENT_STARTED,
                                      .u.started = {.checkpoint = "",
                                                    .policy = POLICY,
                                                    .total_iterations = 800}},
                       updates, skips);
}

void
metrics_stage_tell_step(struct job *job, int64_t updates, int64_t skips,
                        bool skipped)
{
    metrics_stage_tell(
        job,
        (struct event){.kind = EVENT_STEP,
                       .u.step = {.skipped = skipped,
                                  .loss = skipped ? (double)NAN : 0.5,
                                  .grad_norm = skipped ? (double)INFINITY : 2,
                                  .lr = 0.01,
                                  .scale = 1024,
                                  .samples = 32}},
        updates, skips);
}

void
metrics_stage_tell_scale(struct job *job, enum event_scale_cause cause,
                         double from, double to, int64_t updates, int64_t skips)
{
    metrics_stage_tell(job,
                       (struct event){.kind = EVENT_SCALE,
                                      .u.scale = {.cause = cause,
                                                  .before = from,
                                                  .after = to,
                                                  .optimizers = ""}},
                       updates, skips);
}

void
metrics_stage_tell_incident(struct job *job, enum event_trigger trigger,
                            enum event_verdict verdict, int64_t updates,
                            int64_t skips)
{
    metrics_stage_tell(
        job,
        (struct event){.kind = EVENT_INCIDENT,
                       .u.incident = {.trigger = trigger, .verdict = verdict}},
        updates, skips);
}

void
metrics_stage_tell_end(struct job *job, enum event_outcome outcome)
{
    const struct obituary_facts facts = {.pid = 42,
                                         .status_known = true,
                                         .finished = true,
                                         .outcome = outcome,
                                         .why_killed = "",
                                         .start_error = "",
                                         .text = ""};

    metrics_worker_ended(metrics_stage.m, job, &facts);
}

void
metrics_stage_change(struct job *job, enum job_state stored)
{
    job->stored = stored;
    metrics_job_changed(metrics_stage.m, job);
}

/* ---- what is seen ---------------------------------------------------------*/

void
metrics_stage_scrape(enum metrics_format format)
{
    size_t len;

    free(metrics_stage.text);
    metrics_stage.text = metrics_render(metrics_stage.m, format, &len);
    assert_non_null(metrics_stage.text);
    assert_int_equal(len, strlen(metrics_stage.text));
}

/* A whole line of the last metrics_stage_scrape. */
static bool
has(const char *line)
{
    char needle[512];

    snprintf(needle, sizeof(needle), "\n%s\n", line);
    return strstr(metrics_stage.text, needle) != NULL;
}

void
metrics_stage_expect(const char *line)
{
    if (!has(line))
        fail_msg("\"%s\" is not in\n%s", line, metrics_stage.text);
}

void
metrics_stage_expect_none(const char *word)
{
    if (strstr(metrics_stage.text, word) != NULL)
        fail_msg("\"%s\" is in\n%s", word, metrics_stage.text);
}
