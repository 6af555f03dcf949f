/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, on the reader's thread. Each query copies its rows out at once, so
 * that no reader holds back the write-ahead log. */
#include "daemon/store_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PAGE_ROWS   1000
#define MOST_POINTS 10000 /* of a thinned curve; more fit no screen */

/* ---- jobs ----------------------------------------------------------------- */

#define JOB_SELECT                                                             \
    "SELECT id, uid, user, job.name, spec, idempotency_key, origin,"           \
    " submit_us, job.state, reason, intent, priority, job.attempt,"            \
    " job.device, dtype, job.start_us, job.end_us, iteration, updates,"        \
    " skips, total_iterations, iterations_per_epoch, loss, scale, lr,"         \
    " grad_norm, validation_loss, accuracy, best_accuracy,"                    \
    " iterations_per_s, eta_s, checkpoint, checkpoint_iteration, rollbacks,"   \
    " job.policy_changed OR coalesce((SELECT max(x.policy_changed) FROM"       \
    "  attempt AS x WHERE x.job = job.id), 0),"                                \
    " exit_code, error, directory, resume_checkpoint, lost_attempts,"          \
    " coalesce(pid, 0), coalesce(start_ticks, 0), coalesce(boot_id, ''),"      \
    " coalesce(events_offset, 0), coalesce(events_seq, 0), top_k,"             \
    " perplexity"                                                              \
    " FROM job LEFT JOIN attempt ON attempt.job = job.id"                      \
    " AND attempt.attempt = job.attempt "

const char *const store_job_select = JOB_SELECT "WHERE id = ?";

static void
read_job_view(struct store_op *op, sqlite3_stmt *s, struct view_job *v)
{
    v->id = sqlite3_column_int64(s, 0);
    v->uid = sqlite3_column_int64(s, 1);
    v->user = store_sql_text(op, s, 2);
    v->name = store_sql_text(op, s, 3);
    v->submit_us = sqlite3_column_int64(s, 7);
    v->state = store_sql_text(op, s, 8);
    v->reason = store_sql_text(op, s, 9);
    v->priority = sqlite3_column_int64(s, 11);
    v->attempt = sqlite3_column_int64(s, 12);
    v->device = store_sql_text(op, s, 13);
    v->dtype = store_sql_text(op, s, 14);
    v->start_us = sqlite3_column_int64(s, 15);
    v->end_us = sqlite3_column_int64(s, 16);
    v->iteration = sqlite3_column_int64(s, 17);
    v->updates = sqlite3_column_int64(s, 18);
    v->skips = sqlite3_column_int64(s, 19);
    v->total_iterations = sqlite3_column_int64(s, 20);
    v->iterations_per_epoch = sqlite3_column_int64(s, 21);
    v->loss = store_sql_real(s, 22);
    v->scale = store_sql_real(s, 23);
    v->lr = store_sql_real(s, 24);
    v->grad_norm = store_sql_real(s, 25);
    v->validation_loss = store_sql_real(s, 26);
    v->accuracy = store_sql_real(s, 27);
    v->best_accuracy = store_sql_real(s, 28);
    v->iterations_per_s = store_sql_real(s, 29);
    v->eta_s = store_sql_real(s, 30);
    v->checkpoint = store_sql_text(op, s, 31);
    v->checkpoint_iteration = sqlite3_column_int64(s, 32);
    v->rollbacks = sqlite3_column_int64(s, 33);
    v->policy_changed = sqlite3_column_int(s, 34) != 0;
    v->exit_code = sqlite3_column_int64(s, 35);
    v->error = store_sql_text(op, s, 36);
    v->directory = store_sql_text(op, s, 37);
    v->top_k = store_sql_real(s, 45);
    v->perplexity = store_sql_real(s, 46);
}

void
store_job_read(struct store_op *op, sqlite3_stmt *s, struct store_job *job)
{
    view_init(VIEW_ID_job, &job->view);
    read_job_view(op, s, &job->view);
    job->spec = store_sql_text(op, s, 4);
    job->idempotency_key = store_sql_text(op, s, 5);
    job->origin = store_sql_text(op, s, 6);
    job->intent = store_sql_text(op, s, 10);
    job->resume_checkpoint = sqlite3_column_int64(s, 38);
    job->lost_attempts = sqlite3_column_int64(s, 39);
    job->pid = sqlite3_column_int64(s, 40);
    job->start_ticks = sqlite3_column_int64(s, 41);
    job->boot_id = store_sql_text(op, s, 42);
    job->events_offset = sqlite3_column_int64(s, 43);
    job->events_seq = sqlite3_column_int64(s, 44);
}

