/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_level.h"

#include <math.h>
#include <string.h>

#include "daemon/store_group.h"

#define PRUNE_EVERY 1024 /* iterations of a job; of each level, rows of it */
#define PRUNE_PIECE 4    /* times as many go at once, so that it catches up */

int64_t
store_level_width(int level)
{
    return (int64_t)1 << (4 * level);
}

void
store_level_read(sqlite3_stmt *s, int level, struct view_metric *v)
{
    view_init(VIEW_ID_metric, v);
    v->row = sqlite3_column_int64(s, 0);
    v->iteration = sqlite3_column_int64(s, 1);
    v->updates = sqlite3_column_int64(s, 2);
    v->attempt = sqlite3_column_int64(s, 3);
    v->live = sqlite3_column_int(s, 4) != 0;
    v->n_skipped = sqlite3_column_int64(s, 5);
    v->skipped = v->n_skipped > 0;
    v->loss = store_sql_flagged(s, 6);
    v->grad_norm = store_sql_flagged(s, 8);
    v->lr = store_sql_real(s, 10);
    v->scale = store_sql_real(s, 11);
    v->samples = sqlite3_column_int64(s, 12);
    v->step_us = sqlite3_column_int64(s, 13);
    v->t_us = sqlite3_column_int64(s, 14);
    if (level == 0) {
        store_group_single(v);
        return;
    }
    v->row = -v->row;
    v->first = sqlite3_column_int64(s, 15);
    v->n = sqlite3_column_int64(s, 16);
    v->n_bad = sqlite3_column_int64(s, 17);
    v->n_bad_norm = sqlite3_column_int64(s, 18);
    v->loss_min = store_sql_real(s, 19);
    v->loss_max = store_sql_real(s, 20);
    v->grad_norm_min = store_sql_real(s, 21);
    v->grad_norm_max = store_sql_real(s, 22);
    v->scale_min = store_sql_real(s, 23);
    v->scale_max = store_sql_real(s, 24);
}

/* ---- one row --------------------------------------------------------------*/

static bool
insert(struct store_op *op, struct store_conn *conn, int64_t job, int level,
       const struct view_metric *v)
{
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "INSERT INTO metric_level (job, level, attempt, first, last, updates,"
        " skips, live, n, n_skipped, n_bad, n_bad_norm, loss, loss_flag,"
        " loss_min, loss_max, grad_norm, grad_norm_flag, grad_norm_min,"
        " grad_norm_max, lr, scale, scale_min, scale_max, samples, step_us,"
        " t_us) VALUES"
        " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");

    if (s == NULL)
        return false;
    store_sql_bind(s, "iiiiiiiiiiiigffgffffffiii", job, (int64_t)level,
                   v->attempt, v->first, v->iteration, v->updates,
                   v->iteration - v->updates, (int64_t)v->live, v->n,
                   v->n_skipped, v->n_bad, v->n_bad_norm, v->loss, v->loss_min,
                   v->loss_max, v->grad_norm, v->grad_norm_min,
                   v->grad_norm_max, v->lr, v->scale, v->scale_min,
                   v->scale_max, v->samples, v->step_us, v->t_us);
    return store_sql_run(op, s);
}

/* ---- a bucket -------------------------------------------------------------*/

struct bucket {
    int64_t job;
    int level;
    int64_t first, last;
    int64_t attempt; /* 0: all */
};

/* Iterations of an attempt that the bucket has already. */
static int64_t
count(struct store_op *op, struct store_conn *conn, const struct bucket *b,
      int64_t attempt)
{
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "SELECT coalesce(sum(n), 0) FROM metric_level WHERE job = ? AND level ="
        " ? AND first BETWEEN ? AND ? AND attempt = ?");
    int64_t n = 0;

    if (s == NULL)
        return 0;
    store_sql_bind(s, "iiiii", b->job, (int64_t)b->level, b->first, b->last,
                   attempt);
    if (store_sql_row(op, s)) {
        n = sqlite3_column_int64(s, 0);
        sqlite3_reset(s);
    }
    return n;
}

