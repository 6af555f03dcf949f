/* SPDX-License-Identifier: Apache-2.0 */
/* Writes: each public function copies its arguments into an op; the op's run
 * function is the SQL. */
#include "daemon/store_write.h"
#include "daemon/store_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool
store_write_event(struct store_op *op, struct store_conn *conn, int64_t job,
                  int64_t attempt, int64_t uid, const char *kind,
                  const char *text)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO event (t_us, job, attempt, uid, kind, text)"
        " VALUES (?,?,?,?,?,?)");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiiiss", store_now_us(), job, attempt, uid, kind,
                   text);
    return store_sql_run(op, stmt);
}

/* ---- jobs ----------------------------------------------------------------- */

struct job_args {
    struct store_job job;
    int64_t actor_uid;
    const char *kind, *text;
    struct store_rollback back; /* job 0: none comes with it */
};

static bool write_rollback(struct store_op *op, struct store_conn *conn,
                           const struct store_rollback *r);

static void
copy_job(struct store_op *op, struct store_job *to,
         const struct store_job *from)
{
    *to = *from;
    to->view.name = store_op_copy(op, from->view.name);
    to->view.user = store_op_copy(op, from->view.user);
    to->view.state = store_op_copy(op, from->view.state);
    to->view.reason = store_op_copy(op, from->view.reason);
    to->view.device = store_op_copy(op, from->view.device);
    to->view.dtype = store_op_copy(op, from->view.dtype);
    to->view.checkpoint = store_op_copy(op, from->view.checkpoint);
    to->view.error = store_op_copy(op, from->view.error);
    to->view.directory = store_op_copy(op, from->view.directory);
    to->spec = store_op_copy(op, from->spec);
    to->idempotency_key = store_op_copy(op, from->idempotency_key);
    to->origin = store_op_copy(op, from->origin);
    to->intent = store_op_copy(op, from->intent);
    to->changes = store_op_copy(op, from->changes);
    to->skip_windows = store_op_copy(op, from->skip_windows);
    to->view.difference = store_op_copy(op, from->view.difference);
    to->view.verdict = store_op_copy(op, from->view.verdict);
    to->boot_id = store_op_copy(op, from->boot_id);
}

/* Job of this uid with this key, or 0. */
static int64_t
find_key(struct store_op *op, struct store_conn *conn,
         const struct store_job *job)
{
    sqlite3_stmt *stmt;
    int64_t id = 0;

    if (*job->idempotency_key == '\0')
        return 0;
    stmt = store_sql_prepare(
        op, conn, "SELECT id FROM job WHERE uid = ? AND idempotency_key = ?");
    if (stmt == NULL)
        return 0;
    store_sql_bind(stmt, "is", job->view.uid, job->idempotency_key);
    if (store_sql_row(op, stmt)) {
        id = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return id;
}

/* The columns that an update rewrites, in the order of bind_job(). */
#define JOB_COLUMNS                                                            \
    "state, reason, intent, priority, attempt, device, dtype, start_us,"       \
    " end_us, iteration, updates, skips, total_iterations,"                    \
    " iterations_per_epoch, loss, scale, lr, grad_norm, validation_loss,"      \
    " accuracy, best_accuracy, iterations_per_s, eta_s, checkpoint,"           \
    " checkpoint_iteration, rollbacks, policy_changed, exit_code, error,"      \
    " directory, resume_checkpoint, lost_attempts, top_k, perplexity,"         \
    " changes, skip_windows, start_scale, guard_rollbacks, difference,"        \
    " verdict"
#define JOB_TYPES "sssiissiiiiiiifffffffffsiiiissiiffssfiss"
#define JOB_VALUES(j, v)                                                       \
    v->state, v->reason, j->intent, v->priority, v->attempt, v->device,        \
        v->dtype, v->start_us, v->end_us, v->iteration, v->updates, v->skips,  \
        v->total_iterations, v->iterations_per_epoch, v->loss, v->scale,       \
        v->lr, v->grad_norm, v->validation_loss, v->accuracy,                  \
        v->best_accuracy, v->iterations_per_s, v->eta_s, v->checkpoint,        \
        v->checkpoint_iteration, v->rollbacks, (int64_t)v->policy_changed,     \
        v->exit_code, v->error, v->directory, j->resume_checkpoint,            \
        j->lost_attempts, v->top_k, v->perplexity, j->changes,                 \
        j->skip_windows, j->start_scale, v->guard_rollbacks, v->difference,    \
        v->verdict

static void
run_insert_job(struct store_op *op, struct store_conn *conn)
{
    const struct job_args *args = op->args;
    const struct store_job *j = &args->job;
    const struct view_job *v = &j->view;
    sqlite3_stmt *stmt;

    op->id = find_key(op, conn, j);
    if (op->id != 0) {
        op->rc = err_set(&op->err, ERR_EXISTS,
                         "job %lld was submitted with this key already",
                         (long long)op->id);
        return;
    }
    stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO job (uid, user, name, spec, idempotency_key, origin,"
        " submit_us, " JOB_COLUMNS ") VALUES (?,?,?,?,?,?,?,"
        "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
        "?,?,?,?,?,?,?,?)");
    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "isssssi" JOB_TYPES, v->uid, v->user, v->name, j->spec,
                   j->idempotency_key, j->origin, v->submit_us,
                   JOB_VALUES(j, v));
    if (!store_sql_run(op, stmt))
        return;
    op->id = sqlite3_last_insert_rowid(conn->db);
    store_write_event(op, conn, op->id, 0, v->uid, "submit", v->name);
}

