/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: checkpoint, rollback, pause, resume, cancel. A final job is refused
 * with a sentence; a running one answers when the order is carried out. */
#include "daemon/command.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/checkpoints.h"
#include "daemon/flow.h"

/* true: refused, the request is gone. */
static bool
refuse_final(struct request *request, const struct command_target *target)
{
    if (target->live != NULL && !job_state_is_final(target->live->state))
        return false;
    command_refuse(request, ERR_STATE,
                   "job %" PRId64 " is %s: a final state never changes",
                   target->id,
                   target->live != NULL ? job_state_name(target->live->state)
                                        : target->view.state);
    return true;
}

static void
wait_for(struct daemon *d, struct request *request,
         const struct command_target *target, enum waiters_kind kind)
{
    const struct waiters_ask ask = {
        .kind = kind, .job = target->id, .until = JOB_STATE_COUNT};

    waiters_add(&d->waiters, &ask, request);
}

void
command_checkpoint(struct daemon *d, struct request *request,
                   const struct command_target *target)
{
    struct err err;

    if (refuse_final(request, target))
        return;
    if (flow_checkpoint(d, target->live, &err) != 0)
        request_refuse(request, &err, NULL);
    else
        wait_for(d, request, target, WAITERS_CHECKPOINT);
}

void
command_pause(struct daemon *d, struct request *request,
              const struct command_target *target)
{
    struct view_job view;
    struct err err;

    if (refuse_final(request, target))
        return;
    if (flow_pause(d, target->live, request->peer.uid, &err) != 0) {
        request_refuse(request, &err, NULL);
    } else if (target->live->stored == JOB_PAUSED) {
        job_view(target->live, &view);
        request_reply(request, &view, 1, false);
    } else {
        wait_for(d, request, target, WAITERS_PAUSED);
    }
}

void
command_resume(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    struct waiters_ask ask = {
        .kind = WAITERS_UNTIL, .job = target->id, .until = JOB_QUEUED};
    struct err err;

    if (refuse_final(request, target))
        return;
    if (flow_resume(d, target->live, request->peer.uid, &err) != 0)
        request_refuse(request, &err, NULL);
    else
        waiters_add(&d->waiters, &ask, request);
}

void
command_cancel(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    struct err err;

    if (refuse_final(request, target))
        return;
    if (flow_cancel(d, target->live, request->peer.uid,
                    request->args.cancel.reason, &err) != 0)
        request_refuse(request, &err, NULL);
    else
        wait_for(d, request, target, WAITERS_UNTIL);
}

/* ---- priority -------------------------------------------------------------*/

struct place {
    struct daemon *d;
    struct request *request;
};

static void
on_placed(void *ctx, struct job *job)
{
    struct place *p = ctx;
    struct view_job view;

    if (!command_is_over(p->d, p->request)) {
        job_view(job, &view);
        request_reply(p->request, &view, 1, false);
        flow_schedule_soon(p->d);
    }
    free(p);
}

void
command_priority(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    int64_t priority = request->args.priority.priority;
    struct job_change change = {.actor_uid = request->peer.uid,
                                .after = on_placed};
    char text[48];
    struct place *p;

    if (refuse_final(request, target))
        return;
    if (priority < -COMMAND_PRIORITY_MOST || priority > COMMAND_PRIORITY_MOST) {
        command_refuse(request, ERR_USAGE, "priority is from -%d to %d",
                       COMMAND_PRIORITY_MOST, COMMAND_PRIORITY_MOST);
        return;
    }
    p = calloc(1, sizeof(*p));
    assert(p != NULL);
    p->d = d;
    p->request = request;
    snprintf(text, sizeof(text), "%" PRId64, priority);
    change.ctx = p;
    change.reason = text;
    target->live->row.view.priority = priority;
    job_update(target->live, "priority", &change);
}

/* ---- rollback -------------------------------------------------------------*/

struct going_back {
    struct daemon *d;
    struct request *request;
    int64_t job;
    char *cure; /* owned: fragment; NULL: none */
};

static void
finish(struct going_back *g)
{
    free(g->cure);
    free(g);
}

static void
fill_rolled_back(struct view_rolled_back *view, const struct job *job,
                 const struct checkpoints_item *to, const struct change *change)
{
    int64_t iteration = to != NULL ? to->iteration : 0;

    view_init(VIEW_ID_rolled_back, view);
    view->job = job->row.view.id;
    view->checkpoint = to != NULL ? to->id : 0;
    view->name = to != NULL ? to->name : "";
    view->iteration = iteration;
    view->from_iteration = job->row.view.iteration;
    view->abandoned = job->row.view.iteration > iteration
                          ? job->row.view.iteration - iteration
                          : 0;
    view->state = job_state_name(job->stored);
    view->difference = change->difference;
    view->policy_changed = change->policy_changed;
}

