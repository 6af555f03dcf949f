/* SPDX-License-Identifier: Apache-2.0 */
/* Figures about the store itself: commits, sizes, refusals, how many jobs. */
#include "daemon/store_private.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PATH_BYTES 4200

const int store_troubles[] = {ERR_IO,    ERR_NOSPACE,  ERR_AGAIN,
                              ERR_NOMEM, ERR_INTERNAL, 0};

static double
mono_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t
file_bytes(const char *path, const char *suffix)
{
    char name[PATH_BYTES];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (int64_t)st.st_size : -1;
}

int
store_watch_commit(struct store_conn *conn, const char *path,
                   struct store_op *op, struct err *err)
{
    const double start = mono_seconds();
    const int rc = store_sql_exec(conn, "COMMIT", err);

    if (rc == 0)
        op->commit =
            (struct store_commit){.seconds = mono_seconds() - start,
                                  .db_bytes = file_bytes(path, ""),
                                  .wal_bytes = file_bytes(path, "-wal")};
    return rc;
}

static bool
is_trouble(int code)
{
    for (int i = 0; store_troubles[i] != 0; i++)
        if (code == store_troubles[i])
            return true;
    return false;
}

void
store_watch_tell(const struct store_watch *watch, const struct store_op *op)
{
    if (watch->commit != NULL && op->commit.seconds >= 0)
        watch->commit(watch->ctx, &op->commit);
    if (watch->trouble != NULL && is_trouble(op->rc))
        watch->trouble(watch->ctx, op->rc);
}

int
store_count_final(struct store *store, store_count_fn *fn, void *ctx,
                  struct err *err)
{
    static const char sql[] = "SELECT state, count(*) FROM job WHERE state IN "
                              "('completed','failed','cancelled',"
                              "'interrupted') GROUP BY state";
    struct store_op *op = store_op_create(NULL, 1);
    struct store_conn conn = {0};
    sqlite3_stmt *stmt;
    int rc;

    rc = store_schema_open(store_path(store), true, &conn, err);
    if (rc != 0)
        goto out;
    stmt = store_sql_prepare(op, &conn, sql);
    while (stmt != NULL && store_sql_row(op, stmt))
        fn(ctx, store_sql_text(op, stmt, 0), sqlite3_column_int64(stmt, 1));
    rc = op->rc;
    if (rc != 0)
        *err = op->err;
out:
    store_sql_close(&conn);
    store_op_destroy(op);
    return rc;
}
