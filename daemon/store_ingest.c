/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a worker become rows: each exactly once, by sequence number.
 */
#include "daemon/store_level.h"
#include "daemon/store_private.h"
#include "daemon/store_write.h"

#include "proto/codec.h"
#include "proto/spec_policy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct ingest_args {
    int64_t job, attempt, offset;
    const char *lines;
    size_t len;
    int64_t keep_metrics;
};

/* What the attempt's row holds and how it changes. */
struct progress {
    int64_t offset, seq;
    int64_t iteration; /* of the last event in this run of lines */
};

typedef bool event_fn(struct store_op *op, struct store_conn *conn,
                      const struct ingest_args *a, const struct event *e);

static bool
leave_out(struct store_op *op, struct store_conn *conn,
          const struct ingest_args *a, const char *why)
{
    return store_write_event(op, conn, a->job, a->attempt, -1, "warning", why);
}

/* Policy of the last attempt before that had one, and what was changed for
 * this one; "" each for none. */
static bool
read_change(struct store_op *op, struct store_conn *conn,
            const struct ingest_args *a, const char **policy,
            const char **change)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "SELECT coalesce((SELECT p.policy FROM attempt AS p WHERE p.job ="
        " attempt.job AND p.attempt < attempt.attempt AND p.policy <> ''"
        " ORDER BY p.attempt DESC LIMIT 1), ''), change FROM attempt"
        " WHERE job = ? AND attempt = ?");

    *policy = *change = "";
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "ii", a->job, a->attempt);
    if (store_sql_row(op, stmt)) {
        *policy = store_sql_text(op, stmt, 0);
        *change = store_sql_text(op, stmt, 1);
        sqlite3_reset(stmt);
    }
    return op->rc == 0;
}

/* Once in an attempt: it is dear, and a worker begins only once. */
static bool
ingest_started(struct store_op *op, struct store_conn *conn,
               const struct ingest_args *a, const struct event *e)
{
    const char *policy =
        e->u.started.policy[0] != '\0' ? e->u.started.policy : "{}";
    char difference[SPEC_POLICY_DIFFERENCE_MAX];
    const char *before, *change;
    sqlite3_stmt *stmt;

    if (!read_change(op, conn, a, &before, &change))
        return false;
    const bool changed =
        spec_policy_difference(before, policy, change, difference);
    stmt = store_sql_prepare(
        op, conn,
        "UPDATE attempt SET resumed_from = ?, start_iteration = ?,"
        " end_iteration = ?, policy = ?, policy_changed = ?, difference = ?"
        " WHERE job = ? AND attempt = ? AND policy = ''");
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "siisisii", e->u.started.checkpoint, e->iteration,
                   e->iteration, policy, (int64_t)changed, difference, a->job,
                   a->attempt);
    if (!store_sql_run(op, stmt))
        return false;
    if (sqlite3_changes(conn->db) == 0)
        return leave_out(op, conn, a,
                         "the worker says that it started once more; it is "
                         "left out");
    return store_line_set(op, conn, a->job, a->attempt, e->u.started.checkpoint,
                          e->iteration);
}

/* ---- rows ----------------------------------------------------------------- */

static bool
ingest_step(struct store_op *op, struct store_conn *conn,
            const struct ingest_args *a, const struct event *e)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO metric (job, attempt, iteration, updates, skips, live,"
        " skipped, loss, loss_flag, grad_norm, grad_norm_flag, lr, scale,"
        " samples, step_us, t_us) VALUES (?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,?)");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiiiiiggffiii", a->job, a->attempt, e->iteration,
                   e->updates, e->skips, (int64_t)e->u.step.skipped,
                   e->u.step.loss, e->u.step.grad_norm, e->u.step.lr,
                   e->u.step.scale, e->u.step.samples, e->u.step.step_us,
                   e->t_us);
    return store_sql_run(op, stmt) &&
           store_level_step(op, conn, a->job, a->attempt, e->iteration,
                            a->keep_metrics);
}

