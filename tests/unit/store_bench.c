/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/mount.h>

#include "proto/codec.h"

void
store_bench_open(struct store_bench *b)
{
    struct store_options options = {.path = b->path,
                                    .commit_interval_ms = 5,
                                    .keep_metrics = b->keep_metrics};
    struct err err;

    err_clear(&err);
    if (store_open(&options, &b->loop, &b->store, &err) != 0)
        fail_msg("%s", err.msg);
}

void
store_bench_close(struct store_bench *b)
{
    store_close(&b->store);
    uv_run(&b->loop, UV_RUN_DEFAULT);
}

int
store_bench_setup(void **state)
{
    struct store_bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    strcpy(b->dir, "/tmp/traind-store-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof(b->path), "%s/traind.db", b->dir);
    uv_loop_init(&b->loop);
    store_bench_open(b);
    *state = b;
    return 0;
}

int
store_bench_teardown(void **state)
{
    struct store_bench *b = *state;
    char command[160];

    if (b->store != NULL)
        store_bench_close(b);
    /* What a test that failed has left mounted. */
    snprintf(command, sizeof(command), "%s/small", b->dir);
    umount2(command, MNT_DETACH);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    assert_int_equal(system(command), 0);
    free(b);
    return 0;
}

void
store_bench_on_done(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct store_bench *b = ctx;

    b->calls++;
    b->rc = rc;
    b->id = id;
    snprintf(b->msg, sizeof(b->msg), "%s", err->msg);
}

void
store_bench_settle(struct store_bench *b)
{
    int before = b->calls;

    while (b->calls == before)
        uv_run(&b->loop, UV_RUN_ONCE);
}

struct store_job
store_bench_make_job(const char *name)
{
    struct store_job job = {.spec = "{}", .origin = "test"};

    view_init(VIEW_ID_job, &job.view);
    job.view.name = name;
    job.view.uid = 1000;
    job.view.state = "queued";
    job.view.exit_code = -1;
    job.view.directory = "/jobs/1";
    return job;
}

int64_t
store_bench_insert_job(struct store_bench *b, const char *name)
{
    struct store_job job = store_bench_make_job(name);

    store_insert_job(b->store, &job, store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    return b->id;
}

void
store_bench_begin_attempt(struct store_bench *b, int64_t job, int64_t attempt)
{
    struct store_attempt a = {.job = job,
                              .attempt = attempt,
                              .pid = 4242,
                              .boot_id = "boot",
                              .device = "cpu"};

    store_begin_attempt(b->store, &a, store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
}

void
store_bench_put_event(struct store_bench_script *s, struct event *e)
{
    size_t len;
    char *line;

    e->seq = ++s->seq;
    e->t_us = 1000 + s->seq;
    e->iteration = s->iteration;
    e->updates = s->updates;
    e->skips = s->skips;
    line = codec_write_event(e, &len);
    assert_non_null(line);
    assert_true(s->len + len + 1 < sizeof(s->text));
    memcpy(s->text + s->len, line, len);
    s->len += len;
    s->text[s->len++] = '\n';
    free(line);
}

void
store_bench_put_started(struct store_bench_script *s, const char *from,
                        const char *policy)
{
    struct event e = {.kind = EVENT_STARTED};

    e.u.started.checkpoint = from;
    e.u.started.policy = policy;
    e.u.started.total_iterations = 100;
    store_bench_put_event(s, &e);
}

void
store_bench_put_step(struct store_bench_script *s, double loss, bool skipped)
{
    static const int64_t ids[] = {7, 3};
    struct event e = {.kind = EVENT_STEP};

    s->iteration++;
    s->updates += !skipped;
    s->skips += skipped;
    e.u.step.loss = loss;
    e.u.step.skipped = skipped;
    e.u.step.scale = 1024;
    e.u.step.samples = 2;
    e.u.step.step_us = 10;
    store_bench_put_event(s, &e);
    if (!skipped)
        return;
    e = (struct event){.kind = EVENT_SCALE};
    e.u.scale.cause = EVENT_SCALE_SKIP;
    e.u.scale.before = 1024;
    e.u.scale.after = 512;
    e.u.scale.samples = ids;
    e.u.scale.n_samples = 2;
    store_bench_put_event(s, &e);
}

void
store_bench_put_measured(struct store_bench_script *s, const char *name,
                         double metric, bool best)
{
    struct event e = {.kind = EVENT_CHECKPOINT};

    e.u.checkpoint.name = name;
    e.u.checkpoint.digest = "abc";
    e.u.checkpoint.best = best;
    e.u.checkpoint.has_metric = true;
    e.u.checkpoint.metric = metric;
    store_bench_put_event(s, &e);
}

void
store_bench_put_checkpoint(struct store_bench_script *s, const char *name,
                           bool best)
{
    struct event e = {.kind = EVENT_CHECKPOINT};

    e.u.checkpoint.name = name;
    e.u.checkpoint.digest = "abc";
    e.u.checkpoint.best = best;
    e.u.checkpoint.has_metric = best;
    e.u.checkpoint.metric = 0.5;
    store_bench_put_event(s, &e);
}

void
store_bench_ingest(struct store_bench *b, int64_t job, int64_t attempt,
                   const struct store_bench_script *s)
{
    store_ingest(b->store, job, attempt, 0, s->text, s->len, true,
                 store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_equal(b->id, s->len);
}
