/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_metrics: windows of a job's curve, out of the levels (store_level.h).
 *
 * With max_points a window is covered by rows of the coarsest level that still
 * has enough of them, and cut exactly at its edges by finer ones; the newest
 * attempt's last iterations, whose buckets are not full yet, come from finer
 * levels, too. Then rows are joined to as few as were asked for. Where rows of
 * a level are gone, those of the next stand for them, uncut.
 */
#include "daemon/store_group.h"
#include "daemon/store_history.h"
#include "daemon/store_level.h"

#include <stdlib.h>

struct window {
    struct store_op *op;
    struct store_conn *conn;
    int64_t job;
    bool live;           /* rows of the live line, or of abandoned ones */
    int64_t latest, end; /* attempt that began last, and how far it is */
    struct store_gone gone;
    struct store_rows rows;
};

static int64_t
gone_of(const struct window *w, int level)
{
    return w->live ? w->gone.live[level] : w->gone.abandoned[level];
}

/* ---- rows of one level ----------------------------------------------------*/

struct take {
    int level;
    int64_t from, to;
    bool only_latest; /* rows of the newest attempt */
    int64_t covered;  /* no rows of it beyond this */
    bool whole;       /* no rows that reach out of the window */
};

static bool
take_rows(struct window *w, const struct take *t)
{
    static const char full[] =
        "SELECT " STORE_METRIC_COLUMNS " FROM metric WHERE job = ?1 AND"
        " ?2 = 0 AND iteration BETWEEN ?3 AND ?4 AND live = ?5 AND"
        " (attempt = ?6 OR NOT ?7) AND (attempt <> ?6 OR iteration <= ?8)"
        " AND ?9 = ?9";
    static const char coarse[] =
        "SELECT " STORE_LEVEL_COLUMNS " FROM metric_level WHERE job = ?1 AND"
        " level = ?2 AND first BETWEEN ?3 - (NOT ?9) * ((1 << (4 * ?2)) - 1)"
        " AND ?4 AND live = ?5 AND (attempt = ?6 OR NOT ?7) AND"
        " (attempt <> ?6 OR last <= ?8) AND last >= ?3 AND"
        " (last <= ?4 OR NOT ?9)";
    sqlite3_stmt *s =
        store_sql_prepare(w->op, w->conn, t->level == 0 ? full : coarse);

    if (s == NULL)
        return false;
    store_sql_bind(s, "iiiiiiiii", w->job, (int64_t)t->level, t->from, t->to,
                   (int64_t)w->live, w->latest, (int64_t)t->only_latest,
                   t->covered, (int64_t)t->whole);
    while (store_sql_row(w->op, s))
        store_level_read(
            s, t->level,
            store_rows_add(w->op, &w->rows, sizeof(struct view_metric)));
    return w->op->rc == 0;
}

/* ---- a window -------------------------------------------------------------*/

static bool cover(struct window *w, int level, int64_t from, int64_t to,
                  bool only_latest);

/* Rows of this level are gone up to somewhere within: coarser ones are for
 * that part. */
static bool
cover_gone(struct window *w, int level, int64_t from, int64_t to,
           bool only_latest)
{
    int64_t upto = gone_of(w, level) < to ? gone_of(w, level) : to;
    struct take t = {level + 1, from, upto, only_latest, INT64_MAX, false};

    while (t.level < STORE_LEVELS && from <= gone_of(w, t.level))
        t.level++;
    return take_rows(w, &t) &&
           (upto >= to || cover(w, level, upto + 1, to, only_latest));
}

static bool
cover(struct window *w, int level, int64_t from, int64_t to, bool only_latest)
{
    int64_t width = store_level_width(level);
    int64_t first = (from - 1 + width - 1) / width * width; /* before it */
    int64_t last = to / width * width;
    /* Abandoned lines have no attempt that goes on. */
    int64_t covered = w->live ? w->end / width * width : INT64_MAX;
    struct take t = {level, first + 1, last, only_latest, covered, true};

    if (from > to)
        return true;
    if (from <= gone_of(w, level))
        return cover_gone(w, level, from, to, only_latest);
    if (level == 0) {
        t.covered = INT64_MAX;
        return take_rows(w, &t);
    }
    if (first >= last)
        return cover(w, level - 1, from, to, only_latest);
    if (!take_rows(w, &t) || !cover(w, level - 1, from, first, only_latest) ||
        !cover(w, level - 1, last + 1, to, only_latest))
        return false;
    if (covered >= last)
        return true;
    /* What the newest attempt has not filled a bucket with. */
    return cover(w, level - 1, (covered > first ? covered : first) + 1, last,
                 true);
}

