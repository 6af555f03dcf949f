/* SPDX-License-Identifier: Apache-2.0 */
/* events.jsonl into a store in memory: torn, hostile and repeated files. */
#include "daemon/ingest.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/codec.h"

static struct {
    uv_loop_t loop;
    struct store *store;
    struct ingest *ingest;
    char path[64];
    int64_t job;
    int n_events, n_replayed, n_drained, n_broken;
    int64_t last_iteration;
    char why[ERR_SENTENCE_MAX];
    bool stored;
} t;

static void
on_event(void *ctx, const struct event *event, bool replay)
{
    (void)ctx;
    t.n_events += !replay;
    t.n_replayed += replay;
    t.last_iteration = event->iteration;
}

static void
on_drained(void *ctx, const struct err *err)
{
    (void)ctx;
    assert_int_equal(err->code, 0);
    t.n_drained++;
}

static void
on_broken(void *ctx, const struct err *err)
{
    (void)ctx;
    t.n_broken++;
    snprintf(t.why, sizeof(t.why), "%s", err->msg);
}

static void
on_stored(void *ctx, int rc, int64_t id, const struct err *err)
{
    (void)ctx;
    (void)err;
    assert_int_equal(rc, 0);
    if (t.job == 0)
        t.job = id;
    t.stored = true;
}

static void
wait_stored(void)
{
    while (!t.stored)
        uv_run(&t.loop, UV_RUN_ONCE);
    t.stored = false;
}

static void
open_ingest(int64_t offset)
{
    const struct ingest_hooks hooks = {on_event, on_drained, on_broken, NULL};

    t.ingest =
        ingest_create(&t.loop, t.store, t.path, t.job, 1, offset, &hooks);
    assert_non_null(t.ingest);
}

static int
setup(void **ctx)
{
    const struct store_options o = {.path = ":memory:",
                                    .commit_interval_ms = 5};
    struct store_attempt a = {
        .attempt = 1, .pid = 9, .boot_id = "", .device = "cpu0"};
    struct store_job row = {0};
    struct err err;

    (void)ctx;
    memset(&t, 0, sizeof(t));
    snprintf(t.path, sizeof(t.path), "/tmp/traind-ingest-%d", (int)getpid());
    unlink(t.path);
    uv_loop_init(&t.loop);
    if (store_open(&o, &t.loop, &t.store, &err) != 0)
        return -1;
    view_init(VIEW_ID_job, &row.view);
    row.view.state = "running";
    row.spec = row.idempotency_key = row.origin = row.intent = row.boot_id = "";
    store_insert_job(t.store, &row, on_stored, NULL);
    wait_stored();
    a.job = t.job;
    store_begin_attempt(t.store, &a, on_stored, NULL);
    wait_stored();
    open_ingest(0);
    return 0;
}

static int
teardown(void **ctx)
{
    (void)ctx;
    ingest_destroy(&t.ingest);
    store_close(&t.store);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    unlink(t.path);
    return uv_loop_close(&t.loop);
}

static void
append(const char *text, size_t len)
{
    int fd = open(t.path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static char *
make_step(int64_t seq, size_t *len)
{
    struct event e = {
        .kind = EVENT_STEP, .seq = seq, .iteration = seq, .updates = seq};
    char *line = codec_write_event(&e, len);

    assert_non_null(line);
    return line;
}

static void
append_steps(int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        size_t len;
        char *line = make_step(i, &len);

        append(line, len);
        append("\n", 1);
        free(line);
    }
}

static void
run_until(const int *counter, int n)
{
    while (*counter < n)
        uv_run(&t.loop, UV_RUN_ONCE);
}

static int n_rows;

static void
on_rows(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    (void)ctx;
    (void)items;
    (void)more;
    (void)err;
    assert_int_equal(rc, 0);
    n_rows = n;
}

static int
count_metrics(void)
{
    struct view_query all;

    n_rows = -1;
    view_init(VIEW_ID_query, &all);
    store_query(t.store, MESSAGE_ID_metrics, t.job, &all, on_rows, NULL);
    while (n_rows < 0)
        uv_run(&t.loop, UV_RUN_ONCE);
    return n_rows;
}

static void
test_ingest_reads_what_appears(void **ctx)
{
    (void)ctx;
    ingest_poll(t.ingest); /* no file yet: nothing */
    append_steps(1, 10);
    ingest_poll(t.ingest);
    run_until(&t.n_events, 10);
    append_steps(11, 12);
    ingest_poll(t.ingest);
    run_until(&t.n_events, 12);
    assert_int_equal(count_metrics(), 12);
    assert_int_equal(t.n_broken, 0);
}

static void
test_ingest_leaves_a_torn_line(void **ctx)
{
    char *line;
    size_t len;

    (void)ctx;
    append_steps(1, 3);
    line = make_step(4, &len);
    append(line, len / 2);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_events, 3);
    assert_int_equal(count_metrics(), 3);
    free(line);
}

