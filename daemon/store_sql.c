/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_private.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int
store_sql_map(int sqlite_rc)
{
    switch (sqlite_rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return 0;
    case SQLITE_FULL: return ERR_NOSPACE;
    case SQLITE_NOMEM: return ERR_NOMEM;
    case SQLITE_CONSTRAINT: return ERR_EXISTS;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ERR_AGAIN;
    default: return ERR_IO;
    }
}

bool
store_sql_failed(struct store_op *op, sqlite3 *db)
{
    op->rc = store_sql_map(sqlite3_extended_errcode(db));
    if (op->rc == 0)
        op->rc = ERR_INTERNAL;
    err_set(&op->err, op->rc, "database: %s", sqlite3_errmsg(db));
    return false;
}

sqlite3_stmt *
store_sql_prepare(struct store_op *op, struct store_conn *conn, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    for (int i = 0; i < conn->n_kept; i++)
        if (conn->kept[i].sql == sql)
            return conn->kept[i].stmt;
    assert(conn->n_kept < STORE_MAX_STATEMENTS);
    if (sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt,
                           NULL) != SQLITE_OK) {
        store_sql_failed(op, conn->db);
        return NULL;
    }
    conn->kept[conn->n_kept].sql = sql;
    conn->kept[conn->n_kept++].stmt = stmt;
    return stmt;
}

int
store_sql_exec(struct store_conn *conn, const char *sql, struct err *err)
{
    int rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        return 0;
    return err_set(err, store_sql_map(rc), "database: %s",
                   sqlite3_errmsg(conn->db));
}

void
store_sql_close(struct store_conn *conn)
{
    for (int i = 0; i < conn->n_kept; i++)
        sqlite3_finalize(conn->kept[i].stmt);
    conn->n_kept = 0;
    if (conn->db != NULL)
        sqlite3_close(conn->db);
    conn->db = NULL;
}

static void
bind_double(sqlite3_stmt *stmt, int at, double v)
{
    if (isnan(v))
        sqlite3_bind_null(stmt, at);
    else
        sqlite3_bind_double(stmt, at, v);
}

static int
flag_of(double v)
{
    if (isnan(v))
        return 1;
    if (isinf(v))
        return v > 0 ? 2 : 3;
    return 0;
}

void
store_sql_bind(sqlite3_stmt *stmt, const char *types, ...)
{
    va_list ap;
    int at = 1;

    va_start(ap, types);
    for (; *types != '\0'; types++) {
        double v;

        switch (*types) {
        case 'i': sqlite3_bind_int64(stmt, at++, va_arg(ap, int64_t)); break;
        case 's':
            sqlite3_bind_text(stmt, at++, va_arg(ap, const char *), -1,
                              SQLITE_STATIC);
            break;
        case 'f': bind_double(stmt, at++, va_arg(ap, double)); break;
        case 'g':
            v = va_arg(ap, double);
            bind_double(stmt, at++, v);
            sqlite3_bind_int(stmt, at++, flag_of(v));
            break;
        default: assert(!"type letter");
        }
    }
    va_end(ap);
    assert(at - 1 == sqlite3_bind_parameter_count(stmt));
}

bool
store_sql_run(struct store_op *op, sqlite3_stmt *stmt)
{
    bool row = store_sql_row(op, stmt);

    assert(!row);
    return op->rc == 0;
}

bool
store_sql_row(struct store_op *op, sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);

    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        store_sql_failed(op, sqlite3_db_handle(stmt));
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return false;
}

const char *
store_sql_text(struct store_op *op, sqlite3_stmt *stmt, int col)
{
    return store_op_copy(op, (const char *)sqlite3_column_text(stmt, col));
}

double
store_sql_real(sqlite3_stmt *stmt, int col)
{
    if (sqlite3_column_type(stmt, col) == SQLITE_NULL)
        return NAN;
    return sqlite3_column_double(stmt, col);
}

double
store_sql_flagged(sqlite3_stmt *stmt, int col)
{
    switch (sqlite3_column_int(stmt, col + 1)) {
    case 1: return NAN;
    case 2: return INFINITY;
    case 3: return -INFINITY;
    default: return store_sql_real(stmt, col);
    }
}

const char *
store_sql_list_text(struct store_op *op, const int64_t *v, int n)
{
    char *text = pool_alloc(op->pool, (size_t)n + 1, 21 + 1);
    char *p = text;

    if (text == NULL)
        return "[]";
    *p++ = '[';
    for (int i = 0; i < n; i++)
        p += sprintf(p, "%s%lld", i == 0 ? "" : ",", (long long)v[i]);
    strcpy(p, "]");
    return text;
}

struct view_i64s
store_sql_list(struct store_op *op, const char *text)
{
    struct view_i64s list = {NULL, 0};
    size_t commas = 0;
    int64_t *v;

    for (const char *p = text; *p != '\0'; p++)
        commas += *p == ',';
    v = pool_alloc(op->pool, commas + 1, sizeof(*v));
    if (v == NULL || *text != '[')
        return list;
    for (const char *p = text + 1; *p != '\0' && *p != ']';) {
        char *end = NULL;

        v[list.n] = strtoll(p, &end, 10);
        if (end == p)
            break;
        list.n++;
        p = *end == ',' ? end + 1 : end;
    }
    list.v = v;
    return list;
}

int64_t
store_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
