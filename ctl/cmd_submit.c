/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ctl/act.h"
#include "ctl/cmd.h"
#include "ctl/datacheck.h"
#include "ctl/follow.h"
#include "ctl/format.h"
#include "ctl/retry.h"
#include "ctl/specfile.h"
#include "ctl/summary.h"

#define MAX_SETS     256
#define KEY_BYTES    16
#define PRIORITY_MAX 1000000

struct submit {
    struct specfile file;
    const char *set[MAX_SETS]; /* borrowed from argv, but for name_set */
    struct specfile_sets sets;
    char *name_set; /* owned: --name as an assignment */
    char key[2 * KEY_BYTES + 8];
    struct view_submit args;
};

/* ---- the spec ------------------------------------------------------------*/

/* --name is a --set whose value is surely a string. */
static int
set_name(struct submit *submit, const char *name, struct err *err)
{
    size_t len = 0;
    FILE *f;

    if (!format_is_utf8(name))
        return err_set(err, ERR_USAGE, "--name: not UTF-8");
    f = open_memstream(&submit->name_set, &len);
    if (f == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    fputs("name=", f);
    format_put_json(f, name);
    if (fclose(f) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    submit->set[submit->sets.n++] = submit->name_set;
    return 0;
}

static int
read_sets(struct session *s, struct submit *submit, struct err *err)
{
    const char *name = args_value(s->args, "name");

    submit->sets.set = submit->set;
    for (int i = 0; args_nth(s->args, "set", i) != NULL; i++) {
        if (submit->sets.n >= MAX_SETS - 1)
            return err_set(err, ERR_USAGE, "more than %d --set", MAX_SETS - 1);
        submit->set[submit->sets.n++] = args_nth(s->args, "set", i);
    }
    return name != NULL ? set_name(submit, name, err) : 0;
}

/* 0: the spec is ready to be sent; an exit code when faults were printed. */
static int
read_spec(struct session *s, struct submit *submit, struct err *err)
{
    int rc = read_sets(s, submit, err);

    if (rc == 0)
        rc = specfile_read(&submit->file, args_at(s->args, 0), submit->set,
                           submit->sets.n, err);
    if (rc == 0)
        rc = specfile_check(s, &submit->file, specfile_print_fault,
                            &submit->sets, err);
    if (rc == 0 && !args_flag(s->args, "no-data"))
        rc = datacheck_run(s, &submit->file, specfile_print_fault,
                           &submit->sets, err);
    if (rc > 0 && submit->sets.n > 0)
        session_say(s, "places are those of %s with --set and --name applied",
                    submit->file.name);
    return rc > 0 ? err_exit_code(ERR_SPEC) : rc;
}

/* ---- sending -------------------------------------------------------------*/

/* Every submit has a key, so that asking again after a lost answer cannot
 * make a second job. */
static int
make_key(struct submit *submit, struct err *err)
{
    unsigned char bytes[KEY_BYTES];
    char *out = stpcpy(submit->key, "auto-");

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_set_errno(err, ERR_INTERNAL, errno, "getrandom");
    for (size_t i = 0; i < sizeof(bytes); i++)
        out += sprintf(out, "%02x", bytes[i]);
    return 0;
}

static int
fill_args(struct session *s, struct submit *submit, struct err *err)
{
    const char *key = args_value(s->args, "idempotency-key");
    int rc;

    view_init(VIEW_ID_submit, &submit->args);
    submit->args.spec = submit->file.wire;
    submit->args.origin = "trainctl";
    rc = args_i64(s->args, "priority", 0, -PRIORITY_MAX, PRIORITY_MAX,
                  &submit->args.priority, err);
    if (rc == 0 && key == NULL)
        rc = make_key(submit, err);
    submit->args.idempotency_key = key != NULL ? key : submit->key;
    return rc;
}

/* The first connection is tried once; one that is lost afterwards, for as long
 * as --timeout says. */
static int
send_job(struct session *s, struct submit *submit, struct call_held_job *held,
         struct err *err)
{
    int64_t deadline_ms = link_now_ms() + s->link_options.timeout_ms;
    struct retry retry = {0};
    struct view_job job;
    int rc = session_link(s, err);

    if (rc < 0)
        return rc;
    for (;;) {
        rc = call_one(s->link, MESSAGE_ID_submit, &submit->args, &job, err);
        if (rc == 0)
            return call_hold_job(held, &job, err);
        if (specfile_refused(s, &submit->file, specfile_print_fault,
                             &submit->sets) > 0)
            return err_exit_code(rc);
        if (rc != ERR_UNREACHABLE)
            return rc;
        rc = retry_link(&retry, s, deadline_ms, err);
        if (rc < 0) /* beyond the deadline err holds the last trouble */
            return rc == ERR_TIMEOUT ? ERR_UNREACHABLE : rc;
    }
}

/* ---- afterwards ----------------------------------------------------------*/

static int
put_submitted(struct session *s, const struct view_job *job, bool stays,
              struct err *err)
{
    if (args_flag(s->args, "print-id") || s->out.ops == &output_parsable)
        session_tell(s, "%" PRId64, job->id);
    else if (output_is_text(&s->out))
        session_tell(s, "Submitted job %" PRId64, job->id);
    else if (s->out.ops == &output_jsonl || !stays)
        return session_put_result(s, VIEW_ID_job, job, err);
    fflush(s->out.f);
    return 0;
}

static void
say_result(const struct session *s, const struct view_job *job)
{
    char what[1024];

    act_describe(job, what, sizeof(what));
    session_say(s, "job %" PRId64 ": %s", job->id, what);
}

static int
tell_result(struct session *s, const struct view_job *job, bool follow,
            struct err *err)
{
    if (s->out.ops == &output_json || s->out.ops == &output_jsonl)
        return session_put_result(s, VIEW_ID_job, job, err);
    if (output_is_text(&s->out) && follow && !args_flag(s->args, "print-id"))
        return summary_put_result(s, job, err);
    say_result(s, job);
    return 0;
}

/* Stays with the job; its exit code. */
static int
stay(struct session *s, struct call_held_job *held, bool follow,
     struct err *err)
{
    bool only_id =
        args_flag(s->args, "print-id") || s->out.ops == &output_parsable;
    int64_t id = held->job.id;
    int rc;

    if (follow && s->out.ops == &output_parsable)
        s->out.ops = &output_text; /* the id was all for standard output */
    if (follow)
        rc = follow_job(s, id, only_id ? stderr : s->out.f, held, err);
    else
        rc = retry_await_job(s, id, -1, held, err);
    if (rc == ERR_CANCELLED)
        session_say(s,
                    "job %" PRId64 " goes on; \"trainctl cancel %" PRId64
                    "\" ends it",
                    id, id);
    if (rc == 0 && only_id)
        say_result(s, &held->job);
    else if (rc == 0)
        rc = tell_result(s, &held->job, follow, err);
    return rc < 0 ? rc : (int)held->job.exit_code;
}

static int
dry_run(struct session *s, struct submit *submit, struct err *err)
{
    int rc = session_link(s, err);

    if (rc == 0)
        rc = specfile_ask(s, &submit->file, specfile_print_fault, &submit->sets,
                          err);
    if (rc > 0)
        return err_exit_code(ERR_SPEC);
    if (rc == 0)
        session_say(s, "%s: valid; nothing was submitted", submit->file.name);
    return rc;
}

static int
submit_job(struct session *s, struct submit *submit, struct err *err)
{
    struct call_held_job held = {0};
    bool follow = args_flag(s->args, "follow");
    bool stays = follow || args_flag(s->args, "wait");
    int rc = fill_args(s, submit, err);

    if (rc == 0 && stays)
        rc = session_catch_signals(s, err);
    if (rc == 0)
        rc = send_job(s, submit, &held, err);
    if (rc != 0)
        goto out;
    if (follow && s->out.ops == &output_json)
        s->out.ops = &output_jsonl;
    rc = put_submitted(s, &held.job, stays, err);
    if (rc == 0 && stays)
        rc = stay(s, &held, follow, err);
out:
    call_held_job_fini(&held);
    return rc;
}

static int
run_submit(struct session *s, struct err *err)
{
    struct submit submit = {0};
    int rc = read_spec(s, &submit, err);

    if (rc == 0 && args_flag(s->args, "dry-run"))
        rc = dry_run(s, &submit, err);
    else if (rc == 0)
        rc = submit_job(s, &submit, err);
    specfile_fini(&submit.file);
    free(submit.name_set);
    return rc;
}

const struct cmd cmd_submit = {
    .name = "submit",
    .synopsis = "SPEC",
    .doc = "queue a job; SPEC is a file or - for standard input",
    .detail = "Relative paths in the spec are meant from the working "
              "directory. A spec with faults is refused with all of them, and "
              "so are data files that you cannot read.",
    .options =
        (const struct args_option[]){
            {"set", 0, "KEY=VALUE", "change the spec; may be repeated"},
            {"name", 0, "NAME", "the job's name instead of the spec's"},
            {"priority", 0, "N", "higher runs first; default 0"},
            {"idempotency-key", 0, "TEXT",
             "a second submit with it gives the first one's job"},
            {"print-id", 0, NULL, "print the number only"},
            {"wait", 'w', NULL, "wait for the job; exit with its code"},
            {"follow", 'f', NULL, "as --wait, showing progress"},
            {"dry-run", 'n', NULL, "check the spec only, with the daemon"},
            {"no-data", 0, NULL, "do not look into the data files first"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_submit,
};
