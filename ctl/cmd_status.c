/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"
#include "ctl/summary.h"
#include "proto/codec.h"

/* ---- one job -------------------------------------------------------------*/

static int
put_job(struct session *s, const char *ref, void *ctx, struct err *err)
{
    struct call_held_job held = {0};
    struct view_job_ref args;
    char id[24];
    int *shown = ctx;
    int rc = session_job(s, ref, &held, err);

    if (rc < 0)
        return rc;
    if (!output_is_text(&s->out)) {
        rc = session_put_result(s, VIEW_ID_job, &held.job, err);
    } else {
        if ((*shown)++ > 0)
            session_tell(s, "%s", "");
        summary_put_job(s, &held.job);
        snprintf(id, sizeof(id), "%" PRId64, held.job.id);
        view_init(VIEW_ID_job_ref, &args);
        args.job = id;
        if (held.job.attempt > 0)
            rc = session_list(s, MESSAGE_ID_attempts, &args, &layout_attempts,
                              err);
    }
    call_held_job_fini(&held);
    return rc;
}

/* ---- no job: the daemon and what is mine ---------------------------------*/

struct mine {
    struct output *out;
    int64_t uid;
};

static int
put_mine(void *ctx, const void *view, struct err *err)
{
    struct mine *mine = ctx;

    if (((const struct view_job *)view)->uid != mine->uid)
        return 0;
    return output_row(mine->out, view, err);
}

static int
list_mine(struct session *s, struct err *err)
{
    struct mine mine = {&s->out, client_hello(link_client(s->link))->uid};
    struct view_list args;
    int rc = output_begin(&s->out, &layout_jobs, err);

    view_init(VIEW_ID_list, &args);
    if (rc == 0)
        rc = session_many(s, MESSAGE_ID_list, &args, put_mine, &mine, err);
    if (rc < 0) {
        output_abandon(&s->out);
        return rc;
    }
    int64_t n = s->out.n_rows;
    rc = output_end(&s->out, err);
    if (rc == 0 && n == 0 && output_is_text(&s->out))
        session_say(s, "you have no jobs queued or running");
    return rc;
}

static void
put_daemon(struct session *s, const struct view_pong *pong)
{
    const struct view_hello *hello = client_hello(link_client(s->link));
    char up[FORMAT_MAX];

    format_duration((double)pong->uptime_s, up, sizeof(up));
    session_tell(s,
                 "traind %s, pid %" PRId64 ", up %s: %" PRId64
                 " running, %" PRId64 " queued",
                 pong->version, pong->pid, up, pong->running, pong->queued);
    session_tell(s, "database %s", hello->database);
}

/* {"daemon": {...}, "jobs": [...]} */
static int
put_daemon_json(struct session *s, const struct view_pong *pong,
                struct err *err)
{
    size_t len = 0;
    char *text = codec_write_view(VIEW_ID_pong, pong, 0, &len);
    int rc;

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    fprintf(s->out.f, "{\"daemon\": %s,\n\"jobs\": ", text);
    free(text);
    rc = list_mine(s, err);
    fputs("}\n", s->out.f);
    return rc;
}

static int
put_overview(struct session *s, struct err *err)
{
    struct view_none args;
    struct view_pong pong;
    int rc;

    view_init(VIEW_ID_none, &args);
    rc = session_one(s, MESSAGE_ID_ping, &args, &pong, err);
    if (rc < 0)
        return rc;
    if (s->out.ops == &output_json)
        return put_daemon_json(s, &pong, err);
    if (output_is_text(&s->out))
        put_daemon(s, &pong);
    return list_mine(s, err);
}

static int
run_status(struct session *s, struct err *err)
{
    int shown = 0;

    if (args_n(s->args) == 0)
        return put_overview(s, err);
    return session_each_job(s, &layout_jobs, put_job, &shown, err);
}

const struct cmd cmd_status = {
    .name = "status",
    .synopsis = "[JOB...]",
    .doc = "all about a job; without JOB the daemon and your jobs",
    .detail = "Says why a job waits or how it ended, its attempts, how far it "
              "is, loss and loss scale, and the last checkpoint.",
    .max_args = CMD_ANY,
    .run = run_status,
};
