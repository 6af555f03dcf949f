/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/prune.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/checkpoints.h"
#include "daemon/jobdir.h"
#include "daemon/log.h"
#include "proto/spec.h"

struct pruning {
    uv_work_t work;
    struct daemon *d;
    int64_t job, keep;
    char directory[JOBDIR_MAX];
    struct checkpoints_item *v; /* owned: to be removed */
    bool *removed;              /* owned */
    int n;
};

static void
finish(struct pruning *p)
{
    p->d->background--;
    free(p->v);
    free(p->removed);
    free(p);
}

static void
on_marked(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct daemon *d = ctx;

    (void)id;
    d->background--;
    if (rc != 0)
        log_errx("checkpoint not marked: %s", err->msg);
}

static void
remove_all(uv_work_t *work)
{
    struct pruning *p = work->data;
    struct err err;

    for (int i = 0; i < p->n; i++)
        p->removed[i] =
            jobdir_remove_checkpoint(p->directory, p->v[i].name, &err) == 0;
}

static void
on_removed(uv_work_t *work, int status)
{
    struct pruning *p = work->data;
    int n = 0;

    (void)status;
    for (int i = 0; i < p->n; i++) {
        if (!p->removed[i])
            continue;
        n++;
        p->d->background++;
        store_mark_checkpoint(p->d->store, p->v[i].id, "pruned", on_marked,
                              p->d);
    }
    log_info("job %" PRId64 ": %d checkpoints of abandoned lines removed",
             p->job, n);
    finish(p);
}

/* Oldest ones of abandoned lines beyond the newest `keep`. */
static int
choose(struct pruning *p, const struct checkpoints *list)
{
    int n = 0;

    for (int i = 0; i < list->n; i++)
        if (!list->v[i].live && list->v[i].good)
            p->v[n++] = list->v[i];
    return n > p->keep ? n - (int)p->keep : 0;
}

static void
on_gathered(void *ctx, int rc, const struct checkpoints *list,
            const struct err *err)
{
    struct pruning *p = ctx;

    (void)err;
    if (rc == 0 && checkpoints_last(list) != NULL) {
        p->v = calloc((size_t)list->n, sizeof(*p->v));
        p->removed = calloc((size_t)list->n, sizeof(*p->removed));
        if (p->v != NULL && p->removed != NULL)
            p->n = choose(p, list);
    }
    p->work.data = p;
    if (p->n == 0 ||
        uv_queue_work(p->d->loop, &p->work, remove_all, on_removed) != 0)
        finish(p);
}

void
prune_abandoned(struct daemon *d, const struct job *job)
{
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    struct pruning *p;

    if (job->row.view.rollbacks == 0 && job->row.view.attempt <= 1)
        return;
    if (spec_parse(job->row.spec, strlen(job->row.spec), &spec, &faults) != 0) {
        spec_faults_fini(&faults);
        return;
    }
    p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->d = d;
        p->job = job->row.view.id;
        p->keep = spec->checkpoint.keep;
        strncpy(p->directory, job->row.view.directory, JOBDIR_MAX - 1);
        d->background++;
        checkpoints_gather(d->store, p->job, on_gathered, p);
    }
    spec_destroy(&spec);
}
