/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_fsck: every promise about the rows, asked of the database itself.
 *
 * A check is one statement whose rows are what is wrong: table, job, row, and
 * a sentence. They run on the reader's connection in one transaction, so that
 * all look at the same moment; the writer goes on. What a check says of live
 * rows holds for jobs that are running, too: events are stored in order and
 * each commit is whole.
 */
#include "daemon/store_private.h"

#include <stdio.h>

/* More of one kind say nothing new. */
#define MAX_FINDINGS 100

/* iteration = updates + skips in every row of every table that counts. */
#define COUNTERS(table, id)                                                    \
    "SELECT '" table "', " id ", 'iteration ' || iteration || ' is not '"      \
    " || updates || ' updates + ' || skips || ' skips' FROM " table            \
    " WHERE iteration <> updates + skips"

/* Live rows of earlier attempts end where the latest began. */
#define LIVE_PAST(table)                                                       \
    "SELECT '" table "', m.job, m.id, 'iteration ' || m.iteration || ' of"     \
    " attempt ' || m.attempt || ' is live, and attempt ' || l.attempt ||"      \
    " ' began at ' || l.start_iteration FROM " table " AS m JOIN attempt AS l" \
    " ON l.job = m.job AND l.policy <> '' AND l.attempt = (SELECT"             \
    " max(x.attempt) FROM attempt AS x WHERE x.job = m.job AND x.policy <> "   \
    "'')"                                                                      \
    " WHERE m.live = 1 AND m.attempt < l.attempt AND m.iteration >"            \
    " l.start_iteration"

#define NOT_LIVE(table)                                                        \
    "SELECT '" table "', m.job, m.id, 'iteration ' || m.iteration || ' of the" \
    " latest attempt is not live' FROM " table " AS m WHERE m.live = 0 AND"    \
    " m.attempt = (SELECT max(x.attempt) FROM attempt AS x WHERE x.job = "     \
    "m.job"                                                                    \
    " AND x.policy <> '')"

/* Rows beyond what has been thinned out: the others are not complete. */
#define GONE(job)                                                              \
    "coalesce((SELECT g.live FROM metric_gone AS g WHERE g.job = " job         \
    " AND g.level = 0), 0)"
#define FULL                                                                   \
    "(SELECT f.* FROM metric AS f WHERE f.iteration > " GONE("f.job") ")"

/* Iterations of a bucket of a row's level, and of the next one. */
#define WIDTH "(1 << (4 * level))"

