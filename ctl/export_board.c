/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's curves as TensorBoard's event files.
 *
 * An attempt has a file; in it stand, in the order of iterations, the rows of
 * its line from where the line leaves that of the attempt before. Rows are read
 * in windows of iterations and told apart by their attempts, so that what is
 * written is the same whenever it is read: while the job runs or afterwards.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/board.h"
#include "ctl/export.h"
#include "ctl/lines.h"
#include "ctl/retry.h"

#define WINDOW          1000 /* iterations that are read at once */
#define FOLLOW_PAUSE_MS 1000

struct export
{
    struct session *s;
    const char *job;
    bool all_lines;
    struct board board;
    bool failed; /* the trouble is not the daemon's */

    struct lines lines;
    int n_taken;      /* of its attempts those whose turn has come */
    int64_t tip;      /* the last attempt at the first look */
    int64_t line;     /* whose file is being written, 0 = none yet */
    int64_t fork;     /* where its line left the one before */
    int64_t limit;    /* last iteration for this file */
    int64_t done;     /* last iteration of the line that is written */
    int64_t last_row; /* of the evaluations written */
    int64_t n_rows;

    struct view_metric *metrics; /* owned: of one window */
    int n_metrics;
    struct view_evaluation *evaluations; /* owned */
    int n_evaluations, max_evaluations;
};

/* ---- attempts ------------------------------------------------------------*/

struct newcomer {
    struct lines_attempt attempt;
    char checkpoint[PATH_MAX]; /* that it went on from */
};
struct newcomers {
    int64_t after; /* only later attempts */
    struct newcomer *v;
    int n;
};