static bool
ingest_scale(struct store_op *op, struct store_conn *conn,
             const struct ingest_args *a, const struct event *e)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO scale_event (job, attempt, seq, iteration, updates,"
        " skips, live, cause, before, after, growth_tracker, samples, partial,"
        " optimizers, t_us) VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?,?,?)");

    if (stmt == NULL)
        return false;
    store_sql_bind(
        stmt, "iiiiiisffisisi", a->job, a->attempt, e->seq, e->iteration,
        e->updates, e->skips, event_scale_cause_name(e->u.scale.cause),
        e->u.scale.before, e->u.scale.after, e->u.scale.growth_tracker,
        store_sql_list_text(op, e->u.scale.samples, e->u.scale.n_samples),
        (int64_t)e->u.scale.partial, e->u.scale.optimizers, e->t_us);
    return store_sql_run(op, stmt);
}

static bool
ingest_incident(struct store_op *op, struct store_conn *conn,
                const struct ingest_args *a, const struct event *e)
{
    const char *name = e->u.incident.name;
    char want[64];

    /* It becomes a path: nothing but the one name that it can have. */
    snprintf(want, sizeof(want), "it%09lld-a%lld", (long long)e->iteration,
             (long long)a->attempt);
    if (*name != '\0' && strcmp(name, want) != 0)
        return leave_out(op, conn, a,
                         "an incident's name is not of its iteration and "
                         "attempt; it is left out");
    return store_write_incident(op, conn, a->job, a->attempt, e);
}

static bool
ingest_incident_pruned(struct store_op *op, struct store_conn *conn,
                       const struct ingest_args *a, const struct event *e)
{
    return store_forget_incident(op, conn, a->job, e->u.incident_pruned.name);
}

static bool
ingest_evaluation(struct store_op *op, struct store_conn *conn,
                  const struct ingest_args *a, const struct event *e)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO evaluation (job, attempt, seq, iteration, updates,"
        " skips, live, loss, loss_flag, accuracy, n, incomplete, best, t_us,"
        " top_k, perplexity, perplexity_flag, ema, confusion)"
        " VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,?,?,?)");
    const int n = e->u.evaluation.n_classes;

    if (stmt == NULL)
        return false;
    store_sql_bind(
        stmt, "iiiiiigfiiiifgis", a->job, a->attempt, e->seq, e->iteration,
        e->updates, e->skips, e->u.evaluation.loss, e->u.evaluation.accuracy,
        e->u.evaluation.n, (int64_t)e->u.evaluation.incomplete,
        (int64_t)e->u.evaluation.best, e->t_us, e->u.evaluation.top_k,
        e->u.evaluation.perplexity, (int64_t)e->u.evaluation.ema,
        n > 0 ? store_sql_list_text(op, e->u.evaluation.confusion, n * n) : "");
    return store_sql_run(op, stmt);
}

static bool
ingest_checkpoint(struct store_op *op, struct store_conn *conn,
                  const struct ingest_args *a, const struct event *e)
{
    struct view_checkpoint c;
    char name[64];

    /* It becomes a path: nothing but the one name that it can have. */
    snprintf(name, sizeof(name), "it%09lld-a%lld", (long long)e->iteration,
             (long long)a->attempt);
    if (strcmp(name, e->u.checkpoint.name) != 0)
        return leave_out(op, conn, a,
                         "a checkpoint's name is not of its iteration and "
                         "attempt; it is left out");
    view_init(VIEW_ID_checkpoint, &c);
    c.job = a->job;
    c.name = e->u.checkpoint.name;
    c.attempt = a->attempt;
    c.iteration = e->iteration;
    c.updates = e->updates;
    c.skips = e->skips;
    c.live = true;
    c.cause = event_checkpoint_cause_name(e->u.checkpoint.cause);
    c.best = e->u.checkpoint.best;
    c.metric = e->u.checkpoint.has_metric ? e->u.checkpoint.metric : NAN;
    c.bytes = e->u.checkpoint.bytes;
    c.digest = e->u.checkpoint.digest;
    c.t_us = e->t_us;
    return store_write_checkpoint(op, conn, &c);
}

