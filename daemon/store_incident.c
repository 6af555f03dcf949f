/* SPDX-License-Identifier: Apache-2.0 */
/* Tables incident and guard: what went wrong, and what was done about it. */
#include "daemon/store_history.h"
#include "daemon/store_write.h"

#include <string.h>

/* ---- writing -------------------------------------------------------------- */

bool
store_write_incident(struct store_op *op, struct store_conn *conn, int64_t job,
                     int64_t attempt, const struct event *e)
{
    const bool located = e->u.incident.located;
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO incident (job, attempt, seq, iteration, updates, skips,"
        " live, replayed, located, pass, layer, op, tensor, dtype, at, what,"
        " scale, micro_batch, sample, verdict, t_us, trigger, sentence, cure,"
        " fp32_finite, bf16_finite, alone_finite, finite_scale, regions,"
        " has_fp32_value, fp32_value, fp32_value_flag, samples, n_guilty,"
        " data_position, name, kept_bytes, runs, cost_us)"
        " VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
        "?,?,?,?,?,?,?,?,?)");

    if (stmt == NULL)
        return false;
    store_sql_bind(
        stmt, "iiiiiiiisssssssfiisissssssfsigsiisiii", job, attempt, e->seq,
        e->iteration, e->updates, e->skips, (int64_t)e->u.incident.replayed,
        (int64_t)located, located ? event_pass_name(e->u.incident.pass) : "",
        e->u.incident.layer, e->u.incident.op, e->u.incident.tensor,
        located ? dtype_name(e->u.incident.dtype) : "",
        store_sql_list_text(op, e->u.incident.index, e->u.incident.rank),
        located ? event_nonfinite_name(e->u.incident.what) : "",
        e->u.incident.scale, e->u.incident.micro_batch, e->u.incident.sample,
        event_verdict_name(e->u.incident.verdict), e->t_us,
        event_trigger_name(e->u.incident.trigger), e->u.incident.sentence,
        e->u.incident.cure, event_answer_name(e->u.incident.fp32_finite),
        event_answer_name(e->u.incident.bf16_finite),
        event_answer_name(e->u.incident.alone_finite),
        e->u.incident.finite_scale, e->u.incident.regions,
        (int64_t)e->u.incident.has_fp32_value, e->u.incident.fp32_value,
        store_sql_list_text(op, e->u.incident.samples, e->u.incident.n_samples),
        e->u.incident.n_guilty, e->u.incident.data_position, e->u.incident.name,
        e->u.incident.kept_bytes, e->u.incident.runs, e->u.incident.cost_us);
    return store_sql_run(op, stmt);
}

bool
store_forget_incident(struct store_op *op, struct store_conn *conn, int64_t job,
                      const char *name)
{
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn,
                          "UPDATE incident SET name = '', kept_bytes = 0"
                          " WHERE job = ? AND name = ? AND name <> ''");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "is", job, name);
    return store_sql_run(op, stmt);
}

bool
store_write_guard(struct store_op *op, struct store_conn *conn, int64_t job,
                  int64_t attempt, const struct event *e)
{
    sqlite3_stmt *stmt = store_sql_prepare(
        op, conn,
        "INSERT INTO guard (job, attempt, seq, iteration, updates, skips,"
        " live, rule, condition, text, value, value_flag, bound, bound_flag,"
        " action, change, t_us) VALUES (?,?,?,?,?,?,1,?,?,?,?,?,?,?,?,?,?)");

    if (stmt == NULL)
        return false;
    store_sql_bind(stmt, "iiiiiiissggssi", job, attempt, e->seq, e->iteration,
                   e->updates, e->skips, e->u.guard.rule, e->u.guard.condition,
                   e->u.guard.text, e->u.guard.value, e->u.guard.bound,
                   event_action_name(e->u.guard.action), e->u.guard.change,
                   e->t_us);
    return store_sql_run(op, stmt);
}

/* ---- reading -------------------------------------------------------------- */

#define INCIDENT_SELECT                                                        \
    "SELECT id, job, iteration, updates, attempt, live, replayed, located,"    \
    " pass, layer, op, tensor, dtype, at, what, scale, micro_batch, sample,"   \
    " verdict, t_us, trigger, sentence, cure, fp32_finite, bf16_finite,"       \
    " alone_finite, finite_scale, regions, fp32_value, fp32_value_flag,"       \
    " has_fp32_value, samples, n_guilty, data_position, name, kept_bytes,"     \
    " runs, cost_us, (SELECT directory FROM job AS j WHERE j.id ="             \
    " incident.job) || '/incidents/' || name FROM incident"

