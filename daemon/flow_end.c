/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an attempt: what it was, what becomes of its job, and whether a
 * rollback that it ended for can still be made. */
#include "daemon/flow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/adopt.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/rollback.h"
#include "proto/spec_changes.h"

struct ending {
    struct daemon *d;
    struct job *job;
    struct flow_end end;
    bool adopted; /* checkpoints that nobody had told of */
    char why_killed[256], start_error[ERR_SENTENCE_MAX], text[EVENT_TEXT_MAX];
};

static const struct rollback_plan no_plan = {.from_start = true};

static void
on_end_stored(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct daemon *d = ctx;

    (void)id;
    d->background--;
    if (rc != 0)
        log_errx("obituary not stored: %s", err->msg);
}

static void
conclude(struct ending *e, bool adopted, const struct rollback_plan *plan)
{
    struct daemon *d = e->d;
    struct job *job = e->job;
    struct obituary_circumstances c = {
        .state = job->state,
        .intent = job->intent,
        .shutdown = e->end.shutdown,
        .progress = e->end.progress || adopted,
        .lost_attempts = job->row.lost_attempts,
        .max_lost_attempts = d->conf.jobs_max_lost_attempts,
        .requeue = e->end.requeue,
        .guard_rollbacks = job->row.view.guard_rollbacks,
        .max_guard_rollbacks = plan->max_rollbacks,
        .go_back_error = plan->rc,
        .no_way_back = plan->why.msg};
    struct job_change change = {.actor_uid = -1};
    struct spec_changes_entry latest = {.memory = NULL};
    struct store_rollback back;
    struct obituary_verdict v;
    char obituary[ERR_SENTENCE_MAX], person[ERR_SENTENCE_MAX];

    obituary_write(&e->end.facts, obituary, sizeof(obituary));
    obituary_judge(&e->end.facts, &c, &v);
    log_info("job %" PRId64 ": attempt %" PRId64 ": %s", job->row.view.id,
             job->row.view.attempt, obituary);
    d->background++;
    store_end_attempt(d->store, job->row.view.id, job->row.view.attempt,
                      v.attempt_state, obituary, on_end_stored, d);
    job->row.lost_attempts = v.lost_attempts;
    job->not_before_ms =
        v.back_off_ms > 0 ? (int64_t)uv_now(d->loop) + v.back_off_ms : 0;
    /* Whoever cancelled it said why; that is the reason to keep. */
    snprintf(person, sizeof(person), "%s", job->row.view.reason);
    change.reason = v.state == JOB_CANCELLED ? person : v.reason;
    change.error = v.error;
    if (plan->rc == ERR_CKPT && job->intent == JOB_INTENT_ROLLBACK &&
        v.state == JOB_QUEUED) {
        v.state = JOB_PAUSED;
        v.clear_intent = true;
        change.reason = plan->why.msg;
        rollback_forget_goal(job);
    }
    if (v.go_back) {
        job->row.view.guard_rollbacks++;
        rollback_set_goal(job, plan->from_start ? NULL : &plan->to,
                          &plan->change);
    }
    if (v.go_back ||
        (job->intent == JOB_INTENT_ROLLBACK && v.state == JOB_QUEUED)) {
        rollback_carry_out(job, &latest, &back);
        change.rollback = &back;
        metrics_rollback(d->metrics, back.uid);
    }
    if (v.clear_intent)
        job->intent = JOB_INTENT_NONE;
    job_transition(job, v.state, &change);
    spec_changes_fini(&latest);
}

static void
on_back_planned(void *ctx, struct job *job, const struct rollback_plan *plan)
{
    struct ending *e = ctx;

    assert(e->job == job);
    conclude(e, e->adopted, plan);
    free(e);
}

/* A person's goal may have gone while the worker stopped. */
static void
check_and_conclude(struct ending *e)
{
    if (e->job->intent == JOB_INTENT_ROLLBACK &&
        e->job->row.resume_checkpoint > 0) {
        rollback_check_goal(e->d, e->job, on_back_planned, e);
        return;
    }
    conclude(e, e->adopted, &no_plan);
    free(e);
}

static void
on_adopted(void *ctx, int n)
{
    struct ending *e = ctx;

    e->d->background--;
    e->adopted = n > 0;
    check_and_conclude(e);
}

void
flow_attempt_ended(struct daemon *d, struct job *job,
                   const struct flow_end *end)
{
    struct ending *e = calloc(1, sizeof(*e));

    assert(e != NULL && job->worker == NULL);
    e->d = d;
    e->job = job;
    e->end = *end;
    snprintf(e->why_killed, sizeof(e->why_killed), "%s", end->facts.why_killed);
    snprintf(e->start_error, sizeof(e->start_error), "%s",
             end->facts.start_error);
    snprintf(e->text, sizeof(e->text), "%s", end->facts.text);
    e->end.facts.why_killed = e->why_killed;
    e->end.facts.start_error = e->start_error;
    e->end.facts.text = e->text;
    if (end->facts.finished && end->facts.outcome == EVENT_OUTCOME_GO_BACK) {
        rollback_plan_make(d, job, end->facts.wish, e->text, on_back_planned,
                           e);
        return;
    }
    if (end->facts.finished || end->facts.pid == 0) {
        check_and_conclude(e);
        return;
    }
    d->background++;
    adopt_checkpoints(d, job, on_adopted, e);
}
