/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as rows, and the file they are in. */
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
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/unit/store_bench.h"

static off_t
size_of(const struct store_bench *b, const char *name)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof(path), "%s/small/%s", b->dir, name);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static void
fill_disk(const struct store_bench *b)
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
insert_large(struct store_bench *b)
{
    static char spec[200000];
    struct store_job job = store_bench_make_job("large");

    memset(spec, 'x', sizeof(spec) - 1);
    job.spec = spec;
    store_insert_job(b->store, &job, store_bench_on_done, b);
    store_bench_settle(b);
}

static void
on_small_disk(struct store_bench *b)
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
        store_bench_insert_job(b, "later");
        usleep(100000);
    }
    assert_int_equal(size_of(b, "traind.db-ballast"), whole);
}

static void
test_store_full_disk_leaves_room_to_write_that_down(void **state)
{
    struct store_bench *b = *state;
    char small[96];

    store_bench_close(b);
    snprintf(small, sizeof(small), "%s/small", b->dir);
    assert_int_equal(mkdir(small, 0700), 0);
    if (mount("none", small, "tmpfs", 0, "size=16m") != 0) {
        store_bench_open(b);
        skip();
    }
    snprintf(b->path, sizeof(b->path), "%s/traind.db", small);
    on_small_disk(b);
    store_bench_close(b);
    assert_int_equal(umount(small), 0);
    snprintf(b->path, sizeof(b->path), "%s/traind.db", b->dir);
    store_bench_open(b);
}