struct list_args {
    int64_t uid, after, limit;
    bool all;
};

static void
run_list_jobs(struct store_op *op, struct store_conn *conn)
{
    const struct list_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        JOB_SELECT "WHERE id > ? AND (? < 0 OR uid = ?) AND (? OR job.state"
                   " NOT IN ('completed','failed','cancelled','interrupted'))"
                   " ORDER BY id LIMIT ?");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "iiiii", a->after, a->uid, a->uid, (int64_t)a->all,
                   a->limit + 1);
    while (store_sql_row(op, stmt)) {
        struct view_job *v;

        if (rows.n == a->limit) {
            op->more = true;
            sqlite3_reset(stmt);
            break;
        }
        v = store_rows_add(op, &rows, sizeof(*v));
        view_init(VIEW_ID_job, v);
        read_job_view(op, stmt, v);
    }
}

void
store_list_jobs(struct store *store, int64_t uid, const struct view_list *list,
                store_rows_fn *done, void *ctx)
{
    struct store_op *op =
        store_op_create(run_list_jobs, sizeof(struct list_args));
    struct list_args *args = op->args;

    args->uid = uid;
    args->after = list->after;
    args->limit =
        list->limit > 0 && list->limit < PAGE_ROWS ? list->limit : PAGE_ROWS;
    args->all = list->all;
    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

struct find_args {
    int64_t id, uid;
    const char *name; /* NULL: any */
};

static void
run_find(struct store_op *op, struct store_conn *conn)
{
    const struct find_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *stmt;

    if (a->id > 0) {
        stmt = store_sql_prepare(op, conn, store_job_select);
        if (stmt == NULL)
            return;
        store_sql_bind(stmt, "i", a->id);
    } else {
        stmt = store_sql_prepare(op, conn,
                                 JOB_SELECT
                                 "WHERE uid = ?1 AND (?2 = '' OR job.name = ?2)"
                                 " ORDER BY id DESC LIMIT 1");
        if (stmt == NULL)
            return;
        store_sql_bind(stmt, "is", a->uid, a->name);
    }
    if (store_sql_row(op, stmt)) {
        struct store_job *job = store_rows_add(op, &rows, sizeof(*job));

        store_job_read(op, stmt, job);
        sqlite3_reset(stmt);
    }
}

static void
submit_find(struct store *store, int64_t id, int64_t uid, const char *name,
            store_rows_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_find, sizeof(struct find_args));
    struct find_args *args = op->args;

    args->id = id;
    args->uid = uid;
    args->name = store_op_copy(op, name);
    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

void
store_find_job(struct store *store, int64_t id, store_rows_fn *done, void *ctx)
{
    /* Ids are positive; anything else is no job rather than "the latest". */
    submit_find(store, id > 0 ? id : INT64_MAX, 0, "", done, ctx);
}

void
store_find_latest(struct store *store, int64_t uid, const char *name,
                  store_rows_fn *done, void *ctx)
{
    submit_find(store, 0, uid, name, done, ctx);
}

/* ---- history -------------------------------------------------------------- */

struct query_args {
    int64_t job, from, to, max_points, after_row;
    bool all_lines, confusion;
};

/* Rows of one job in the order of (iteration, row), after a given row. */
#define WHERE_PAGE(table)                                                      \
    " WHERE job = ?1 AND (?2 OR live = 1) AND iteration BETWEEN ?3 AND ?4"     \
    " AND (?5 = 0 OR (iteration, id) > ((SELECT iteration FROM " table         \
    " WHERE id = ?5), ?5)) "
#define ORDER_PAGE " ORDER BY iteration, id LIMIT ?6"

static sqlite3_stmt *
open_page(struct store_op *op, struct store_conn *conn, const char *sql,
          int64_t limit)
{
    const struct query_args *a = op->args;
    sqlite3_stmt *stmt = store_sql_prepare(op, conn, sql);

    if (stmt != NULL)
        store_sql_bind(stmt, "iiiiii", a->job, (int64_t)a->all_lines, a->from,
                       a->to, a->after_row, limit);
    return stmt;
}

/* One more row, unless the page is full. */
static bool
page_row(struct store_op *op, sqlite3_stmt *stmt, const struct store_rows *rows)
{
    if (!store_sql_row(op, stmt))
        return false;
    if (rows->n < PAGE_ROWS)
        return true;
    op->more = true;
    sqlite3_reset(stmt);
    return false;
}

static void
read_metric(sqlite3_stmt *s, struct view_metric *v)
{
    view_init(VIEW_ID_metric, v);
    v->row = sqlite3_column_int64(s, 0);
    v->iteration = sqlite3_column_int64(s, 1);
    v->updates = sqlite3_column_int64(s, 2);
    v->attempt = sqlite3_column_int64(s, 3);
    v->live = sqlite3_column_int(s, 4) != 0;
    v->skipped = sqlite3_column_int(s, 5) != 0;
    v->loss = store_sql_flagged(s, 6);
    v->grad_norm = store_sql_flagged(s, 8);
    v->lr = store_sql_real(s, 10);
    v->scale = store_sql_real(s, 11);
    v->samples = sqlite3_column_int64(s, 12);
    v->step_us = sqlite3_column_int64(s, 13);
    v->t_us = sqlite3_column_int64(s, 14);
    v->loss_min = v->loss_max = v->loss;
    v->n = 1;
    v->n_skipped = v->skipped;
}

#define METRIC_SELECT                                                          \
    "SELECT id, iteration, updates, attempt, live, skipped, loss, loss_flag,"  \
    " grad_norm, grad_norm_flag, lr, scale, samples, step_us, t_us"            \
    " FROM metric" WHERE_PAGE("metric") ORDER_PAGE

static int64_t
count_metrics(struct store_op *op, struct store_conn *conn)
{
    sqlite3_stmt *stmt = open_page(
        op, conn, "SELECT count(*), ?6 FROM metric" WHERE_PAGE("metric"), 0);
    int64_t n = 0;

    if (stmt != NULL && store_sql_row(op, stmt)) {
        n = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return n;
}

/* The count and the rows must be of one moment: a job may be running. */
static void
thin_metrics(struct store_op *op, struct store_conn *conn)
{
    const struct query_args *a = op->args;
    struct store_rows rows = {0};
    struct store_thin thin;
    struct view_metric row, joined;
    sqlite3_stmt *stmt;

    op->rc = store_sql_exec(conn, "BEGIN", &op->err);
    if (op->rc != 0)
        return;
    store_thin_init(&thin, count_metrics(op, conn), a->max_points);
    stmt = open_page(op, conn, METRIC_SELECT, INT64_MAX);
    while (stmt != NULL && store_sql_row(op, stmt)) {
        read_metric(stmt, &row);
        if (store_thin_add(&thin, &row, &joined))
            memcpy(store_rows_add(op, &rows, sizeof(row)), &joined,
                   sizeof(row));
    }
    if (store_thin_end(&thin, &joined))
        memcpy(store_rows_add(op, &rows, sizeof(row)), &joined, sizeof(row));
    store_sql_exec(conn, "COMMIT", op->rc == 0 ? &op->err : NULL);
}

static void
run_metrics(struct store_op *op, struct store_conn *conn)
{
    const struct query_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *stmt;

    if (a->max_points > 0) {
        thin_metrics(op, conn);
        return;
    }
    stmt = open_page(op, conn, METRIC_SELECT, PAGE_ROWS + 1);
    while (stmt != NULL && page_row(op, stmt, &rows))
        read_metric(stmt,
                    store_rows_add(op, &rows, sizeof(struct view_metric)));
}

static void
read_scale(struct store_op *op, sqlite3_stmt *s, struct view_scale *v)
{
    view_init(VIEW_ID_scale, v);
    v->row = sqlite3_column_int64(s, 0);
    v->iteration = sqlite3_column_int64(s, 1);
    v->updates = sqlite3_column_int64(s, 2);
    v->attempt = sqlite3_column_int64(s, 3);
    v->live = sqlite3_column_int(s, 4) != 0;
    v->cause = store_sql_text(op, s, 5);
    v->before = store_sql_real(s, 6);
    v->after = store_sql_real(s, 7);
    v->growth_tracker = sqlite3_column_int64(s, 8);
    v->samples = store_sql_list(op, store_sql_text(op, s, 9));
    v->t_us = sqlite3_column_int64(s, 10);
    v->partial = sqlite3_column_int(s, 11) != 0;
    v->optimizers = store_sql_text(op, s, 12);
}

#define SCALE_SELECT                                                           \
    "SELECT id, iteration, updates, attempt, live, cause, before, after,"      \
    " growth_tracker, samples, t_us, partial, optimizers FROM "                \
    "scale_event" WHERE_PAGE("scale_event")

static void
scale_rows(struct store_op *op, sqlite3_stmt *stmt)
{
    struct store_rows rows = {0};

    while (stmt != NULL && page_row(op, stmt, &rows))
        read_scale(op, stmt,
                   store_rows_add(op, &rows, sizeof(struct view_scale)));
}

static void
run_scale(struct store_op *op, struct store_conn *conn)
{
    scale_rows(op, open_page(op, conn, SCALE_SELECT ORDER_PAGE, PAGE_ROWS + 1));
}

static void
run_skips(struct store_op *op, struct store_conn *conn)
{
    scale_rows(op, open_page(op, conn,
                             SCALE_SELECT " AND cause = 'skip'" ORDER_PAGE,
                             PAGE_ROWS + 1));
}

static void
read_incident(struct store_op *op, sqlite3_stmt *s, struct view_incident *v)
{
    view_init(VIEW_ID_incident, v);
    v->id = sqlite3_column_int64(s, 0);
    v->job = sqlite3_column_int64(s, 1);
    v->iteration = sqlite3_column_int64(s, 2);
    v->updates = sqlite3_column_int64(s, 3);
    v->attempt = sqlite3_column_int64(s, 4);
    v->live = sqlite3_column_int(s, 5) != 0;
    v->replayed = sqlite3_column_int(s, 6) != 0;
    v->located = sqlite3_column_int(s, 7) != 0;
    v->pass = store_sql_text(op, s, 8);
    v->layer = store_sql_text(op, s, 9);
    v->op = store_sql_text(op, s, 10);
    v->tensor = store_sql_text(op, s, 11);
    v->dtype = store_sql_text(op, s, 12);
    v->index = store_sql_list(op, store_sql_text(op, s, 13));
    v->what = store_sql_text(op, s, 14);
    v->scale = store_sql_real(s, 15);
    v->micro_batch = sqlite3_column_int64(s, 16);
    v->sample = sqlite3_column_int64(s, 17);
    v->verdict = store_sql_text(op, s, 18);
    v->t_us = sqlite3_column_int64(s, 19);
}

static void
run_incidents(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};
    sqlite3_stmt *stmt = open_page(
        op, conn,
        "SELECT id, job, iteration, updates, attempt, live, replayed,"
        " located, pass, layer, op, tensor, dtype, at, what, scale,"
        " micro_batch, sample, verdict, t_us FROM incident" WHERE_PAGE(
            "incident") ORDER_PAGE,
        PAGE_ROWS + 1);

    while (stmt != NULL && page_row(op, stmt, &rows))
        read_incident(op, stmt,
                      store_rows_add(op, &rows, sizeof(struct view_incident)));
}

static void
read_evaluation(struct store_op *op, sqlite3_stmt *s, struct view_evaluation *v)
{
    const struct query_args *a = op->args;

    view_init(VIEW_ID_evaluation, v);
    v->row = sqlite3_column_int64(s, 0);
    v->iteration = sqlite3_column_int64(s, 1);
    v->updates = sqlite3_column_int64(s, 2);
    v->attempt = sqlite3_column_int64(s, 3);
    v->live = sqlite3_column_int(s, 4) != 0;
    v->loss = store_sql_flagged(s, 5);
    v->accuracy = store_sql_real(s, 7);
    v->n = sqlite3_column_int64(s, 8);
    v->incomplete = sqlite3_column_int(s, 9) != 0;
    v->t_us = sqlite3_column_int64(s, 10);
    v->top_k = store_sql_real(s, 11);
    v->perplexity = store_sql_flagged(s, 12);
    v->ema = sqlite3_column_int(s, 14) != 0;
    /* Large, and seldom wanted. */
    if (a->confusion)
        v->confusion = store_sql_list(op, store_sql_text(op, s, 15));
}

static void
run_evaluations(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};
    sqlite3_stmt *stmt = open_page(
        op, conn,
        "SELECT id, iteration, updates, attempt, live, loss, loss_flag,"
        " accuracy, n, incomplete, t_us, top_k, perplexity, perplexity_flag,"
        " ema, confusion FROM evaluation" WHERE_PAGE("evaluation") ORDER_PAGE,
        PAGE_ROWS + 1);

    while (stmt != NULL && page_row(op, stmt, &rows))
        read_evaluation(
            op, stmt,
            store_rows_add(op, &rows, sizeof(struct view_evaluation)));
}

