/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rollback.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/lineage.h"
#include "daemon/log.h"
#include "proto/spec_changes.h"

/* ---- what a worker asks for -----------------------------------------------*/

void
rollback_wish_keep(struct rollback_wish *wish, const struct event *event)
{
    size_t n = event->u.finished.n_skip_windows > 0
                   ? (size_t)event->u.finished.n_skip_windows
                   : 0;
    const char *change = event->u.finished.change;

    rollback_wish_fini(wish);
    wish->to_best = event->u.finished.to != NULL &&
                    strcmp(event->u.finished.to, "best") == 0;
    wish->change = strdup(change != NULL ? change : "");
    wish->scale = event->u.finished.scale;
    wish->windows = calloc(n + 1, sizeof(*wish->windows));
    assert(wish->change != NULL && wish->windows != NULL);
    if (n > 0)
        memcpy(wish->windows, event->u.finished.skip_windows,
               n * sizeof(*wish->windows));
    wish->n_windows = (int)n;
}

void
rollback_wish_fini(struct rollback_wish *wish)
{
    free(wish->change);
    free(wish->windows);
    memset(wish, 0, sizeof(*wish));
}

/* ---- the goal -------------------------------------------------------------*/

static void
keep_old(struct job *job)
{
    free(job->rollback.old_changes);
    free(job->rollback.old_windows);
    job->rollback.old_changes = strdup(job->row.changes);
    job->rollback.old_windows = strdup(job->row.skip_windows);
    job->rollback.old_scale = job->row.start_scale;
}

static void
set_place(struct job *job, const struct checkpoints_item *to)
{
    job->row.resume_checkpoint = to->id;
    job->rollback.known = true;
    job->rollback.iteration = to->iteration;
    job->rollback.updates = to->updates;
    job->rollback.skips = to->skips;
    snprintf(job->rollback.name, sizeof(job->rollback.name), "%s", to->name);
}

void
rollback_set_goal(struct job *job, const struct checkpoints_item *to,
                  const struct change *change)
{
    static const struct checkpoints_item start = {.id = STORE_FROM_START,
                                                  .name = ""};

    keep_old(job);
    job->rollback.asked_for = JOB_GOAL_NAMED;
    job->rollback.skip_batches = 0;
    job->row.lost_attempts = 0;
    job_set_text(&job->row.changes, change->changes);
    job_set_text(&job->row.skip_windows, change->skip_windows);
    job->row.start_scale = change->scale;
    set_place(job, to != NULL ? to : &start);
}

void
rollback_forget_goal(struct job *job)
{
    job->rollback.known = false;
    job->rollback.asked_for = JOB_GOAL_NAMED;
    job->row.resume_checkpoint = 0;
    /* Asked of an earlier daemon: what was before it nobody knows. */
    if (job->rollback.old_changes == NULL || job->rollback.old_windows == NULL)
        return;
    job_set_text(&job->row.changes, job->rollback.old_changes);
    job_set_text(&job->row.skip_windows, job->rollback.old_windows);
    job->row.start_scale = job->rollback.old_scale;
}

void
rollback_carry_out(struct job *job, struct spec_changes_entry *latest,
                   struct store_rollback *out)
{
    struct view_job *view = &job->row.view;

    spec_changes_last(job->row.changes, latest);
    *out = (struct store_rollback){
        .job = view->id,
        .attempt = view->attempt,
        .uid = latest->uid,
        .checkpoint = job->row.resume_checkpoint == STORE_FROM_START
                          ? 0
                          : job->row.resume_checkpoint,
        .from_iteration = view->iteration,
        .cause = latest->cause,
        .change = latest->difference[0] != '\0' ? latest->change : "",
        .difference = latest->difference,
        .policy_changed = latest->difference[0] != '\0',
    };
    view->rollbacks++;
    lineage_forget(job);
    change_show(job);
    /* Unknown if it was asked of an earlier daemon; the worker will say. */
    if (!job->rollback.known)
        return;
    view->iteration = job->rollback.iteration;
    view->updates = job->rollback.updates;
    view->skips = job->rollback.skips;
    job_set_text(&view->checkpoint, job->rollback.name);
    view->checkpoint_iteration = view->iteration;
    job->rollback.known = false;
}

/* ---- a guard's ------------------------------------------------------------*/

struct planning {
    struct daemon *d;
    int64_t job;
    struct rollback_wish wish; /* owned */
    char cause[EVENT_TEXT_MAX];
    rollback_plan_fn *done;
    void *ctx;
};

static void
choose(const struct planning *p, const struct checkpoints *list,
       struct rollback_plan *plan)
{
    const struct checkpoints_item *to =
        p->wish.to_best ? checkpoints_best(list) : NULL;

    if (to == NULL)
        to = checkpoints_last(list);
    plan->from_start = to == NULL;
    if (to != NULL)
        plan->to = *to;
}

