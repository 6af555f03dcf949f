/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/start_plan.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/change.h"
#include "proto/spec.h"
#include "proto/spec_changes.h"

/* More are never tried: with so many damaged ones it is time to ask. */
#define MAX_RESUME 64

struct start_plan {
    struct checkpoints_item *v;  /* owned copies the lists point into */
    const char **resume, **keep; /* owned lists of borrowed names */
    int n_resume, n_keep;
    bool required;
    char *spec;       /* owned: the effective one */
    int64_t *windows; /* owned */
    int n_windows;
    char *changes; /* owned: those of the policy, for the record */
    int spec_rc;
    char why[ERR_SENTENCE_MAX]; /* there is no spec */
    const char *best;           /* borrowed from v */
    double best_metric;
    /* while asking */
    int64_t target;
    bool smaller;
    start_plan_fn *done;
    void *ctx;
};

struct start_plan *
start_plan_create(void)
{
    struct start_plan *plan = calloc(1, sizeof(*plan));

    if (plan != NULL)
        plan->best = "";
    return plan;
}

static void
clear(struct start_plan *plan)
{
    free(plan->v);
    free(plan->resume);
    free(plan->keep);
    plan->v = NULL;
    plan->resume = plan->keep = NULL;
    plan->n_resume = plan->n_keep = 0;
    plan->required = false;
    plan->best = "";
    plan->best_metric = (double)NAN;
}

void
start_plan_destroy(struct start_plan **plan)
{
    if (*plan == NULL)
        return;
    clear(*plan);
    free((*plan)->spec);
    free((*plan)->windows);
    free((*plan)->changes);
    free(*plan);
    *plan = NULL;
}

static bool
make_room(struct start_plan *plan, const struct checkpoints *list)
{
    size_t n = (size_t)list->n + 1;

    plan->v = calloc(n, sizeof(*plan->v));
    plan->resume = calloc(n, sizeof(*plan->resume));
    plan->keep = calloc(n, sizeof(*plan->keep));
    if (plan->v == NULL || plan->resume == NULL || plan->keep == NULL)
        return false;
    if (list->n > 0)
        memcpy(plan->v, list->v, (size_t)list->n * sizeof(*plan->v));
    return true;
}

/* The best of the line that the attempt goes on with: not of one that it
 * leaves. Of equal ones the first. */
static void
choose_best(struct start_plan *plan, const struct checkpoints *list,
            const struct checkpoints_item *goal, bool smaller)
{
    for (int i = 0; i < list->n; i++) {
        const struct checkpoints_item *item = &plan->v[i];
        bool here = goal == NULL || goal->live ? item->live
                                               : item->attempt == goal->attempt;

        if (!here || !item->good || isnan(item->metric) ||
            (goal != NULL && item->iteration > goal->iteration))
            continue;
        if (isnan(plan->best_metric) ||
            (smaller ? item->metric < plan->best_metric
                     : item->metric > plan->best_metric)) {
            plan->best = item->name;
            plan->best_metric = item->metric;
        }
    }
}

int
start_plan_choose(struct start_plan *plan, const struct checkpoints *list,
                  int64_t target, bool smaller, struct err *err)
{
    static const struct checkpoints_item start = {.attempt = -1};
    const struct checkpoints_item *goal = NULL;
    int64_t limit = INT64_MAX;

    clear(plan);
    if (!make_room(plan, list))
        return err_set(err, ERR_NOMEM, "checkpoints: out of memory");
    if (target == STORE_FROM_START) {
        limit = -1;
        goal = &start;
    } else if (target != 0) {
        goal = checkpoints_find(list, target);
        if (goal == NULL || !goal->good)
            return err_set(err, ERR_CKPT,
                           "checkpoint %lld to go back to is not good any more",
                           (long long)target);
        limit = goal->iteration;
        plan->required = true;
        plan->resume[plan->n_resume++] = plan->v[goal - list->v].name;
    }
    for (int i = 0; i < list->n; i++) {
        const struct checkpoints_item *item = &plan->v[i];

        /* Those beyond the goal are about to be on an abandoned line. */
        if (!item->live || !item->good || item->iteration > limit)
            continue;
        plan->keep[plan->n_keep++] = item->name;
    }
    choose_best(plan, list, goal, smaller);
    for (int i = plan->n_keep - 1; i >= 0 && target == 0; i--)
        if (plan->n_resume < MAX_RESUME)
            plan->resume[plan->n_resume++] = plan->keep[i];
    return 0;
}

static void
on_gathered(void *ctx, int rc, const struct checkpoints *list,
            const struct err *err)
{
    struct start_plan *plan = ctx;
    struct err why = *err;

    if (rc == 0 && plan->spec == NULL)
        rc = err_set(&why, plan->spec_rc, "its spec with its changes: %s",
                     plan->why);
    if (rc == 0)
        rc = start_plan_choose(plan, list, plan->target, plan->smaller, &why);
    plan->done(plan->ctx, rc, &why);
}

/* Does a smaller metric make a better checkpoint of this job? */
static bool
is_smaller_better(const char *text)
{
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    bool smaller = spec_parse(text, strlen(text), &spec, &faults) == 0 &&
                   spec->checkpoint.best == SPEC_METRIC_LOSS;

    spec_faults_fini(&faults);
    spec_destroy(&spec);
    return smaller;
}

void
start_plan_read(struct start_plan *plan, const struct job *job)
{
    struct err err;

    free(plan->spec);
    free(plan->windows);
    free(plan->changes);
    err_clear(&err);
    plan->spec_rc = change_effective(&job->row, &plan->spec, &err);
    snprintf(plan->why, sizeof(plan->why), "%s", err.msg);
    plan->windows =
        change_read_windows(job->row.skip_windows, &plan->n_windows);
    plan->changes = spec_changes_tell(job->row.changes);
}

void
start_plan_make(struct start_plan *plan, struct store *store,
                const struct job *job, start_plan_fn *done, void *ctx)
{
    plan->target = job->row.resume_checkpoint;
    plan->smaller = is_smaller_better(job->row.spec);
    start_plan_read(plan, job);
    plan->done = done;
    plan->ctx = ctx;
    checkpoints_gather(store, job->row.view.id, on_gathered, plan);
}

void
start_plan_fill(const struct start_plan *plan, const struct job *job,
                const char *directory, const char *device,
                struct view_start *out)
{
    view_init(VIEW_ID_start, out);
    out->job = job->row.view.id;
    out->attempt = job->row.view.attempt;
    out->spec = plan->spec != NULL ? plan->spec : job->row.spec;
    out->directory = directory;
    out->device = device;
    out->resume.v = plan->resume;
    out->resume.n = plan->n_resume;
    out->resume_required = plan->required;
    out->keep.v = plan->keep;
    out->keep.n = plan->n_keep;
    out->best = plan->best;
    out->best_metric = plan->best_metric;
    out->scale = job->row.start_scale;
    out->skip_windows.v = plan->windows;
    out->skip_windows.n = plan->n_windows;
    out->changes = plan->changes != NULL ? plan->changes : "";
    out->guard_rollbacks = job->row.view.guard_rollbacks;
}
