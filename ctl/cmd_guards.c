/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/history.h"

static int
run_guards(struct session *s, struct err *err)
{
    return history_list(s, MESSAGE_ID_guards, &layout_guards,
                        "no guard has fired", err);
}

const struct cmd cmd_guards = {
    .name = "guards",
    .synopsis = "JOB",
    .doc = "guards that fired: what they saw, and what was done",
    .options = (const struct args_option[]){HISTORY_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_guards,
};
