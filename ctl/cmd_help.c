/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/help.h"
#include "ctl/session.h"

static int
run_help(struct session *s, struct err *err)
{
    if (args_n(s->args) == 0) {
        help_put_program(s->out.f);
        return 0;
    }
    const struct cmd *cmd = cmd_find(args_at(s->args, 0));
    if (cmd == NULL)
        return cmd_refuse(args_at(s->args, 0), err);
    help_put_verb(s->out.f, cmd);
    return 0;
}

const struct cmd cmd_help = {
    .name = "help",
    .synopsis = "[VERB]",
    .doc = "about the program, or one verb and its options",
    .max_args = 1,
    .run = run_help,
};
