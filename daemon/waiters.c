/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/waiters.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/checkpoints.h"

struct waiter {
    struct waiter *next;
    struct waiters *list;
    struct waiters_ask ask;
    char name[CHECKPOINTS_NAME_MAX];
    char *difference;        /* owned */
    struct request *request; /* owned */
};

static struct request *
take_out(struct waiter *w)
{
    struct waiter **p = &w->list->head;
    struct request *request = w->request;

    while (*p != w)
        p = &(*p)->next;
    *p = w->next;
    free(w->difference);
    free(w);
    request_watch(request, NULL, NULL);
    return request;
}

static void
on_gone(void *ctx, struct request *request)
{
    take_out(ctx);
    request_drop(request);
}

void
waiters_add(struct waiters *waiters, const struct waiters_ask *ask,
            struct request *request)
{
    struct waiter *w = calloc(1, sizeof(*w));
    struct err err;

    if (w == NULL) {
        err_set(&err, ERR_NOMEM, "out of memory");
        request_refuse(request, &err, NULL);
        return;
    }
    w->list = waiters;
    w->ask = *ask;
    w->request = request;
    if (ask->kind == WAITERS_ROLLBACK) {
        snprintf(w->name, sizeof(w->name), "%s", ask->rolled_back.name);
        w->ask.rolled_back.name = w->name;
        w->difference = strdup(ask->rolled_back.difference);
        assert(w->difference != NULL);
        w->ask.rolled_back.difference = w->difference;
    }
    w->next = waiters->head;
    waiters->head = w;
    request_watch(request, on_gone, w);
}

bool
waiters_want_checkpoint(const struct waiters *waiters, int64_t job)
{
    for (const struct waiter *w = waiters->head; w != NULL; w = w->next)
        if (w->ask.kind == WAITERS_CHECKPOINT && w->ask.job == job)
            return true;
    return false;
}

/* ---- answers --------------------------------------------------------------*/

static void
reply_job(struct waiter *w, const struct job *job)
{
    struct view_job view;

    job_view(job, &view);
    request_reply(take_out(w), &view, 1, false);
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct waiter *w, int code, const char *fmt, ...)
{
    char text[ERR_SENTENCE_MAX];
    struct err err;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&err, code, "%s", text);
    request_refuse(take_out(w), &err, NULL);
}

static void
check_paused(struct waiter *w, const struct job *job)
{
    int64_t id = job->row.view.id;

    if (job->stored == JOB_PAUSED || job_state_is_final(job->stored))
        reply_job(w, job);
    else if (job->stored == JOB_QUEUED && job->state == JOB_QUEUED)
        refuse(w, ERR_AGAIN,
               "job %" PRId64 " was queued instead: the daemon goes down, or "
               "somebody asked for something else",
               id);
}

static void
check_rollback(struct waiter *w, const struct job *job)
{
    struct view_rolled_back view = w->ask.rolled_back;
    char name[CHECKPOINTS_NAME_MAX], *difference;

    if (job_state_is_final(job->stored)) {
        refuse(w, ERR_STATE, "job %" PRId64 " is %s: too late to go back",
               job->row.view.id, job_state_name(job->stored));
    } else if (job->stored == JOB_PAUSED && job->state == JOB_PAUSED) {
        refuse(w, ERR_CKPT, "job %" PRId64 " is paused: %.350s",
               job->row.view.id, job->row.view.reason);
    } else if (job->stored == JOB_QUEUED) {
        if (job->row.resume_checkpoint > 0 &&
            job->row.resume_checkpoint != view.checkpoint) {
            /* It was gone; the one that is the last now stands for it. */
            snprintf(w->name, sizeof(w->name), "%s", job->row.view.checkpoint);
            view.checkpoint = job->row.resume_checkpoint;
            view.abandoned += view.iteration - job->row.view.iteration;
            view.iteration = job->row.view.iteration;
        }
        /* The waiter goes before the answer is made. */
        snprintf(name, sizeof(name), "%s", w->name);
        view.name = name;
        view.state = job_state_name(job->stored);
        difference = w->difference;
        w->difference = NULL;
        request_reply(take_out(w), &view, 1, false);
        free(difference);
    }
}

static void
check(struct waiter *w, const struct job *job)
{
    switch (w->ask.kind) {
    case WAITERS_UNTIL:
        if (job->stored == w->ask.until || job_state_is_final(job->stored))
            reply_job(w, job);
        break;
    case WAITERS_PAUSED: check_paused(w, job); break;
    case WAITERS_CHECKPOINT:
        if (job->stored != JOB_RUNNING)
            refuse(w, ERR_STATE,
                   "job %" PRId64 " is %s now; no checkpoint was made on "
                   "demand",
                   job->row.view.id, job_state_name(job->stored));
        break;
    case WAITERS_ROLLBACK: check_rollback(w, job); break;
    }
}

void
waiters_changed(struct waiters *waiters, const struct job *job)
{
    struct waiter *w, *next;

    for (w = waiters->head; w != NULL; w = next) {
        next = w->next;
        if (w->ask.job == job->row.view.id)
            check(w, job);
    }
}

/* ---- checkpoints ----------------------------------------------------------*/

struct found {
    struct request *request; /* owned */
    char name[CHECKPOINTS_NAME_MAX];
};

static void
on_rows(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct found *f = ctx;
    const struct view_checkpoint *rows = items;
    struct err none;
    int i = 0;

    (void)more;
    while (rc == 0 && i < n && strcmp(rows[i].name, f->name) != 0)
        i++;
    if (rc != 0) {
        request_refuse(f->request, err, NULL);
    } else if (i == n) {
        err_set(&none, ERR_CKPT, "checkpoint %s is gone already", f->name);
        request_refuse(f->request, &none, NULL);
    } else {
        request_reply(f->request, &rows[i], 1, false);
    }
    free(f);
}

static void
reply_checkpoint(struct waiter *w, struct store *store, const struct job *job,
                 const struct event *event)
{
    struct found *f = calloc(1, sizeof(*f));
    struct view_query query;

    assert(f != NULL);
    f->request = take_out(w);
    snprintf(f->name, sizeof(f->name), "%s", event->u.checkpoint.name);
    view_init(VIEW_ID_query, &query);
    query.all_lines = true;
    query.from = query.to = event->iteration;
    store_query(store, MESSAGE_ID_checkpoints, job->row.view.id, &query,
                on_rows, f);
}

void
waiters_event(struct waiters *waiters, struct store *store,
              const struct job *job, const struct event *event)
{
    struct waiter *w, *next;
    bool made = event->kind == EVENT_CHECKPOINT &&
                event->u.checkpoint.cause == EVENT_CHECKPOINT_DEMAND;

    if (!made && event->kind != EVENT_CHECKPOINT_FAILED)
        return;
    for (w = waiters->head; w != NULL; w = next) {
        next = w->next;
        if (w->ask.kind != WAITERS_CHECKPOINT || w->ask.job != job->row.view.id)
            continue;
        if (made)
            reply_checkpoint(w, store, job, event);
        else
            refuse(w, ERR_CKPT, "job %" PRId64 ": %s", job->row.view.id,
                   event->u.checkpoint_failed.text);
    }
}

void
waiters_fini(struct waiters *waiters)
{
    while (waiters->head != NULL)
        refuse(waiters->head, ERR_AGAIN,
               "the daemon goes down; ask again when it is back");
}
