/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/act.h"
#include "ctl/cmd.h"
#include "ctl/retry.h"

/* Jobs by number: "@" must mean the same job after a restart. */
struct jobs {
    int64_t *id; /* owned */
    int n;
};

static int
add_job(struct session *s, const char *ref, void *ctx, struct err *err)
{
    struct jobs *jobs = ctx;
    struct call_held_job held = {0};
    int rc = session_job(s, ref, &held, err);
    int64_t *grown =
        reallocarray(jobs->id, (size_t)jobs->n + 1, sizeof(*grown));

    if (grown == NULL && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (grown != NULL)
        jobs->id = grown;
    if (rc == 0)
        grown[jobs->n++] = held.job.id;
    call_held_job_fini(&held);
    return rc;
}

static int
wait_all(struct session *s, const struct jobs *jobs, int64_t deadline_ms,
         int *code, struct err *err)
{
    struct call_held_job held = {0};
    int rc = 0;

    for (int i = 0; rc == 0 && i < jobs->n; i++) {
        rc = retry_await_job(s, jobs->id[i], deadline_ms, &held, err);
        if (rc == ERR_CANCELLED)
            session_say(s, "job %" PRId64 " goes on", jobs->id[i]);
        if (rc == ERR_TIMEOUT)
            err_set(err, ERR_TIMEOUT, "job %" PRId64 " is not done yet",
                    jobs->id[i]);
        if (rc < 0)
            break;
        if (output_is_text(&s->out))
            act_tell_job(s, &held.job);
        rc = session_put_result(s, VIEW_ID_job, &held.job, err);
        *code = session_merge_exit(*code, (int)held.job.exit_code);
    }
    call_held_job_fini(&held);
    return rc;
}

static int
run_wait(struct session *s, struct err *err)
{
    struct jobs jobs = {0};
    int64_t timeout_ms = -1;
    int rc = args_seconds(s->args, "timeout", -1, &timeout_ms, err);
    int64_t deadline_ms = timeout_ms < 0 ? -1 : link_now_ms() + timeout_ms;
    int code;

    if (rc == 0)
        rc = session_catch_signals(s, err);
    if (rc == 0)
        rc = session_each_job(s, NULL, add_job, &jobs, err);
    code = rc > 0 ? rc : -1; /* a job that could not be found counts too */
    if (rc >= 0)
        rc = session_begin_results(s, jobs.n, &layout_jobs, err);
    if (rc == 0)
        rc = wait_all(s, &jobs, deadline_ms, &code, err);
    if (rc == 0)
        rc = session_end_results(s, err);
    free(jobs.id);
    return rc < 0 ? rc : code;
}

const struct cmd cmd_wait = {
    .name = "wait",
    .synopsis = "JOB...",
    .doc = "wait until jobs are final; exits with the job's code",
    .detail = "Several jobs with different results give 10. Goes on waiting "
              "when the daemon restarts. Interrupting it does not touch the "
              "jobs.",
    .options =
        (const struct args_option[]){
            {"timeout", 0, "SEC", "give up after that long, with exit 124"},
            {0},
        },
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_wait,
};