static bool
clear(struct store_op *op, struct store_conn *conn, const struct bucket *b,
      int64_t attempt)
{
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "DELETE FROM metric_level WHERE job = ? AND level = ? AND first"
        " BETWEEN ? AND ? AND attempt = ?");

    if (s == NULL)
        return false;
    store_sql_bind(s, "iiiii", b->job, (int64_t)b->level, b->first, b->last,
                   attempt);
    return store_sql_run(op, s);
}

/* The rows of one attempt take the place of what is there, unless finer rows
 * are gone and they would say less than that. */
static bool
replace(struct store_op *op, struct store_conn *conn, const struct bucket *b,
        const struct view_metric *v, int n)
{
    int64_t total = 0;

    for (int i = 0; i < n; i++)
        total += v[i].n;
    if (count(op, conn, b, v->attempt) > total || op->rc != 0)
        return op->rc == 0;
    if (!clear(op, conn, b, v->attempt))
        return false;
    for (int i = 0; i < n; i++)
        if (!insert(op, conn, b->job, b->level, &v[i]))
            return false;
    return true;
}

/* What the bucket's rows are made of, an attempt's line after another's. */
static sqlite3_stmt *
open_finer(struct store_op *op, struct store_conn *conn, const struct bucket *b)
{
    static const char full[] =
        "SELECT " STORE_METRIC_COLUMNS " FROM metric WHERE job = ?1 AND ?2 = 0"
        " AND iteration BETWEEN ?3 AND ?4 AND (?5 = 0 OR attempt = ?5)"
        " ORDER BY attempt, live, iteration";
    static const char coarse[] =
        "SELECT " STORE_LEVEL_COLUMNS " FROM metric_level WHERE job = ?1 AND"
        " level = ?2 AND first BETWEEN ?3 AND ?4 AND (?5 = 0 OR attempt = ?5)"
        " ORDER BY attempt, live, first";
    sqlite3_stmt *s =
        store_sql_prepare(op, conn, b->level == 1 ? full : coarse);

    if (s != NULL)
        store_sql_bind(s, "iiiii", b->job, (int64_t)b->level - 1, b->first,
                       b->last, b->attempt);
    return s;
}

static bool
goes_with(const struct store_group *g, const struct view_metric *row)
{
    return g->row.n == 0 ||
           (g->row.attempt == row->attempt && g->row.live == row->live);
}

/* Its rows are gathered first: what is read must not change meanwhile. */
static bool
write_bucket(struct store_op *op, struct store_conn *conn,
             const struct bucket *b)
{
    struct view_metric row, *joined;
    struct store_rows rows = {0};
    struct store_group g;
    sqlite3_stmt *s = open_finer(op, conn, b);

    store_group_init(&g);
    while (s != NULL && store_sql_row(op, s)) {
        store_level_read(s, b->level - 1, &row);
        if (!goes_with(&g, &row))
            store_group_take(&g, store_rows_add(op, &rows, sizeof(row)));
        store_group_add(&g, &row);
    }
    if (g.row.n > 0)
        store_group_take(&g, store_rows_add(op, &rows, sizeof(row)));
    op->items = NULL;
    op->n_items = 0;
    joined = (struct view_metric *)(void *)rows.v;
    for (int i = 0, n; op->rc == 0 && i < rows.n; i += n) {
        for (n = 1;
             i + n < rows.n && joined[i + n].attempt == joined[i].attempt;)
            n++;
        if (!replace(op, conn, b, &joined[i], n))
            return false;
    }
    return op->rc == 0;
}

static struct bucket
bucket_of(int64_t job, int level, int64_t iteration, int64_t attempt)
{
    int64_t width = store_level_width(level);
    int64_t first = (iteration - 1) / width * width + 1;

    return (struct bucket){job, level, first, first + width - 1, attempt};
}

bool
store_level_settle(struct store_op *op, struct store_conn *conn, int64_t job,
                   int64_t at)
{
    for (int level = 1; at > 0 && level <= STORE_LEVELS; level++) {
        const struct bucket b = bucket_of(job, level, at, 0);

        if (!write_bucket(op, conn, &b))
            return false;
    }
    return true;
}

/* ---- lines ----------------------------------------------------------------*/

