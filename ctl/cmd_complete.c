/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/help.h"
#include "ctl/session.h"

#define MAX_WORDS 64

/* Called by trainctl.bash as "trainctl __complete -- WORD...". */
static int
run_complete(struct session *s, struct err *err)
{
    const char *words[MAX_WORDS];
    int n = args_n(s->args);

    if (n > MAX_WORDS)
        return err_set(err, ERR_USAGE, "more than %d words", MAX_WORDS);
    for (int i = 0; i < n; i++)
        words[i] = args_at(s->args, i);
    help_put_completions(s->out.f, n, words);
    return 0;
}

const struct cmd cmd_complete = {
    .name = "__complete",
    .synopsis = "WORD...",
    .doc = "candidates for the last word, for a shell's completion",
    .max_args = CMD_ANY,
    .run = run_complete,
};
