/* SPDX-License-Identifier: Apache-2.0 */
/* The store through its public functions, on a real file.
 * Why so many lines: one bench of callbacks and scripted events serves all. */
#include "daemon/store.h"

#include "proto/codec.h"

#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct bench {
    uv_loop_t loop;
    char dir[64], path[128];
    struct store *store;
    /* of the last callback */
    int calls, rc;
    int64_t id;
    char msg[ERR_SENTENCE_MAX];
    /* copies of rows */
    struct view_metric metric[64];
    struct view_scale scale[64];
    struct view_checkpoint checkpoint[64];
    char name[64][64], label[64][64];
    struct store_job job;
    int n;
    bool more;
};

static void
open_store(struct bench *b)
{
    struct store_options options = {.path = b->path, .commit_interval_ms = 5};
    struct err err;

    err_clear(&err);
    if (store_open(&options, &b->loop, &b->store, &err) != 0)
        fail_msg("%s", err.msg);
}

static void
close_store(struct bench *b)
{
    store_close(&b->store);
    uv_run(&b->loop, UV_RUN_DEFAULT);
}

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    strcpy(b->dir, "/tmp/traind-store-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof(b->path), "%s/traind.db", b->dir);
    uv_loop_init(&b->loop);
    open_store(b);
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;
    char command[160];

    if (b->store != NULL)
        close_store(b);
    /* What a test that failed has left mounted. */
    snprintf(command, sizeof(command), "%s/small", b->dir);
    umount2(command, MNT_DETACH);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    assert_int_equal(system(command), 0);
    free(b);
    return 0;
}

static void
on_done(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct bench *b = ctx;

    b->calls++;
    b->rc = rc;
    b->id = id;
    snprintf(b->msg, sizeof(b->msg), "%s", err->msg);
}

/* Turns the loop until one more callback came. */
static void
settle(struct bench *b)
{
    int before = b->calls;

    while (b->calls == before)
        uv_run(&b->loop, UV_RUN_ONCE);
}

static struct store_job
make_job(const char *name)
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

static int64_t
insert_job(struct bench *b, const char *name)
{
    struct store_job job = make_job(name);

    store_insert_job(b->store, &job, on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    return b->id;
}

static void
begin_attempt(struct bench *b, int64_t job, int64_t attempt)
{
    struct store_attempt a = {.job = job,
                              .attempt = attempt,
                              .pid = 4242,
                              .boot_id = "boot",
                              .device = "cpu"};

    store_begin_attempt(b->store, &a, on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
}

/* ---- events as a worker writes them ----------------------------------------*/

struct script {
    char text[65536];
    size_t len;
    int64_t seq, iteration, updates, skips;
};

static void
put_event(struct script *s, struct event *e)
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

static void
put_started(struct script *s, const char *from, const char *policy)
{
    struct event e = {.kind = EVENT_STARTED};

    e.u.started.checkpoint = from;
    e.u.started.policy = policy;
    e.u.started.total_iterations = 100;
    put_event(s, &e);
}

static void
put_step(struct script *s, double loss, bool skipped)
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
    put_event(s, &e);
    if (!skipped)
        return;
    e = (struct event){.kind = EVENT_SCALE};
    e.u.scale.cause = EVENT_SCALE_SKIP;
    e.u.scale.before = 1024;
    e.u.scale.after = 512;
    e.u.scale.samples = ids;
    e.u.scale.n_samples = 2;
    put_event(s, &e);
}

static void
put_measured(struct script *s, const char *name, double metric, bool best)
{
    struct event e = {.kind = EVENT_CHECKPOINT};

    e.u.checkpoint.name = name;
    e.u.checkpoint.digest = "abc";
    e.u.checkpoint.best = best;
    e.u.checkpoint.has_metric = true;
    e.u.checkpoint.metric = metric;
    put_event(s, &e);
}

static void
put_checkpoint(struct script *s, const char *name, bool best)
{
    struct event e = {.kind = EVENT_CHECKPOINT};

    e.u.checkpoint.name = name;
    e.u.checkpoint.digest = "abc";
    e.u.checkpoint.best = best;
    e.u.checkpoint.has_metric = best;
    e.u.checkpoint.metric = 0.5;
    put_event(s, &e);
}

static void
ingest(struct bench *b, int64_t job, int64_t attempt, const struct script *s)
{
    store_ingest(b->store, job, attempt, 0, s->text, s->len, true, on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_equal(b->id, s->len);
}

/* ---- reading back ---------------------------------------------------------- */

static void
on_metrics(void *ctx, int rc, const void *items, int n, bool more,
           const struct err *err)
{
    struct bench *b = ctx;

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
    struct bench *b = ctx;

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
    struct bench *b = ctx;

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
query(struct bench *b, enum message_id what, int64_t job, bool all_lines,
      int64_t max_points, store_rows_fn *fn)
{
    struct view_query q;

    view_init(VIEW_ID_query, &q);
    q.all_lines = all_lines;
    q.max_points = max_points;
    store_query(b->store, what, job, &q, fn, b);
    settle(b);
    assert_int_equal(b->rc, 0);
}

/* ---- tests ----------------------------------------------------------------- */

static void
test_store_ingest_twice_stores_once(void **state)
{
    struct bench *b = *state;
    struct script s = {0};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&s, "", "{}");
    put_step(&s, 2.0, false);
    put_step(&s, 1.5, true);
    ingest(b, job, 1, &s);
    ingest(b, job, 1, &s);
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
    struct bench *b = *state;
    struct script s = {0};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&s, "", "{}");
    for (int i = 0; i < 5; i++)
        put_step(&s, losses[i], false);
    ingest(b, job, 1, &s);
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
    assert_true(isinf(b->metric[0].loss_max));
}

static void
test_store_ingest_bad_line_does_not_stop_the_rest(void **state)
{
    static const char bad[] = "{\"seq\": oops\n\xff\xfe\n\n";
    struct bench *b = *state;
    struct script s = {0};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&s, "", "{}");
    memcpy(s.text + s.len, bad, sizeof(bad) - 1);
    s.len += sizeof(bad) - 1;
    put_step(&s, 2.0, false);
    ingest(b, job, 1, &s);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 1);
}