static void
read_checkpoint(struct store_op *op, sqlite3_stmt *s, struct view_checkpoint *v)
{
    view_init(VIEW_ID_checkpoint, v);
    v->id = sqlite3_column_int64(s, 0);
    v->job = sqlite3_column_int64(s, 1);
    v->name = store_sql_text(op, s, 2);
    v->path = store_sql_text(op, s, 3);
    v->iteration = sqlite3_column_int64(s, 4);
    v->updates = sqlite3_column_int64(s, 5);
    v->skips = sqlite3_column_int64(s, 6);
    v->attempt = sqlite3_column_int64(s, 7);
    v->live = sqlite3_column_int(s, 8) != 0;
    v->state = store_sql_text(op, s, 9);
    v->cause = store_sql_text(op, s, 10);
    v->best = sqlite3_column_int(s, 11) != 0;
    v->metric = store_sql_real(s, 12);
    v->bytes = sqlite3_column_int64(s, 13);
    v->digest = store_sql_text(op, s, 14);
    v->t_us = sqlite3_column_int64(s, 15);
}

static void
run_checkpoints(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};
    sqlite3_stmt *stmt = open_page(
        op, conn,
        "SELECT id, job, name, (SELECT directory FROM job AS j WHERE j.id ="
        " checkpoint.job) || '/checkpoints/' || name, iteration, updates,"
        " skips, attempt, live, state, cause, best, metric, bytes, digest,"
        " t_us FROM checkpoint" WHERE_PAGE("checkpoint") ORDER_PAGE,
        PAGE_ROWS + 1);

    while (stmt != NULL && page_row(op, stmt, &rows))
        read_checkpoint(
            op, stmt,
            store_rows_add(op, &rows, sizeof(struct view_checkpoint)));
}