static const char *const checks[] = {
    COUNTERS("job", "id, 0"),
    COUNTERS("metric", "job, id"),
    COUNTERS("scale_event", "job, id"),
    COUNTERS("incident", "job, id"),
    COUNTERS("guard", "job, id"),
    COUNTERS("evaluation", "job, id"),
    COUNTERS("checkpoint", "job, id"),

    /* ---- the live line: each iteration once, counters in step ---- */
    "SELECT 'metric', job, id, 'live iteration ' || iteration ||"
    " CASE WHEN iteration = before THEN ' is there twice' ELSE"
    " ' follows on ' || before END FROM (SELECT id, job, iteration,"
    " lag(iteration, 1, " GONE("m.job") ") OVER (PARTITION BY job ORDER BY"
                                        " iteration, id) AS before FROM " FULL
                                        " AS m WHERE live = 1)"
                                        " WHERE iteration <> before + 1",
    "SELECT 'metric', job, id, 'iteration ' || iteration || ': ' || updates ||"
    " ' updates and ' || skips || ' skips after ' || u || ' and ' || s"
    " FROM (SELECT id, job, iteration, updates, skips, skipped,"
    " lag(updates) OVER w AS u, lag(skips) OVER w AS s"
    " FROM " FULL " WHERE live = 1"
    " WINDOW w AS (PARTITION BY job ORDER BY iteration, id))"
    " WHERE updates <> u + (NOT skipped) OR skips <> s + skipped",

    /* ---- levels ---- */
    "SELECT 'metric_level', job, id, 'level ' || level || ': ' || n ||"
    " ' iterations from ' || first || ' to ' || last FROM metric_level"
    " WHERE n <> last - first + 1 OR last < first OR first < 1 OR"
    " (first - 1) / " WIDTH " <> (last - 1) / " WIDTH " OR n_skipped NOT"
    " BETWEEN 0 AND n OR n_bad NOT BETWEEN 0 AND n OR last <> updates + skips",
    "SELECT 'metric_level', job, id, 'level ' || level || ': live iteration '"
    " || first || ' follows on ' || before FROM (SELECT id, job, level, first,"
    " lag(last, 1, coalesce((SELECT g.live FROM metric_gone AS g WHERE g.job ="
    " l.job AND g.level = l.level), 0)) OVER (PARTITION BY job, level ORDER BY"
    " first, id) AS before FROM metric_level AS l WHERE live = 1 AND first >"
    " coalesce((SELECT g.live FROM metric_gone AS g WHERE g.job = l.job AND"
    " g.level = l.level), 0)) WHERE first <> before + 1",
    "SELECT 'metric_level', job, id, 'level 1, iterations ' || first || ' to '"
    " || last || ': ' || n || ' with ' || n_skipped || ' skips and ' ||"
    " samples || ' samples, and the full rows have ' || m || ', ' || s ||"
    " ', ' || x FROM (SELECT l.*, count(*) AS m, sum(f.skipped) AS s,"
    " sum(f.samples) AS x FROM metric_level AS l JOIN metric AS f ON f.job ="
    " l.job AND f.iteration BETWEEN l.first AND l.last AND f.attempt ="
    " l.attempt AND f.live = 1 WHERE l.live = 1 AND l.level = 1 AND l.first "
    "> " GONE(
        "l.job") " GROUP BY l.id) WHERE n <> m OR n_skipped <> s OR samples"
                 " <> x",
    "SELECT 'metric_level', job, id, 'level ' || level || ', iterations ' ||"
    " first || ' to ' || last || ': ' || n || ' with ' || n_skipped ||"
    " ' skips and ' || samples || ' samples, and the finer level has ' || m ||"
    " ', ' || s || ', ' || x FROM (SELECT l.*, sum(f.n) AS m, sum(f.n_skipped)"
    " AS s, sum(f.samples) AS x FROM metric_level AS l JOIN metric_level AS f"
    " ON f.job = l.job AND f.level = l.level - 1 AND f.first BETWEEN l.first"
    " AND l.last AND f.attempt = l.attempt AND f.live = 1 WHERE l.live = 1 AND "
    "l.level >"
    " 1 AND l.first > coalesce((SELECT g.live FROM metric_gone AS g WHERE "
    "g.job ="
    " l.job AND g.level = l.level - 1), 0) GROUP BY l.id) WHERE n <> m OR"
    " n_skipped <> s OR samples <> x",
    "SELECT 'metric_level', m.job, m.id, 'level ' || level || ': iteration ' ||"
    " m.last || ' of attempt ' || m.attempt || ' is live, and attempt ' ||"
    " l.attempt || ' began at ' || l.start_iteration FROM metric_level AS m"
    " JOIN attempt AS l ON l.job = m.job AND l.policy <> '' AND l.attempt ="
    " (SELECT max(x.attempt) FROM attempt AS x WHERE x.job = m.job AND"
    " x.policy <> '') WHERE m.live = 1 AND m.attempt < l.attempt AND m.last >"
    " l.start_iteration",

    /* ---- skips and the scale ---- */
    "SELECT 'metric', job, id, 'iteration ' || iteration || ' was skipped and"
    " has ' || n || ' rows of its skip' FROM (SELECT m.id, m.job, m.iteration,"
    " (SELECT count(*) FROM scale_event AS e WHERE e.job = m.job AND"
    "  e.iteration = m.iteration AND e.live = 1 AND e.cause = 'skip' AND NOT"
    "  e.partial) AS n, (SELECT max(l.iteration) FROM metric AS l WHERE l.job ="
    "  m.job AND l.live = 1) AS last FROM metric AS m WHERE m.live = 1 AND"
    "  m.skipped AND m.iteration > " GONE(
        "m.job") ")"
                 /* That of the newest may be in the next commit. */
                 " WHERE n > 1 OR (n = 0 AND iteration < last)",
    "SELECT 'scale_event', job, id, 'a skip of iteration ' || iteration ||"
    " ', which was none' FROM scale_event AS e WHERE live = 1 AND"
    " cause = 'skip' AND iteration > " GONE(
        "e.job") " AND NOT EXISTS (SELECT 1 FROM metric AS m WHERE m.job = "
                 "e.job AND m.iteration = e.iteration AND m.live = 1 AND"
                 " m.skipped = NOT e.partial)",
    "SELECT 'scale_event', job, id, 'at iteration ' || iteration ||"
    " ' the scale is ' || before || ', and it was ' || last || ' after the"
    " event before' FROM (SELECT id, job, iteration, before, lag(after) OVER"
    " (PARTITION BY job ORDER BY iteration, id) AS last FROM scale_event WHERE"
    " live = 1) WHERE last IS NOT NULL AND before <> last",
    "SELECT 'scale_event', job, id, 'cause ' || cause || ' took the scale from"
    " ' || before || ' to ' || after FROM scale_event WHERE (cause = 'growth'"
    " AND NOT after > before) OR (cause = 'skip' AND after > before)",
    "SELECT 'metric', m.job, m.id, 'iteration ' || m.iteration || ' used the"
    " scale ' || m.scale || ', and the history says ' || e.before FROM metric"
    " AS m JOIN scale_event AS e ON e.job = m.job AND e.iteration ="
    " m.iteration AND e.live = 1 AND e.cause IN ('skip','growth')"
    " WHERE m.live = 1 AND m.scale <> e.before",

    "SELECT 'metric', job, id, 'iteration ' || iteration || ' used the scale"
    " ' || scale || ', and it was ' || last || ' before it' FROM (SELECT id,"
    " job, iteration, scale, (SELECT e.after FROM scale_event AS e WHERE e.job"
    " = m.job AND e.live = 1 AND e.iteration < m.iteration ORDER BY"
    " e.iteration DESC, e.id DESC LIMIT 1) AS last FROM metric AS m WHERE live"
    " = 1) WHERE last IS NOT NULL AND scale <> last",

    /* ---- incidents, guards ---- */
    "SELECT 'incident', job, id, 'iteration ' || iteration || ' was not"
    " skipped' FROM incident AS i WHERE live = 1 AND trigger = 'skip' AND"
    " iteration > " GONE("i.job") " AND NOT EXISTS (SELECT 1 FROM metric AS m "
                                  "WHERE m.job = i.job AND m.iteration ="
                                  " i.iteration AND m.live = 1 AND m.skipped) "
                                  "AND NOT EXISTS (SELECT 1 FROM"
                                  " scale_event AS e WHERE e.job = i.job AND "
                                  "e.iteration = i.iteration AND"
                                  " e.live = 1 AND e.partial)",
    "SELECT 'metric', job, id, 'iteration ' || iteration || ' was skipped and"
    " is no incident' FROM metric AS m WHERE live = 1 AND skipped AND NOT"
    " EXISTS (SELECT 1 FROM incident AS i WHERE i.job = m.job AND i.iteration"
    " = m.iteration AND i.live = 1)"
    /* Its event may be in the next commit. */
    " AND iteration < (SELECT max(iteration) FROM metric AS l WHERE l.job ="
    " m.job AND l.live = 1)",
    "SELECT 'incident', job, id, 'it has the verdict ' || verdict || ' and was"
    " never replayed' FROM incident WHERE verdict <> '' AND NOT replayed",

    /* ---- attempts and lineage ---- */
    /* A number may be missing: its daemon died before the worker was told. */
    "SELECT 'attempt', a.job, a.attempt, 'it went on from ' || a.resumed_from"
    " || ' at iteration ' || a.start_iteration || ', which is of iteration ' ||"
    " c.iteration FROM attempt AS a JOIN checkpoint AS c ON c.job = a.job AND"
    " c.name = a.resumed_from WHERE c.iteration <> a.start_iteration",
    "SELECT 'attempt', job, attempt, 'it went on from ' || resumed_from ||"
    " ', of which there is no row' FROM attempt AS a WHERE resumed_from <> ''"
    " AND NOT EXISTS (SELECT 1 FROM checkpoint AS c WHERE c.job = a.job AND"
    " c.name = a.resumed_from)",
    LIVE_PAST("metric"),
    LIVE_PAST("scale_event"),
    LIVE_PAST("incident"),
    LIVE_PAST("guard"),
    LIVE_PAST("evaluation"),
    LIVE_PAST("checkpoint"),
    NOT_LIVE("metric"),
    NOT_LIVE("scale_event"),
    NOT_LIVE("incident"),
    NOT_LIVE("guard"),
    NOT_LIVE("evaluation"),
    NOT_LIVE("checkpoint"),
    "SELECT 'attempt', job, attempt, 'the policy differs from that of the"
    " attempt before, and nothing says so' FROM (SELECT job, attempt, policy,"
    " policy_changed, lag(policy) OVER (PARTITION BY job ORDER BY attempt) AS"
    " before FROM attempt WHERE policy <> '') WHERE before <> policy AND NOT"
    " policy_changed",
    "SELECT 'attempt', job, attempt, 'its policy is that of the attempt before,"
    " and it is said to have changed' FROM (SELECT job, attempt, policy, "
    "change,"
    " policy_changed, lag(policy) OVER (PARTITION BY job ORDER BY attempt) AS"
    " before FROM attempt WHERE policy <> '') WHERE before = policy AND change"
    " = '' AND policy_changed",
    "SELECT 'attempt', job, attempt, 'its policy changed, and no difference is"
    " told' FROM attempt WHERE policy_changed AND difference = '' AND"
    " start_us > (SELECT coalesce(min(start_us), 0) FROM attempt WHERE"
    " difference <> '')",

    /* ---- checkpoints and rollbacks ---- */
    "SELECT 'checkpoint', c.job, c.id, c.name || ' counts ' || c.updates ||"
    " ' updates, and iteration ' || c.iteration || ' has ' || m.updates FROM"
    " checkpoint AS c JOIN metric AS m ON m.job = c.job AND m.iteration ="
    " c.iteration AND m.live = 1 WHERE c.live = 1 AND c.updates <> m.updates",
    "SELECT 'checkpoint', job, id, name || ' is live, and iteration ' ||"
    " iteration || ' is not' FROM checkpoint AS c WHERE live = 1 AND iteration"
    " > " GONE("c.job") " AND NOT EXISTS (SELECT 1 FROM metric AS m WHERE "
                        "m.job = c.job AND"
                        " m.iteration = c.iteration AND m.live = 1)",
    "SELECT 'checkpoint', job, max(id), count(*) || ' checkpoints are the best"
    " one' FROM checkpoint WHERE best GROUP BY job HAVING count(*) > 1",
    "SELECT 'rollback', r.job, r.id, 'its checkpoint is of job ' || c.job FROM"
    " rollback AS r JOIN checkpoint AS c ON c.id = r.checkpoint WHERE c.job <>"
    " r.job",
    "SELECT 'rollback', r.job, r.id, 'it leads to iteration ' ||"
    " r.to_iteration || ', and its checkpoint is of ' || c.iteration FROM"
    " rollback AS r JOIN checkpoint AS c ON c.id = r.checkpoint WHERE"
    " c.iteration <> r.to_iteration",
    "SELECT 'rollback', job, id, 'it leads to the start, and says iteration ' "
    "||"
    " to_iteration FROM rollback WHERE checkpoint IS NULL AND to_iteration <>"
    " 0",
    "SELECT 'job', j.id, 0, 'it counts ' || j.rollbacks || ' rollbacks, and ' "
    "||"
    " n || ' are on record' FROM (SELECT job.id, job.rollbacks, job.state,"
    " (SELECT count(*) FROM rollback AS r WHERE r.job = job.id) AS n FROM job)"
    " AS j WHERE j.rollbacks <> n AND j.state IN"
    " ('completed','failed','cancelled','interrupted')",
    "SELECT 'job', j.id, 0, 'it counts ' || j.guard_rollbacks || ' rollbacks by"
    " guards, and ' || n || ' are on record' FROM (SELECT job.id,"
    " job.guard_rollbacks, job.state, (SELECT count(*) FROM rollback AS r WHERE"
    " r.job = job.id AND r.uid = -1) AS n FROM job) AS j WHERE"
    " j.guard_rollbacks <> n AND j.state IN"
    " ('completed','failed','cancelled','interrupted')",

    /* ---- jobs that are over ---- */
    "SELECT 'job', id, 0, 'it is ' || state || ' and has no end' FROM job WHERE"
    " state IN ('completed','failed','cancelled','interrupted') AND end_us = 0",
    "SELECT 'job', id, 0, 'it is ' || state || ' and says exit code ' ||"
    " exit_code FROM job WHERE (state = 'completed') <> (exit_code = 0) AND"
    " state IN ('completed','failed','cancelled','interrupted')",
    "SELECT 'job', j.id, 0, 'it ended with iteration ' || j.iteration || ', and"
    " the last live one is ' || m.last FROM job AS j JOIN (SELECT job,"
    " max(iteration) AS last FROM metric WHERE live = 1 GROUP BY job) AS m ON"
    " m.job = j.id WHERE j.state = 'completed' AND j.iteration <> m.last",
    "SELECT 'attempt', a.job, a.attempt, 'it is running, and its job is ' ||"
    " j.state FROM attempt AS a JOIN job AS j ON j.id = a.job WHERE a.end_us ="
    " 0 AND j.state IN ('completed','failed','cancelled','interrupted')",
};

