/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lineage.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/log.h"

struct refresh {
    struct daemon *d;
    int64_t job, n_evaluations; /* known when it was asked */
    int64_t after_row;
    double loss, accuracy, best, top_k, perplexity;
};

static void ask(struct refresh *r);

void
lineage_forget(struct job *job)
{
    struct view_job *view = &job->row.view;

    view->loss = view->grad_norm = view->lr = view->scale = (double)NAN;
    view->validation_loss = view->accuracy = view->best_accuracy = (double)NAN;
    view->top_k = view->perplexity = (double)NAN;
    job_set_text(&view->checkpoint, "");
    view->checkpoint_iteration = 0;
}

static void
take_rows(struct refresh *r, const struct view_evaluation *rows, int n)
{
    for (int i = 0; i < n; i++) {
        const struct view_evaluation *e = &rows[i];

        r->after_row = e->row;
        if (e->incomplete)
            continue;
        r->loss = e->loss;
        r->accuracy = e->accuracy;
        r->top_k = e->top_k;
        r->perplexity = e->perplexity;
        if (!isnan(e->accuracy) && (isnan(r->best) || e->accuracy > r->best))
            r->best = e->accuracy;
    }
}

static void
apply(const struct refresh *r)
{
    struct job *job = jobs_find(&r->d->jobs, r->job);

    if (job == NULL || job->n_evaluations != r->n_evaluations)
        return; /* over, or newer ones have come since */
    job->row.view.validation_loss = r->loss;
    job->row.view.accuracy = r->accuracy;
    job->row.view.best_accuracy = r->best;
    job->row.view.top_k = r->top_k;
    job->row.view.perplexity = r->perplexity;
}

static void
on_rows(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct refresh *r = ctx;
    struct daemon *d = r->d;

    d->background--;
    if (rc == 0)
        take_rows(r, items, n);
    else
        log_errx("job %" PRId64 ": evaluations not read: %s", r->job, err->msg);
    if (rc == 0 && more && n > 0) {
        ask(r);
        return;
    }
    if (rc == 0)
        apply(r);
    free(r);
}

static void
ask(struct refresh *r)
{
    struct view_query query;

    view_init(VIEW_ID_query, &query);
    query.after_row = r->after_row;
    r->d->background++;
    store_query(r->d->store, MESSAGE_ID_evaluations, r->job, &query, on_rows,
                r);
}

void
lineage_refresh(struct daemon *d, struct job *job)
{
    struct refresh *r = calloc(1, sizeof(*r));

    assert(r != NULL);
    r->d = d;
    r->job = job->row.view.id;
    r->n_evaluations = job->n_evaluations;
    r->loss = r->accuracy = r->best = (double)NAN;
    r->top_k = r->perplexity = (double)NAN;
    ask(r);
}
