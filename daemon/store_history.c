/* SPDX-License-Identifier: Apache-2.0 */
/* A job's history, read on the reader's thread page by page. Each query copies
 * its rows out at once, so that no reader holds back the write-ahead log. */
#include "daemon/store_history.h"

#include <assert.h>
#define MOST_POINTS 10000 /* of a thinned curve; more fit no screen */

/* ---- pages ---------------------------------------------------------------- */

sqlite3_stmt *
store_page_open(struct store_op *op, struct store_conn *conn, const char *sql,
                int64_t limit)
{
    const struct store_query_args *a = op->args;
    sqlite3_stmt *stmt = store_sql_prepare(op, conn, sql);

    if (stmt != NULL)
        store_sql_bind(stmt, "iiiiii", a->job, (int64_t)a->all_lines, a->from,
                       a->to, a->after_row, limit);
    return stmt;
}

bool
store_page_row(struct store_op *op, sqlite3_stmt *stmt,
               const struct store_rows *rows)
{
    if (!store_sql_row(op, stmt))
        return false;
    if (rows->n < STORE_PAGE_ROWS)
        return true;
    op->more = true;
    sqlite3_reset(stmt);
    return false;
}

/* ---- tables --------------------------------------------------------------- */

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
    "scale_event" STORE_WHERE_PAGE("scale_event")

static void
scale_rows(struct store_op *op, sqlite3_stmt *stmt)
{
    struct store_rows rows = {0};

    while (stmt != NULL && store_page_row(op, stmt, &rows))
        read_scale(op, stmt,
                   store_rows_add(op, &rows, sizeof(struct view_scale)));
}

static void
run_scale(struct store_op *op, struct store_conn *conn)
{
    scale_rows(op, store_page_open(op, conn, SCALE_SELECT STORE_ORDER_PAGE,
                                   STORE_PAGE_ROWS + 1));
}

static void
run_skips(struct store_op *op, struct store_conn *conn)
{
    scale_rows(op, store_page_open(op, conn,
                                   SCALE_SELECT
                                   " AND cause = 'skip'" STORE_ORDER_PAGE,
                                   STORE_PAGE_ROWS + 1));
}

static void
read_evaluation(struct store_op *op, sqlite3_stmt *s, struct view_evaluation *v)
{
    const struct store_query_args *a = op->args;

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
    sqlite3_stmt *stmt = store_page_open(
        op, conn,
        "SELECT id, iteration, updates, attempt, live, loss, loss_flag,"
        " accuracy, n, incomplete, t_us, top_k, perplexity, perplexity_flag,"
        " ema, confusion FROM evaluation" STORE_WHERE_PAGE("evaluation")
            STORE_ORDER_PAGE,
        STORE_PAGE_ROWS + 1);

    while (stmt != NULL && store_page_row(op, stmt, &rows))
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
    sqlite3_stmt *stmt = store_page_open(
        op, conn,
        "SELECT id, job, name, (SELECT directory FROM job AS j WHERE j.id ="
        " checkpoint.job) || '/checkpoints/' || name, iteration, updates,"
        " skips, attempt, live, state, cause, best, metric, bytes, digest,"
        " t_us FROM checkpoint" STORE_WHERE_PAGE("checkpoint") STORE_ORDER_PAGE,
        STORE_PAGE_ROWS + 1);

    while (stmt != NULL && store_page_row(op, stmt, &rows))
        read_checkpoint(
            op, stmt,
            store_rows_add(op, &rows, sizeof(struct view_checkpoint)));
}

static void
run_attempts(struct store_op *op, struct store_conn *conn)
{
    const struct store_query_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "SELECT attempt, state, resumed_from, start_iteration, end_iteration,"
        " policy, policy_changed, pid, start_us, end_us, obituary, cause,"
        /* Neither reads a long history row by row: updates are what was not
         * skipped, and the last iterations are enough for a mean. */
        " difference, end_iteration - start_iteration - (SELECT count(*) FROM"
        "  scale_event AS e WHERE e.job = attempt.job AND e.iteration BETWEEN"
        "  start_iteration + 1 AND end_iteration AND e.attempt ="
        "  attempt.attempt AND e.cause = 'skip' AND NOT e.partial),"
        " coalesce((SELECT avg(m.step_us) FROM metric AS m WHERE m.job ="
        "  attempt.job AND m.iteration BETWEEN max(start_iteration + 4,"
        "  end_iteration - 10000) AND end_iteration AND m.attempt ="
        "  attempt.attempt AND NOT m.skipped), (SELECT"
        "  CAST(sum(l.step_us) AS REAL) / sum(l.n) FROM metric_level AS l WHERE"
        "  l.job = attempt.job AND l.level = 2 AND l.first BETWEEN"
        "  start_iteration + 1 AND end_iteration AND l.attempt ="
        "  attempt.attempt))"
        " FROM attempt WHERE job = ? AND attempt > ? ORDER BY attempt"
        " LIMIT ?");

    if (s == NULL)
        return;
    store_sql_bind(s, "iii", a->job, a->after_row,
                   (int64_t)STORE_PAGE_ROWS + 1);
    while (store_page_row(op, s, &rows)) {
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
        v->cause = store_sql_text(op, s, 11);
        v->difference = store_sql_text(op, s, 12);
        v->updates = sqlite3_column_int64(s, 13);
        v->mean_step_us = store_sql_real(s, 14);
    }
}

static void
run_rollbacks(struct store_op *op, struct store_conn *conn)
{
    const struct store_query_args *a = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "SELECT id, job, attempt, from_iteration, to_iteration,"
        " coalesce((SELECT name FROM checkpoint AS c WHERE c.id ="
        " rollback.checkpoint), ''), cause, uid, change, difference,"
        " policy_changed, t_us FROM rollback WHERE job = ? AND id > ?"
        " ORDER BY id LIMIT ?");

    if (s == NULL)
        return;
    store_sql_bind(s, "iii", a->job, a->after_row,
                   (int64_t)STORE_PAGE_ROWS + 1);
    while (store_page_row(op, s, &rows)) {
        struct view_went_back *v = store_rows_add(op, &rows, sizeof(*v));

        view_init(VIEW_ID_went_back, v);
        v->row = sqlite3_column_int64(s, 0);
        v->job = sqlite3_column_int64(s, 1);
        v->attempt = sqlite3_column_int64(s, 2);
        v->from_iteration = sqlite3_column_int64(s, 3);
        v->to_iteration = sqlite3_column_int64(s, 4);
        v->checkpoint = store_sql_text(op, s, 5);
        v->cause = store_sql_text(op, s, 6);
        v->uid = sqlite3_column_int64(s, 7);
        v->change = store_sql_text(op, s, 8);
        v->difference = store_sql_text(op, s, 9);
        v->policy_changed = sqlite3_column_int(s, 10) != 0;
        v->t_us = sqlite3_column_int64(s, 11);
    }
}

static store_run_fn *
query_of(enum message_id what)
{
    static const struct {
        enum message_id what;
        store_run_fn *run;
    } table[] = {
        {MESSAGE_ID_metrics, store_run_metrics},
        {MESSAGE_ID_scale, run_scale},
        {MESSAGE_ID_skips, run_skips},
        {MESSAGE_ID_incidents, store_run_incidents},
        {MESSAGE_ID_evaluations, run_evaluations},
        {MESSAGE_ID_checkpoints, run_checkpoints},
        {MESSAGE_ID_attempts, run_attempts},
        {MESSAGE_ID_guards, store_run_guards},
        {MESSAGE_ID_rollbacks, run_rollbacks},
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
    struct store_query_args *args;

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
