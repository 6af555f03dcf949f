/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/history.h"

static int
run_skips(struct session *s, struct err *err)
{
    return history_list(s, MESSAGE_ID_skips, &layout_skips,
                        "no update was skipped", err);
}

const struct cmd cmd_skips = {
    .name = "skips",
    .synopsis = "JOB",
    .doc = "updates that were skipped, with the samples of their batches",
    .options = (const struct args_option[]){HISTORY_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_skips,
};
