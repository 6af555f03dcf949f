/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of table token. */
#include "daemon/store_private.h"
#include "daemon/store_write.h"

#include <stdio.h>

/* ---- at the start ----------------------------------------------------------*/

int
store_load_tokens(struct store *store, store_token_fn *fn, void *ctx,
                  struct err *err)
{
    static const char sql[] =
        "SELECT id, uid, user, name, hash, scopes, admin, created_us,"
        " expires_us, revoked_us, last_used_us FROM token ORDER BY id";
    struct store_op *op = store_op_create(NULL, 1);
    struct store_conn conn = {0};
    sqlite3_stmt *s = NULL;
    int rc = store_schema_open(store_path(store), true, &conn, err);

    if (rc == 0)
        s = store_sql_prepare(op, &conn, sql);
    while (s != NULL && store_sql_row(op, s)) {
        const struct store_token t = {
            .id = sqlite3_column_int64(s, 0),
            .uid = sqlite3_column_int64(s, 1),
            .user = store_sql_text(op, s, 2),
            .name = store_sql_text(op, s, 3),
            .hash = store_sql_text(op, s, 4),
            .scopes = (unsigned)sqlite3_column_int(s, 5),
            .admin = sqlite3_column_int(s, 6) != 0,
            .created_us = sqlite3_column_int64(s, 7),
            .expires_us = sqlite3_column_int64(s, 8),
            .revoked_us = sqlite3_column_int64(s, 9),
            .last_used_us = sqlite3_column_int64(s, 10)};

        fn(ctx, &t);
    }
    if (rc == 0 && op->rc != 0) {
        rc = op->rc;
        *err = op->err;
    }
    store_sql_close(&conn);
    store_op_destroy(op);
    return rc;
}

/* ---- writes ----------------------------------------------------------------*/

static void
run_insert(struct store_op *op, struct store_conn *conn)
{
    const struct store_token *t = op->args;
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "INSERT INTO token (uid, user, name, hash, scopes, admin, created_us,"
        " expires_us, revoked_us, last_used_us) VALUES (?,?,?,?,?,?,?,?,0,0)");
    char text[256];

    if (s == NULL)
        return;
    store_sql_bind(s, "isssiiii", t->uid, t->user, t->name, t->hash,
                   (int64_t)t->scopes, (int64_t)t->admin, t->created_us,
                   t->expires_us);
    if (!store_sql_run(op, s))
        return;
    op->id = sqlite3_last_insert_rowid(conn->db);
    snprintf(text, sizeof(text), "token %lld: %s", (long long)op->id, t->name);
    store_write_event(op, conn, 0, 0, t->uid, "token_create", text);
}

void
store_insert_token(struct store *store, const struct store_token *token,
                   store_done_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_insert, sizeof(*token));
    struct store_token *t = op->args;

    *t = *token;
    t->user = store_op_copy(op, token->user);
    t->name = store_op_copy(op, token->name);
    t->hash = store_op_copy(op, token->hash);
    op->urgent = true;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

struct mark_args {
    int64_t id, when_us, actor_uid;
};

static void
run_revoke(struct store_op *op, struct store_conn *conn)
{
    const struct mark_args *a = op->args;
    sqlite3_stmt *s = store_sql_prepare(
        op, conn, "UPDATE token SET revoked_us = ? WHERE id = ?");
    char text[64];

    if (s == NULL)
        return;
    store_sql_bind(s, "ii", a->when_us, a->id);
    snprintf(text, sizeof(text), "token %lld", (long long)a->id);
    if (store_sql_run(op, s))
        store_write_event(op, conn, 0, 0, a->actor_uid, "token_revoke", text);
}

static void
run_use(struct store_op *op, struct store_conn *conn)
{
    const struct mark_args *a = op->args;
    sqlite3_stmt *s = store_sql_prepare(
        op, conn, "UPDATE token SET last_used_us = ? WHERE id = ?");

    if (s == NULL)
        return;
    store_sql_bind(s, "ii", a->when_us, a->id);
    store_sql_run(op, s);
}

static void
mark(struct store *store, store_run_fn *run, const struct mark_args *args,
     store_done_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run, sizeof(*args));

    *(struct mark_args *)op->args = *args;
    op->urgent = done != NULL;
    op->done = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

void
store_revoke_token(struct store *store, int64_t id, int64_t revoked_us,
                   int64_t actor_uid, store_done_fn *done, void *ctx)
{
    mark(store, run_revoke, &(struct mark_args){id, revoked_us, actor_uid},
         done, ctx);
}

void
store_use_token(struct store *store, int64_t id, int64_t last_used_us)
{
    mark(store, run_use, &(struct mark_args){id, last_used_us, 0}, NULL, NULL);
}
