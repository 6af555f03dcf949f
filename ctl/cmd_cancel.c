/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/act.h"
#include "ctl/cmd.h"

static int
cancel_job(struct session *s, const char *ref, void *ctx, struct err *err)
{
    const char *reason = args_value(s->args, "reason");
    struct view_cancel args;
    struct view_job job;

    (void)ctx;
    view_init(VIEW_ID_cancel, &args);
    args.job = ref;
    args.reason = reason != NULL ? reason : "";
    int rc = session_one(s, MESSAGE_ID_cancel, &args, &job, err);
    if (rc < 0)
        return rc;
    if (output_is_text(&s->out))
        act_tell_job(s, &job);
    return session_put_result(s, VIEW_ID_job, &job, err);
}

static int
run_cancel(struct session *s, struct err *err)
{
    return session_each_job(s, &layout_jobs, cancel_job, NULL, err);
}

const struct cmd cmd_cancel = {
    .name = "cancel",
    .synopsis = "JOB...",
    .doc = "end a job; answers when its worker is gone",
    .options =
        (const struct args_option[]){
            {"reason", 0, "TEXT", "for the record"},
            {0},
        },
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_cancel,
};
