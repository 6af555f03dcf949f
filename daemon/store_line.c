/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows are live. The live line is the latest attempt, then the line of
 * the checkpoint it was resumed from up to that checkpoint, and so on to the
 * start. */
#include "daemon/store_level.h"
#include "daemon/store_private.h"
#include "daemon/store_write.h"

struct start {
    int64_t job, attempt;
};

#define N_TABLES 6
#define EACH_TABLE(set_and_where)                                              \
    {                                                                          \
        "UPDATE metric " set_and_where, "UPDATE scale_event " set_and_where,   \
            "UPDATE incident " set_and_where,                                  \
            "UPDATE evaluation " set_and_where, "UPDATE guard " set_and_where, \
            "UPDATE checkpoint " set_and_where                                 \
    }

static bool
update_tables(struct store_op *op, struct store_conn *conn,
              const char *const sql[N_TABLES], const int64_t v[4])
{
    for (int i = 0; i < N_TABLES; i++) {
        sqlite3_stmt *stmt = store_sql_prepare(op, conn, sql[i]);

        if (stmt == NULL)
            return false;
        store_sql_bind(stmt, "iiii", v[0], v[1], v[2], v[3]);
        if (!store_sql_run(op, stmt))
            return false;
    }
    return true;
}

/* Rows of attempts before `attempt` beyond `iteration` leave the live line. */
static bool
abandon_after(struct store_op *op, struct store_conn *conn, int64_t job,
              int64_t attempt, int64_t iteration)
{
    static const char *const sql[N_TABLES] =
        EACH_TABLE("SET live = ?4 WHERE job = ?1 AND iteration > ?3"
                   " AND attempt < ?2 AND live = 1");

    return update_tables(op, conn, sql,
                         (const int64_t[4]){job, attempt, iteration, 0}) &&
           store_level_abandon(op, conn, job, attempt, iteration);
}

/* Rows of one attempt up to `iteration` join it. */
static bool
revive_upto(struct store_op *op, struct store_conn *conn, int64_t job,
            int64_t attempt, int64_t iteration)
{
    static const char *const sql[N_TABLES] =
        EACH_TABLE("SET live = ?4 WHERE job = ?1 AND iteration <= ?3"
                   " AND attempt = ?2 AND live = 0");

    return update_tables(op, conn, sql,
                         (const int64_t[4]){job, attempt, iteration, 1}) &&
           store_level_revive(op, conn, job, attempt, iteration);
}

/* The attempt that wrote a checkpoint and whether it is on the live line;
 * 0 when there is no such row. */
static int64_t
writer_of(struct store_op *op, struct store_conn *conn, int64_t job,
          const char *name, bool *live)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "SELECT attempt, live FROM checkpoint WHERE job = ? AND name = ?");
    int64_t attempt = 0;

    if (stmt == NULL)
        return 0;
    store_sql_bind(stmt, "is", job, name);
    if (store_sql_row(op, stmt)) {
        attempt = sqlite3_column_int64(stmt, 0);
        *live = sqlite3_column_int(stmt, 1) != 0;
        sqlite3_reset(stmt);
    }
    return attempt;
}

/* Where an attempt began; false: no such attempt or a failure. */
static bool
start_of(struct store_op *op, struct store_conn *conn, int64_t job,
         int64_t attempt, int64_t *iteration, const char **resumed_from)
{
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn,
                          "SELECT start_iteration, resumed_from FROM attempt"
                          " WHERE job = ? AND attempt = ?");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "ii", job, attempt);
    if (!store_sql_row(op, stmt))
        return false;
    *iteration = sqlite3_column_int64(stmt, 0);
    *resumed_from = store_sql_text(op, stmt, 1);
    sqlite3_reset(stmt);
    return true;
}

/* The attempt went back to a checkpoint of an abandoned line: that line, up to
 * there, becomes the live one. */
static bool
switch_line(struct store_op *op, struct store_conn *conn, const struct start *a,
            int64_t attempt, int64_t upto)
{
    const char *from = "";
    int64_t began = 0, last = a->attempt;
    bool live;

    if (!abandon_after(op, conn, a->job, a->attempt, 0))
        return false;
    /* Only ever to earlier attempts: the worker's words may go in circles. */
    for (; attempt > 0 && attempt < last;
         attempt = writer_of(op, conn, a->job, from, &live)) {
        last = attempt;
        if (!revive_upto(op, conn, a->job, attempt, upto))
            return false;
        if (!start_of(op, conn, a->job, attempt, &began, &from))
            break;
        upto = began;
        if (*from == '\0')
            break;
    }
    return op->rc == 0;
}

/* A scale that was set at the start of an attempt comes after the checkpoint,
 * of attempt `writer`, that it began with, though of the same iteration. */
static bool
abandon_set(struct store_op *op, struct store_conn *conn, const struct start *a,
            int64_t iteration, int64_t writer)
{
    static const char sql[] =
        "UPDATE scale_event SET live = 0 WHERE job = ? AND iteration = ? AND"
        " cause = 'set' AND attempt > ? AND attempt < ? AND live = 1";
    sqlite3_stmt *stmt = store_sql_prepare(op, conn, sql);

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiii", a->job, iteration, writer, a->attempt);
    return store_sql_run(op, stmt);
}

/* How far the attempt before this one came. */
static int64_t
end_before(struct store_op *op, struct store_conn *conn, const struct start *a)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "SELECT end_iteration FROM attempt WHERE job = ? AND attempt < ? AND"
        " policy <> '' ORDER BY attempt DESC LIMIT 1");
    int64_t end = 0;

    if (stmt == NULL)
        return 0;
    store_sql_bind(stmt, "ii", a->job, a->attempt);
    if (store_sql_row(op, stmt)) {
        end = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return end;
}

bool
store_line_set(struct store_op *op, struct store_conn *conn, int64_t job,
               int64_t attempt, const char *from, int64_t iteration)
{
    const struct start a = {job, attempt};
    bool live = true;
    int64_t end = end_before(op, conn, &a);
    int64_t writer = *from == '\0' ? 0 : writer_of(op, conn, job, from, &live);

    if (op->rc != 0)
        return false;
    if (writer > 0 && !live && !switch_line(op, conn, &a, writer, iteration))
        return false;
    return abandon_after(op, conn, job, attempt, iteration) &&
           abandon_set(op, conn, &a, iteration, writer) &&
           store_level_cut(op, conn, job, iteration, writer > 0 && !live) &&
           store_level_settle(op, conn, job, end) &&
           store_level_settle(op, conn, job, iteration) &&
           store_choose_best(op, conn, job);
}