static void
on_checkpoints(void *ctx, int rc, const struct checkpoints *list,
               const struct err *err)
{
    struct planning *p = ctx;
    struct job *job = jobs_find(&p->d->jobs, p->job);
    struct rollback_plan plan = {.rc = rc};
    struct change_ask ask = {.cause = p->cause,
                             .uid = -1,
                             .fragment = p->wish.change,
                             .windows = {p->wish.windows, p->wish.n_windows},
                             .scale = p->wish.scale};

    p->d->background--;
    /* Its end is being looked at: nobody can have taken it away. */
    assert(job != NULL);
    err_clear(&plan.why);
    if (rc != 0) {
        plan.why = *err;
    } else {
        choose(p, list, &plan);
        ask.to = plan.from_start ? NULL : &plan.to;
        plan.rc = change_make(&job->row, &ask, &plan.change, &plan.why);
    }
    plan.max_rollbacks = change_max_rollbacks(&job->row);
    p->done(p->ctx, job, &plan);
    change_fini(&plan.change);
    rollback_wish_fini(&p->wish);
    free(p);
}

void
rollback_plan_make(struct daemon *d, struct job *job,
                   const struct rollback_wish *wish, const char *text,
                   rollback_plan_fn *done, void *ctx)
{
    struct planning *p = calloc(1, sizeof(*p));

    assert(p != NULL);
    p->d = d;
    p->job = job->row.view.id;
    p->wish = *wish;
    p->wish.change = strdup(wish->change != NULL ? wish->change : "");
    p->wish.windows =
        calloc((size_t)wish->n_windows + 1, sizeof(*wish->windows));
    assert(p->wish.change != NULL && p->wish.windows != NULL);
    if (wish->n_windows > 0)
        memcpy(p->wish.windows, wish->windows,
               (size_t)wish->n_windows * sizeof(*wish->windows));
    snprintf(p->cause, sizeof(p->cause), "%s", text);
    p->done = done;
    p->ctx = ctx;
    d->background++;
    checkpoints_gather(d->store, p->job, on_checkpoints, p);
}

/* ---- is it still there? ---------------------------------------------------*/

struct checking {
    struct daemon *d;
    int64_t job;
    rollback_plan_fn *done;
    void *ctx;
};

static const struct checkpoints_item *
choose_again(const struct job *job, const struct checkpoints *list)
{
    switch (job->rollback.asked_for) {
    case JOB_GOAL_LAST: return checkpoints_last(list);
    case JOB_GOAL_BEST: return checkpoints_best(list);
    case JOB_GOAL_NAMED: break;
    }
    return NULL;
}

/* What was decided holds from there instead: the record says so, and the
 * windows to pass over are those that follow it. */
static int
move_goal(struct job *job, const struct checkpoints_item *to, struct err *err)
{
    const struct change_ask ask = {.to = to,
                                   .skip_batches = job->rollback.skip_batches};
    struct store_job before = job->row;
    struct change moved;
    int rc;

    before.changes = job->rollback.old_changes;
    before.skip_windows = job->rollback.old_windows;
    rc = change_move(&before, job->row.changes, &ask, &moved, err);
    if (rc == 0) {
        job_set_text(&job->row.changes, moved.changes);
        job_set_text(&job->row.skip_windows, moved.skip_windows);
        set_place(job, to);
    }
    change_fini(&moved);
    return rc;
}

static void
check_goal(struct job *job, const struct checkpoints *list,
           struct rollback_plan *plan)
{
    int64_t goal = job->row.resume_checkpoint;
    const struct checkpoints_item *item = checkpoints_find(list, goal);

    if (item != NULL && item->good)
        return;
    item = choose_again(job, list);
    if (item != NULL) {
        if (move_goal(job, item, &plan->why) != 0)
            plan->rc = plan->why.code = ERR_CKPT;
        return;
    }
    plan->rc = err_set(&plan->why, ERR_CKPT,
                       "checkpoint %lld to go back to is not good any more: "
                       "resume the job, or go back to another that "
                       "\"trainctl checkpoints %lld\" lists",
                       (long long)goal, (long long)job->row.view.id);
}

static void
on_listed(void *ctx, int rc, const struct checkpoints *list,
          const struct err *err)
{
    struct checking *c = ctx;
    struct job *job = jobs_find(&c->d->jobs, c->job);
    struct rollback_plan plan = {.from_start = true};

    c->d->background--;
    /* Its end is being looked at: nobody can have taken it away. */
    assert(job != NULL);
    err_clear(&plan.why);
    if (rc == 0)
        check_goal(job, list, &plan);
    else
        log_errx("job %lld: %s", (long long)c->job, err->msg);
    c->done(c->ctx, job, &plan);
    free(c);
}

void
rollback_check_goal(struct daemon *d, struct job *job, rollback_plan_fn *done,
                    void *ctx)
{
    struct checking *c = calloc(1, sizeof(*c));

    assert(c != NULL);
    c->d = d;
    c->job = job->row.view.id;
    c->done = done;
    c->ctx = ctx;
    d->background++;
    checkpoints_gather(d->store, c->job, on_listed, c);
}
