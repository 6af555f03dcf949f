/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ctl/chart.h"
#include "ctl/cmd.h"
#include "ctl/history.h"

static int
put_chart(struct session *s, const struct view_query *query, struct err *err)
{
    struct call_held_job held = {0};
    int rc = session_job(s, query->job, &held, err);

    if (rc == 0)
        rc = chart_put_scale(s, query, &held.job, err);
    call_held_job_fini(&held);
    return rc;
}

static int
run_scale(struct session *s, struct err *err)
{
    struct view_query query;
    char *ref = NULL;
    int rc = history_query(s, &query, &ref, err);

    /* Abandoned lines go back in iterations: a table only. */
    if (rc == 0 && output_is_text(&s->out) && !query.all_lines &&
        !args_flag(s->args, "no-plot"))
        rc = put_chart(s, &query, err);
    if (rc == 0)
        rc = session_list(s, MESSAGE_ID_scale, &query, &layout_scale, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "the loss scale never changed");
    free(ref);
    return rc;
}

const struct cmd cmd_scale = {
    .name = "scale",
    .synopsis = "JOB",
    .doc = "every change of the loss scale: a plot and a table",
    .options =
        (const struct args_option[]){
            HISTORY_OPTIONS,
            {"no-plot", 0, NULL, "the table only"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_scale,
};