static void
read_incident(struct store_op *op, sqlite3_stmt *s, struct view_incident *v)
{
    view_init(VIEW_ID_incident, v);
    v->id = sqlite3_column_int64(s, 0);
    v->job = sqlite3_column_int64(s, 1);
    v->iteration = sqlite3_column_int64(s, 2);
    v->updates = sqlite3_column_int64(s, 3);
    v->attempt = sqlite3_column_int64(s, 4);
    v->live = sqlite3_column_int(s, 5) != 0;
    v->replayed = sqlite3_column_int(s, 6) != 0;
    v->located = sqlite3_column_int(s, 7) != 0;
    v->pass = store_sql_text(op, s, 8);
    v->layer = store_sql_text(op, s, 9);
    v->op = store_sql_text(op, s, 10);
    v->tensor = store_sql_text(op, s, 11);
    v->dtype = store_sql_text(op, s, 12);
    v->index = store_sql_list(op, store_sql_text(op, s, 13));
    v->what = store_sql_text(op, s, 14);
    v->scale = store_sql_real(s, 15);
    v->micro_batch = sqlite3_column_int64(s, 16);
    v->sample = sqlite3_column_int64(s, 17);
    v->verdict = store_sql_text(op, s, 18);
    v->t_us = sqlite3_column_int64(s, 19);
    v->trigger = store_sql_text(op, s, 20);
    v->sentence = store_sql_text(op, s, 21);
    v->cure = store_sql_text(op, s, 22);
    v->fp32_finite = store_sql_text(op, s, 23);
    v->bf16_finite = store_sql_text(op, s, 24);
    v->alone_finite = store_sql_text(op, s, 25);
    v->finite_scale = store_sql_real(s, 26);
    v->regions = store_sql_text(op, s, 27);
    v->fp32_value = store_sql_flagged(s, 28);
    v->has_fp32_value = sqlite3_column_int(s, 30) != 0;
    v->samples = store_sql_list(op, store_sql_text(op, s, 31));
    v->n_guilty = sqlite3_column_int64(s, 32);
    v->data_position = sqlite3_column_int64(s, 33);
    v->name = store_sql_text(op, s, 34);
    v->kept_bytes = sqlite3_column_int64(s, 35);
    v->runs = sqlite3_column_int64(s, 36);
    v->cost_us = sqlite3_column_int64(s, 37);
    v->path = v->name[0] != '\0' ? store_sql_text(op, s, 38) : "";
}

void
store_run_incidents(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};
    sqlite3_stmt *stmt = store_page_open(
        op, conn, INCIDENT_SELECT STORE_WHERE_PAGE("incident") STORE_ORDER_PAGE,
        STORE_PAGE_ROWS + 1);

    while (stmt != NULL && store_page_row(op, stmt, &rows))
        read_incident(op, stmt,
                      store_rows_add(op, &rows, sizeof(struct view_incident)));
}

static void
run_find_incident(struct store_op *op, struct store_conn *conn)
{
    const int64_t *id = op->args;
    struct store_rows rows = {0};
    sqlite3_stmt *stmt =
        store_sql_prepare(op, conn, INCIDENT_SELECT " WHERE id = ?");

    if (stmt == NULL)
        return;
    store_sql_bind(stmt, "i", *id);
    if (store_sql_row(op, stmt)) {
        read_incident(op, stmt,
                      store_rows_add(op, &rows, sizeof(struct view_incident)));
        sqlite3_reset(stmt);
    }
}

void
store_find_incident(struct store *store, int64_t id, store_rows_fn *done,
                    void *ctx)
{
    struct store_op *op = store_op_create(run_find_incident, sizeof(id));

    memcpy(op->args, &id, sizeof(id));
    op->query = true;
    op->rows = done;
    op->ctx = ctx;
    store_op_submit(store, op);
}

void
store_run_guards(struct store_op *op, struct store_conn *conn)
{
    struct store_rows rows = {0};
    sqlite3_stmt *s = store_page_open(
        op, conn,
        "SELECT id, iteration, updates, attempt, live, rule, condition, text,"
        " value, value_flag, bound, bound_flag, action, change, t_us"
        " FROM guard" STORE_WHERE_PAGE("guard") STORE_ORDER_PAGE,
        STORE_PAGE_ROWS + 1);

    while (s != NULL && store_page_row(op, s, &rows)) {
        struct view_guard *v = store_rows_add(op, &rows, sizeof(*v));

        view_init(VIEW_ID_guard, v);
        v->row = sqlite3_column_int64(s, 0);
        v->iteration = sqlite3_column_int64(s, 1);
        v->updates = sqlite3_column_int64(s, 2);
        v->attempt = sqlite3_column_int64(s, 3);
        v->live = sqlite3_column_int(s, 4) != 0;
        v->rule = sqlite3_column_int64(s, 5);
        v->condition = store_sql_text(op, s, 6);
        v->text = store_sql_text(op, s, 7);
        v->value = store_sql_flagged(s, 8);
        v->bound = store_sql_flagged(s, 10);
        v->action = store_sql_text(op, s, 12);
        v->change = store_sql_text(op, s, 13);
        v->t_us = sqlite3_column_int64(s, 14);
    }
}
