/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/act.h"
#include "ctl/cmd.h"

static int
run_resume(struct session *s, struct err *err)
{
    return act_on_jobs(s, MESSAGE_ID_resume, err);
}

const struct cmd cmd_resume = {
    .name = "resume",
    .synopsis = "JOB...",
    .doc = "queue a paused job again",
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_resume,
};