/* Line after line; the live one is one line, whoever went along it. */
static bool
is_one_line(const struct view_metric *a, const struct view_metric *b)
{
    return a->live == b->live && (a->live || a->attempt == b->attempt);
}

static int
by_line(const void *a, const void *b)
{
    const struct view_metric *x = a, *y = b;

    if (x->live != y->live)
        return x->live ? 1 : -1;
    if (!x->live && x->attempt != y->attempt)
        return x->attempt < y->attempt ? -1 : 1;
    return (x->iteration > y->iteration) - (x->iteration < y->iteration);
}

/* Joins rows to at most max_points groups of about the same number of
 * iterations; never over the end of a line. */
static void
join(struct window *w, int64_t max_points)
{
    struct view_metric *v = (struct view_metric *)(void *)w->rows.v;
    int64_t total = 0, sum = 0, share = 0, n_lines = 1;
    struct store_group g;
    int n = 0;

    qsort(v, (size_t)w->rows.n, sizeof(*v), by_line);
    for (int i = 0; i < w->rows.n; i++) {
        total += v[i].n;
        n_lines += i > 0 && !is_one_line(&v[i - 1], &v[i]);
    }
    /* The end of a line makes a group more. */
    if (n_lines > 1)
        max_points = max_points > 2 * n_lines ? max_points - n_lines + 1
                                              : (max_points + 1) / 2;
    store_group_init(&g);
    for (int i = 0; i < w->rows.n; i++) {
        if (g.row.n > 0 && !is_one_line(&g.row, &v[i]))
            store_group_take(&g, &v[n++]);
        store_group_add(&g, &v[i]);
        sum += v[i].n;
        if (sum * max_points / total > share)
            store_group_take(&g, &v[n++]);
        share = sum * max_points / total;
    }
    if (store_group_take(&g, &v[n]))
        n++;
    w->op->n_items = n;
}

static bool
read_latest(struct window *w)
{
    sqlite3_stmt *s = store_sql_prepare(
        w->op, w->conn,
        "SELECT attempt, end_iteration FROM attempt WHERE job = ? AND"
        " policy <> '' ORDER BY attempt DESC LIMIT 1");

    if (s == NULL)
        return false;
    store_sql_bind(s, "i", w->job);
    if (store_sql_row(w->op, s)) {
        w->latest = sqlite3_column_int64(s, 0);
        w->end = sqlite3_column_int64(s, 1);
        sqlite3_reset(s);
    }
    return w->op->rc == 0;
}

/* Iterations that there are rows of, on any line. */
static int64_t
last_iteration(struct window *w)
{
    sqlite3_stmt *s = store_sql_prepare(
        w->op, w->conn,
        "SELECT coalesce(max(iteration), 0) FROM metric WHERE job = ?");
    int64_t last = 0;

    if (s == NULL)
        return 0;
    store_sql_bind(s, "i", w->job);
    if (store_sql_row(w->op, s)) {
        last = sqlite3_column_int64(s, 0);
        sqlite3_reset(s);
    }
    return last;
}

static void
thinned(struct store_op *op, struct store_conn *conn)
{
    const struct store_query_args *a = op->args;
    struct window w = {.op = op, .conn = conn, .job = a->job, .live = true};
    int64_t from = a->from > 1 ? a->from : 1, to = a->to, last;
    int level = 0;
    bool ok;

    if (!read_latest(&w) || !store_level_gone(op, conn, a->job, &w.gone))
        return;
    last = last_iteration(&w);
    if (to > last)
        to = last;
    while (level < STORE_LEVELS &&
           (to - from + 1) / store_level_width(level + 1) >= a->max_points)
        level++;
    ok = cover(&w, level, from, to, false);
    if (ok && a->all_lines) {
        w.live = false;
        ok = cover(&w, level, from, to, false);
    }
    if (ok && w.rows.n > 0)
        join(&w, a->max_points);
}

/* ---- pages ----------------------------------------------------------------*/

