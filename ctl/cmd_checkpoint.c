/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"

static int
make_checkpoint(struct session *s, const char *ref, void *ctx, struct err *err)
{
    struct view_job_ref args;
    struct view_checkpoint made;
    char bytes[FORMAT_MAX];

    (void)ctx;
    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    int rc = session_one(s, MESSAGE_ID_checkpoint, &args, &made, err);
    if (rc < 0)
        return rc;
    if (!output_is_text(&s->out))
        return session_put_result(s, VIEW_ID_checkpoint, &made, err);
    session_tell(s, "%s", made.name);
    format_bytes(made.bytes, bytes, sizeof(bytes));
    session_say(s,
                "checkpoint %" PRId64 " of job %" PRId64
                " at iteration %" PRId64 ", %s",
                made.id, made.job, made.iteration, bytes);
    return 0;
}

static int
run_checkpoint(struct session *s, struct err *err)
{
    return session_each_job(s, &layout_checkpoints, make_checkpoint, NULL, err);
}

const struct cmd cmd_checkpoint = {
    .name = "checkpoint",
    .synopsis = "JOB...",
    .doc = "make a checkpoint now and print its name",
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_checkpoint,
};
