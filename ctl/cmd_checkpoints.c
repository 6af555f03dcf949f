/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/history.h"

static int
run_checkpoints(struct session *s, struct err *err)
{
    return history_list(s, MESSAGE_ID_checkpoints, &layout_checkpoints,
                        "no checkpoints", err);
}

const struct cmd cmd_checkpoints = {
    .name = "checkpoints",
    .synopsis = "JOB",
    .doc = "a job's checkpoints",
    .options = (const struct args_option[]){HISTORY_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_checkpoints,
};
