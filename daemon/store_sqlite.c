/* SPDX-License-Identifier: Apache-2.0 */
/* The store's threads: one queue to the writer, one from it to the reader,
 * one back to the loop. */
#include "daemon/store_ballast.h"
#include "daemon/store_private.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STORE_MAGIC 0x73746f72u
#define MAX_GROUP   4096

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct store_op *head, **tail;
    bool closed;
};

struct store {
    unsigned magic;
    char *path;
    int64_t commit_interval_ms, keep_metrics;
    char warning[256];
    struct store_watch watch;
    struct store_conn writer, reader;
    struct store_ballast ballast; /* the writer's, once it runs */
    int64_t ballast_bytes;
    bool writer_open;
    pthread_t writer_thread, reader_thread;
    int n_threads;
    struct queue to_writer, to_reader, to_loop;
    int backlog;                /* loop's thread only */
    _Atomic int64_t last_event; /* highest that is committed */
    uv_async_t async;
};

/* ---- queues --------------------------------------------------------------- */

static void
queue_init(struct queue *q)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->ready, &attr);
    pthread_condattr_destroy(&attr);
    q->head = NULL;
    q->tail = &q->head;
    q->closed = false;
}

static void
queue_put(struct queue *q, struct store_op *op)
{
    op->next = NULL;
    pthread_mutex_lock(&q->lock);
    *q->tail = op;
    q->tail = &op->next;
    pthread_cond_signal(&q->ready);
    pthread_mutex_unlock(&q->lock);
}

static void
queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_signal(&q->ready);
    pthread_mutex_unlock(&q->lock);
}

/* The next op; NULL at the deadline (NULL: none) or when closed and empty. */
static struct store_op *
queue_take(struct queue *q, const struct timespec *deadline, bool *closed)
{
    struct store_op *op;
    int rc = 0;

    pthread_mutex_lock(&q->lock);
    while (q->head == NULL && !q->closed && rc != ETIMEDOUT)
        rc = deadline == NULL
                 ? pthread_cond_wait(&q->ready, &q->lock)
                 : pthread_cond_timedwait(&q->ready, &q->lock, deadline);
    op = q->head;
    if (op != NULL) {
        q->head = op->next;
        if (q->head == NULL)
            q->tail = &q->head;
    }
    *closed = q->closed && op == NULL;
    pthread_mutex_unlock(&q->lock);
    return op;
}

/* ---- operations ----------------------------------------------------------- */

struct store_op *
store_op_create(store_run_fn *run, size_t args_bytes)
{
    struct store_op *op = calloc(1, sizeof(*op));

    assert(op != NULL);
    op->run = run;
    op->commit.seconds = -1;
    op->pool = pool_create();
    assert(op->pool != NULL);
    op->args = pool_alloc(op->pool, 1, args_bytes);
    assert(op->args != NULL);
    return op;
}

void
store_op_destroy(struct store_op *op)
{
    pool_destroy(&op->pool);
    free(op);
}

const char *
store_op_copy(struct store_op *op, const char *s)
{
    char *copy;

    if (s == NULL || *s == '\0')
        return "";
    copy = pool_copy(op->pool, s, strlen(s));
    assert(copy != NULL);
    return copy;
}

void
store_op_submit(struct store *store, struct store_op *op)
{
    assert(store->magic == STORE_MAGIC);
    store->backlog++;
    queue_put(&store->to_writer, op);
}

int64_t
store_keep_metrics(const struct store *store)
{
    return store->keep_metrics;
}

const char *
store_path(const struct store *store)
{
    return store->path;
}

int
store_backlog(const struct store *store)
{
    assert(store->magic == STORE_MAGIC);
    return store->backlog;
}

void *
store_rows_add(struct store_op *op, struct store_rows *rows, size_t size)
{
    if (rows->n == rows->cap) {
        int cap = rows->cap == 0 ? 16 : rows->cap * 2;
        char *v = pool_alloc(op->pool, (size_t)cap, size);

        assert(v != NULL);
        if (rows->n > 0)
            memcpy(v, rows->v, (size_t)rows->n * size);
        rows->v = v;
        rows->cap = cap;
    }
    op->items = rows->v;
    op->n_items = rows->n + 1;
    return rows->v + (size_t)rows->n++ * size;
}

/* ---- the writer ----------------------------------------------------------- */

static void
deliver(struct store *store, struct store_op *op)
{
    queue_put(&store->to_loop, op);
    uv_async_send(&store->async);
}

/* Runs one op inside a savepoint, so that its failure undoes it alone. */
static void
run_in_group(struct store *store, struct store_op *op)
{
    struct err err;

    err_clear(&err);
    op->rc = store_sql_exec(&store->writer, "SAVEPOINT op", &op->err);
    if (op->rc != 0)
        return;
    op->run(op, &store->writer);
    if (op->rc != 0 && !sqlite3_get_autocommit(store->writer.db))
        store_sql_exec(&store->writer, "ROLLBACK TO op", &err);
    if (!sqlite3_get_autocommit(store->writer.db))
        store_sql_exec(&store->writer, "RELEASE op", &err);
}