static bool
mark(struct store_op *op, struct store_conn *conn, const char *sql, int64_t job,
     int64_t attempt, int64_t iteration)
{
    for (int level = 1; level <= STORE_LEVELS; level++) {
        sqlite3_stmt *s = store_sql_prepare(op, conn, sql);

        if (s == NULL)
            return false;
        store_sql_bind(s, "iiiii", job, (int64_t)level, attempt, iteration,
                       store_level_width(level));
        if (!store_sql_run(op, s))
            return false;
    }
    return true;
}

bool
store_level_abandon(struct store_op *op, struct store_conn *conn, int64_t job,
                    int64_t attempt, int64_t iteration)
{
    static const char sql[] =
        "UPDATE metric_level SET live = 0 WHERE job = ?1 AND level = ?2 AND"
        " first > ?4 - ?5 AND last > ?4 AND attempt < ?3 AND live = 1";

    return mark(op, conn, sql, job, attempt, iteration);
}

bool
store_level_revive(struct store_op *op, struct store_conn *conn, int64_t job,
                   int64_t attempt, int64_t iteration)
{
    static const char sql[] =
        "UPDATE metric_level SET live = 1 WHERE job = ?1 AND level = ?2 AND"
        " first <= ?4 AND last <= ?4 AND attempt = ?3 AND live = 0 AND ?5 > 0";

    return mark(op, conn, sql, job, attempt, iteration) &&
           store_level_settle(op, conn, job, iteration);
}

/* ---- old rows go ----------------------------------------------------------*/

bool
store_level_gone(struct store_op *op, struct store_conn *conn, int64_t job,
                 struct store_gone *gone)
{
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "SELECT level, live, abandoned FROM metric_gone WHERE job = ?");

    memset(gone, 0, sizeof(*gone));
    if (s == NULL)
        return false;
    store_sql_bind(s, "i", job);
    while (store_sql_row(op, s)) {
        int level = sqlite3_column_int(s, 0);

        if (level < 0 || level > STORE_LEVELS)
            continue;
        gone->live[level] = sqlite3_column_int64(s, 1);
        gone->abandoned[level] = sqlite3_column_int64(s, 2);
    }
    return op->rc == 0;
}

