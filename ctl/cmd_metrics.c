/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/history.h"

#define TEXT_POINTS     50 /* rows that a person reads, unless asked for more */
#define MAX_POINTS      10000000
#define FOLLOW_PAUSE_MS 1000

struct tail {
    struct session *s;
    struct view_query *query;
    int64_t last_row;
    int64_t attempt; /* whose rows are being read; 0 = none has begun */
    bool begun;      /* the first look is over */
};

static int
put_row(void *ctx, const void *view, struct err *err)
{
    struct tail *tail = ctx;

    tail->last_row = ((const struct view_metric *)view)->row;
    return output_row(&tail->s->out, view, err);
}

/* A later attempt has begun: read on where it began, since what was read
 * beyond that is on an abandoned line now. Before its worker has said where it
 * begins there is nothing to read on from. */
static int
take_attempt(void *ctx, const void *view, struct err *err)
{
    const struct view_attempt *a = view;
    struct tail *tail = ctx;

    (void)err;
    if (a->attempt <= tail->attempt || a->policy[0] == '\0')
        return 0;
    if (tail->begun) {
        tail->query->from = a->start_iteration + 1;
        tail->query->after_row = 0;
    }
    tail->attempt = a->attempt;
    return 0;
}

/* One look: rows, then whether there will be more. */
static int
read_rows(struct tail *tail, bool *final, struct err *err)
{
    struct call_held_job held = {0};
    struct view_job_ref args;
    int rc = session_many(tail->s, MESSAGE_ID_metrics, tail->query, put_row,
                          tail, err);

    fflush(tail->s->out.f);
    if (rc < 0 || ferror(tail->s->out.f))
        return rc;
    tail->query->after_row = tail->last_row;
    rc = session_job(tail->s, tail->query->job, &held, err);
    if (rc < 0)
        return rc;
    *final = held.job.exit_code >= 0;
    if (held.job.attempt > tail->attempt) {
        view_init(VIEW_ID_job_ref, &args);
        args.job = tail->query->job;
        rc = session_many(tail->s, MESSAGE_ID_attempts, &args, take_attempt,
                          tail, err);
    }
    tail->begun = true;
    call_held_job_fini(&held);
    return rc;
}

/* Rows as they come until the job is final. Lines that are already out cannot
 * be aligned with later ones, so a person gets the CSV form. */
static int
follow_rows(struct session *s, struct view_query *query, struct err *err)
{
    struct tail tail = {.s = s, .query = query};
    bool final = false, last;
    int rc;

    if (s->out.ops == &output_json)
        s->out.ops = &output_jsonl;
    else if (output_is_text(&s->out))
        s->out.ops = &output_csv;
    rc = session_link(s, err);
    if (rc == 0)
        rc = output_begin(&s->out, &layout_metrics, err);
    do {
        last = final; /* rows from before the end are read after it */
        if (rc == 0)
            rc = read_rows(&tail, &final, err);
        if (rc == 0 && !final && !ferror(s->out.f))
            rc = session_sleep(s, FOLLOW_PAUSE_MS, err);
    } while (rc == 0 && !last && !ferror(s->out.f));
    return rc < 0 ? rc : output_end(&s->out, err);
}

static int
run_metrics(struct session *s, struct err *err)
{
    struct view_query query;
    char *ref = NULL;
    int rc = history_query(s, &query, &ref, err);
    bool follow = args_flag(s->args, "follow");
    int64_t absent = output_is_text(&s->out) && !follow ? TEXT_POINTS : 0;

    if (rc == 0)
        rc = args_i64(s->args, "max-points", absent, 0, MAX_POINTS,
                      &query.max_points, err);
    if (rc == 0 && follow && query.max_points > 0)
        rc = err_set(err, ERR_USAGE,
                     "--follow shows every point; it does not "
                     "go with --max-points");
    if (rc == 0 && follow)
        rc = follow_rows(s, &query, err);
    else if (rc == 0)
        rc = session_list(s, MESSAGE_ID_metrics, &query, &layout_metrics, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "no iterations yet");
    else if (rc == 0 && absent > 0 && query.max_points == absent &&
             s->out.n_rows >= absent / 2)
        session_say(s,
                    "thinned to about %d rows, extremes kept; "
                    "--max-points 0 shows all",
                    TEXT_POINTS);
    free(ref);
    return rc;
}

const struct cmd cmd_metrics = {
    .name = "metrics",
    .synopsis = "JOB",
    .doc = "loss, loss scale, learning rate and gradient norm by iteration",
    .detail = "Without --max-points a person gets about 50 rows, and the forms "
              "for programs all of them. A row of a thinned history stands for "
              "several iterations: it has their mean loss and time, and all "
              "else of the last.",
    .options =
        (const struct args_option[]){
            {"max-points", 0, "N", "thin to at most N rows; 0 = all"},
            HISTORY_OPTIONS,
            {"follow", 'f', NULL, "go on until the job is final"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_metrics,
};