/* Those who were refused for want of room try again, and find some. */
static void
mind_ballast(struct store *store, const struct store_op *group, int rc)
{
    for (; rc == 0 && group != NULL; group = group->next)
        rc = group->rc == ERR_NOSPACE ? ERR_NOSPACE : 0;
    if (rc == ERR_NOSPACE)
        store_ballast_drop(&store->ballast);
    else if (rc == 0)
        store_ballast_check(&store->ballast, store->ballast_bytes);
}

/* For those who wait for events; what is in the group's way is not lost. */
static void
note_last_event(struct store *store)
{
    static const char sql[] = "SELECT coalesce(max(seq), 0) FROM event";
    struct store_op *op = store_op_create(NULL, 1);
    sqlite3_stmt *stmt = store_sql_prepare(op, &store->writer, sql);

    if (stmt != NULL && store_sql_row(op, stmt)) {
        store->last_event = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    store_op_destroy(op);
}

int64_t
store_last_event(const struct store *store)
{
    assert(store->magic == STORE_MAGIC);
    return store->last_event;
}

/* Commits the group and hands it back; a failed commit fails every op. */
static void
finish_group(struct store *store, struct store_op *group, bool begun)
{
    struct err err;
    int rc = 0;

    err_clear(&err);
    if (begun && sqlite3_get_autocommit(store->writer.db))
        rc = err_set(&err, ERR_NOSPACE,
                     "database: the transaction was rolled back (disk full?)");
    else if (begun)
        rc = store_watch_commit(&store->writer, store->path, group, &err);
    if (rc != 0 && !sqlite3_get_autocommit(store->writer.db)) {
        struct err ignored;

        store_sql_exec(&store->writer, "ROLLBACK", &ignored);
    }
    mind_ballast(store, group, rc);
    if (begun && rc == 0)
        note_last_event(store);
    while (group != NULL) {
        struct store_op *op = group;

        group = op->next;
        if (rc != 0 && op->rc == 0) {
            op->rc = rc;
            op->err = err;
        }
        deliver(store, op);
    }
}

static struct timespec
deadline_in(int64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* One group: from its first op to the commit. false: closed and drained. */
static bool
write_group(struct store *store)
{
    struct store_op *group = NULL, **tail = &group, *query = NULL, *op;
    struct timespec deadline;
    bool closed = false, begun, urgent;
    struct err err;
    int n = 0;

    op = queue_take(&store->to_writer, NULL, &closed);
    if (op == NULL)
        return !closed;
    if (op->query) {
        queue_put(&store->to_reader, op);
        return true;
    }
    deadline = deadline_in(store->commit_interval_ms);
    err_clear(&err);
    begun = store_sql_exec(&store->writer, "BEGIN IMMEDIATE", &err) == 0;
    do {
        if (begun) {
            run_in_group(store, op);
        } else {
            op->rc = err.code;
            op->err = err;
        }
        urgent = op->urgent;
        op->next = NULL;
        *tail = op;
        tail = &op->next;
        /* A full disk can undo the whole group under our feet. */
        if (begun && sqlite3_get_autocommit(store->writer.db))
            break;
        if (urgent || !begun || ++n == MAX_GROUP)
            break;
        op = queue_take(&store->to_writer, &deadline, &closed);
        if (op != NULL && op->query)
            query = op;
    } while (op != NULL && query == NULL);
    finish_group(store, group, begun);
    if (query != NULL)
        queue_put(&store->to_reader, query);
    return true;
}

static void
block_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void *
writer_main(void *arg)
{
    struct store *store = arg;

    block_signals();
    while (write_group(store))
        continue;
    queue_close(&store->to_reader);
    return NULL;
}

static void *
reader_main(void *arg)
{
    struct store *store = arg;
    struct store_op *op;
    bool closed = false;

    block_signals();
    while (!closed) {
        op = queue_take(&store->to_reader, NULL, &closed);
        if (op == NULL)
            continue;
        op->run(op, &store->reader);
        deliver(store, op);
    }
    return NULL;
}

/* ---- back on the loop ------------------------------------------------------*/

static void
call_back(struct store_op *op)
{
    if (op->rows != NULL)
        op->rows(op->ctx, op->rc, op->items, op->n_items, op->more, &op->err);
    else if (op->done != NULL)
        op->done(op->ctx, op->rc, op->id, &op->err);
    store_op_destroy(op);
}

static struct store_op *
take_delivered(struct store *store)
{
    struct store_op *head;

    pthread_mutex_lock(&store->to_loop.lock);
    head = store->to_loop.head;
    store->to_loop.head = NULL;
    store->to_loop.tail = &store->to_loop.head;
    pthread_mutex_unlock(&store->to_loop.lock);
    return head;
}

static void
on_async(uv_async_t *async)
{
    struct store *store = async->data;
    struct store_op *head = take_delivered(store);

    assert(store->magic == STORE_MAGIC);
    while (head != NULL) {
        struct store_op *op = head;

        head = op->next;
        store->backlog--;
        store_watch_tell(&store->watch, op);
        call_back(op);
    }
}

/* ---- life ----------------------------------------------------------------- */

static void
store_free(struct store *store)
{
    store_sql_close(&store->reader);
    store_sql_close(&store->writer);
    free(store->path);
    store->magic = 0;
    free(store);
}

static void
on_async_closed(uv_handle_t *handle)
{
    store_free(handle->data);
}

static int
open_connections(struct store *store, const struct store_options *options,
                 struct err *err)
{
    static int memory_number;
    char memory[64];
    int rc;

    if (strcmp(options->path, ":memory:") == 0) {
        snprintf(memory, sizeof(memory),
                 "file:traind-%d-%d?mode=memory&cache=shared", (int)getpid(),
                 memory_number++);
        store->path = strdup(memory);
    } else {
        store->path = strdup(options->path);
    }
    if (store->path == NULL)
        return err_set(err, ERR_NOMEM, "%s: out of memory", options->path);
    rc = store_schema_check_fs(options, store->warning, sizeof(store->warning),
                               err);
    if (rc == 0)
        rc = store_schema_open(store->path, false, &store->writer, err);
    if (rc == 0)
        rc = store_schema_migrate(&store->writer, options->path, err);
    if (rc == 0)
        rc = store_schema_open(store->path, true, &store->reader, err);
    if (rc == 0)
        store_ballast_init(&store->ballast, store->path,
                           options->ballast_bytes);
    return rc;
}

static int
start_threads(struct store *store, struct err *err)
{
    int rc = pthread_create(&store->writer_thread, NULL, writer_main, store);

    if (rc != 0)
        return err_set_errno(err, ERR_INTERNAL, rc, "database thread");
    store->n_threads = 1;
    rc = pthread_create(&store->reader_thread, NULL, reader_main, store);
    if (rc != 0)
        return err_set_errno(err, ERR_INTERNAL, rc, "database thread");
    store->n_threads = 2;
    return 0;
}

int
store_open(const struct store_options *options, uv_loop_t *loop,
           struct store **out, struct err *err)
{
    struct store *store = calloc(1, sizeof(*store));
    int rc;

    *out = NULL;
    if (store == NULL)
        return err_set(err, ERR_NOMEM, "%s: out of memory", options->path);
    store->magic = STORE_MAGIC;
    store->commit_interval_ms = options->commit_interval_ms;
    store->keep_metrics = options->keep_metrics;
    store->ballast_bytes = options->ballast_bytes;
    store->watch = options->watch;
    queue_init(&store->to_writer);
    queue_init(&store->to_reader);
    queue_init(&store->to_loop);
    rc = open_connections(store, options, err);
    if (rc != 0) {
        store_free(store);
        return rc;
    }
    rc = uv_async_init(loop, &store->async, on_async);
    assert(rc == 0);
    store->async.data = store;
    rc = start_threads(store, err);
    if (rc != 0) {
        store_close(&store);
        return rc;
    }
    *out = store;
    return 0;
}

void
store_close(struct store **storep)
{
    struct store *store = *storep;
    struct store_op *head;

    if (store == NULL)
        return;
    assert(store->magic == STORE_MAGIC);
    *storep = NULL;
    queue_close(&store->to_writer);
    if (store->n_threads > 0)
        pthread_join(store->writer_thread, NULL);
    if (store->n_threads > 1)
        pthread_join(store->reader_thread, NULL);
    for (head = take_delivered(store); head != NULL;) {
        struct store_op *op = head;

        head = op->next;
        store_op_destroy(op);
    }
    uv_close((uv_handle_t *)&store->async, on_async_closed);
}

const char *
store_warning(const struct store *store)
{
    return store->warning;
}

/* ---- the two that need the connection at once ------------------------------*/

int
store_load_jobs(struct store *store, store_job_fn *fn, void *ctx,
                struct err *err)
{
    static const char sql[] = "SELECT id FROM job WHERE state NOT IN "
                              "('completed','failed','cancelled',"
                              "'interrupted') ORDER BY id";
    struct store_op *op = store_op_create(NULL, 1);
    struct store_conn conn = {0};
    sqlite3_stmt *ids, *one;
    int rc;

    rc = store_schema_open(store->path, true, &conn, err);
    if (rc != 0)
        goto out;
    ids = store_sql_prepare(op, &conn, sql);
    one = ids == NULL ? NULL : store_sql_prepare(op, &conn, store_job_select);
    while (one != NULL && store_sql_row(op, ids)) {
        struct store_job job;

        store_sql_bind(one, "i", (int64_t)sqlite3_column_int64(ids, 0));
        if (store_sql_row(op, one)) {
            store_job_read(op, one, &job);
            sqlite3_reset(one);
            fn(ctx, &job);
        }
    }
    rc = op->rc;
    if (rc != 0)
        *err = op->err;
out:
    store_sql_close(&conn);
    store_op_destroy(op);
    return rc;
}