static void
run_attempts(struct store_op *op, struct store_conn *conn)
{
    const struct query_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "SELECT attempt, state, resumed_from, start_iteration, end_iteration,"
        " policy, policy_changed, pid, start_us, end_us, obituary"
        " FROM attempt WHERE job = ? AND attempt > ? ORDER BY attempt"
        " LIMIT ?");

    if (s == NULL)
        return;
    store_sql_bind(s, "iii", a->job, a->after_row, (int64_t)PAGE_ROWS + 1);
    while (page_row(op, s, &rows)) {
        struct view_attempt *v = store_rows_add(op, &rows, sizeof(*v));

        view_init(VIEW_ID_attempt, v);
        v->attempt = sqlite3_column_int64(s, 0);
        v->state = store_sql_text(op, s, 1);
        v->resumed_from = store_sql_text(op, s, 2);
        v->start_iteration = sqlite3_column_int64(s, 3);
        v->end_iteration = sqlite3_column_int64(s, 4);
        v->policy = store_sql_text(op, s, 5);
        v->policy_changed = sqlite3_column_int(s, 6) != 0;
        v->pid = sqlite3_column_int64(s, 7);
        v->start_us = sqlite3_column_int64(s, 8);
        v->end_us = sqlite3_column_int64(s, 9);
        v->obituary = store_sql_text(op, s, 10);
    }
}

static store_run_fn *
query_of(enum message_id what)
{
    static const struct {
        enum message_id what;
        store_run_fn *run;
    } table[] = {
        {MESSAGE_ID_metrics, run_metrics},
        {MESSAGE_ID_scale, run_scale},
        {MESSAGE_ID_skips, run_skips},
        {MESSAGE_ID_incidents, run_incidents},
        {MESSAGE_ID_evaluations, run_evaluations},
        {MESSAGE_ID_checkpoints, run_checkpoints},
        {MESSAGE_ID_attempts, run_attempts},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].what == what)
            return table[i].run;
    return NULL;
}

void
store_query(struct store *store, enum message_id what, int64_t job,
            const struct view_query *query, store_rows_fn *done, void *ctx)
{
    store_run_fn *run = query_of(what);
    struct store_op *op;
    struct query_args *args;

    assert(run != NULL);
    op = store_op_create(run, sizeof(*args));
    args = op->args;
    args->job = job;
    args->from = query->from;
    args->to = query->to > 0 ? query->to : INT64_MAX;
    args->max_points =
        query->max_points < MOST_POINTS ? query->max_points : MOST_POINTS;
    args->after_row = query->after_row;
    args->all_lines = query->all_lines;
    args->confusion = query->confusion;
    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}
