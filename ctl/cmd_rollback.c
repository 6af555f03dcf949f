/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/session.h"

/* A number, or a name as in "it000000500-a1". */
static bool
looks_like_checkpoint(const char *to)
{
    const char *digits = strncmp(to, "it", 2) == 0 ? to + 2 : to;
    size_t n = strspn(digits, "0123456789");

    return n > 0 && (digits[n] == '\0' ||
                     (digits != to && strncmp(digits + n, "-a", 2) == 0));
}

static int
check_target(const char *to, struct err *err)
{
    if (strcmp(to, "last") == 0 || strcmp(to, "best") == 0 ||
        looks_like_checkpoint(to))
        return 0;
    return err_set(err, ERR_USAGE,
                   "--to %s: last, best, or a checkpoint's number or name "
                   "(\"trainctl checkpoints\" lists them)",
                   to);
}

static int
run_rollback(struct session *s, struct err *err)
{
    struct view_rollback args;
    struct view_rolled_back done;
    char *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    view_init(VIEW_ID_rollback, &args);
    args.job = ref;
    args.to = args_value(s->args, "to");
    args.dry_run = args_flag(s->args, "dry-run");
    if (args.to == NULL)
        args.to = "last";
    if (rc == 0)
        rc = check_target(args.to, err);
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_rollback, &args, &done, err);
    if (rc == 0 && output_is_text(&s->out))
        session_tell(
            s,
            "job %" PRId64 " %s from iteration %" PRId64 " to %" PRId64
            ", checkpoint %" PRId64 " (%s): %" PRId64 " iterations %s; %s",
            done.job, args.dry_run ? "would go back" : "went back",
            done.from_iteration, done.iteration, done.checkpoint, done.name,
            done.abandoned,
            args.dry_run ? "would be left behind" : "left behind", done.state);
    else if (rc == 0)
        rc = session_put_result(s, VIEW_ID_rolled_back, &done, err);
    free(ref);
    return rc;
}

const struct cmd cmd_rollback = {
    .name = "rollback",
    .synopsis = "JOB",
    .doc = "go back to a checkpoint and go on from there",
    .detail = "Weights, optimizer, loss scale, counters, schedule, data "
              "position and random state are those of the checkpoint. What "
              "came after it stays in the history, marked as abandoned.",
    .options =
        (const struct args_option[]){
            {"to", 0, "WHICH", "last (default), best, a number or name"},
            {"dry-run", 'n', NULL, "say what would happen only"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_rollback,
};