static off_t
size_of(const struct bench *b, const char *name)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof(path), "%s/small/%s", b->dir, name);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void
fill_disk(const struct bench *b)
{
    static const char block[4096];
    char path[160];
    int fd;

    snprintf(path, sizeof(path), "%s/small/filler", b->dir);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof(block)) > 0)
        continue;
    close(fd);
}

static void
insert_large(struct bench *b)
{
    static char spec[200000];
    struct store_job job = make_job("large");

    memset(spec, 'x', sizeof(spec) - 1);
    job.spec = spec;
    store_insert_job(b->store, &job, on_done, b);
    settle(b);
}

static void
on_small_disk(struct bench *b)
{
    const struct store_options o = {
        .path = b->path, .commit_interval_ms = 5, .ballast_bytes = 32 << 20};
    char filler[160];
    off_t whole;
    struct err err;

    assert_int_equal(store_open(&o, &b->loop, &b->store, &err), 0);
    whole = size_of(b, "traind.db-ballast");
    assert_int_equal(whole, (16 << 20) / 16);
    fill_disk(b);
    for (int i = 0; i < 100 && size_of(b, "traind.db-ballast") > 0; i++)
        insert_large(b);
    assert_int_equal(b->rc, ERR_NOSPACE);
    assert_int_equal(size_of(b, "traind.db-ballast"), -1);
    /* What was refused is taken now. */
    insert_large(b);
    assert_int_equal(b->rc, 0);
    snprintf(filler, sizeof(filler), "%s/small/filler", b->dir);
    assert_int_equal(unlink(filler), 0);
    for (int i = 0; i < 100 && size_of(b, "traind.db-ballast") < 0; i++) {
        insert_job(b, "later");
        usleep(100000);
    }
    assert_int_equal(size_of(b, "traind.db-ballast"), whole);
}

static void
test_store_full_disk_leaves_room_to_write_that_down(void **state)
{
    struct bench *b = *state;
    char small[96];

    close_store(b);
    snprintf(small, sizeof(small), "%s/small", b->dir);
    assert_int_equal(mkdir(small, 0700), 0);
    if (mount("none", small, "tmpfs", 0, "size=16m") != 0) {
        open_store(b);
        skip();
    }
    snprintf(b->path, sizeof(b->path), "%s/traind.db", small);
    on_small_disk(b);
    close_store(b);
    assert_int_equal(umount(small), 0);
    snprintf(b->path, sizeof(b->path), "%s/traind.db", b->dir);
    open_store(b);
}