void
store_insert_job(struct store *store, const struct store_job *job,
                 store_done_fn *done, void *ctx)
{
    struct store_op *op =
        store_op_create(run_insert_job, sizeof(struct job_args));
    struct job_args *args = op->args;

    copy_job(op, &args->job, job);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

static void
run_update_job(struct store_op *op, struct store_conn *conn)
{
    const struct job_args *args = op->args;
    const struct store_job *j = &args->job;
    const struct view_job *v = &j->view;
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "UPDATE job SET (" JOB_COLUMNS ") = ("
        "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
        "?,?,?,?,?,?,?,?)"
        " WHERE id = ? AND state NOT IN"
        " ('completed','failed','cancelled','interrupted')");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, JOB_TYPES "i", JOB_VALUES(j, v), v->id);
    if (!store_sql_run(op, stmt))
        return;
    if (sqlite3_changes(conn->db) == 0) {
        op->rc = err_set(&op->err, ERR_STATE,
                         "job %lld is not there or final: its row stays",
                         (long long)v->id);
        return;
    }
    if (args->back.job != 0 && !write_rollback(op, conn, &args->back))
        return;
    op->id = v->id;
    if (*args->kind != '\0')
        store_write_event(op, conn, v->id, v->attempt, args->actor_uid,
                          args->kind, args->text);
}

static void
copy_rollback(struct store_op *op, struct store_rollback *to,
              const struct store_rollback *from)
{
    *to = *from;
    to->cause = store_op_copy(op, from->cause);
    to->change = store_op_copy(op, from->change);
    to->difference = store_op_copy(op, from->difference);
}

