/* SPDX-License-Identifier: Apache-2.0 */
/* What stored events say: totals of all jobs, and of each while it runs. */
#include "daemon/metrics_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/spec_policy.h"

/* ---- told -----------------------------------------------------------------*/

/* Where the job is, or belongs. */
static struct metrics_job **
place_of(struct metrics *m, const struct job *job)
{
    struct metrics_job **p = &m->jobs;

    while (*p != NULL && (*p)->job->row.view.id < job->row.view.id)
        p = &(*p)->next;
    return p;
}

static struct metrics_job *
find(struct metrics *m, const struct job *job)
{
    struct metrics_job *j = *place_of(m, job);

    return j != NULL && j->job == job ? j : NULL;
}

/* Without memory the job has no figures of its own. */
static void
begin(struct metrics *m, const struct job *job, const struct event *event)
{
    struct metrics_job **p = place_of(m, job), *j = calloc(1, sizeof(*j));

    if (j == NULL)
        return;
    j->job = job;
    snprintf(j->id, sizeof(j->id), "%" PRId64, job->row.view.id);
    j->start_us = metrics_now_us(m);
    j->at_updates = event->updates;
    j->at_skips = event->skips;
    j->scale_floor = spec_policy_scale_floor(event->u.started.policy);
    j->next = *p;
    *p = j;
}

/* Skips whose incident did not come. */
static void
settle(struct metrics *m, struct metrics_job *j)
{
    m->skipped[EVENT_VERDICT_NONE] += (uint64_t)j->unexplained;
    j->unexplained = 0;
}

void
metrics_job_end(struct metrics *m, const struct job *job)
{
    struct metrics_job **p = place_of(m, job), *j = *p;

    if (j == NULL || j->job != job)
        return;
    settle(m, j);
    *p = j->next;
    free(j);
}

/* The events file is the user's: what goes backwards there adds nothing. */
static int64_t
advance(int64_t *at, int64_t to)
{
    const int64_t n = to > *at ? to - *at : 0;

    *at = to;
    return n;
}

static void
count_step(struct metrics *m, struct metrics_job *j, const struct event *event)
{
    const int64_t samples =
        event->u.step.samples > 0 ? event->u.step.samples : 0;

    j->progress_us = metrics_now_us(m);
    j->samples += (uint64_t)samples;
    m->samples += (uint64_t)samples;
}

static void
count_counters(struct metrics *m, struct metrics_job *j,
               const struct event *event)
{
    const int64_t updates = advance(&j->at_updates, event->updates);
    const int64_t skips = advance(&j->at_skips, event->skips);

    if (event->kind == EVENT_STEP)
        settle(m, j); /* what an earlier one left */
    j->updates += (uint64_t)updates;
    m->updates += (uint64_t)updates;
    j->skips += (uint64_t)skips;
    j->unexplained += skips;
}

static void
count_scale(struct metrics *m, struct metrics_job *j, const struct event *event)
{
    switch (event->u.scale.cause) {
    case EVENT_SCALE_SKIP:
        /* At its floor it stays where it is. */
        if (event->u.scale.after < event->u.scale.before) {
            j->backoffs++;
            m->backoffs++;
        }
        break;
    case EVENT_SCALE_GROWTH:
        j->growths++;
        m->growths++;
        break;
    case EVENT_SCALE_SET: break;
    }
}

static void
count_incident(struct metrics *m, struct metrics_job *j,
               const struct event *event)
{
    const enum event_verdict verdict = event->u.incident.verdict;

    j->incidents[verdict]++;
    m->incidents[verdict]++;
    if (event->u.incident.trigger != EVENT_TRIGGER_SKIP || j->unexplained == 0)
        return;
    j->unexplained--;
    m->skipped[verdict]++;
}

