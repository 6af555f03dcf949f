/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_history: pages of rows of one job, for the files that read them.
 *
 * A page is at most STORE_PAGE_ROWS rows in the order of (iteration, row),
 * after a given row. On the reader's thread. Private to daemon/store_*.c.
 */
#ifndef DAEMON_STORE_HISTORY_H
#define DAEMON_STORE_HISTORY_H

#include "daemon/store_private.h"

#define STORE_PAGE_ROWS 1000

/* op->args of a history query. */
struct store_query_args {
    int64_t job, from, to, max_points, after_row;
    bool all_lines, confusion;
};

/* Behind "SELECT ... FROM table", with store_page_open()'s parameters. */
#define STORE_WHERE_PAGE(table)                                                \
    " WHERE job = ?1 AND (?2 OR live = 1) AND iteration BETWEEN ?3 AND ?4"     \
    " AND (?5 = 0 OR (iteration, id) > ((SELECT iteration FROM " table         \
    " WHERE id = ?5), ?5)) "
#define STORE_ORDER_PAGE " ORDER BY iteration, id LIMIT ?6"

sqlite3_stmt *store_page_open(struct store_op *op, struct store_conn *conn,
                              const char *sql, int64_t limit);
/* One more row, unless the page is full. */
bool store_page_row(struct store_op *op, sqlite3_stmt *stmt,
                    const struct store_rows *rows);

/* store_incident.c */
store_run_fn store_run_incidents, store_run_guards;
/* store_metrics.c */
store_run_fn store_run_metrics;

#endif
