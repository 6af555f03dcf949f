/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/act.h"

#include <inttypes.h>
#include <string.h>

void
act_describe(const struct view_job *job, char *out, size_t n)
{
    size_t len = strlen(job->state);

    if (strncmp(job->reason, job->state, len) == 0)
        snprintf(out, n, "%s", job->reason);
    else
        snprintf(out, n, "%s%s%s", job->state,
                 job->reason[0] != '\0' ? ", " : "", job->reason);
}

void
act_tell_job(const struct session *s, const struct view_job *job)
{
    char what[1024];

    act_describe(job, what, sizeof(what));
    session_tell(s, "job %" PRId64 " \"%s\": %s", job->id, job->name, what);
}

static int
act_on_job(struct session *s, const char *ref, void *ctx, struct err *err)
{
    const enum message_id *message = ctx;
    struct view_job_ref args;
    struct view_job job;

    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    int rc = session_one(s, *message, &args, &job, err);
    if (rc < 0)
        return rc;
    if (output_is_text(&s->out))
        act_tell_job(s, &job);
    return session_put_result(s, VIEW_ID_job, &job, err);
}

int
act_on_jobs(struct session *s, enum message_id message, struct err *err)
{
    return session_each_job(s, &layout_jobs, act_on_job, &message, err);
}
