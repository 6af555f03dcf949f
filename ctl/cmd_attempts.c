/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/session.h"

static int
run_attempts(struct session *s, struct err *err)
{
    struct view_job_ref args;
    char *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    if (rc == 0)
        rc = session_list(s, MESSAGE_ID_attempts, &args, &layout_attempts, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "no attempt yet");
    free(ref);
    return rc;
}

const struct cmd cmd_attempts = {
    .name = "attempts",
    .synopsis = "JOB",
    .doc = "the worker processes that worked on a job and how each ended",
    .min_args = 1,
    .max_args = 1,
    .run = run_attempts,
};