static bool
set_gone(struct store_op *op, struct store_conn *conn, int64_t job, int level,
         const struct store_gone *gone)
{
    sqlite3_stmt *s = store_sql_prepare(
        op, conn,
        "INSERT INTO metric_gone (job, level, live, abandoned) VALUES"
        " (?1, ?2, ?3, ?4) ON CONFLICT (job, level) DO UPDATE SET live = ?3,"
        " abandoned = ?4");

    if (s == NULL)
        return false;
    store_sql_bind(s, "iiii", job, (int64_t)level, gone->live[level],
                   gone->abandoned[level]);
    return store_sql_run(op, s);
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool
store_level_cut(struct store_op *op, struct store_conn *conn, int64_t job,
                int64_t iteration, bool switched)
{
    struct store_gone gone;

    if (!store_level_gone(op, conn, job, &gone))
        return false;
    for (int level = 0; level < STORE_LEVELS; level++) {
        int64_t live = gone.live[level], abandoned = gone.abandoned[level];

        if (live == 0 && abandoned == 0)
            continue;
        gone.abandoned[level] = most(live, abandoned);
        gone.live[level] =
            least(switched ? gone.abandoned[level] : live,
                  iteration - iteration % store_level_width(level + 1));
        if (!set_gone(op, conn, job, level, &gone))
            return false;
    }
    return true;
}

/* Rows of iterations in (from, upto], but for buckets of the next level in
 * which a checkpoint lies that one may go back to. */
static bool
remove_rows(struct store_op *op, struct store_conn *conn, int64_t job,
            int level, int64_t from, int64_t upto)
{
#define KEPT(at)                                                               \
    " AND NOT EXISTS (SELECT 1 FROM checkpoint AS c WHERE c.job = ?1 AND"      \
    " c.state = 'good' AND (c.iteration - 1) / ?4 = (" at " - 1) / ?4)"
    static const char full[] = "DELETE FROM metric WHERE job = ?1 AND"
                               " iteration > ?2 AND iteration <= ?3 AND"
                               " ?5 = 0" KEPT("iteration");
    static const char coarse[] = "DELETE FROM metric_level WHERE job = ?1 AND"
                                 " first > ?2 AND first <= ?3 AND"
                                 " level = ?5" KEPT("first");
    sqlite3_stmt *s = store_sql_prepare(op, conn, level == 0 ? full : coarse);

    if (s == NULL)
        return false;
    store_sql_bind(s, "iiiii", job, from, upto, store_level_width(level + 1),
                   (int64_t)level);
    return store_sql_run(op, s);
}

static bool
prune(struct store_op *op, struct store_conn *conn, int64_t job,
      int64_t iteration, int64_t keep)
{
    struct store_gone gone;

    if (!store_level_gone(op, conn, job, &gone))
        return false;
    for (int level = 0; level < STORE_LEVELS; level++) {
        int64_t width = store_level_width(level), from = gone.live[level];
        int64_t upto = least(iteration - keep * width,
                             from + PRUNE_PIECE * PRUNE_EVERY * width);

        upto -= upto % (width * STORE_BUCKET);
        if (upto <= from)
            continue;
        gone.live[level] = upto;
        gone.abandoned[level] = most(gone.abandoned[level], upto);
        if (!remove_rows(op, conn, job, level, from, upto) ||
            !set_gone(op, conn, job, level, &gone))
            return false;
    }
    return true;
}

/* ---- a step ---------------------------------------------------------------*/

bool
store_level_step(struct store_op *op, struct store_conn *conn, int64_t job,
                 int64_t attempt, int64_t iteration, int64_t keep)
{
    for (int level = 1;
         level <= STORE_LEVELS && iteration % store_level_width(level) == 0;
         level++) {
        const struct bucket b = bucket_of(job, level, iteration, attempt);

        if (!write_bucket(op, conn, &b))
            return false;
    }
    if (keep > 0 && iteration % PRUNE_EVERY == 0)
        return prune(op, conn, job, iteration, keep);
    return true;
}

/* ---- a migration ----------------------------------------------------------*/

static bool
flush_all(struct store_op *op, struct store_conn *conn, int64_t job,
          struct store_group g[STORE_LEVELS + 1],
          const struct view_metric *next)
{
    struct view_metric out;

    for (int level = 1; level <= STORE_LEVELS; level++) {
        int64_t width = store_level_width(level);

        if (next != NULL && goes_with(&g[level], next) &&
            (g[level].row.n == 0 || (g[level].row.iteration - 1) / width ==
                                        (next->iteration - 1) / width))
            continue;
        if (store_group_take(&g[level], &out) &&
            !insert(op, conn, job, level, &out))
            return false;
    }
    return true;
}

static bool
build_job(struct store_op *op, struct store_conn *conn, int64_t job)
{
    sqlite3_stmt *s = store_sql_prepare(op, conn,
                                        "SELECT " STORE_METRIC_COLUMNS
                                        " FROM metric WHERE job = ?"
                                        " ORDER BY attempt, live, iteration");
    struct store_group g[STORE_LEVELS + 1];
    struct view_metric row;
    bool ok = s != NULL;

    for (int level = 1; level <= STORE_LEVELS; level++)
        store_group_init(&g[level]);
    if (ok)
        store_sql_bind(s, "i", job);
    while (ok && store_sql_row(op, s)) {
        store_level_read(s, 0, &row);
        ok = flush_all(op, conn, job, g, &row);
        for (int level = 1; ok && level <= STORE_LEVELS; level++)
            store_group_add(&g[level], &row);
    }
    return ok && op->rc == 0 && flush_all(op, conn, job, g, NULL);
}

int
store_level_build_all(struct store_conn *conn, struct err *err)
{
    struct store_op *op = store_op_create(NULL, 1);
    struct store_rows jobs = {0};
    sqlite3_stmt *s = store_sql_prepare(op, conn, "SELECT id FROM job");
    int rc;

    while (s != NULL && store_sql_row(op, s))
        *(int64_t *)store_rows_add(op, &jobs, sizeof(int64_t)) =
            sqlite3_column_int64(s, 0);
    for (int i = 0; op->rc == 0 && i < jobs.n; i++)
        build_job(op, conn, ((const int64_t *)(const void *)jobs.v)[i]);
    rc = op->rc;
    if (rc != 0)
        *err = op->err;
    store_op_destroy(op);
    return rc;
}
