/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/subscribe.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/notice.h"

#define SUBSCRIPTION_MAGIC 0x5355424fu
#define TICK_MS            50
#define MAX_CREDIT         INT32_MAX
#define DEFAULT_INTERVAL   200

struct subscription {
    unsigned magic;
    struct subscription *next;
    struct subscribe *owner;
    struct request *request; /* owned */
    int64_t job, credit, min_interval_ms, progress_sent_ms, dropped;
    struct notice progress; /* the latest; sent when its time comes */
    bool progress_due;
    struct notice *queue; /* owned ring of SUBSCRIBE_QUEUE */
    int first, n;
    bool ended; /* the job is final, only the reply is missing */
    char *last; /* owned: that reply; NULL: no memory, close instead */
    size_t last_len;
};

static int64_t
now_ms(const struct subscribe *s)
{
    return (int64_t)uv_now(s->tick.loop);
}

static void
destroy(struct subscription *sub)
{
    struct subscription **p = &sub->owner->head;

    while (*p != sub)
        p = &(*p)->next;
    *p = sub->next;
    if (sub->owner->head == NULL)
        uv_timer_stop(&sub->owner->tick);
    free(sub->queue);
    free(sub->last);
    sub->magic = 0;
    free(sub);
}

static void
on_gone(void *ctx, struct request *request)
{
    destroy(ctx);
    request_drop(request);
}

/* ---- out ------------------------------------------------------------------*/

/* false: not now. */
static bool
send_notice(struct subscription *sub, const struct notice *notice)
{
    struct view_notice view;

    if (sub->credit <= 0)
        return false;
    notice_view(notice, &view);
    view.dropped = sub->dropped;
    if (!request_notice(sub->request, &view))
        return false;
    sub->credit--;
    sub->dropped = 0;
    return true;
}

/* Sends what may be sent; the subscription may be gone afterwards. */
static void
pump(struct subscription *sub)
{
    int64_t now = now_ms(sub->owner);

    assert(sub->magic == SUBSCRIPTION_MAGIC);
    while (sub->n > 0 && send_notice(sub, &sub->queue[sub->first])) {
        sub->first = (sub->first + 1) % SUBSCRIBE_QUEUE;
        sub->n--;
    }
    if (sub->n == 0 && sub->progress_due && !sub->ended &&
        now - sub->progress_sent_ms >= sub->min_interval_ms &&
        send_notice(sub, &sub->progress)) {
        sub->progress_due = false;
        sub->progress_sent_ms = now;
    }
    if (sub->n == 0 && sub->ended) {
        struct request *request = sub->request;
        char *last = sub->last;
        size_t len = sub->last_len;

        sub->last = NULL;
        request_watch(request, NULL, NULL);
        destroy(sub);
        request_reply_take(request, last, len);
    }
}

static void
count_dropped(struct subscription *sub)
{
    sub->dropped++;
    sub->owner->dropped++;
}

static void
push(struct subscription *sub, const struct notice *notice)
{
    if (sub->n == SUBSCRIBE_QUEUE) {
        sub->first = (sub->first + 1) % SUBSCRIBE_QUEUE;
        sub->n--;
        count_dropped(sub);
    }
    sub->queue[(sub->first + sub->n++) % SUBSCRIBE_QUEUE] = *notice;
}

static void
set_progress(struct subscription *sub, const struct notice *notice)
{
    /* One that nobody saw and that had no credit is lost; one that only waited
     * for its time is merely replaced by a newer. */
    if (sub->progress_due && sub->credit <= 0)
        count_dropped(sub);
    sub->progress = *notice;
    sub->progress_due = true;
}

static void
on_tick(uv_timer_t *timer)
{
    struct subscribe *s = timer->data;
    struct subscription *sub, *next;

    for (sub = s->head; sub != NULL; sub = next) {
        next = sub->next;
        pump(sub);
    }
}

/* ---- in -------------------------------------------------------------------*/

void
subscribe_init(struct subscribe *s, uv_loop_t *loop)
{
    s->head = NULL;
    s->dropped = 0;
    uv_timer_init(loop, &s->tick);
    s->tick.data = s;
}

void
subscribe_fini(struct subscribe *s)
{
    struct err err;

    err_set(&err, ERR_AGAIN, "the daemon goes down; follow again later");
    while (s->head != NULL) {
        struct request *request = s->head->request;

        request_watch(request, NULL, NULL);
        destroy(s->head);
        request_refuse(request, &err, NULL);
    }
    uv_close((uv_handle_t *)&s->tick, NULL);
}

void
subscribe_add(struct subscribe *s, struct request *request,
              const struct job *job)
{
    struct subscription *sub = calloc(1, sizeof(*sub));
    struct notice notice;
    struct err err;

    if (sub != NULL)
        sub->queue = calloc(SUBSCRIBE_QUEUE, sizeof(*sub->queue));
    if (sub == NULL || sub->queue == NULL) {
        free(sub);
        err_set(&err, ERR_NOMEM, "out of memory");
        request_refuse(request, &err, NULL);
        return;
    }
    sub->magic = SUBSCRIPTION_MAGIC;
    sub->owner = s;
    sub->request = request;
    sub->job = job->row.view.id;
    sub->credit = request->args.follow.credit;
    sub->min_interval_ms = request->args.follow.min_interval_ms > 0
                               ? request->args.follow.min_interval_ms
                               : DEFAULT_INTERVAL;
    sub->progress_sent_ms = now_ms(s) - sub->min_interval_ms;
    if (s->head == NULL)
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    sub->next = s->head;
    s->head = sub;
    request_watch(request, on_gone, sub);
    notice_from_state(&notice, job);
    push(sub, &notice);
    if (job->row.view.iteration > 0) {
        notice_from_progress(&notice, job);
        set_progress(sub, &notice);
    }
    pump(sub);
}

void
subscribe_credit(struct subscribe *s, const struct session *session, int64_t id,
                 int64_t n)
{
    for (struct subscription *sub = s->head; sub != NULL; sub = sub->next)
        if (sub->request->session == session && sub->request->id == id) {
            sub->credit =
                sub->credit > MAX_CREDIT - n ? MAX_CREDIT : sub->credit + n;
            pump(sub);
            return;
        }
}

static void
prepare_last(struct subscription *sub, const struct job *job)
{
    struct view_job view;

    job_view(job, &view);
    sub->last = codec_write_reply(sub->request->id, sub->request->message,
                                  &view, 1, false, &sub->last_len);
    sub->ended = true;
}

void
subscribe_changed(struct subscribe *s, const struct job *job)
{
    bool final = job_state_is_final(job->stored);
    struct subscription *sub, *next;
    struct notice notice;

    for (sub = s->head; sub != NULL; sub = next) {
        next = sub->next;
        if (sub->job != job->row.view.id || sub->ended)
            continue;
        notice_from_state(&notice, job);
        push(sub, &notice);
        if (final)
            prepare_last(sub, job);
        pump(sub);
    }
}

void
subscribe_event(struct subscribe *s, const struct job *job,
                const struct event *event)
{
    struct subscription *sub, *next;
    struct notice notice;

    if (s->head == NULL)
        return;
    for (sub = s->head; sub != NULL; sub = next) {
        next = sub->next;
        if (sub->job != job->row.view.id || sub->ended)
            continue;
        if (event->kind == EVENT_STEP) {
            /* Many steps arrive at once; the timer sends the latest. */
            notice_from_progress(&notice, job);
            set_progress(sub, &notice);
        } else if (notice_from_event(&notice, job, event)) {
            push(sub, &notice);
            pump(sub);
        }
    }
}
