/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/follow.h"
#include "ctl/summary.h"

static int
put_snapshot(struct session *s, const struct view_job *job, struct err *err)
{
    if (output_is_text(&s->out))
        return summary_put_result(s, job, err);
    return session_put_result(s, VIEW_ID_job, job, err);
}

static int
run_watch(struct session *s, struct err *err)
{
    struct call_held_job held = {0};
    bool once = args_flag(s->args, "once");
    char *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    if (rc == 0 && !once)
        rc = session_catch_signals(s, err);
    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    if (rc == 0 && !once && s->out.ops == &output_json)
        s->out.ops = &output_jsonl;
    if (rc == 0 && !once && held.job.exit_code < 0) {
        int64_t id = held.job.id;
        rc = follow_job(s, id, s->out.f, &held, err);
        if (rc == ERR_CANCELLED)
            session_say(s,
                        "job %" PRId64 " goes on; \"trainctl watch %" PRId64
                        "\" shows it again",
                        id, id);
    }
    if (rc == 0)
        rc = put_snapshot(s, &held.job, err);
    call_held_job_fini(&held);
    free(ref);
    return rc;
}

const struct cmd cmd_watch = {
    .name = "watch",
    .synopsis = "JOB",
    .doc = "live progress, then the result with plots of loss and scale",
    .detail = "Shows a progress bar and a line for each skip, growth of the "
              "scale, checkpoint, evaluation and incident until the job is "
              "final. Interrupting it leaves the job running. Exits with 0 "
              "whatever becomes of the job; see wait for its code.",
    .options =
        (const struct args_option[]){
            {"once", '1', NULL, "how it stands now, without following"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_watch,
};
