/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of schema versions 1 and 2 (tests/support/schema_N.sql, as they
 * were made then) are brought up and go on; metrics and confusion tables in
 * them. */
#include "daemon/store.h"

#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/store_bench.h"

/* ---- an old database ------------------------------------------------------*/

static const char old_rows[] =
    "INSERT INTO job VALUES (1,1000,'u','old','{}','','test','running','','',"
    "0,1,'cpu','float32',1,2,0,3,2,1,10,5,1.5,1024,0.1,2.0,0.7,0.8,0.9,1.0,"
    "2.0,'',0,0,0,-1,'','/jobs/1',0,0);"
    "INSERT INTO attempt VALUES (1,1,'running','',0,3,'{}',0,4242,7,'boot',"
    "'cpu',2,0,'',0,3);"
    "INSERT INTO scale_event VALUES (1,1,1,2,2,1,1,1,'skip',2048,1024,0,"
    "'[7,9]',5);"
    "INSERT INTO evaluation VALUES (1,1,1,3,3,2,1,1,0.7,0,0.8,100,0,1,6);"
    "PRAGMA application_id = 1953656420; PRAGMA user_version = 1;";
/* In version 2, with what only a rollback's row shows. */
static const char rows_2[] =
    "INSERT INTO job VALUES (1,1000,'u','old','{}','','test','running','','',"
    "0,1,'cpu','float32',1,2,0,3,2,1,10,5,1.5,1024,0.1,2.0,0.7,0.8,0.9,1.0,"
    "2.0,'',0,0,0,-1,'','/jobs/1',0,0,0.5,2.5);"
    "INSERT INTO attempt VALUES (1,1,'running','',0,3,'{}',0,4242,7,'boot',"
    "'cpu',2,0,'',0,3);"
    "INSERT INTO checkpoint VALUES (7,1,'it000000002-a1',1,2,1,1,1,'good',"
    "'periodic',0,NULL,100,'00',4);"
    "INSERT INTO rollback VALUES (3,1,1000,7,3,2,'by a person',9);"
    "INSERT INTO incident VALUES (5,1,1,2,2,1,1,1,1,1,'forward','fc1',"
    "'linear','fc1.out','float16','[0,1]','nan',2048,0,4,'',5);"
    "PRAGMA application_id = 1953656420; PRAGMA user_version = 2;";

static void
run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(db);
}

static void
make_version(struct store_bench *b, const char *file, const char *rows)
{
    static char schema[16384];
    FILE *f = fopen(file, "r");

    assert_non_null(f);
    const size_t n = fread(schema, 1, sizeof(schema) - 1, f);
    fclose(f);
    assert_true(n > 0 && n < sizeof(schema) - 1);
    schema[n] = '\0';
    store_bench_close(b);
    unlink(b->path);
    run_sql(b->path, schema);
    run_sql(b->path, rows);
}

static void
make_old(struct store_bench *b)
{
    make_version(b, "tests/support/schema_1.sql", old_rows);
}

/* Name, type and default of each column of each table, in order. */
static void
describe(const char *path, char *text, size_t size)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    size_t n = 0;

    text[0] = '\0';
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "SELECT m.name, c.name, c.type, c.\"notnull\","
                           " c.dflt_value FROM sqlite_schema AS m,"
                           " pragma_table_info(m.name) AS c"
                           " WHERE m.type = 'table' ORDER BY m.name, c.cid",
                           -1, &stmt, NULL),
        SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (int i = 0; i < 5; i++) {
            const char *cell = (const char *)sqlite3_column_text(stmt, i);
            n += (size_t)snprintf(text + n, size - n, "%s ",
                                  cell != NULL ? cell : "-");
        }
        n += (size_t)snprintf(text + n, size - n, "\n");
        assert_true(n < size);
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/* ---- rows -----------------------------------------------------------------*/

struct seen {
    int calls, n;
    struct view_evaluation evaluation[4];
    int64_t cell[4][9];
    struct view_scale scale[4];
    char held[4][32];
};

