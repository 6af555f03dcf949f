/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
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
        strcmp(to, "start") == 0 || looks_like_checkpoint(to))
        return 0;
    return err_set(
        err, ERR_USAGE,
        "--to %s: last, best, start, or a checkpoint's number or name "
        "(\"trainctl checkpoints\" lists them)",
        to);
}

/* Values of --set; v is malloc'd, the strings are the arguments'. */
static int
take_sets(struct session *s, struct view_strs *set, struct err *err)
{
    int n = 0;

    while (args_nth(s->args, "set", n) != NULL)
        n++;
    set->v = calloc((size_t)n + 1, sizeof(*set->v));
    if (set->v == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (set->n = 0; set->n < n; set->n++)
        set->v[set->n] = args_nth(s->args, "set", set->n);
    return 0;
}

static int
take_scale(struct session *s, double *scale, struct err *err)
{
    const char *text = args_value(s->args, "scale");
    char *end;

    if (text == NULL)
        return 0;
    *scale = strtod(text, &end);
    if (end == text || *end != '\0' || !(*scale > 0) || !isfinite(*scale))
        return err_set(err, ERR_USAGE, "--scale %.60s: a number above 0", text);
    return 0;
}

static int
take_change(struct session *s, struct view_rollback *args, struct err *err)
{
    int rc = take_sets(s, &args->set, err);

    if (rc == 0)
        rc = take_scale(s, &args->scale, err);
    if (rc == 0)
        rc = args_i64(s->args, "skip-batches", 0, 0, INT64_MAX / 4,
                      &args->skip_batches, err);
    if (rc == 0)
        rc = args_i64(s->args, "cure", 0, 1, INT64_MAX, &args->cure, err);
    args->accept_policy_change = args_flag(s->args, "accept-policy-change");
    return rc;
}

static void
tell(const struct session *s, const struct view_rolled_back *done, bool dry)
{
    char place[128];

    if (done->checkpoint > 0)
        snprintf(place, sizeof(place), ", checkpoint %" PRId64 " (%.64s)",
                 done->checkpoint, done->name);
    else
        snprintf(place, sizeof(place), ", the start");
    session_tell(s,
                 "job %" PRId64 " %s from iteration %" PRId64 " to %" PRId64
                 "%s: %" PRId64 " iterations %s; %s",
                 done->job, dry ? "would go back" : "went back",
                 done->from_iteration, done->iteration, place, done->abandoned,
                 dry ? "would be left behind" : "left behind", done->state);
    if (done->difference[0] != '\0')
        session_tell(s, "%s: %s",
                     done->policy_changed ? "a new policy from there on"
                                          : "with",
                     done->difference);
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
        rc = take_change(s, &args, err);
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_rollback, &args, &done, err);
    if (rc == 0 && output_is_text(&s->out))
        tell(s, &done, args.dry_run);
    else if (rc == 0)
        rc = session_put_result(s, VIEW_ID_rolled_back, &done, err);
    free(args.set.v);
    free(ref);
    return rc;
}

const struct cmd cmd_rollback = {
    .name = "rollback",
    .synopsis = "JOB",
    .doc = "go back to a checkpoint and go on from there",
    .detail = "Weights, optimizer, loss scale, counters, schedule, data "
              "position and random state are those of the checkpoint. What "
              "came after it stays in the history, marked as abandoned. "
              "What changes the numerics begins a new experiment, and is "
              "refused without --accept-policy-change.",
    .options =
        (const struct args_option[]){
            {"to", 0, "WHICH", "last (default), best, start, a number or name"},
            {"cure", 0, "INCIDENT", "apply the cure that its diagnosis names"},
            {"set", 0, "PATH=VALUE", "change the spec, as amp.dtype=bfloat16"},
            {"scale", 0, "X", "go on with this loss scale"},
            {"skip-batches", 0, "N", "pass over the next N windows of data"},
            {"accept-policy-change", 0, NULL, "the numerics may change"},
            {"dry-run", 'n', NULL, "say what would happen only"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_rollback,
};
