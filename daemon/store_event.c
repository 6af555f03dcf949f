/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of table event, for those who watch. */
#include "daemon/store_private.h"

#define MOST_ROWS 1000

struct events_args {
    int64_t uid;
    struct view_events_query query; /* no strings in it */
};

#define EVENT_SELECT                                                           \
    "SELECT seq, t_us, job, attempt, uid, kind, text FROM event"               \
    " WHERE seq > ?1 AND (?2 < 0 OR (job = 0 AND uid = ?2) OR EXISTS"          \
    " (SELECT 1 FROM job WHERE job.id = event.job AND job.uid = ?2))"
#define FIRST(which) EVENT_SELECT which " ORDER BY seq LIMIT ?4"
#define LAST(which)                                                            \
    "SELECT * FROM (" EVENT_SELECT which                                       \
    " ORDER BY seq DESC LIMIT ?4) ORDER BY seq"

/* By whether the last ones are asked for, and whether those of one job. */
static const char *const select_of[2][2] = {
    {FIRST(" AND ?3 = 0"), FIRST(" AND job = ?3")},
    {LAST(" AND ?3 = 0"), LAST(" AND job = ?3")},
};

static void
read_event(struct store_op *op, sqlite3_stmt *s, struct view_event *v)
{
    view_init(VIEW_ID_event, v);
    v->seq = sqlite3_column_int64(s, 0);
    v->t_us = sqlite3_column_int64(s, 1);
    v->job = sqlite3_column_int64(s, 2);
    v->attempt = sqlite3_column_int64(s, 3);
    v->uid = sqlite3_column_int64(s, 4);
    v->kind = store_sql_text(op, s, 5);
    v->text = store_sql_text(op, s, 6);
}

static void
run_events(struct store_op *op, struct store_conn *conn)
{
    const struct events_args *a = op->args;
    const struct view_events_query *q = &a->query;
    struct store_rows rows = {0};
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn, select_of[q->latest][q->job != 0]);

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "iiii", q->after, a->uid, q->job,
                   q->limit + !q->latest);
    while (store_sql_row(op, stmt)) {
        if (rows.n == q->limit) {
            op->more = true;
            sqlite3_reset(stmt);
            return;
        }
        read_event(op, stmt,
                   store_rows_add(op, &rows, sizeof(struct view_event)));
    }
}

void
store_query_events(struct store *store, int64_t uid,
                   const struct view_events_query *query, store_rows_fn *done,
                   void *ctx)
{
    struct store_op *op =
        store_op_create(run_events, sizeof(struct events_args));
    struct events_args *a = op->args;

    a->uid = uid;
    a->query = *query;
    if (query->limit <= 0 || query->limit > MOST_ROWS)
        a->query.limit = MOST_ROWS;
    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}
