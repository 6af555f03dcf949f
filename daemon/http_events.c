/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http_problem.h"
#include "daemon/tokens.h"
#include "proto/codec.h"
#include "proto/text.h"

#define TICK_MS      100
#define PROGRESS_MS  500
#define HEARTBEAT_MS 15000
#define PAGE         500
#define MOST_WAIT    60 /* seconds of a long poll */
#define MAX_DIRTY    256

struct reader {
    struct http_events *owner; /* NULL: they are gone */
    struct reader *next, *prev;
    struct http_exchange *x; /* NULL: it has gone */
    struct auth_peer peer;
    bool stream;
    bool asking;      /* a question is with the store */
    int64_t last;     /* event that it has */
    int64_t seen;     /* events up to here are not to be asked for again */
    int64_t job;      /* long poll: of one job; 0 = all */
    int64_t limit;    /* long poll */
    bool latest;      /* long poll: the last ones, not the first */
    int64_t until_ms; /* long poll: answer then, whatever there is */
    int64_t spoke_ms; /* stream */
};

struct http_events {
    struct daemon *d;
    struct reader *head;
    uv_timer_t tick;
    int64_t progress_ms; /* when changed jobs were told last */
    int64_t dirty[MAX_DIRTY];
    int n_dirty;
};

static int64_t
now_ms(const struct http_events *e)
{
    return (int64_t)uv_now(e->tick.loop);
}

/* ---- readers --------------------------------------------------------------*/

static void
forget(struct reader *r)
{
    struct http_events *e = r->owner;

    if (e != NULL) {
        if (r->prev != NULL)
            r->prev->next = r->next;
        else
            e->head = r->next;
        if (r->next != NULL)
            r->next->prev = r->prev;
        if (e->head == NULL)
            uv_timer_stop(&e->tick);
    }
    r->owner = NULL;
    r->x = NULL;
    if (!r->asking)
        free(r);
}

static void
on_gone(void *ctx, struct http_exchange *x)
{
    (void)x;
    forget(ctx);
}

static bool
may_see(const struct reader *r, const struct job *job)
{
    return auth_role(&r->peer, job->row.view.uid) != AUTH_OTHER;
}

static void
say(struct reader *r, const char *text, size_t len)
{
    r->spoke_ms = now_ms(r->owner);
    http_stream_put(r->x, text, len);
}

/* ---- events of the store --------------------------------------------------*/

static void
tell_events(struct reader *r, const struct view_event *events, int n)
{
    struct text t = {0};
    size_t len;
    char *text;

    for (int i = 0; i < n; i++) {
        char *json = codec_write_view(VIEW_ID_event, &events[i], 0, &len);

        text_puts(&t, "event: event\nid: ");
        text_json_int(&t, events[i].seq);
        text_puts(&t, "\ndata: ");
        text_puts(&t, json != NULL ? json : "{}");
        text_puts(&t, "\n\n");
        free(json);
    }
    text = text_take(&t, &len);
    if (text != NULL && len > 0)
        say(r, text, len);
    free(text);
}

static void
answer_page(struct reader *r, const void *events, int n, bool more)
{
    struct http_exchange *x = r->x;
    size_t len = 0;
    char *body = codec_write_page(VIEW_ID_event, events, n, more, &len);

    http_keep(x)->leave = NULL;
    forget(r);
    http_api_answer_json(x, 200, body, len);
}

static void
on_events(void *ctx, int rc, const void *items, int n, bool more,
          const struct err *err)
{
    struct reader *r = ctx;
    const struct view_event *events = items;
    struct http_exchange *x = r->x;

    r->asking = false;
    if (x == NULL) {
        free(r);
    } else if (rc != 0 && !r->stream) {
        http_keep(x)->leave = NULL;
        forget(r);
        http_problem(x, err, NULL);
    } else if (rc != 0) {
        return; /* it is asked again */
    } else if (r->stream) {
        if (n > 0)
            r->last = events[n - 1].seq;
        if (more)
            r->seen = r->last;
        tell_events(r, events, n);
    } else if (n > 0 || now_ms(r->owner) >= r->until_ms) {
        answer_page(r, items, n, more);
    }
}