void
store_update_job(struct store *store, const struct store_job *job,
                 const struct store_rollback *rollback, int64_t actor_uid,
                 const char *kind, const char *text, store_done_fn *done,
                 void *ctx)
{
    struct store_op *op =
        store_op_create(run_update_job, sizeof(struct job_args));
    struct job_args *args = op->args;

    copy_job(op, &args->job, job);
    if (rollback != NULL)
        copy_rollback(op, &args->back, rollback);
    args->actor_uid = actor_uid;
    args->kind = store_op_copy(op, kind);
    args->text = store_op_copy(op, text);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

/* ---- attempts ------------------------------------------------------------- */

static void
run_begin_attempt(struct store_op *op, struct store_conn *conn)
{
    const struct store_attempt *a = op->args;
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO attempt (job, attempt, state, resumed_from,"
        " start_iteration, end_iteration, policy, policy_changed, pid,"
        " start_ticks, boot_id, device, start_us, end_us, obituary,"
        " events_offset, events_seq, cause, change) VALUES"
        " (?,?,'running','',0,0,'',0,?,?,?,?,?,0,'',0,0,?,?)"
        " ON CONFLICT (job, attempt) DO UPDATE SET pid = excluded.pid,"
        " start_ticks = excluded.start_ticks, boot_id = excluded.boot_id");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "iiiississ", a->job, a->attempt, a->pid,
                   a->start_ticks, a->boot_id, a->device, store_now_us(),
                   a->cause, a->change);
    store_sql_run(op, stmt);
}

void
store_begin_attempt(struct store *store, const struct store_attempt *a,
                    store_done_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_begin_attempt, sizeof(*a));
    struct store_attempt *args = op->args;

    *args = *a;
    args->boot_id = store_op_copy(op, a->boot_id);
    args->device = store_op_copy(op, a->device);
    args->cause = store_op_copy(op, a->cause);
    args->change = store_op_copy(op, a->change);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

struct end_args {
    int64_t job, attempt;
    const char *state, *obituary;
};

static void
run_end_attempt(struct store_op *op, struct store_conn *conn)
{
    const struct end_args *a = op->args;
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "UPDATE attempt SET state = ?, obituary = ?, end_us = ?"
        " WHERE job = ? AND attempt = ? AND end_us = 0");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "ssiii", a->state, a->obituary, store_now_us(), a->job,
                   a->attempt);
    if (store_sql_run(op, stmt) && sqlite3_changes(conn->db) > 0)
        store_write_event(op, conn, a->job, a->attempt, -1, "obituary",
                          a->obituary);
}

void
store_end_attempt(struct store *store, int64_t job, int64_t attempt,
                  const char *state, const char *obituary, store_done_fn *done,
                  void *ctx)
{
    struct store_op *op =
        store_op_create(run_end_attempt, sizeof(struct end_args));
    struct end_args *args = op->args;

    args->job = job;
    args->attempt = attempt;
    args->state = store_op_copy(op, state);
    args->obituary = store_op_copy(op, obituary);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

/* ---- checkpoints and rollbacks --------------------------------------------*/

bool
store_write_checkpoint(struct store_op *op, struct store_conn *conn,
                       const struct view_checkpoint *c)
{
    sqlite3_stmt *stmt;

    if (c->best) {
        stmt = store_sql_prepare(
            op, conn, "UPDATE checkpoint SET best = 0 WHERE job = ?");
        if (stmt == NULL)
            return false;
        store_sql_bind(stmt, "i", c->job);
        if (!store_sql_run(op, stmt))
            return false;
    }
    stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO checkpoint (job, name, attempt, iteration, updates,"
        " skips, live, state, cause, best, metric, bytes, digest, t_us)"
        " VALUES (?,?,?,?,?,?,?,'good',?,?,?,?,?,?)"
        " ON CONFLICT (job, name) DO NOTHING");
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "isiiiiisifisi", c->job, c->name, c->attempt,
                   c->iteration, c->updates, c->skips, (int64_t)c->live,
                   c->cause, (int64_t)c->best, c->metric, c->bytes, c->digest,
                   c->t_us);
    if (!store_sql_run(op, stmt))
        return false;
    op->id = sqlite3_last_insert_rowid(conn->db);
    return !c->best || store_choose_best(op, conn, c->job);
}

static void
run_adopt_checkpoint(struct store_op *op, struct store_conn *conn)
{
    const struct view_checkpoint *c = op->args;

    if (store_write_checkpoint(op, conn, c))
        store_write_event(op, conn, c->job, c->attempt, -1, "adopt", c->name);
}

