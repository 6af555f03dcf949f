/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/session.h"
#include "ctl/story.h"

/* The last one that was diagnosed, else the last. */
struct choice {
    int64_t last, diagnosed;
};

static int
choose(void *ctx, const void *view, struct err *err)
{
    const struct view_incident *v = view;
    struct choice *c = ctx;

    (void)err;
    c->last = v->id;
    if (v->verdict[0] != '\0')
        c->diagnosed = v->id;
    return 0;
}

static int
find_last(struct session *s, const char *job, int64_t *id, struct err *err)
{
    struct view_query query;
    struct choice c = {0, 0};

    view_init(VIEW_ID_query, &query);
    query.job = job;
    query.all_lines = true;
    const int rc =
        session_many(s, MESSAGE_ID_incidents, &query, choose, &c, err);
    if (rc < 0)
        return rc;
    *id = c.diagnosed > 0 ? c.diagnosed : c.last;
    if (*id == 0)
        return err_set(err, ERR_NOTFOUND, "job %s has no incidents", job);
    return 0;
}

static int
find_number(struct session *s, int64_t *id, struct err *err)
{
    const char *job = args_value(s->args, "job");
    const char *text = args_n(s->args) > 0 ? args_at(s->args, 0) : NULL;
    char *end;

    if (text != NULL && job != NULL)
        return err_set(err, ERR_USAGE,
                       "an incident's number and --job exclude each other");
    if (text == NULL)
        return find_last(s, job != NULL ? job : "@", id, err);
    *id = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0')
        return err_set(err, ERR_USAGE,
                       "\"%.60s\" is no incident's number (\"trainctl "
                       "incidents JOB\" lists them); for a job's last one: "
                       "--job %.60s",
                       text, text);
    return 0;
}

static int
run_explain(struct session *s, struct err *err)
{
    struct view_incident_ref ref;
    struct view_incident incident;

    view_init(VIEW_ID_incident_ref, &ref);
    int rc = find_number(s, &ref.incident, err);
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_incident, &ref, &incident, err);
    if (rc < 0)
        return rc;
    if (!output_is_text(&s->out))
        return s->out.ops->item(&s->out, VIEW_ID_incident, &incident, err);
    story_put_incident(s, &incident);
    return 0;
}

const struct cmd cmd_explain = {
    .name = "explain",
    .synopsis = "[INCIDENT]",
    .doc = "why an update was skipped: what was found, and what cures it",
    .detail = "Without a number, the last incident of your last job. The cure "
              "is a piece of a spec, to paste or to apply with \"trainctl "
              "rollback JOB --cure INCIDENT\".",
    .options =
        (const struct args_option[]){
            {"job", 0, "JOB", "the last incident of that job"},
            {0},
        },
    .min_args = 0,
    .max_args = 1,
    .run = run_explain,
};