static void
on_evaluations(void *ctx, int rc, const void *items, int n, bool more,
               const struct err *err)
{
    struct store_bench *b = ctx;
    struct seen *seen = b->seen;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    b->calls++;
    seen->n = n;
    for (int i = 0; i < n && i < 4; i++) {
        const struct view_evaluation *e = (const struct view_evaluation *)items;
        seen->evaluation[i] = e[i];
        for (int k = 0; k < e[i].confusion.n && k < 9; k++)
            seen->cell[i][k] = e[i].confusion.v[k];
    }
}

static void
on_scales(void *ctx, int rc, const void *items, int n, bool more,
          const struct err *err)
{
    struct store_bench *b = ctx;
    struct seen *seen = b->seen;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    b->calls++;
    seen->n = n;
    for (int i = 0; i < n && i < 4; i++) {
        seen->scale[i] = ((const struct view_scale *)items)[i];
        snprintf(seen->held[i], sizeof(seen->held[i]), "%s",
                 seen->scale[i].optimizers);
    }
}

static void
ask(struct store_bench *b, enum message_id what, bool confusion,
    struct seen *seen)
{
    struct view_query q;

    view_init(VIEW_ID_query, &q);
    q.confusion = confusion;
    memset(seen, 0, sizeof(*seen));
    b->seen = seen;
    store_query(b->store, what, 1, &q,
                what == MESSAGE_ID_evaluations ? on_evaluations : on_scales, b);
    store_bench_settle(b);
}

/* What only version 2 can keep. */
static void
ingest_new(struct store_bench *b)
{
    static const int64_t table[] = {5, 1, 0, 4};
    struct store_bench_script s = {
        .seq = 3, .iteration = 3, .updates = 2, .skips = 1};
    struct event e = {.kind = EVENT_SCALE};

    store_bench_put_step(&s, 1.0, false);
    e.u.scale.cause = EVENT_SCALE_SKIP;
    e.u.scale.before = 1024;
    e.u.scale.after = 512;
    e.u.scale.partial = true;
    e.u.scale.optimizers = "1 adam";
    store_bench_put_event(&s, &e);
    e = (struct event){.kind = EVENT_EVALUATION};
    e.u.evaluation.loss = 1000;
    e.u.evaluation.accuracy = 0.9;
    e.u.evaluation.top_k = 1.0;
    e.u.evaluation.perplexity = INFINITY;
    e.u.evaluation.n = 10;
    e.u.evaluation.ema = true;
    e.u.evaluation.n_classes = 2;
    e.u.evaluation.confusion = table;
    store_bench_put_event(&s, &e);
    store_bench_ingest(b, 1, 1, &s);
}

static void
test_store_migrate_from_1(void **state)
{
    struct store_bench *b = *state;
    static struct seen seen;

    make_old(b);
    store_bench_open(b);
    ask(b, MESSAGE_ID_evaluations, true, &seen);
    assert_int_equal(seen.n, 1);
    assert_true(seen.evaluation[0].accuracy == 0.8);
    assert_true(isnan(seen.evaluation[0].top_k));
    assert_true(isnan(seen.evaluation[0].perplexity));
    assert_false(seen.evaluation[0].ema);
    assert_int_equal(seen.evaluation[0].confusion.n, 0);
    ask(b, MESSAGE_ID_skips, false, &seen);
    assert_int_equal(seen.n, 1);
    assert_false(seen.scale[0].partial);
    assert_string_equal(seen.held[0], "");

    ingest_new(b);
    ask(b, MESSAGE_ID_evaluations, true, &seen);
    assert_int_equal(seen.n, 2);
    assert_true(seen.evaluation[1].top_k == 1.0);
    assert_true(isinf(seen.evaluation[1].perplexity));
    assert_true(seen.evaluation[1].ema);
    assert_int_equal(seen.evaluation[1].confusion.n, 4);
    assert_int_equal(seen.cell[1][0], 5);
    assert_int_equal(seen.cell[1][3], 4);
    ask(b, MESSAGE_ID_evaluations, false, &seen);
    assert_int_equal(seen.evaluation[1].confusion.n, 0);
    ask(b, MESSAGE_ID_skips, false, &seen);
    assert_int_equal(seen.n, 2);
    assert_true(seen.scale[1].partial);
    assert_string_equal(seen.held[1], "1 adam");
    /* Once is enough. */
    store_bench_close(b);
    store_bench_open(b);
    ask(b, MESSAGE_ID_evaluations, false, &seen);
    assert_int_equal(seen.n, 2);
}