void
store_adopt_checkpoint(struct store *store, const struct view_checkpoint *c,
                       store_done_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_adopt_checkpoint, sizeof(*c));
    struct view_checkpoint *args = op->args;

    *args = *c;
    args->name = store_op_copy(op, c->name);
    args->cause = store_op_copy(op, c->cause);
    args->digest = store_op_copy(op, c->digest);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

struct mark_args {
    int64_t checkpoint;
    const char *state;
};

static void
run_mark_checkpoint(struct store_op *op, struct store_conn *conn)
{
    const struct mark_args *a = op->args;
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn, "UPDATE checkpoint SET state = ? WHERE id = ?");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "si", a->state, a->checkpoint);
    if (!store_sql_run(op, stmt))
        return;
    stmt =
        store_sql_prepare(op, conn, "SELECT job FROM checkpoint WHERE id = ?");
    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "i", a->checkpoint);
    if (store_sql_row(op, stmt)) {
        int64_t job = sqlite3_column_int64(stmt, 0);

        sqlite3_reset(stmt);
        store_choose_best(op, conn, job);
    }
}

void
store_mark_checkpoint(struct store *store, int64_t checkpoint,
                      const char *state, store_done_fn *done, void *ctx)
{
    struct store_op *op =
        store_op_create(run_mark_checkpoint, sizeof(struct mark_args));
    struct mark_args *args = op->args;

    args->checkpoint = checkpoint;
    args->state = store_op_copy(op, state);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

/* The checkpoint must be one of this job. */
static bool
find_goal(struct store_op *op, struct store_conn *conn,
          const struct store_rollback *r, int64_t *iteration)
{
    sqlite3_stmt *stmt;

    *iteration = 0;
    if (r->checkpoint == 0)
        return true;
    stmt = store_sql_prepare(
        op, conn, "SELECT iteration FROM checkpoint WHERE id = ? AND job = ?");
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "ii", r->checkpoint, r->job);
    if (store_sql_row(op, stmt)) {
        *iteration = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
        return true;
    }
    if (op->rc == 0)
        op->rc = err_set(&op->err, ERR_NOTFOUND,
                         "checkpoint %lld of job %lld: no such checkpoint",
                         (long long)r->checkpoint, (long long)r->job);
    return false;
}

static bool
write_rollback(struct store_op *op, struct store_conn *conn,
               const struct store_rollback *r)
{
    char text[ERR_SENTENCE_MAX];
    int64_t to = 0;
    sqlite3_stmt *stmt;

    if (!find_goal(op, conn, r, &to))
        return false;
    stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO rollback (job, uid, checkpoint, from_iteration,"
        " to_iteration, cause, t_us, attempt, change, difference,"
        " policy_changed) VALUES (?,?,nullif(?,0),?,?,?,?,?,?,?,?)");
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiiiisiissi", r->job, r->uid, r->checkpoint,
                   r->from_iteration, to, r->cause, store_now_us(), r->attempt,
                   r->change, r->difference, (int64_t)r->policy_changed);
    if (!store_sql_run(op, stmt))
        return false;
    op->id = sqlite3_last_insert_rowid(conn->db);
    snprintf(text, sizeof(text),
             "from iteration %lld to iteration %lld: %s%s%s",
             (long long)r->from_iteration, (long long)to, r->cause,
             r->difference[0] != '\0' ? "; " : "", r->difference);
    return store_write_event(op, conn, r->job, r->attempt, r->uid, "rollback",
                             text);
}

/* ---- the watchdog's round trip ---------------------------------------------*/

static void
run_ping(struct store_op *op, struct store_conn *conn)
{
    sqlite3_stmt *stmt = store_sql_prepare(op, conn, "SELECT 1");

    if (stmt == NULL)
        return;
    if (store_sql_row(op, stmt))
        sqlite3_reset(stmt);
}

void
store_ping(struct store *store, store_done_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_ping, 1);

    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}