static void
add(struct store_op *op, struct store_rows *rows, const char *table,
    int64_t job, int64_t row, const char *text)
{
    struct view_finding *f = store_rows_add(op, rows, sizeof(*f));

    view_init(VIEW_ID_finding, f);
    f->table = table;
    f->job = job;
    f->row = row;
    f->text = text;
}

static void
run_check(struct store_op *op, struct store_conn *conn, const char *sql,
          struct store_rows *rows)
{
    sqlite3_stmt *s = NULL;
    int n = 0;

    if (sqlite3_prepare_v2(conn->db, sql, -1, &s, NULL) != SQLITE_OK) {
        store_sql_failed(op, conn->db);
        return;
    }
    while (op->rc == 0 && n < MAX_FINDINGS && store_sql_row(op, s)) {
        add(op, rows, store_sql_text(op, s, 0), sqlite3_column_int64(s, 1),
            sqlite3_column_int64(s, 2), store_sql_text(op, s, 3));
        n++;
    }
    sqlite3_finalize(s);
}

/* SQLite's own, "ok" when there is nothing to say. */
static void
run_pragmas(struct store_op *op, struct store_conn *conn,
            struct store_rows *rows)
{
    run_check(op, conn,
              "SELECT 'database', 0, 0, integrity_check FROM"
              " pragma_integrity_check WHERE integrity_check <> 'ok'",
              rows);
    run_check(op, conn,
              "SELECT \"table\", 0, rowid, 'it points to a row of ' || parent"
              " || ' that is not there' FROM pragma_foreign_key_check",
              rows);
}

static void
run_fsck(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};

    op->rc = store_sql_exec(conn, "BEGIN", &op->err);
    if (op->rc != 0)
        return;
    run_pragmas(op, conn, &rows);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && op->rc == 0;
         i++)
        run_check(op, conn, checks[i], &rows);
    store_sql_exec(conn, "COMMIT", op->rc == 0 ? &op->err : NULL);
}

void
store_fsck(struct store *store, store_rows_fn *done, void *ctx)
{
    struct store_op *op = store_op_create(run_fsck, 1);

    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}