struct seen_rows {
    int n;
    struct view_went_back went_back;
    struct view_incident incident;
    char checkpoint[64], verdict[32], trigger[16], regions[32];
    int64_t sample;
};

static void
on_went_back(void *ctx, int rc, const void *items, int n, bool more,
             const struct err *err)
{
    struct store_bench *b = ctx;
    struct seen_rows *seen = b->seen;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    b->calls++;
    seen->n = n;
    seen->went_back = *(const struct view_went_back *)items;
    snprintf(seen->checkpoint, sizeof(seen->checkpoint), "%s",
             seen->went_back.checkpoint);
}

static void
on_incident(void *ctx, int rc, const void *items, int n, bool more,
            const struct err *err)
{
    struct store_bench *b = ctx;
    struct seen_rows *seen = b->seen;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    b->calls++;
    seen->n = n;
    if (n == 0)
        return;
    seen->incident = *(const struct view_incident *)items;
    snprintf(seen->verdict, sizeof(seen->verdict), "%s",
             seen->incident.verdict);
    snprintf(seen->trigger, sizeof(seen->trigger), "%s",
             seen->incident.trigger);
    snprintf(seen->regions, sizeof(seen->regions), "%s",
             seen->incident.regions);
    seen->sample =
        seen->incident.samples.n > 0 ? seen->incident.samples.v[0] : -1;
}

/* Rollbacks keep their numbers, and new ones may lead to the start. */
static void
test_store_migrate_from_2(void **state)
{
    struct store_bench *b = *state;
    static struct seen_rows seen;
    struct view_query q;
    struct store_job job = store_bench_make_job("old");
    struct store_rollback r = {.job = 1,
                               .attempt = 1,
                               .uid = -1,
                               .from_iteration = 3,
                               .cause = "guard: verdict",
                               .change = "{}",
                               .difference = "dtype",
                               .policy_changed = true};

    make_version(b, "tests/support/schema_2.sql", rows_2);
    store_bench_open(b);
    b->seen = &seen;
    job.view.id = 1;
    view_init(VIEW_ID_query, &q);
    store_query(b->store, MESSAGE_ID_rollbacks, 1, &q, on_went_back, b);
    store_bench_settle(b);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.went_back.row, 3);
    assert_string_equal(seen.checkpoint, "it000000002-a1");
    assert_false(seen.went_back.policy_changed);
    store_update_job(b->store, &job, &r, -1, "queued", "", store_bench_on_done,
                     b);
    store_bench_settle(b);
    assert_int_equal(b->rc, 0);
    q.after_row = 3;
    store_query(b->store, MESSAGE_ID_rollbacks, 1, &q, on_went_back, b);
    store_bench_settle(b);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.went_back.row, 4);
    assert_int_equal(seen.went_back.to_iteration, 0);
    assert_int_equal(seen.went_back.uid, -1);
    assert_true(seen.went_back.policy_changed);
    assert_string_equal(seen.checkpoint, "");
    /* A checkpoint of nobody is refused, and nothing is written. */
    r.checkpoint = 99;
    store_update_job(b->store, &job, &r, -1, "queued", "", store_bench_on_done,
                     b);
    store_bench_settle(b);
    assert_int_equal(b->rc, ERR_NOTFOUND);
    store_find_incident(b->store, 5, on_incident, b);
    store_bench_settle(b);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.verdict, "");
    assert_string_equal(seen.trigger, "skip");
    assert_int_equal(seen.incident.data_position, -1);
    store_find_incident(b->store, 6, on_incident, b);
    store_bench_settle(b);
    assert_int_equal(seen.n, 0);
}

