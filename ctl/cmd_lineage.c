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

/* {"attempts": [...], "rollbacks": [...], ...} */
static int
put_json(struct session *s, const char *ref, struct err *err)
{
    union question q;
    int rc = 0;

    for (size_t i = 0; i < N_LISTS && rc == 0; i++) {
        fprintf(s->out.f, "%s\"%s\": ", i == 0 ? "{" : ",\n", lists[i].name);
        ask(&q, lists[i].message, ref);
        rc = session_list(s, lists[i].message, &q, lists[i].layout, err);
    }
    fputs("}\n", s->out.f);
    return rc;
}

struct joining {
    struct session *s;
    size_t list;
    struct branches branches; /* of incidents only */
    char **record;            /* owned: of each mark's first incident */
};

/* A record as it stands on a line, without the line's end; malloc'd. */
static char *
write_record(const struct session *s, enum view_id id, const void *view)
{
    struct output out = s->out;
    struct err err = {0};
    char *text = NULL;
    size_t n = 0;

    out.f = open_memstream(&text, &n);
    if (out.f == NULL)
        return NULL;
    const int rc = out.ops->item(&out, id, view, &err);
    if (fclose(out.f) != 0 || rc < 0 || n == 0) {
        free(text);
        return NULL;
    }
    text[n - 1] = '\0';
    return text;
}

static int
join_incident(void *ctx, const void *view, struct err *err)
{
    struct joining *j = ctx;
    const int n = j->branches.n_marks;
    char **more;

    if (!branches_add_incident(&j->branches, view))
        return err_set(err, ERR_NOMEM, "out of memory");
    if (j->branches.n_marks == n)
        return 0;
    more = realloc(j->record, (size_t)(n + 1) * sizeof(*more));
    if (more != NULL)
        j->record = more;
    char *record =
        more != NULL ? write_record(j->s, VIEW_ID_incident, view) : NULL;
    if (record == NULL) {
        j->branches.n_marks = n;
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    more[n] = record;
    return 0;
}

/* The list's name in front of all fields. */
static int
put_named(void *ctx, const void *view, struct err *err)
{
    const struct joining *j = ctx;
    struct output *out = &j->s->out;

    fprintf(out->f, "%s|", lists[j->list].name);
    return out->ops->item(out, message_table[lists[j->list].message].reply,
                          view, err);
}

/* A line for each run of incidents: the fields of the first, then the last
 * iteration and how many they are. */
static void
put_runs(const struct joining *j)
{
    const struct branches *b = &j->branches;

    for (int i = 0; i < b->n_marks; i++)
        fprintf(j->s->out.f, "%s|%s|%" PRId64 "|%" PRId64 "\n",
                lists[j->list].name, j->record[i], b->mark[i].last,
                b->mark[i].n);
}

static int
put_lines(struct session *s, const char *ref, struct err *err)
{
    struct joining j = {.s = s};
    union question q;
    int rc = 0;

    for (j.list = 0; j.list < N_LISTS && rc == 0; j.list++) {
        const enum message_id message = lists[j.list].message;
        const bool joined = message == MESSAGE_ID_incidents;
        ask(&q, message, ref);
        rc = session_many(s, message, &q, joined ? join_incident : put_named,
                          &j, err);
        if (rc == 0 && joined)
            put_runs(&j);
    }
    for (int i = 0; i < j.branches.n_marks; i++)
        free(j.record[i]);
    free(j.record);
    branches_fini(&j.branches);
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
        rc = s->out.ops == &output_json ? put_json(s, id, err)
                                        : put_lines(s, id, err);
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