/* A submitter can write into its job's events.jsonl what it likes. */
static void
test_store_hostile_events_do_not_stop_the_rest(void **state)
{
    struct bench *b = *state;
    struct script one = {0}, two = {0}, three = {0};
    struct event e = {.kind = EVENT_SCALE};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&one, "", "");
    put_step(&one, 1, false);
    /* What the table refuses: a scale that is no number. */
    e.u.scale.cause = EVENT_SCALE_GROWTH;
    e.u.scale.before = e.u.scale.after = NAN;
    put_event(&one, &e);
    put_checkpoint(&one, "../../../etc", true);
    put_checkpoint(&one, "it000000001-a2", true);
    put_checkpoint(&one, "it000000001-a1", true);
    /* It started from a checkpoint of its own. */
    put_started(&one, "it000000001-a1", "");
    put_step(&one, 1, false);
    ingest(b, job, 1, &one);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 2);
    query(b, MESSAGE_ID_checkpoints, job, true, 0, on_checkpoints);
    assert_int_equal(b->n, 1);
    assert_string_equal(b->label[0], "it000000001-a1");

    /* Lines that go in a circle have an end. */
    begin_attempt(b, job, 2);
    two.iteration = two.updates = 1;
    put_checkpoint(&two, "it000000001-a2", false);
    put_started(&two, "it000000001-a2", "");
    put_step(&two, 1, false);
    ingest(b, job, 2, &two);
    begin_attempt(b, job, 3);
    put_started(&three, "", "");
    ingest(b, job, 3, &three);
    begin_attempt(b, job, 4);
    three = two;
    ingest(b, job, 4, &three);
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->rc, 0);
    assert_true(b->n >= 1);
}

static void
test_store_thinning_has_a_bound(void **state)
{
    struct bench *b = *state;
    struct script one = {0};
    struct view_query q;
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&one, "", "{}");
    for (int i = 0; i < 5; i++)
        put_step(&one, 1, false);
    ingest(b, job, 1, &one);
    view_init(VIEW_ID_query, &q);
    q.max_points = INT64_MAX;
    store_query(b->store, MESSAGE_ID_metrics, job, &q, on_metrics, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_equal(b->n, 5);
    assert_int_equal(store_backlog(b->store), 0);
}

static void
test_store_later_attempt_abandons_rows_beyond_its_start(void **state)
{
    struct bench *b = *state;
    struct script one = {0}, two = {0};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&one, "", "{}");
    for (int i = 0; i < 3; i++)
        put_step(&one, 1, false);
    put_checkpoint(&one, "it000000003-a1", true);
    for (int i = 0; i < 2; i++)
        put_step(&one, 1, i == 1);
    put_checkpoint(&one, "it000000005-a1", false);
    ingest(b, job, 1, &one);
    begin_attempt(b, job, 2);
    two.iteration = two.updates = 3;
    put_started(&two, "it000000003-a1", "{}");
    for (int i = 0; i < 4; i++)
        put_step(&two, 1, i == 1);
    ingest(b, job, 2, &two);

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
best_of(struct bench *b, int64_t job)
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
best_is_of_the_live_line(struct bench *b, const char *rule, double sign)
{
    char spec[1024];
    struct script one = {0}, two = {0}, three = {0};
    struct store_job row = make_job("a");
    int64_t job;

    snprintf(spec, sizeof(spec), BEST_SPEC, rule);
    row.spec = spec;
    store_insert_job(b->store, &row, on_done, b);
    settle(b);
    job = b->id;
    begin_attempt(b, job, 1);
    put_started(&one, "", "{}");
    put_step(&one, 1, false);
    put_measured(&one, "it000000001-a1", sign * 0.5, true);
    put_step(&one, 1, false);
    put_measured(&one, "it000000002-a1", sign * 0.7, true);
    put_step(&one, 1, false);
    put_measured(&one, "it000000003-a1", sign * 0.6, false);
    put_step(&one, 1, false);
    put_measured(&one, "it000000004-a1", sign * 0.9, true);
    ingest(b, job, 1, &one);
    assert_string_equal(best_of(b, job), "it000000004-a1");

    /* Back to before the best one. */
    begin_attempt(b, job, 2);
    two.iteration = two.updates = 3;
    put_started(&two, "it000000003-a1", "{}");
    ingest(b, job, 2, &two);
    assert_string_equal(best_of(b, job), "it000000002-a1");

    /* That line again. */
    begin_attempt(b, job, 3);
    three.iteration = three.updates = 4;
    put_started(&three, "it000000004-a1", "{}");
    ingest(b, job, 3, &three);
    assert_string_equal(best_of(b, job), "it000000004-a1");

    /* It turns out to be damaged. */
    store_mark_checkpoint(b->store, b->checkpoint[b->n - 1].id, "bad", on_done,
                          b);
    settle(b);
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
    struct bench *b = *state;
    struct script one = {0}, two = {0}, three = {0};
    int64_t job = insert_job(b, "a");

    begin_attempt(b, job, 1);
    put_started(&one, "", "{}");
    for (int i = 0; i < 2; i++)
        put_step(&one, 1, false);
    put_checkpoint(&one, "it000000002-a1", false);
    for (int i = 0; i < 2; i++)
        put_step(&one, 1, false);
    put_checkpoint(&one, "it000000004-a1", false);
    ingest(b, job, 1, &one);
    begin_attempt(b, job, 2);
    two.iteration = two.updates = 2;
    put_started(&two, "it000000002-a1", "{}");
    for (int i = 0; i < 4; i++)
        put_step(&two, 1, false);
    ingest(b, job, 2, &two);
    begin_attempt(b, job, 3);
    three.iteration = three.updates = 4;
    put_started(&three, "it000000004-a1", "{}");
    put_step(&three, 1, false);
    ingest(b, job, 3, &three);

    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 5);
    for (int i = 0; i < b->n; i++)
        assert_int_equal(b->metric[i].attempt, i < 4 ? 1 : 3);
    query(b, MESSAGE_ID_checkpoints, job, false, 0, on_checkpoints);
    assert_int_equal(b->n, 2);
}