/* An attempt that has not said where it begins has no rows yet. */
static int
take_newcomer(void *ctx, const void *view, struct err *err)
{
    const struct view_attempt *a = view;
    struct newcomers *list = ctx;
    struct newcomer *more;

    if (a->attempt <= list->after || a->policy[0] == '\0')
        return 0;
    if (a->start_iteration < 0 || strlen(a->resumed_from) >= PATH_MAX)
        return err_set(err, ERR_PROTO, "attempt %" PRId64 " begins nowhere",
                       a->attempt);
    more = realloc(list->v, (size_t)(list->n + 1) * sizeof(*more));
    if (more == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    list->v = more;
    more[list->n].attempt =
        (struct lines_attempt){a->attempt, 0, a->start_iteration, a->start_us};
    strcpy(more[list->n].checkpoint, a->resumed_from);
    list->after = a->attempt;
    list->n++;
    return 0;
}

static int
pick_writer(void *ctx, const void *view, struct err *err)
{
    const struct view_checkpoint *c = view;
    struct newcomer *newcomer = ctx;

    (void)err;
    if (strcmp(c->name, newcomer->checkpoint) == 0)
        newcomer->attempt.parent = c->attempt;
    return 0;
}

/* The attempt goes on on the line of whoever wrote its checkpoint. */
static int
find_parent(struct export *e, struct newcomer *newcomer, struct err *err)
{
    struct view_query query;

    if (newcomer->checkpoint[0] == '\0')
        return 0;
    view_init(VIEW_ID_query, &query);
    query.job = e->job;
    query.all_lines = true;
    query.from = query.to = newcomer->attempt.start;
    return session_many(e->s, MESSAGE_ID_checkpoints, &query, pick_writer,
                        newcomer, err);
}

static int
read_attempts(struct export *e, struct err *err)
{
    struct newcomers list = {.after = lines_last(&e->lines)};
    struct view_job_ref args;
    int rc;

    view_init(VIEW_ID_job_ref, &args);
    args.job = e->job;
    rc = session_many(e->s, MESSAGE_ID_attempts, &args, take_newcomer, &list,
                      err);
    for (int i = 0; rc == 0 && i < list.n; i++)
        rc = find_parent(e, &list.v[i], err);
    for (int i = 0; rc == 0 && i < list.n; i++)
        if (!lines_add(&e->lines, &list.v[i].attempt))
            rc = err_set(err, ERR_NOMEM, "out of memory");
    free(list.v);
    if (rc == 0 && e->tip == 0)
        e->tip = lines_last(&e->lines);
    return rc;
}

/* ---- a window of rows ----------------------------------------------------*/

static int
take_metric(void *ctx, const void *view, struct err *err)
{
    const struct view_metric *m = view;
    struct export *e = ctx;
    const int64_t last =
        e->n_metrics > 0 ? e->metrics[e->n_metrics - 1].iteration : e->done;

    if (m->attempt != lines_at(&e->lines, e->line, m->iteration))
        return 0;
    if (m->iteration <= last || e->n_metrics == WINDOW)
        return err_set(err, ERR_PROTO,
                       "iteration %" PRId64 " of attempt %" PRId64
                       " comes after iteration %" PRId64,
                       m->iteration, m->attempt, last);
    e->metrics[e->n_metrics++] = *m;
    return 0;
}

/* What an attempt evaluated before its first iteration is of its line, too;
 * what the line had up to the fork stands in an earlier file. */
static bool
is_of_line(const struct export *e, const struct view_evaluation *v)
{
    const int64_t made = lines_at(&e->lines, e->line, v->iteration);
    const int64_t next = lines_at(&e->lines, e->line, v->iteration + 1);

    return v->iteration > e->fork ? v->attempt == made || v->attempt == next
                                  : v->attempt == next && v->attempt != made;
}

static int
take_evaluation(void *ctx, const void *view, struct err *err)
{
    const struct view_evaluation *v = view;
    struct export *e = ctx;

    if (v->incomplete || v->row <= e->last_row || !is_of_line(e, v))
        return 0;
    if (e->n_evaluations == e->max_evaluations) {
        const int max = e->max_evaluations > 0 ? 2 * e->max_evaluations : 64;
        struct view_evaluation *more =
            realloc(e->evaluations, (size_t)max * sizeof(*more));
        if (more == NULL)
            return err_set(err, ERR_NOMEM, "out of memory");
        e->evaluations = more;
        e->max_evaluations = max;
    }
    e->evaluations[e->n_evaluations] = *v;
    e->evaluations[e->n_evaluations++].confusion = (struct view_i64s){0};
    return 0;
}

/* An evaluation is stored before the next iteration: up to the last iteration
 * that was read none is missing, but for those of that one. */
static int
read_window(struct export *e, struct err *err)
{
    struct view_query query;
    int rc;

    e->n_metrics = e->n_evaluations = 0;
    view_init(VIEW_ID_query, &query);
    query.job = e->job;
    query.all_lines = true;
    query.from = e->done + 1;
    query.to = e->limit - e->done < WINDOW ? e->limit : e->done + WINDOW;
    rc = query.from <= query.to ? session_many(e->s, MESSAGE_ID_metrics, &query,
                                               take_metric, e, err)
                                : 0;
    query.from = e->done;
    query.to =
        e->n_metrics > 0 ? e->metrics[e->n_metrics - 1].iteration : e->done;
    if (rc == 0 && query.to > 0)
        rc = session_many(e->s, MESSAGE_ID_evaluations, &query, take_evaluation,
                          e, err);
    return rc;
}

/* ---- writing -------------------------------------------------------------*/

/* What is not known is left out; a loss that is not finite is known. */
static void
put_metric(struct export *e, const struct view_metric *m)
{
    struct tfevents_scalar scalars[6] = {
        {"train/loss", (float)m->loss},
        {"train/grad_norm", (float)m->grad_norm},
        {"amp/skipped", m->skipped ? 1 : 0},
        {"sys/step_seconds", (float)((double)m->step_us / 1e6)},
    };
    int n = 4;

    if (!isnan(m->scale))
        scalars[n++] = (struct tfevents_scalar){"amp/scale", (float)m->scale};
    if (!isnan(m->lr))
        scalars[n++] = (struct tfevents_scalar){"opt/lr", (float)m->lr};
    board_put(&e->board, m->t_us, m->iteration, scalars, n);
}

static void
put_evaluation(struct export *e, const struct view_evaluation *v)
{
    const struct tfevents_scalar scalars[2] = {
        {"validation/loss", (float)v->loss},
        {"validation/accuracy", (float)v->accuracy},
    };

    board_put(&e->board, v->t_us, v->iteration, scalars,
              isnan(v->accuracy) ? 1 : 2);
}

static int
write_window(struct export *e, struct err *err)
{
    int j = 0, rc;

    for (int i = 0; i <= e->n_metrics; i++) {
        const int64_t upto =
            i < e->n_metrics ? e->metrics[i].iteration - 1 : INT64_MAX;
        for (; j < e->n_evaluations && e->evaluations[j].iteration <= upto; j++)
            put_evaluation(e, &e->evaluations[j]);
        if (i < e->n_metrics)
            put_metric(e, &e->metrics[i]);
    }
    rc = board_flush(&e->board, err);
    e->failed = rc < 0;
    if (rc < 0)
        return rc;
    if (e->n_metrics > 0)
        e->done = e->metrics[e->n_metrics - 1].iteration;
    if (e->n_evaluations > 0)
        e->last_row = e->evaluations[e->n_evaluations - 1].row;
    e->n_rows += e->n_metrics + e->n_evaluations;
    return 0;
}

/* All that there is of the line by now. */
static int
write_line(struct export *e, struct err *err)
{
    int rc = 0;

    if (e->line == 0)
        return 0;
    do {
        rc = read_window(e, err);
        if (rc == 0)
            rc = write_window(e, err);
    } while (rc == 0 && e->n_metrics > 0);
    return rc;
}

/* ---- the job -------------------------------------------------------------*/

/* The next attempt's turn, after the last rows of the one before. What was
 * abandoned before the first look is left out, unless it is asked for. */
static int
take_attempt(struct export *e, struct err *err)
{
    const struct lines_attempt *a = &e->lines.v[e->n_taken];
    const int64_t limit = e->all_lines || a->attempt > e->tip
                              ? INT64_MAX
                              : lines_limit(&e->lines, e->tip, a->attempt);
    int rc = write_line(e, err);

    if (rc < 0)
        return rc;
    e->n_taken++;
    if (limit < 0)
        return 0;
    e->fork = lines_fork(&e->lines, a->attempt, e->line,
                         e->done < a->start ? e->done : a->start);
    e->line = a->attempt;
    e->limit = limit;
    e->done = e->fork;
    e->last_row = 0;
    rc = board_begin(&e->board, a->attempt, a->start_us, e->fork + 1, err);
    e->failed = rc < 0;
    return rc;
}

/* One look at the job; rows from before its end are read after it. */
static int
look(struct export *e, bool *final, struct err *err)
{
    struct call_held_job held = {0};
    int rc = session_job(e->s, e->job, &held, err);

    if (rc < 0)
        return rc;
    *final = held.job.exit_code >= 0;
    if (held.job.attempt > lines_last(&e->lines))
        rc = read_attempts(e, err);
    while (rc == 0 && e->n_taken < e->lines.n)
        rc = take_attempt(e, err);
    if (rc == 0)
        rc = write_line(e, err);
    call_held_job_fini(&held);
    return rc;
}

static int
follow(struct export *e, struct err *err)
{
    struct retry retry = {0};
    bool final = false;
    int rc;

    for (;;) {
        rc = look(e, &final, err);
        if (rc == 0) {
            retry_forget(&retry);
            if (final)
                return 0;
            rc = session_sleep(e->s, FOLLOW_PAUSE_MS, err);
        } else if (!e->failed && retry_is_worth(rc)) {
            rc = retry_link(&retry, e->s, -1, err);
        }
        if (rc < 0)
            return rc;
    }
}

static int
finish(struct export *e, struct err *err)
{
    const int rc = board_commit(&e->board, err);

    if (rc < 0)
        return rc;
    session_tell(e->s, "%s", e->board.dir);
    session_say(e->s,
                "%" PRId64 " iterations and evaluations of job %s in %d "
                "event file%s",
                e->n_rows, e->job, e->board.n_attempts,
                e->board.n_attempts == 1 ? "" : "s");
    return 0;
}

int
export_board(struct session *s, const struct export_job *job, struct err *err)
{
    const bool live = args_flag(s->args, "follow");
    struct export *e = calloc(1, sizeof(*e));
    bool final;
    int rc = 0;

    if (e != NULL)
        e->metrics = calloc(WINDOW, sizeof(*e->metrics));
    if (e == NULL || e->metrics == NULL) {
        free(e);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    e->s = s;
    e->job = job->ref;
    e->all_lines = args_flag(s->args, "all-lines");
    rc = board_open(&e->board, job->to, job->view->id, live,
                    args_flag(s->args, "force"), err);
    if (rc == 0)
        rc = live ? follow(e, err) : look(e, &final, err);
    if (rc == 0 && e->board.n_attempts == 0)
        session_say(s, "job %s has no history: nothing was written", job->ref);
    else if (rc == 0)
        rc = finish(e, err);
    board_close(&e->board);
    lines_fini(&e->lines);
    free(e->evaluations);
    free(e->metrics);
    free(e);
    return rc;
}
