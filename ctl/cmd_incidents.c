/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/history.h"

static int
run_incidents(struct session *s, struct err *err)
{
    return history_list(s, MESSAGE_ID_incidents, &layout_incidents,
                        "no incidents", err);
}

const struct cmd cmd_incidents = {
    .name = "incidents",
    .synopsis = "JOB",
    .doc = "where the first non-finite value of each skipped update arose",
    .options = (const struct args_option[]){HISTORY_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_incidents,
};
