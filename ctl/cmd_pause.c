/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/act.h"
#include "ctl/cmd.h"

static int
run_pause(struct session *s, struct err *err)
{
    return act_on_jobs(s, MESSAGE_ID_pause, err);
}

const struct cmd cmd_pause = {
    .name = "pause",
    .synopsis = "JOB...",
    .doc = "checkpoint a job and give its device back",
    .detail = "Answers when the checkpoint is written and the worker is gone. "
              "\"trainctl resume\" queues the job again; it goes on where it "
              "was.",
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_pause,
};