/* Full rows, in the order of their iterations, after one of them. */
static void
page_full(struct window *w, const struct store_query_args *a, int64_t after)
{
    static const char sql[] =
        "SELECT " STORE_METRIC_COLUMNS " FROM metric WHERE job = ?1 AND"
        " ((live = 1 AND iteration > ?2) OR (live = 0 AND iteration > ?3))"
        " AND iteration BETWEEN ?4 AND ?5 AND (?6 = 0 OR (iteration, id) >"
        " ((SELECT iteration FROM metric WHERE id = ?6), ?6))"
        " ORDER BY iteration, id LIMIT ?7";
    sqlite3_stmt *s = store_sql_prepare(w->op, w->conn, sql);

    if (s == NULL)
        return;
    store_sql_bind(s, "iiiiiii", a->job, w->gone.live[0],
                   a->all_lines ? w->gone.abandoned[0] : INT64_MAX, a->from,
                   a->to, after, (int64_t)STORE_PAGE_ROWS + 1);
    while (store_page_row(w->op, s, &w->rows))
        store_level_read(
            s, 0, store_rows_add(w->op, &w->rows, sizeof(struct view_metric)));
}

/* Where full rows are gone, rows of level 1 stand for them, and so on: the
 * part of this level is (gone of its own, gone of the finer one]. */
static void
page_coarse(struct window *w, const struct store_query_args *a, int level,
            int64_t after)
{
    static const char sql[] =
        "SELECT " STORE_LEVEL_COLUMNS " FROM metric_level WHERE job = ?1 AND"
        " level = ?2 AND ((live = 1 AND first > ?3 AND first <= ?4) OR"
        " (live = 0 AND first > ?5 AND first <= ?6)) AND last >= ?7 AND"
        " first <= ?8 AND (?9 = 0 OR (first, id) > ((SELECT first FROM"
        " metric_level WHERE id = ?9), ?9)) ORDER BY first, id LIMIT ?10";
    sqlite3_stmt *s = store_sql_prepare(w->op, w->conn, sql);

    if (s == NULL)
        return;
    store_sql_bind(s, "iiiiiiiiii", a->job, (int64_t)level, w->gone.live[level],
                   w->gone.live[level - 1], w->gone.abandoned[level],
                   a->all_lines ? w->gone.abandoned[level - 1] : INT64_MIN,
                   a->from, a->to, after, (int64_t)STORE_PAGE_ROWS + 1);
    while (store_page_row(w->op, s, &w->rows))
        store_level_read(
            s, level,
            store_rows_add(w->op, &w->rows, sizeof(struct view_metric)));
}

/* The level of a row that a page continues after; 0 when it is a full one. */
static int
level_of(struct window *w, int64_t row)
{
    sqlite3_stmt *s;
    int level = 0;

    if (row >= 0)
        return 0;
    s = store_sql_prepare(w->op, w->conn,
                          "SELECT level FROM metric_level WHERE id = ?");
    if (s == NULL)
        return 0;
    store_sql_bind(s, "i", -row);
    if (store_sql_row(w->op, s)) {
        level = sqlite3_column_int(s, 0);
        sqlite3_reset(s);
    }
    return level;
}

static void
paged(struct store_op *op, struct store_conn *conn)
{
    const struct store_query_args *a = op->args;
    struct window w = {.op = op, .conn = conn, .job = a->job};
    int level = STORE_LEVELS;
    int64_t after = 0;

    if (!store_level_gone(op, conn, a->job, &w.gone))
        return;
    if (a->after_row != 0) {
        level = level_of(&w, a->after_row);
        after = a->after_row < 0 ? -a->after_row : a->after_row;
    }
    for (; op->rc == 0 && !op->more && level > 0; level--) {
        if (w.gone.live[level - 1] > 0 || w.gone.abandoned[level - 1] > 0)
            page_coarse(&w, a, level, after);
        after = 0;
    }
    if (op->rc == 0 && !op->more)
        page_full(&w, a, after);
}

void
store_run_metrics(struct store_op *op, struct store_conn *conn)
{
    const struct store_query_args *a = op->args;

    /* All of one moment: a job may be running. */
    op->rc = store_sql_exec(conn, "BEGIN", &op->err);
    if (op->rc != 0)
        return;
    if (a->max_points > 0)
        thinned(op, conn);
    else
        paged(op, conn);
    store_sql_exec(conn, "COMMIT", op->rc == 0 ? &op->err : NULL);
}