void
metrics_job_event(struct metrics *m, const struct job *job,
                  const struct event *event)
{
    struct metrics_job *j = find(m, job);

    if (event->iteration != event->updates + event->skips)
        return; /* the job does not believe it either */
    if (j == NULL && event->kind == EVENT_STARTED)
        begin(m, job, event);
    if (j == NULL)
        return;
    count_counters(m, j, event);
    switch (event->kind) {
    case EVENT_STEP: count_step(m, j, event); break;
    case EVENT_SCALE: count_scale(m, j, event); break;
    case EVENT_INCIDENT: count_incident(m, j, event); break;
    case EVENT_GUARD: m->guards[event->u.guard.action]++; break;
    case EVENT_CHECKPOINT:
        j->checkpoint_us = metrics_now_us(m);
        m->checkpoints++;
        break;
    case EVENT_CHECKPOINT_FAILED:
        j->failures++;
        m->failures++;
        break;
    case EVENT_STARTED:
    case EVENT_EVALUATION:
    case EVENT_CHECKPOINT_PRUNED:
    case EVENT_WARNING:
    case EVENT_INCIDENT_PRUNED:
    case EVENT_FINISHED: break;
    }
}

/* ---- rendered -------------------------------------------------------------*/

typedef double figure_fn(const struct metrics_job *j);

static double
seconds_or_none(int64_t us)
{
    return us > 0 ? (double)us / 1e6 : (double)NAN;
}

#define VIEW(j) ((j)->job->row.view)
#define FIGURE(name, expression)                                               \
    static double name(const struct metrics_job *j)                            \
    {                                                                          \
        return expression;                                                     \
    }
FIGURE(get_start, seconds_or_none(j->start_us))
FIGURE(get_iteration, (double)VIEW(j).iteration)
FIGURE(get_iterations, VIEW(j).total_iterations > 0
                           ? (double)VIEW(j).total_iterations
                           : (double)NAN)
FIGURE(get_updates, (double)j->updates)
FIGURE(get_skips, (double)j->skips)
FIGURE(get_samples, (double)j->samples)
FIGURE(get_loss, VIEW(j).loss)
FIGURE(get_lr, VIEW(j).lr)
FIGURE(get_grad_norm, VIEW(j).grad_norm)
FIGURE(get_scale, VIEW(j).scale)
FIGURE(get_floor, j->scale_floor)
FIGURE(get_growths, (double)j->growths)
FIGURE(get_backoffs, (double)j->backoffs)
FIGURE(get_progress, seconds_or_none(j->progress_us))
FIGURE(get_checkpoint, seconds_or_none(j->checkpoint_us))
FIGURE(get_failures, (double)j->failures)
#undef FIGURE

/* Those before and those after the one with two labels. */
static const struct {
    enum metrics_id id;
    figure_fn *get;
} before[] = {{METRICS_ID_job_start, get_start},
              {METRICS_ID_job_iteration, get_iteration},
              {METRICS_ID_job_iterations, get_iterations},
              {METRICS_ID_job_updates, get_updates},
              {METRICS_ID_job_updates_skipped, get_skips},
              {METRICS_ID_job_samples, get_samples},
              {METRICS_ID_job_loss, get_loss},
              {METRICS_ID_job_learning_rate, get_lr},
              {METRICS_ID_job_grad_norm, get_grad_norm},
              {METRICS_ID_job_loss_scale, get_scale},
              {METRICS_ID_job_loss_scale_floor, get_floor},
              {METRICS_ID_job_scale_growths, get_growths},
              {METRICS_ID_job_scale_backoffs, get_backoffs}},
  after[] = {{METRICS_ID_job_last_progress, get_progress},
             {METRICS_ID_job_last_checkpoint, get_checkpoint},
             {METRICS_ID_job_checkpoint_failures, get_failures}};

static void
render_figure(const struct metrics *m, struct exposition *e, enum metrics_id id,
              figure_fn *get)
{
    for (const struct metrics_job *j = m->jobs; j != NULL; j = j->next)
        exposition_put(e, &metrics_families[id], (const char *const[]){j->id},
                       get(j));
}

void
metrics_job_render(const struct metrics *m, struct exposition *e)
{
    const struct metrics_job *j;

    for (j = m->jobs; j != NULL; j = j->next)
        exposition_put(e, &metrics_families[METRICS_ID_job],
                       (const char *const[]){j->id, VIEW(j).name, VIEW(j).user,
                                             VIEW(j).device},
                       1);
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        render_figure(m, e, before[i].id, before[i].get);
    for (j = m->jobs; j != NULL; j = j->next)
        for (int v = 0; v < METRICS_VERDICTS; v++)
            exposition_put(
                e, &metrics_families[METRICS_ID_job_incidents],
                (const char *const[]){j->id, metrics_verdict_name(v)},
                (double)j->incidents[v]);
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
        render_figure(m, e, after[i].id, after[i].get);
}
