/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "ctl/act.h"
#include "ctl/cmd.h"

static int
run_priority(struct session *s, struct err *err)
{
    const char *text = args_at(s->args, 1);
    struct view_priority args;
    struct view_job job;
    char *ref = NULL, *end;
    int rc;

    view_init(VIEW_ID_priority, &args);
    errno = 0;
    args.priority = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return err_set(err, ERR_USAGE, "\"%.60s\" is no whole number", text);
    rc = session_one_ref(s, 0, &ref, err);
    args.job = ref;
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_priority, &args, &job, err);
    if (rc == 0 && output_is_text(&s->out))
        act_tell_job(s, &job);
    if (rc == 0)
        rc = session_put_result(s, VIEW_ID_job, &job, err);
    free(ref);
    return rc;
}

const struct cmd cmd_priority = {
    .name = "priority",
    .synopsis = "JOB N",
    .doc = "change a job's place in the queue: higher runs first",
    .detail = "A number below zero stands behind --: priority -- 17 -5.",
    .min_args = 2,
    .max_args = 2,
    .run = run_priority,
};
