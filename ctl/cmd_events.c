/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"

#define LOOK_MS 500 /* between questions with --follow */

struct events {
    struct session *s;
    struct view_events_query query;
};

/* "12:30:01  17  submit: fashion-cnn" */
static void
tell_event(struct session *s, const struct view_event *e)
{
    char when[FORMAT_MAX], job[32] = "-";

    format_time(e->t_us, s->out.utc, when, sizeof(when));
    if (e->job > 0)
        snprintf(job, sizeof(job), "%" PRId64, e->job);
    session_tell(s, "%s  %6s  %s%s%s", when, job, e->kind,
                 e->text[0] != '\0' ? ": " : "", e->text);
}

static int
on_event(void *ctx, const void *view, struct err *err)
{
    struct events *events = ctx;
    const struct view_event *e = view;
    int rc = 0;

    events->query.after = e->seq;
    if (output_is_text(&events->s->out))
        tell_event(events->s, e);
    else
        rc = output_row(&events->s->out, e, err);
    return rc;
}

static int
show(struct session *s, struct events *events, bool follow, struct err *err)
{
    int rc;

    do {
        rc = session_many(s, MESSAGE_ID_events, &events->query, on_event,
                          events, err);
        fflush(s->out.f);
        if (rc == 0 && follow)
            rc = session_sleep(s, LOOK_MS, err);
    } while (rc == 0 && follow);
    return follow && rc == ERR_CANCELLED ? 0 : rc;
}

/* Events know jobs by their numbers only. */
static int
find_job(struct session *s, int64_t *job, struct err *err)
{
    struct call_held_job held = {.doc = NULL};
    char *ref = NULL;
    int rc;

    if (args_n(s->args) == 0)
        return 0;
    rc = session_one_ref(s, 0, &ref, err);
    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    if (rc == 0) {
        *job = held.job.id;
        call_held_job_fini(&held);
    }
    free(ref);
    return rc;
}

static int
run_events(struct session *s, struct err *err)
{
    struct events events = {.s = s};
    bool follow = args_flag(s->args, "follow");
    int rc = 0;

    view_init(VIEW_ID_events_query, &events.query);
    if (follow && s->out.ops == &output_json)
        s->out.ops = &output_jsonl;
    if (follow)
        rc = session_catch_signals(s, err);
    if (rc == 0)
        rc = args_i64(s->args, "after", 0, 0, INT64_MAX - 1,
                      &events.query.after, err);
    if (rc == 0)
        rc = find_job(s, &events.query.job, err);
    if (rc < 0)
        return rc;
    if (output_is_text(&s->out))
        return show(s, &events, follow, err);
    rc = output_begin(&s->out, &layout_events, err);
    if (rc < 0)
        return rc;
    rc = show(s, &events, follow, err);
    if (rc < 0) {
        output_abandon(&s->out);
        return rc;
    }
    return output_end(&s->out, err);
}

const struct cmd cmd_events = {
    .name = "events",
    .synopsis = "[JOB]",
    .doc = "what happened, to one job or to all that you may see",
    .options =
        (const struct args_option[]){
            {"follow", 'f', NULL, "go on as it happens"},
            {"after", 0, "NUMBER", "only events after this one"},
            {0},
        },
    .max_args = 1,
    .run = run_events,
};