static void
on_found(void *ctx, int rc, const void *items, int n, bool more,
         const struct err *err)
{
    struct bench *b = ctx;

    (void)more;
    (void)err;
    b->calls++;
    b->rc = rc;
    b->n = n;
    if (n == 1) {
        b->job = *(const struct store_job *)items;
        snprintf(b->name[0], sizeof(b->name[0]), "%s", b->job.view.state);
        snprintf(b->name[1], sizeof(b->name[1]), "%s", b->job.view.name);
    }
}

static void
test_store_final_job_never_changes(void **state)
{
    struct bench *b = *state;
    struct store_job job = make_job("a");
    int64_t id = insert_job(b, "a");

    job.view.id = id;
    job.view.state = "completed";
    job.view.iteration = job.view.updates = 5;
    store_update_job(b->store, &job, -1, "state", "done", on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    job.view.state = "failed";
    store_update_job(b->store, &job, -1, "state", "no", on_done, b);
    settle(b);
    assert_int_equal(b->rc, ERR_STATE);
    store_find_job(b->store, id, on_found, b);
    settle(b);
    assert_int_equal(b->n, 1);
    assert_string_equal(b->name[0], "completed");
    assert_int_equal(b->job.view.updates, 5);
    assert_true(isnan(b->job.view.accuracy));
}

static void
test_store_find_latest_by_name_and_nobody(void **state)
{
    struct bench *b = *state;

    insert_job(b, "a");
    insert_job(b, "b");
    store_find_latest(b->store, 1000, NULL, on_found, b);
    settle(b);
    assert_string_equal(b->name[1], "b");
    store_find_latest(b->store, 1000, "a", on_found, b);
    settle(b);
    assert_string_equal(b->name[1], "a");
    store_find_latest(b->store, 1001, NULL, on_found, b);
    settle(b);
    assert_int_equal(b->n, 0);
    store_find_job(b->store, 0, on_found, b);
    settle(b);
    assert_int_equal(b->n, 0);
}

static void
test_store_same_key_gives_the_same_job(void **state)
{
    struct bench *b = *state;
    struct store_job job = make_job("a");
    int64_t first;

    job.idempotency_key = "k1";
    store_insert_job(b->store, &job, on_done, b);
    settle(b);
    first = b->id;
    store_insert_job(b->store, &job, on_done, b);
    settle(b);
    assert_int_equal(b->rc, ERR_EXISTS);
    assert_int_equal(b->id, first);
    job.view.uid = 1001;
    store_insert_job(b->store, &job, on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_not_equal(b->id, first);
}

static void
count_jobs(void *ctx, const struct store_job *job)
{
    struct bench *b = ctx;

    assert_int_equal(job->events_seq, 3);
    assert_int_equal(job->pid, 4242);
    b->n++;
}

static void
test_store_survives_reopening(void **state)
{
    struct bench *b = *state;
    struct store_job job = make_job("a");
    struct script s = {0};
    struct err err;
    int64_t id = insert_job(b, "a");

    begin_attempt(b, id, 1);
    put_started(&s, "", "{}");
    put_step(&s, 1, false);
    put_step(&s, 1, false);
    ingest(b, id, 1, &s);
    job.view.id = id;
    job.view.state = "running";
    job.view.attempt = 1;
    store_update_job(b->store, &job, -1, "state", "", on_done, b);
    settle(b);
    assert_int_equal(b->rc, 0);
    close_store(b);
    open_store(b);
    b->n = 0;
    err_clear(&err);
    assert_int_equal(store_load_jobs(b->store, count_jobs, b, &err), 0);
    assert_int_equal(b->n, 1);
}

static int
open_with(struct bench *b, struct store_options options, struct err *err)
{
    struct store *store = NULL;
    int rc;

    options.path = b->path;
    options.commit_interval_ms = 5;
    err_clear(err);
    rc = store_open(&options, &b->loop, &store, err);
    if (rc == 0) {
        store_close(&store);
        uv_run(&b->loop, UV_RUN_DEFAULT);
    }
    return rc;
}

static void
test_store_refuses_network_file_systems(void **state)
{
    static const struct {
        int64_t magic;
        int rc;
        const char *word;
    } cases[] = {
        {0x6969, ERR_CONFIG, "NFS"},
        {0xFF534D42, ERR_CONFIG, "CIFS"},
        {0xFE534D42, ERR_CONFIG, "SMB2"},
        {0x0BD00BD0, ERR_CONFIG, "Lustre"},
        {0x65735546, 0, NULL},
        {0xEF53, 0, NULL},
    };
    struct bench *b = *state;
    struct err err;

    close_store(b);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct store_options options = {.fs_magic_override = cases[i].magic};

        assert_int_equal(open_with(b, options, &err), cases[i].rc);
        if (cases[i].word != NULL) {
            assert_non_null(strstr(err.msg, cases[i].word));
            assert_non_null(strstr(err.msg, b->dir));
        }
        options.allow_network_fs = true;
        assert_int_equal(open_with(b, options, &err), 0);
    }
    open_store(b);
}

static void
test_store_refuses_newer_foreign_and_corrupt_files(void **state)
{
    struct bench *b = *state;
    struct store_options options = {0};
    struct err err;
    sqlite3 *db;
    FILE *f;

    close_store(b);
    assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
    sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(open_with(b, options, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "newer"));

    unlink(b->path);
    assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
    sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(open_with(b, options, &err), ERR_CONFIG);

    f = fopen(b->path, "w");
    assert_non_null(f);
    for (int i = 0; i < 5000; i++)
        fputs("this is no database ", f);
    fclose(f);
    assert_int_equal(open_with(b, options, &err), ERR_IO);
    f = fopen(b->path, "r");
    assert_int_equal(fgetc(f), 't'); /* left as it was */
    fclose(f);
    unlink(b->path);
    open_store(b);
}

static void
test_store_page_limit_says_more(void **state)
{
    struct bench *b = *state;
    int64_t job = insert_job(b, "a");
    struct script s = {0};
    struct view_query q;

    begin_attempt(b, job, 1);
    put_started(&s, "", "{}");
    ingest(b, job, 1, &s);
    for (int chunk = 0; chunk < 11; chunk++) {
        s.len = 0;
        for (int i = 0; i < 100; i++)
            put_step(&s, 1, false);
        ingest(b, job, 1, &s);
    }
    query(b, MESSAGE_ID_metrics, job, false, 0, on_metrics);
    assert_int_equal(b->n, 1000);
    assert_true(b->more);
    view_init(VIEW_ID_query, &q);
    q.after_row = 1000; /* rows are numbered from 1 in a fresh database */
    store_query(b->store, MESSAGE_ID_metrics, job, &q, on_metrics, b);
    settle(b);
    assert_int_equal(b->n, 100);
    assert_false(b->more);
    query(b, MESSAGE_ID_metrics, job, false, 50, on_metrics);
    assert_int_equal(b->n, 50);
    assert_int_equal(b->metric[0].n, 22);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_store_ingest_twice_stores_once),
        TEST(test_store_ingest_tells_nan_and_inf_apart),
        TEST(test_store_ingest_bad_line_does_not_stop_the_rest),
        TEST(test_store_later_attempt_abandons_rows_beyond_its_start),
        TEST(test_store_full_disk_leaves_room_to_write_that_down),
        TEST(test_store_hostile_events_do_not_stop_the_rest),
        TEST(test_store_thinning_has_a_bound),
        TEST(test_store_best_is_of_the_live_line),
        TEST(test_store_going_back_to_an_abandoned_line_revives_it),
        TEST(test_store_final_job_never_changes),
        TEST(test_store_find_latest_by_name_and_nobody),
        TEST(test_store_same_key_gives_the_same_job),
        TEST(test_store_survives_reopening),
        TEST(test_store_refuses_network_file_systems),
        TEST(test_store_refuses_newer_foreign_and_corrupt_files),
        TEST(test_store_page_limit_says_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
