/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of table job, read on the reader's thread. Each query copies its rows
 * out at once, so that no reader holds back the write-ahead log. */
#include "daemon/store_private.h"

#include <string.h>

#define PAGE_ROWS 1000

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
    " perplexity, changes, skip_windows, start_scale, guard_rollbacks,"        \
    " job.difference, verdict"                                                 \
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
    v->guard_rollbacks = sqlite3_column_int64(s, 50);
    v->difference = store_sql_text(op, s, 51);
    v->verdict = store_sql_text(op, s, 52);
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
    job->changes = store_sql_text(op, s, 47);
    job->skip_windows = store_sql_text(op, s, 48);
    job->start_scale = store_sql_real(s, 49);
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