static bool
set_checkpoint_state(struct store_op *op, struct store_conn *conn,
                     const struct ingest_args *a, const char *name,
                     const char *state)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn, "UPDATE checkpoint SET state = ? WHERE job = ? AND name = ?");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "sis", state, a->job, name);
    return store_sql_run(op, stmt) && store_choose_best(op, conn, a->job);
}

static bool
ingest_checkpoint_failed(struct store_op *op, struct store_conn *conn,
                         const struct ingest_args *a, const struct event *e)
{
    char text[EVENT_NAME_MAX + EVENT_TEXT_MAX];
    const char *name = e->u.checkpoint_failed.name;

    if (*name != '\0' && !set_checkpoint_state(op, conn, a, name, "bad"))
        return false;
    snprintf(text, sizeof(text), "%s%s%s", name, *name != '\0' ? ": " : "",
             e->u.checkpoint_failed.text);
    return store_write_event(op, conn, a->job, a->attempt, -1,
                             "checkpoint_failed", text);
}

static bool
ingest_checkpoint_pruned(struct store_op *op, struct store_conn *conn,
                         const struct ingest_args *a, const struct event *e)
{
    return set_checkpoint_state(op, conn, a, e->u.checkpoint_pruned.name,
                                "pruned");
}

static bool
ingest_warning(struct store_op *op, struct store_conn *conn,
               const struct ingest_args *a, const struct event *e)
{
    return store_write_event(op, conn, a->job, a->attempt, -1, "warning",
                             e->u.warning.text);
}

static bool
ingest_guard(struct store_op *op, struct store_conn *conn,
             const struct ingest_args *a, const struct event *e)
{
    char text[EVENT_TEXT_MAX + EVENT_NAME_MAX];

    snprintf(text, sizeof(text), "%s: %s: %s", e->u.guard.condition,
             e->u.guard.text, event_action_name(e->u.guard.action));
    return store_write_guard(op, conn, a->job, a->attempt, e) &&
           store_write_event(op, conn, a->job, a->attempt, -1, "guard", text);
}

static bool
ingest_finished(struct store_op *op, struct store_conn *conn,
                const struct ingest_args *a, const struct event *e)
{
    char text[EVENT_TEXT_MAX + 64];

    snprintf(text, sizeof(text), "%s%s%s",
             event_outcome_name(e->u.finished.outcome),
             *e->u.finished.text != '\0' ? ": " : "", e->u.finished.text);
    return store_write_event(op, conn, a->job, a->attempt, -1, "finished",
                             text);
}

/* ---- the walk ------------------------------------------------------------- */

static event_fn *
handler_of(enum event_kind kind)
{
    switch (kind) {
    case EVENT_STARTED: return ingest_started;
    case EVENT_STEP: return ingest_step;
    case EVENT_SCALE: return ingest_scale;
    case EVENT_INCIDENT: return ingest_incident;
    case EVENT_EVALUATION: return ingest_evaluation;
    case EVENT_CHECKPOINT: return ingest_checkpoint;
    case EVENT_CHECKPOINT_FAILED: return ingest_checkpoint_failed;
    case EVENT_CHECKPOINT_PRUNED: return ingest_checkpoint_pruned;
    case EVENT_WARNING: return ingest_warning;
    case EVENT_FINISHED: return ingest_finished;
    case EVENT_GUARD: return ingest_guard;
    case EVENT_INCIDENT_PRUNED: return ingest_incident_pruned;
    }
    return NULL;
}

