/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: checkpoint, rollback, pause, resume, cancel. A final job is refused
 * with a sentence; a running one answers when the order is carried out. */
#include "daemon/command.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

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

/* ---- rollback -------------------------------------------------------------*/

struct going_back {
    struct daemon *d;
    struct request *request;
    int64_t job;
};

static void
fill_rolled_back(struct view_rolled_back *view, const struct job *job,
                 const struct checkpoints_item *to)
{
    view_init(VIEW_ID_rolled_back, view);
    view->job = job->row.view.id;
    view->checkpoint = to->id;
    view->name = to->name;
    view->iteration = to->iteration;
    view->from_iteration = job->row.view.iteration;
    view->abandoned = job->row.view.iteration > to->iteration
                          ? job->row.view.iteration - to->iteration
                          : 0;
    view->state = job_state_name(job->stored);
}

static void
go_back(struct going_back *g, const struct checkpoints *list)
{
    const struct view_rollback *args = &g->request->args.rollback;
    struct job *job = jobs_find(&g->d->jobs, g->job);
    struct waiters_ask ask = {.kind = WAITERS_ROLLBACK, .job = g->job};
    const struct checkpoints_item *to;
    struct err err;

    if (job == NULL || job_state_is_final(job->state)) {
        command_refuse(g->request, ERR_STATE,
                       "job %" PRId64 " has just ended: too late to go back",
                       g->job);
        return;
    }
    to = checkpoints_choose(list, args->to, &err);
    if (to == NULL) {
        err_prefix(&err, "job %" PRId64, g->job);
        request_refuse(g->request, &err, NULL);
        return;
    }
    fill_rolled_back(&ask.rolled_back, job, to);
    if (args->dry_run)
        request_reply(g->request, &ask.rolled_back, 1, false);
    else if (flow_rollback(g->d, job, g->request->peer.uid, to, &err) != 0)
        request_refuse(g->request, &err, NULL);
    else
        waiters_add(&g->d->waiters, &ask, g->request);
}

static void
on_checkpoints(void *ctx, int rc, const struct checkpoints *list,
               const struct err *err)
{
    struct going_back *g = ctx;

    if (command_is_over(g->d, g->request)) {
        free(g);
        return;
    }
    if (rc != 0)
        request_refuse(g->request, err, NULL);
    else
        go_back(g, list);
    free(g);
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
    checkpoints_gather(d->store, target->id, on_checkpoints, g);
}