static void
test_ingest_continues_a_line(void **ctx)
{
    char *line;
    size_t len;

    (void)ctx;
    line = make_step(1, &len);
    append(line, len / 2);
    ingest_poll(t.ingest);
    append(line + len / 2, len - len / 2);
    append("\n", 1);
    ingest_poll(t.ingest);
    run_until(&t.n_events, 1);
    assert_int_equal(count_metrics(), 1);
    free(line);
}

static void
test_ingest_passes_over_garbage(void **ctx)
{
    static const char noise[] = "not json\n\n{\"kind\":\"step\"}\n"
                                "\xff\xfe\0x\n";

    (void)ctx;
    append_steps(1, 1);
    append(noise, sizeof(noise) - 1);
    append_steps(2, 2);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_events, 2);
    assert_int_equal(count_metrics(), 2);
    assert_int_equal(t.n_broken, 0);
}

static void
test_ingest_repeats_store_nothing_twice(void **ctx)
{
    struct stat st;

    (void)ctx;
    append_steps(1, 50);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    /* A daemon that died before it knew of the commit begins again at 0. */
    ingest_destroy(&t.ingest);
    t.n_drained = 0;
    open_ingest(0);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(count_metrics(), 50);
    /* And one that knew hands out the last ones for their numbers only. */
    ingest_destroy(&t.ingest);
    assert_int_equal(stat(t.path, &st), 0);
    open_ingest(st.st_size);
    t.last_iteration = 0;
    ingest_rewind(t.ingest);
    assert_int_equal(t.n_replayed, 50);
    assert_int_equal(t.last_iteration, 50);
    assert_int_equal(count_metrics(), 50);
}

static void
test_ingest_many_pieces(void **ctx)
{
    (void)ctx;
    append_steps(1, 6000); /* more than one piece */
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_events, 6000);
}

static void
test_ingest_refuses_an_endless_line(void **ctx)
{
    char *blob = malloc(1 << 20);

    (void)ctx;
    append_steps(1, 1);
    memset(blob, 'x', 1 << 20);
    for (int i = 0; i < 5; i++)
        append(blob, 1 << 20);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_broken, 1);
    assert_int_equal(t.n_events, 1);
    assert_non_null(strstr(t.why, "more than"));
    free(blob);
}

static void
test_ingest_follows_no_link(void **ctx)
{
    (void)ctx;
    assert_int_equal(symlink("/etc/passwd", t.path), 0);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_broken, 1);
    assert_int_equal(t.n_events, 0);
}

static void
test_ingest_reads_no_second_name(void **ctx)
{
    char other[80];

    (void)ctx;
    append_steps(1, 1);
    snprintf(other, sizeof(other), "%s-other", t.path);
    assert_int_equal(link(t.path, other), 0);
    ingest_drain(t.ingest);
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_broken, 1);
    assert_int_equal(t.n_events, 0);
    unlink(other);
}

static void
test_ingest_wants_a_regular_file(void **ctx)
{
    (void)ctx;
    assert_int_equal(mkfifo(t.path, 0600), 0);
    ingest_drain(t.ingest); /* and does not hang on it */
    run_until(&t.n_drained, 1);
    assert_int_equal(t.n_broken, 1);
    assert_non_null(strstr(t.why, "regular"));
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_ingest_reads_what_appears),
        ON_STAGE(test_ingest_leaves_a_torn_line),
        ON_STAGE(test_ingest_continues_a_line),
        ON_STAGE(test_ingest_passes_over_garbage),
        ON_STAGE(test_ingest_repeats_store_nothing_twice),
        ON_STAGE(test_ingest_many_pieces),
        ON_STAGE(test_ingest_refuses_an_endless_line),
        ON_STAGE(test_ingest_follows_no_link),
        ON_STAGE(test_ingest_reads_no_second_name),
        ON_STAGE(test_ingest_wants_a_regular_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
