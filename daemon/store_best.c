/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint is best. The worker marks one when it beats all before it;
 * when the line changes or a checkpoint goes, the rest is compared anew. */
#include "daemon/store_private.h"
#include "daemon/store_write.h"

#include <string.h>

#include "proto/spec.h"

/* 1: smaller is better, -1: larger is, 0: the job has no such rule. */
static int64_t
read_direction(const char *text)
{
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    int64_t direction = 0;

    if (spec_parse(text, strlen(text), &spec, &faults) == 0 &&
        spec->checkpoint.has_best)
        direction =
            spec_metric_is_larger_better(spec->checkpoint.best) ? -1 : 1;
    spec_faults_fini(&faults);
    spec_destroy(&spec);
    return direction;
}

static int64_t
direction_of(struct store_op *op, struct store_conn *conn, int64_t job)
{
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn, "SELECT spec FROM job WHERE id = ?");
    int64_t direction = 0;

    if (stmt == NULL)
        return 0;
    store_sql_bind(stmt, "i", job);
    if (store_sql_row(op, stmt)) {
        direction = read_direction((const char *)sqlite3_column_text(stmt, 0));
        sqlite3_reset(stmt);
    }
    return direction;
}

/* Of equal ones the first, as the worker has it. */
bool
store_choose_best(struct store_op *op, struct store_conn *conn, int64_t job)
{
    int64_t direction = direction_of(op, conn, job);
    sqlite3_stmt *stmt;

    if (op->rc != 0 || direction == 0)
        return op->rc == 0;
    stmt = store_sql_prepare(
        op, conn,
        "UPDATE checkpoint SET best = (id = coalesce((SELECT id FROM"
        " checkpoint WHERE job = ?1 AND live = 1 AND state = 'good'"
        " AND metric IS NOT NULL ORDER BY metric * ?2, iteration, id"
        " LIMIT 1), 0)) WHERE job = ?1");
    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "ii", job, direction);
    return store_sql_run(op, stmt);
}