static enum job_goal
read_goal(const char *to)
{
    if (to[0] == '\0' || strcmp(to, "last") == 0)
        return JOB_GOAL_LAST;
    return strcmp(to, "best") == 0 ? JOB_GOAL_BEST : JOB_GOAL_NAMED;
}

/* The change is worked out; to NULL: the start. */
static void
carry_out(struct going_back *g, struct job *job,
          const struct checkpoints_item *to, const struct change *change)
{
    const struct view_rollback *args = &g->request->args.rollback;
    struct waiters_ask ask = {.kind = WAITERS_ROLLBACK, .job = g->job};
    struct err err;

    fill_rolled_back(&ask.rolled_back, job, to, change);
    if (args->dry_run)
        request_reply(g->request, &ask.rolled_back, 1, false);
    else if (change->policy_changed && !args->accept_policy_change)
        command_refuse(g->request, ERR_STATE,
                       "job %" PRId64
                       ": another policy makes it another experiment "
                       "(%.300s): say --accept-policy-change",
                       g->job, change->difference);
    else if (flow_rollback(g->d, job, g->request->peer.uid, to, change, &err) !=
             0)
        request_refuse(g->request, &err, NULL);
    else {
        job->rollback.asked_for = read_goal(args->to);
        job->rollback.skip_batches = args->skip_batches;
        waiters_add(&g->d->waiters, &ask, g->request);
    }
}

static void
go_back(struct going_back *g, const struct checkpoints *list)
{
    const struct view_rollback *args = &g->request->args.rollback;
    struct job *job = jobs_find(&g->d->jobs, g->job);
    struct change_ask ask = {.cause = "by a person",
                             .uid = g->request->peer.uid,
                             .fragment = g->cure != NULL ? g->cure : "",
                             .set = args->set,
                             .skip_batches = args->skip_batches,
                             .scale = args->scale};
    struct change change = {.changes = NULL};
    struct err err;
    int rc = 0;

    if (job == NULL || job_state_is_final(job->state)) {
        command_refuse(g->request, ERR_STATE,
                       "job %" PRId64 " has just ended: too late to go back",
                       g->job);
        return;
    }
    if (strcmp(args->to, "start") != 0) {
        ask.to = checkpoints_choose(list, args->to, &err);
        rc = ask.to == NULL ? err.code : 0;
    }
    if (rc == 0)
        rc = change_make(&job->row, &ask, &change, &err);
    if (rc == 0) {
        carry_out(g, job, ask.to, &change);
    } else {
        err_prefix(&err, "job %" PRId64, g->job);
        request_refuse(g->request, &err, NULL);
    }
    change_fini(&change);
}

static void
on_checkpoints(void *ctx, int rc, const struct checkpoints *list,
               const struct err *err)
{
    struct going_back *g = ctx;

    if (!command_is_over(g->d, g->request)) {
        if (rc != 0)
            request_refuse(g->request, err, NULL);
        else
            go_back(g, list);
    }
    finish(g);
}

static void
on_cure(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct going_back *g = ctx;
    const struct view_incident *incident = items;
    int64_t asked;

    (void)more;
    if (command_is_over(g->d, g->request)) {
        finish(g);
        return;
    }
    asked = g->request->args.rollback.cure;
    if (rc != 0) {
        request_refuse(g->request, err, NULL);
    } else if (n == 0 || incident->job != g->job) {
        command_refuse(g->request, ERR_NOTFOUND,
                       "job %" PRId64 " has no incident %" PRId64, g->job,
                       asked);
    } else if (incident->cure[0] == '\0') {
        command_refuse(g->request, ERR_STATE,
                       "incident %" PRId64
                       " has no cure that a spec could hold%s%s",
                       asked, incident->verdict[0] != '\0' ? ": it is " : "",
                       incident->verdict);
    } else {
        g->cure = strdup(incident->cure);
        assert(g->cure != NULL);
        checkpoints_gather(g->d->store, g->job, on_checkpoints, g);
        return;
    }
    finish(g);
}

void
command_rollback(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    struct going_back *g;

    if (refuse_final(request, target))
        return;
    g = calloc(1, sizeof(*g));
    assert(g != NULL);
    g->d = d;
    g->request = request;
    g->job = target->id;
    if (request->args.rollback.cure != 0)
        store_find_incident(d->store, request->args.rollback.cure, on_cure, g);
    else
        checkpoints_gather(d->store, target->id, on_checkpoints, g);
}
