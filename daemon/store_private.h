/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_private: what the store's own files share.
 *
 * An operation is a copied request that runs on the writer's thread inside the
 * group's transaction, or a query that runs on the reader's thread after
 * everything queued before it was committed. Results travel back in the same
 * struct to the loop's thread. Included by daemon/store_*.c only.
 */
#ifndef DAEMON_STORE_PRIVATE_H
#define DAEMON_STORE_PRIVATE_H

#include "daemon/store.h"
#include "proto/pool.h"

#include <sqlite3.h>

struct store_op;

/* A connection and the statements prepared on it so far. */
#define STORE_MAX_STATEMENTS 64
struct store_conn {
    sqlite3 *db; /* owned */
    struct {
        const char *sql; /* the constant it was prepared from */
        sqlite3_stmt *stmt;
    } kept[STORE_MAX_STATEMENTS];
    int n_kept;
};

/* Runs with the connection; fills op->rc, op->err and results. */
typedef void store_run_fn(struct store_op *op, struct store_conn *conn);

struct store_op {
    struct store_op *next;
    store_run_fn *run;
    bool query;        /* runs on the reader's thread */
    bool urgent;       /* commit right after */
    struct pool *pool; /* owned: arguments and results */
    void *args;        /* in pool */
    /* result */
    int rc;
    struct err err;
    int64_t id;
    const void *items; /* in pool */
    int n_items;
    bool more;
    struct store_commit commit; /* that ended with this one; seconds < 0:
                                   none did */
    /* callbacks; at most one is set */
    store_done_fn *done;
    store_rows_fn *rows;
    void *ctx;
};

/* NULL when there is no memory: the daemon cannot go on without its store, so
 * callers assert. */
struct store_op *store_op_create(store_run_fn *run, size_t args_bytes);
void store_op_destroy(struct store_op *op);
int64_t store_keep_metrics(const struct store *store);
const char *store_path(const struct store *store);
void store_op_submit(struct store *store, struct store_op *op);
/* A copy in the op's pool; NULL becomes "". */
const char *store_op_copy(struct store_op *op, const char *s);

/* ---- store_sql.c: statements without ceremony ---------------------------- */

/* Prepares, once per connection and text (kept with the connection). The text
 * must be a constant. NULL: op->rc and op->err say why. */
sqlite3_stmt *store_sql_prepare(struct store_op *op, struct store_conn *conn,
                                const char *sql);
/* Binds by type letters: i int64_t, s const char *, f double (NaN is NULL),
 * g double as two columns, value and flag. */
void store_sql_bind(sqlite3_stmt *stmt, const char *types, ...);
/* Steps a statement that returns nothing and resets it. */
bool store_sql_run(struct store_op *op, sqlite3_stmt *stmt);
/* true: a row is there; false: none, or op->rc says why. */
bool store_sql_row(struct store_op *op, sqlite3_stmt *stmt);
/* Puts an SQLite failure into op and returns false. */
bool store_sql_failed(struct store_op *op, sqlite3 *db);
/* Runs a constant without parameters; 0 or our code. */
int store_sql_exec(struct store_conn *conn, const char *sql, struct err *err);
/* Column readers; strings are copied into the op's pool. */
const char *store_sql_text(struct store_op *op, sqlite3_stmt *stmt, int col);
double store_sql_real(sqlite3_stmt *stmt, int col);    /* NULL is NaN */
double store_sql_flagged(sqlite3_stmt *stmt, int col); /* col and col + 1 */
/* A JSON list of integers <-> struct view_i64s. */
const char *store_sql_list_text(struct store_op *op, const int64_t *v, int n);
struct view_i64s store_sql_list(struct store_op *op, const char *text);
int store_sql_map(int sqlite_rc); /* SQLite's code -> ours */
void store_sql_close(struct store_conn *conn);
int64_t store_now_us(void);

/* ---- store_schema.c ------------------------------------------------------ */

/* Opens a connection with the settings both kinds share. */
int store_schema_open(const char *path, bool read_only, struct store_conn *conn,
                      struct err *err);
/* Checks application and version, creates or migrates. */
int store_schema_migrate(struct store_conn *conn, const char *path,
                         struct err *err);
/* Refuses network file systems; a warning's text goes to `warning`. */
int store_schema_check_fs(const struct store_options *options, char *warning,
                          size_t size, struct err *err);

/* ---- store_watch.c -------------------------------------------------------- */

/* On the writer's thread: commits, and writes down in op how it went. */
int store_watch_commit(struct store_conn *conn, const char *path,
                       struct store_op *op, struct err *err);
/* On the loop's thread, before the callback. */
void store_watch_tell(const struct store_watch *watch,
                      const struct store_op *op);

/* ---- the row of table job ------------------------------------------------- */

extern const char *const store_job_select; /* "SELECT ... FROM job ... " */
void store_job_read(struct store_op *op, sqlite3_stmt *stmt,
                    struct store_job *job);

/* A list of records growing in a pool. */
struct store_rows {
    char *v;
    int n, cap;
    size_t size;
};
void *store_rows_add(struct store_op *op, struct store_rows *rows, size_t size);

#endif
