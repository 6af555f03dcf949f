/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/branches.h"
#include "ctl/cmd.h"
#include "ctl/session.h"

/* ---- for people -----------------------------------------------------------*/

struct gathering {
    struct branches branches;
    bool (*add)(struct branches *b, const void *view);
};

static bool
add_attempt(struct branches *b, const void *view)
{
    return branches_add_attempt(b, view);
}

static bool
add_incident(struct branches *b, const void *view)
{
    return branches_add_incident(b, view);
}

static bool
add_guard(struct branches *b, const void *view)
{
    return branches_add_guard(b, view);
}

static bool
add_return(struct branches *b, const void *view)
{
    return branches_add_return(b, view);
}

static const struct {
    enum message_id message;
    const char *name;
    const struct output_layout *layout;
    bool (*add)(struct branches *b, const void *view);
} lists[] = {
    {MESSAGE_ID_attempts, "attempts", &layout_attempts, add_attempt},
    {MESSAGE_ID_rollbacks, "rollbacks", &layout_rollbacks, add_return},
    {MESSAGE_ID_guards, "guards", &layout_guards, add_guard},
    {MESSAGE_ID_incidents, "incidents", &layout_incidents, add_incident},
};
#define N_LISTS (sizeof(lists) / sizeof(lists[0]))

static int
add_row(void *ctx, const void *view, struct err *err)
{
    struct gathering *g = ctx;

    if (!g->add(&g->branches, view))
        return err_set(err, ERR_NOMEM, "out of memory");
    return 0;
}

/* The record that a message asks with. */
union question {
    struct view_job_ref job_ref;
    struct view_query query;
};

static void
ask(union question *q, enum message_id message, const char *job)
{
    if (message_table[message].request == VIEW_ID_job_ref) {
        view_init(VIEW_ID_job_ref, &q->job_ref);
        q->job_ref.job = job;
    } else {
        view_init(VIEW_ID_query, &q->query);
        q->query.job = job;
        q->query.all_lines = true;
    }
}

static int
draw(struct session *s, const struct view_job *job, const char *ref,
     struct err *err)
{
    struct gathering g = {0};
    union question q;
    int rc = 0;

    for (size_t i = 0; i < N_LISTS && rc == 0; i++) {
        ask(&q, lists[i].message, ref);
        g.add = lists[i].add;
        rc = session_many(s, lists[i].message, &q, add_row, &g, err);
    }
    if (rc == 0)
        branches_draw(&g.branches, job, s->out.utf8, s->out.f);
    branches_fini(&g.branches);
    return rc;
}

/* ---- for machines ---------------------------------------------------------*/

/* {"attempts": [...], "rollbacks": [...], ...}; other forms one list after the
 * other. */
static int
list_all(struct session *s, const char *ref, struct err *err)
{
    const bool json = s->out.ops == &output_json;
    union question q;
    int rc = 0;

    for (size_t i = 0; i < N_LISTS && rc == 0; i++) {
        if (json)
            fprintf(s->out.f, "%s\"%s\": ", i == 0 ? "{" : ",\n",
                    lists[i].name);
        ask(&q, lists[i].message, ref);
        rc = session_list(s, lists[i].message, &q, lists[i].layout, err);
    }
    if (json)
        fputs("}\n", s->out.f);
    return rc;
}

static int
run_lineage(struct session *s, struct err *err)
{
    struct call_held_job held = {0};
    char id[24], *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    free(ref);
    if (rc < 0)
        return rc;
    snprintf(id, sizeof(id), "%" PRId64, held.job.id);
    if (output_is_text(&s->out))
        rc = draw(s, &held.job, id, err);
    else
        rc = list_all(s, id, err);
    call_held_job_fini(&held);
    return rc;
}

const struct cmd cmd_lineage = {
    .name = "lineage",
    .synopsis = "JOB",
    .doc = "how a job came to where it is: attempts, rollbacks, branches",
    .detail = "Draws the attempts with what went wrong in them, the guards "
              "that fired, where it went back to and what was left behind, "
              "and what a changed policy costs in time per update.",
    .min_args = 1,
    .max_args = 1,
    .run = run_lineage,
};
