/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/history.h"

#define TEXT_POINTS     50 /* rows that a person reads, unless asked for more */
#define MAX_POINTS      10000000
#define FOLLOW_PAUSE_MS 1000

struct tail {
    struct output *out;
    int64_t last_row;
};

static int
put_row(void *ctx, const void *view, struct err *err)
{
    struct tail *tail = ctx;

    tail->last_row = ((const struct view_metric *)view)->row;
    return output_row(tail->out, view, err);
}

/* Rows as they come until the job is final. Lines that are already out cannot
 * be aligned with later ones, so a person gets the CSV form. */
static int
follow_rows(struct session *s, struct view_query *query, struct err *err)
{
    struct tail tail = {.out = &s->out};
    struct call_held_job held = {0};
    bool last = false;
    int rc;

    if (s->out.ops == &output_json)
        s->out.ops = &output_jsonl;
    else if (output_is_text(&s->out))
        s->out.ops = &output_csv;
    rc = session_link(s, err);
    if (rc == 0)
        rc = output_begin(&s->out, &layout_metrics, err);
    while (rc == 0) {
        rc = session_many(s, MESSAGE_ID_metrics, query, put_row, &tail, err);
        fflush(s->out.f);
        if (last || rc < 0 || ferror(s->out.f))
            break;
        query->after_row = tail.last_row;
        rc = session_job(s, query->job, &held, err);
        last = rc == 0 && held.job.exit_code >= 0; /* one more look */
        if (rc == 0 && !last)
            rc = session_sleep(s, FOLLOW_PAUSE_MS, err);
    }
    call_held_job_fini(&held);
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
              "several iterations and keeps their smallest and largest loss.",
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