static void
ask(struct reader *r)
{
    struct daemon *d = r->owner->d;

    if (r->asking)
        return;
    const struct view_events_query query = {.job = r->job,
                                            .after = r->last,
                                            .limit = r->limit,
                                            .latest = r->latest};

    r->asking = true;
    r->seen = store_last_event(d->store);
    store_query_events(d->store, r->peer.admin ? -1 : (int64_t)r->peer.uid,
                       &query, on_events, r);
}

/* ---- jobs as they change --------------------------------------------------*/

static void
tell_job(struct http_events *e, struct reader *only, const struct job *job)
{
    struct view_job view;
    struct text t = {0};
    char *json, *text;
    size_t len;

    job_view(job, &view);
    json = codec_write_view(VIEW_ID_job, &view, 0, &len);
    text_puts(&t, "event: job\ndata: ");
    text_puts(&t, json != NULL ? json : "{}");
    text_puts(&t, "\n\n");
    free(json);
    text = text_take(&t, &len);
    for (struct reader *r = e->head; text != NULL && r != NULL; r = r->next)
        if (r->stream && (only == NULL || r == only) && may_see(r, job))
            say(r, text, len);
    free(text);
}

void
http_events_changed(struct http_events *e, const struct job *job)
{
    int64_t id = job->row.view.id;

    if (e->head == NULL)
        return;
    /* It leaves the table of jobs now; there is no later. */
    if (job_state_is_final(job->stored)) {
        tell_job(e, NULL, job);
        return;
    }
    for (int i = 0; i < e->n_dirty; i++)
        if (e->dirty[i] == id)
            return;
    if (e->n_dirty < MAX_DIRTY)
        e->dirty[e->n_dirty++] = id;
}

static void
tell_dirty(struct http_events *e)
{
    for (int i = 0; i < e->n_dirty; i++) {
        const struct job *job = jobs_find(&e->d->jobs, e->dirty[i]);

        if (job != NULL)
            tell_job(e, NULL, job);
    }
    e->n_dirty = 0;
    e->progress_ms = now_ms(e);
}

/* A stream may outlast the token that opened it, but not its goodness. */
static bool
is_welcome(const struct reader *r, int64_t now_us)
{
    const struct token *t =
        r->peer.token == 0 ? NULL
                           : tokens_get(r->owner->d->tokens, r->peer.token);

    return r->peer.token == 0 || (t != NULL && tokens_is_good(t, now_us));
}

/* ---- the clock ------------------------------------------------------------*/

static void
on_tick(uv_timer_t *timer)
{
    static const char heartbeat[] = ": hb\n\n";
    struct http_events *e = timer->data;
    int64_t last = store_last_event(e->d->store), now = now_ms(e);
    struct reader *next;
    uv_timeval64_t wall;

    uv_gettimeofday(&wall);
    if (e->n_dirty > 0 && now - e->progress_ms >= PROGRESS_MS)
        tell_dirty(e);
    for (struct reader *r = e->head; r != NULL; r = next) {
        next = r->next;
        if (r->stream && !is_welcome(r, wall.tv_sec * 1000000 + wall.tv_usec))
            http_stream_end(r->x);
        else if (last > r->seen || (!r->stream && now >= r->until_ms))
            ask(r);
        else if (r->stream && now - r->spoke_ms >= HEARTBEAT_MS)
            say(r, heartbeat, sizeof(heartbeat) - 1);
    }
}

/* ---- questions ------------------------------------------------------------*/

static int
read_number(const char *name, const char *text, int64_t most, int64_t *out,
            struct err *err)
{
    char *end;

    if (text == NULL)
        return 0;
    *out = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || *out > most)
        return err_set(err, ERR_USAGE,
                       "%s: \"%.60s\" is no number from 0 to %" PRId64, name,
                       text, most);
    return 0;
}

static int
read_bool(const char *name, const char *text, bool *out, struct err *err)
{
    if (text == NULL)
        return 0;
    *out = strcmp(text, "true") == 0;
    if (!*out && strcmp(text, "false") != 0)
        return err_set(err, ERR_USAGE, "%s: \"%.60s\" is not true or false",
                       name, text);
    return 0;
}