static void
on_found(void *ctx, int rc, const void *items, int n, bool more,
         const struct err *err)
{
    struct store_bench *b = ctx;

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
    struct store_bench *b = *state;
    struct store_job job = store_bench_make_job("a");
    int64_t id = store_bench_insert_job(b, "a");

    job.view.id = id;
    job.view.state = "completed";
    job.view.iteration = job.view.updates = 5;
    store_update_job(b->store, &job, NULL, -1, "state", "done",
                     store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    job.view.state = "failed";
    store_update_job(b->store, &job, NULL, -1, "state", "no",
                     store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, ERR_STATE);
    store_find_job(b->store, id, on_found, b);
    store_bench_settle(b);
    assert_int_equal(b->n, 1);
    assert_string_equal(b->name[0], "completed");
    assert_int_equal(b->job.view.updates, 5);
    assert_true(isnan(b->job.view.accuracy));
}

static void
test_store_find_latest_by_name_and_nobody(void **state)
{
    struct store_bench *b = *state;

    store_bench_insert_job(b, "a");
    store_bench_insert_job(b, "b");
    store_find_latest(b->store, 1000, NULL, on_found, b);
    store_bench_settle(b);
    assert_string_equal(b->name[1], "b");
    store_find_latest(b->store, 1000, "a", on_found, b);
    store_bench_settle(b);
    assert_string_equal(b->name[1], "a");
    store_find_latest(b->store, 1001, NULL, on_found, b);
    store_bench_settle(b);
    assert_int_equal(b->n, 0);
    store_find_job(b->store, 0, on_found, b);
    store_bench_settle(b);
    assert_int_equal(b->n, 0);
}

static void
test_store_same_key_gives_the_same_job(void **state)
{
    struct store_bench *b = *state;
    struct store_job job = store_bench_make_job("a");
    int64_t first;

    job.idempotency_key = "k1";
    store_insert_job(b->store, &job, store_bench_on_done, b);
    store_bench_settle(b);
    first = b->id;
    store_insert_job(b->store, &job, store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, ERR_EXISTS);
    assert_int_equal(b->id, first);
    job.view.uid = 1001;
    store_insert_job(b->store, &job, store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    assert_int_not_equal(b->id, first);
}

static void
count_jobs(void *ctx, const struct store_job *job)
{
    struct store_bench *b = ctx;

    assert_int_equal(job->events_seq, 3);
    assert_int_equal(job->pid, 4242);
    b->n++;
}

static void
test_store_survives_reopening(void **state)
{
    struct store_bench *b = *state;
    struct store_job job = store_bench_make_job("a");
    struct store_bench_script s = {0};
    struct err err;
    int64_t id = store_bench_insert_job(b, "a");

    store_bench_begin_attempt(b, id, 1);
    store_bench_put_started(&s, "", "{}");
    store_bench_put_step(&s, 1, false);
    store_bench_put_step(&s, 1, false);
    store_bench_ingest(b, id, 1, &s);
    job.view.id = id;
    job.view.state = "running";
    job.view.attempt = 1;
    store_update_job(b->store, &job, NULL, -1, "state", "", store_bench_on_done,
                     b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    store_bench_close(b);
    store_bench_open(b);
    b->n = 0;
    err_clear(&err);
    assert_int_equal(store_load_jobs(b->store, count_jobs, b, &err), 0);
    assert_int_equal(b->n, 1);
}

static int
open_with(struct store_bench *b, struct store_options options, struct err *err)
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
    struct store_bench *b = *state;
    struct err err;

    store_bench_close(b);
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
    store_bench_open(b);
}

static void
test_store_refuses_newer_foreign_and_corrupt_files(void **state)
{
    struct store_bench *b = *state;
    struct store_options options = {0};
    struct err err;
    sqlite3 *db;
    FILE *f;

    store_bench_close(b);
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
    store_bench_open(b);
}

struct watched {
    int commits, troubles, code;
    struct store_commit last;
};

static void
on_commit(void *ctx, const struct store_commit *commit)
{
    struct watched *w = ctx;

    w->commits++;
    w->last = *commit;
}

static void
on_trouble(void *ctx, int code)
{
    struct watched *w = ctx;

    w->troubles++;
    w->code = code;
}

static void
test_store_tells_of_commits_and_troubles(void **state)
{
    struct store_bench *b = *state;
    struct watched w = {0};
    const struct store_options options = {.path = b->path,
                                          .commit_interval_ms = 5,
                                          .watch = {on_commit, on_trouble, &w}};
    struct err err;
    sqlite3 *db;

    store_bench_close(b);
    assert_int_equal(store_open(&options, &b->loop, &b->store, &err), 0);
    store_bench_insert_job(b, "one");
    assert_int_equal(w.commits, 1);
    assert_true(w.last.seconds > 0 && w.last.seconds < 60);
    assert_true(w.last.db_bytes > 0 && w.last.wal_bytes > 0);
    /* A call that makes no sense is no trouble. */
    store_mark_checkpoint(b->store, 4711, "bad", store_bench_on_done, b);
    store_bench_settle(b);
    assert_int_equal(w.troubles, 0);
    assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE event", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    insert_large(b);
    assert_int_not_equal(b->rc, 0);
    assert_int_equal(w.troubles, 1);
    assert_int_equal(w.code, b->rc);
}

static void
add_count(void *ctx, const char *state, int64_t n)
{
    struct store_bench *b = ctx;

    snprintf(b->name[b->n], sizeof(b->name[b->n]), "%s %d", state, (int)n);
    b->n++;
}

static void
test_store_counts_final_jobs(void **state)
{
    static const char *const states[] = {"completed", "failed", "failed"};
    struct store_bench *b = *state;
    struct err err;

    store_bench_insert_job(b, "waits");
    for (int i = 0; i < 3; i++) {
        struct store_job job = store_bench_make_job("ends");

        job.view.id = store_bench_insert_job(b, "ends");
        job.view.state = states[i];
        store_update_job(b->store, &job, NULL, -1, states[i], "",
                         store_bench_on_done, b);
        store_bench_settle(b);
        assert_int_equal(b->rc, 0);
    }
    b->n = 0;
    assert_int_equal(store_count_final(b->store, add_count, b, &err), 0);
    assert_int_equal(b->n, 2);
    assert_string_equal(b->name[0], "completed 1");
    assert_string_equal(b->name[1], "failed 2");
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, store_bench_setup, store_bench_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_store_full_disk_leaves_room_to_write_that_down),
        TEST(test_store_final_job_never_changes),
        TEST(test_store_find_latest_by_name_and_nobody),
        TEST(test_store_same_key_gives_the_same_job),
        TEST(test_store_survives_reopening),
        TEST(test_store_refuses_network_file_systems),
        TEST(test_store_tells_of_commits_and_troubles),
        TEST(test_store_counts_final_jobs),
        TEST(test_store_refuses_newer_foreign_and_corrupt_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