/* All that an incident says comes back, and a pruned one loses its place. */
static void
test_store_keeps_incidents(void **state)
{
    static const int64_t samples[] = {7, 9};
    struct store_bench *b = *state;
    static struct seen_rows seen;
    static struct store_bench_script s;
    const int64_t job = store_bench_insert_job(b, "j");
    struct event e = {.kind = EVENT_INCIDENT};

    store_bench_begin_attempt(b, job, 1);
    store_bench_put_started(&s, "", "{\"dtype\":\"float16\"}");
    store_bench_put_step(&s, 1.0, true);
    e.u.incident.replayed = e.u.incident.located = true;
    e.u.incident.verdict = EVENT_VERDICT_FORWARD_OVERFLOW;
    e.u.incident.trigger = EVENT_TRIGGER_LOSS;
    e.u.incident.layer = e.u.incident.op = e.u.incident.tensor = "x";
    e.u.incident.sentence = "s";
    e.u.incident.cure = "{}";
    e.u.incident.regions = "fc1, fc2";
    e.u.incident.finite_scale = (double)NAN;
    e.u.incident.has_fp32_value = true;
    e.u.incident.fp32_value = INFINITY;
    e.u.incident.samples = samples;
    e.u.incident.n_samples = 2;
    e.u.incident.n_guilty = 2;
    e.u.incident.name = "it000000001-a1";
    e.u.incident.kept_bytes = 10;
    store_bench_put_event(&s, &e);
    store_bench_ingest(b, job, 1, &s);
    b->seen = &seen;
    store_find_incident(b->store, 1, on_incident, b);
    store_bench_settle(b);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.verdict, "forward_overflow");
    assert_string_equal(seen.trigger, "loss");
    assert_string_equal(seen.regions, "fc1, fc2");
    assert_int_equal(seen.sample, 7);
    assert_int_equal(seen.incident.n_guilty, 2);
    assert_true(seen.incident.has_fp32_value);
    assert_true(isinf(seen.incident.fp32_value));
    assert_int_equal(seen.incident.kept_bytes, 10);
    memset(&s, 0, sizeof(s));
    s.seq = 9;
    s.iteration = s.skips = 1;
    e = (struct event){.kind = EVENT_INCIDENT_PRUNED};
    e.u.incident_pruned.name = "it000000001-a1";
    store_bench_put_event(&s, &e);
    store_bench_ingest(b, job, 1, &s);
    store_find_incident(b->store, 1, on_incident, b);
    store_bench_settle(b);
    assert_int_equal(seen.incident.kept_bytes, 0);
}

static void
test_store_migrated_is_as_new(void **state)
{
    struct store_bench *b = *state;
    static char fresh[32768], migrated[32768];

    describe(b->path, fresh, sizeof(fresh));
    assert_non_null(strstr(fresh, "evaluation confusion TEXT 1 '' "));
    make_old(b);
    store_bench_open(b);
    describe(b->path, migrated, sizeof(migrated));
    assert_string_equal(fresh, migrated);
    make_version(b, "tests/support/schema_2.sql", rows_2);
    store_bench_open(b);
    describe(b->path, migrated, sizeof(migrated));
    assert_string_equal(fresh, migrated);
}

/* Half a migration is none. */
static void
test_store_migrate_fails_whole(void **state)
{
    struct store_options options = {.commit_interval_ms = 5};
    struct store_bench *b = *state;
    static char before[32768], after[32768];
    struct err err;

    make_old(b);
    run_sql(b->path, "ALTER TABLE evaluation ADD COLUMN ema INTEGER");
    describe(b->path, before, sizeof(before));
    options.path = b->path;
    err_clear(&err);
    assert_true(store_open(&options, &b->loop, &b->store, &err) != 0);
    assert_null(b->store);
    assert_non_null(strstr(err.msg, "ema"));
    describe(b->path, after, sizeof(after));
    assert_string_equal(before, after);
    unlink(b->path);
    store_bench_open(b);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, store_bench_setup, store_bench_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_store_migrate_from_1),
        TEST(test_store_migrate_from_2),
        TEST(test_store_keeps_incidents),
        TEST(test_store_migrated_is_as_new),
        TEST(test_store_migrate_fails_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