static bool
is_known(const char *key)
{
    static const char *const known[] = {"after", "job", "latest", "limit",
                                        "wait"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

static int
read_question(const struct http_call *call, struct reader *r, int64_t *wait,
              struct err *err)
{
    const struct http_uri *uri = call->uri;
    int rc = read_number("after", http_uri_find(uri, "after"), INT64_MAX - 1,
                         &r->last, err);

    if (rc == 0)
        rc = read_number("job", http_uri_find(uri, "job"), INT64_MAX - 1,
                         &r->job, err);
    if (rc == 0)
        rc = read_number("limit", http_uri_find(uri, "limit"), 1000, &r->limit,
                         err);
    if (rc == 0)
        rc = read_number("wait", http_uri_find(uri, "wait"), MOST_WAIT, wait,
                         err);
    if (rc == 0 && r->stream)
        rc = read_number("Last-Event-ID", http_header(call->x, "Last-Event-ID"),
                         INT64_MAX - 1, &r->last, err);
    if (rc == 0 && !r->stream)
        rc = read_bool("latest", http_uri_find(uri, "latest"), &r->latest, err);
    for (int i = 0; rc == 0 && i < uri->n_pairs; i++)
        if (!is_known(uri->pair[i].key))
            rc = err_set(err, ERR_USAGE,
                         "%.60s: unknown parameter; known: after, job, latest, "
                         "limit, wait",
                         uri->pair[i].key);
    return rc;
}

static void
begin_stream(struct http_events *e, struct reader *r)
{
    static const char retry[] = "retry: 3000\n\n";

    http_keep(r->x)->ctx = r;
    http_keep(r->x)->gone = on_gone;
    http_stream_begin(r->x, "text/event-stream");
    say(r, retry, sizeof(retry) - 1);
    for (int i = 0; i < e->d->jobs.n; i++)
        if (may_see(r, e->d->jobs.v[i]))
            tell_job(e, r, e->d->jobs.v[i]);
}

static void
add_reader(struct http_events *e, struct reader *r, int64_t wait)
{
    r->owner = e;
    r->next = e->head;
    if (r->next != NULL)
        r->next->prev = r;
    else
        uv_timer_start(&e->tick, on_tick, TICK_MS, TICK_MS);
    e->head = r;
    r->until_ms = now_ms(e) + wait * 1000;
    if (r->stream) {
        begin_stream(e, r);
    } else {
        http_keep(r->x)->ctx = r;
        http_keep(r->x)->leave = on_gone;
    }
    ask(r);
}

/* Streams hold a connection for days: they get half of them at most. */
static bool
is_crowded(const struct http_events *e)
{
    int n = 0;

    for (const struct reader *r = e->head; r != NULL; r = r->next)
        n += r->stream;
    return n >= e->d->conf.http_max_connections / 2;
}

void
http_give_events(const struct http_call *call)
{
    struct http_events *e = http_api_events(call->api);
    const char *accept = http_header(call->x, "Accept");
    struct reader *r = calloc(1, sizeof(*r));
    int64_t wait = 0;
    struct err err;

    assert(r != NULL);
    err_clear(&err);
    r->x = call->x;
    r->peer = call->peer;
    r->stream = accept != NULL && strstr(accept, "text/event-stream") != NULL;
    r->limit = PAGE;
    /* Without a place to go on from, a stream begins with what comes. */
    if (r->stream)
        r->last = store_last_event(e->d->store);
    if (read_question(call, r, &wait, &err) == 0 && r->stream && is_crowded(e))
        err_set(&err, ERR_AGAIN, "too many streams are open already");
    if (err.code != 0) {
        free(r);
        http_problem(call->x, &err, NULL);
        return;
    }
    add_reader(e, r, wait);
}

/* ---- life -----------------------------------------------------------------*/

struct http_events *
http_events_create(struct daemon *d)
{
    struct http_events *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->d = d;
    uv_timer_init(d->loop, &e->tick);
    e->tick.data = e;
    return e;
}

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
http_events_destroy(struct http_events **ep)
{
    struct http_events *e = *ep;

    if (e == NULL)
        return;
    *ep = NULL;
    while (e->head != NULL)
        forget(e->head);
    uv_close((uv_handle_t *)&e->tick, on_closed);
}
