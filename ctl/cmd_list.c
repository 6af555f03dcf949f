/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/session.h"

static int
run_list(struct session *s, struct err *err)
{
    struct view_list args;
    int rc;

    view_init(VIEW_ID_list, &args);
    args.all = args_flag(s->args, "all");
    rc = args_i64(s->args, "after", 0, 0, INT64_MAX, &args.after, err);
    if (rc < 0)
        return rc;
    rc = session_list(s, MESSAGE_ID_list, &args, &layout_jobs, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, args.all ? "no jobs"
                                : "no jobs queued or running; "
                                  "--all shows those that ended");
    return rc;
}

const struct cmd cmd_list = {
    .name = "list",
    .synopsis = "",
    .doc = "jobs that you may see; those not final unless --all",
    .options =
        (const struct args_option[]){
            {"all", 'a', NULL, "final jobs too"},
            {"after", 0, "ID", "only jobs with a higher number"},
            {0},
        },
    .run = run_list,
};