/* What the tables refuse would be refused the next time, too. */
static bool
handle(struct store_op *op, struct store_conn *conn,
       const struct ingest_args *a, const struct event *e)
{
    char text[ERR_SENTENCE_MAX + 64];

    if (handler_of(e->kind)(op, conn, a, e))
        return true;
    if (op->rc != ERR_EXISTS)
        return false;
    snprintf(text, sizeof(text), "event %lld is left out: %s",
             (long long)e->seq, op->err.msg);
    op->rc = 0;
    err_clear(&op->err);
    return leave_out(op, conn, a, text);
}

/* One line. A bad one is told and passed over: it must not stop the rest. */
static bool
ingest_line(struct store_op *op, struct store_conn *conn,
            const struct ingest_args *a, struct progress *at, const char *line,
            size_t len)
{
    struct codec_doc *doc = NULL;
    struct event e;
    struct err err;
    char text[ERR_SENTENCE_MAX + 64];
    bool ok = true;

    err_clear(&err);
    if (codec_read_event(line, len, &e, &doc, &err) != 0) {
        snprintf(text, sizeof(text), "events.jsonl, byte %lld: %s",
                 (long long)(a->offset + (line - a->lines)), err.msg);
        return store_write_event(op, conn, a->job, a->attempt, -1, "warning",
                                 text);
    }
    if (e.iteration != e.updates + e.skips)
        ok = leave_out(op, conn, a,
                       "an event's iteration is not updates + skips; it is "
                       "left out");
    else if (e.seq > at->seq)
        ok = handle(op, conn, a, &e);
    if (ok && e.seq > at->seq) {
        at->seq = e.seq;
        at->iteration = e.iteration;
    }
    codec_doc_close(&doc);
    return ok;
}

static bool
read_progress(struct store_op *op, struct store_conn *conn,
              const struct ingest_args *a, struct progress *at)
{
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn,
                          "SELECT events_offset, events_seq FROM attempt"
                          " WHERE job = ? AND attempt = ?");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "ii", a->job, a->attempt);
    if (!store_sql_row(op, stmt)) {
        if (op->rc == 0)
            op->rc = err_set(&op->err, ERR_NOTFOUND,
                             "job %lld: attempt %lld has no row",
                             (long long)a->job, (long long)a->attempt);
        return false;
    }
    at->offset = sqlite3_column_int64(stmt, 0);
    at->seq = sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    return true;
}

static bool
write_progress(struct store_op *op, struct store_conn *conn,
               const struct ingest_args *a, const struct progress *at)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "UPDATE attempt SET events_offset = max(events_offset, ?),"
        " events_seq = ?, end_iteration = max(end_iteration, ?)"
        " WHERE job = ? AND attempt = ?");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiiii", a->offset + (int64_t)a->len, at->seq,
                   at->iteration, a->job, a->attempt);
    return store_sql_run(op, stmt);
}

static void
run_ingest(struct store_op *op, struct store_conn *conn)
{
    const struct ingest_args *a = op->args;
    struct progress at = {0, 0, 0};
    const char *p = a->lines, *end = a->lines + a->len;

    if (!read_progress(op, conn, a, &at))
        return;
    while (p < end) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));

        assert(lf != NULL); /* the caller gives whole lines */
        if (lf > p && !ingest_line(op, conn, a, &at, p, (size_t)(lf - p)))
            return;
        p = lf + 1;
    }
    if (write_progress(op, conn, a, &at))
        op->id = a->offset + (int64_t)a->len;
}

void
store_ingest(struct store *store, int64_t job, int64_t attempt, int64_t offset,
             const char *lines, size_t len, bool urgent, store_done_fn *done,
             void *ctx)
{
    struct store_op *op =
        store_op_create(run_ingest, sizeof(struct ingest_args));
    struct ingest_args *args = op->args;

    args->job = job;
    args->attempt = attempt;
    args->offset = offset;
    args->lines = pool_copy(op->pool, lines, len);
    assert(args->lines != NULL);
    args->len = len;
    args->keep_metrics = store_keep_metrics(store);
    op->urgent = urgent;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}
