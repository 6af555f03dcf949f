/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_ask.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "daemon/command.h"
#include "daemon/http_args.h"
#include "daemon/http_problem.h"

#define TICK_MS      200
#define DEFAULT_WAIT 20
#define MOST_WAIT    600

#define KEY_MAX 200

/* What a request's arguments point into; it may outlive the exchange. */
struct memory {
    struct http_uri uri;
    char key[KEY_MAX + 1]; /* of idempotency */
    char body[];
};

struct ask {
    struct http_asks *owner;
    struct ask *next, *prev;
    struct http_exchange *x;
    struct request *request;
    char *job;           /* owned: as the path names it */
    int64_t deadline_ms; /* 0: none */
    int status;          /* of a good answer */
};

struct http_asks {
    struct daemon *d;
    struct ask *head;
    uv_timer_t tick;
};

/* ---- answers --------------------------------------------------------------*/

void
http_api_answer_json(struct http_exchange *x, int status, char *body,
                     size_t len)
{
    const char *known = http_header(x, "If-None-Match");
    char etag[24];

    if (body != NULL && status == 200 && strcmp(http_method(x), "GET") == 0) {
        snprintf(etag, sizeof(etag), "\"%016" PRIx64 "\"",
                 (uint64_t)XXH3_64bits(body, len));
        http_add_header(x, "ETag", etag);
        if (known != NULL && strcmp(known, etag) == 0) {
            free(body);
            http_answer_fixed(x, 304, NULL, "", 0);
            return;
        }
    }
    http_answer_take(x, status, "application/json", body, len);
}

static void
unlink_ask(struct ask *a)
{
    if (a->prev != NULL)
        a->prev->next = a->next;
    else
        a->owner->head = a->next;
    if (a->next != NULL)
        a->next->prev = a->prev;
    if (a->owner->head == NULL)
        uv_timer_stop(&a->owner->tick);
    free(a->job);
    free(a);
}

static void
on_reply(void *ctx, const struct request *request, const void *items, int n,
         bool more)
{
    const struct message *m = &message_table[request->message];
    struct ask *a = ctx;
    char *body, location[48];
    size_t len = 0;

    if (m->shape == MESSAGE_MANY) {
        body = codec_write_page(m->reply, items, n, more, &len);
    } else {
        assert(n == 1);
        body = codec_write_view(m->reply, items, 0, &len);
    }
    if (request->message == MESSAGE_ID_submit) {
        const struct view_job *job = items;

        snprintf(location, sizeof(location), "/v1/jobs/%" PRId64, job->id);
        http_add_header(a->x, "Location", location);
    }
    http_keep(a->x)->leave = NULL;
    http_api_answer_json(a->x, a->status, body, len);
    unlink_ask(a);
}

static void
on_refuse(void *ctx, const struct request *request, const struct err *err,
          const struct spec_faults *faults)
{
    struct ask *a = ctx;

    (void)request;
    http_keep(a->x)->leave = NULL;
    http_problem(a->x, err, faults);
    unlink_ask(a);
}

static void
on_dropped(void *ctx)
{
    struct ask *a = ctx;
    struct err err;

    err_set(&err, ERR_AGAIN, "the daemon goes down; ask again later");
    http_keep(a->x)->leave = NULL;
    http_problem(a->x, &err, NULL);
    unlink_ask(a);
}

static const struct request_door door = {on_reply, on_refuse, on_dropped};

/* The server closes over it. */
static void
on_leave(void *ctx, struct http_exchange *x)
{
    struct ask *a = ctx;

    (void)x;
    request_leave(a->request);
    unlink_ask(a);
}

/* ---- too long -------------------------------------------------------------*/

/* What was asked for goes on without us; the answer is the job as it is. */
static void
answer_meanwhile(struct ask *a)
{
    struct request *status =
        request_create_at(&door, a, MESSAGE_ID_status, &a->request->peer);

    assert(status != NULL);
    status->memory = a->job;
    status->args.job_ref.job = a->job;
    a->job = NULL;
    request_leave(a->request);
    a->request = status;
    a->deadline_ms = 0;
    a->status = 202;
    command_run(a->owner->d, status);
}

static void
on_tick(uv_timer_t *timer)
{
    struct http_asks *asks = timer->data;
    int64_t now = (int64_t)uv_now(timer->loop);
    struct ask *next;

    for (struct ask *a = asks->head; a != NULL; a = next) {
        next = a->next;
        if (a->deadline_ms != 0 && now >= a->deadline_ms)
            answer_meanwhile(a);
    }
}

/* ---- questions ------------------------------------------------------------*/

/* The body is the spec itself, so that places in it are those of the sender's
 * text. */
static int
fill_spec(struct request *r, const struct http_call *call, struct memory *m,
          struct err *err)
{
    const char *key = http_header(call->x, "Idempotency-Key");

    if (m->body[0] == '\0')
        return err_set(err, ERR_USAGE, "the body must be a job spec");
    if (r->message == MESSAGE_ID_validate) {
        r->args.validate.spec = m->body;
        return 0;
    }
    if (key != NULL && strlen(key) > KEY_MAX)
        return err_set(err, ERR_USAGE, "Idempotency-Key: longer than %d bytes",
                       KEY_MAX);
    snprintf(m->key, sizeof(m->key), "%s", key != NULL ? key : "");
    r->args.submit.spec = m->body;
    r->args.submit.idempotency_key = m->key;
    r->args.submit.origin = "http";
    return 0;
}

/* All that the query of a submit may say. */
static int
fill_priority(struct request *r, const struct http_uri *uri, struct err *err)
{
    for (int i = 0; i < uri->n_pairs; i++)
        if (r->message != MESSAGE_ID_submit ||
            strcmp(uri->pair[i].key, "priority") != 0)
            return err_set(err, ERR_USAGE, "%.60s: unknown parameter",
                           uri->pair[i].key);
    if (uri->n_pairs == 0)
        return 0;
    return http_args_set(VIEW_ID_submit, "priority", uri->pair[0].value,
                         &r->args, err);
}

static const char *const no_words[] = {NULL};
static const char *const patience[] = {"wait", "timeout", NULL};

/* Parameters that are the transport's and not the message's. */
static const char *const *
own_words(const struct message *m)
{
    return m->shape == MESSAGE_LATER ? patience : no_words;
}

static int
fill(struct request *r, const struct http_call *call,
     const struct http_route *route, struct memory *m, size_t len,
     struct err *err)
{
    const struct message *message = &message_table[r->message];
    bool is_spec =
        r->message == MESSAGE_ID_submit || r->message == MESSAGE_ID_validate;
    int rc = http_uri_parse(http_target(call->x), &m->uri, err);

    if (rc == 0 && memchr(m->body, '\0', len) != NULL)
        rc = err_set(err, ERR_USAGE, "the body has a NUL byte");
    if (rc == 0 && is_spec)
        rc = fill_spec(r, call, m, err);
    else if (rc == 0 && len > 0)
        rc = codec_read_args(m->body, len, message->request, &r->args, &r->doc,
                             err);
    if (rc == 0 && route->field[0] != '\0')
        rc = http_args_set(message->request, route->field, m->uri.segment[2],
                           &r->args, err);
    if (rc == 0 && is_spec)
        rc = fill_priority(r, &m->uri, err);
    else if (rc == 0)
        rc = http_args_query(&m->uri, message->request, own_words(message),
                             &r->args, err);
    /* A body that is no JSON is the caller's fault, not the protocol's. */
    if (rc == ERR_PROTO)
        err->code = rc = ERR_USAGE;
    return rc;
}

static int
read_patience(const struct http_call *call, int64_t *seconds, struct err *err)
{
    *seconds = DEFAULT_WAIT;
    for (int i = 0; patience[i] != NULL; i++) {
        const char *text = http_uri_find(call->uri, patience[i]);
        char *end;

        if (text == NULL)
            continue;
        *seconds = strtoll(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0' ||
            *seconds > MOST_WAIT)
            return err_set(err, ERR_USAGE, "%s: seconds, at most %d",
                           patience[i], MOST_WAIT);
    }
    return 0;
}

static int
prepare(struct ask *a, const struct http_call *call,
        const struct http_route *route, const char *id, struct err *err)
{
    const struct message *message = &message_table[route->message];
    struct http_asks *asks = a->owner;
    const char *body;
    struct memory *m;
    int64_t seconds;
    size_t len;
    int rc;

    body = http_body(call->x, &len);
    m = calloc(1, sizeof(*m) + len + 1);
    a->request = m == NULL
                     ? NULL
                     : request_create_at(&door, a, route->message, &call->peer);
    a->job = strdup(id);
    if (a->request == NULL || a->job == NULL) {
        free(m);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    a->request->memory = m;
    memcpy(m->body, body, len);
    rc = fill(a->request, call, route, m, len, err);
    if (rc == 0 && message->shape == MESSAGE_LATER) {
        rc = read_patience(call, &seconds, err);
        a->deadline_ms = (int64_t)uv_now(asks->tick.loop) + seconds * 1000 + 1;
    }
    a->status = route->message == MESSAGE_ID_submit ? 201 : 200;
    return rc;
}

void
http_ask(struct http_asks *asks, const struct http_call *call,
         const struct http_route *route, const char *id)
{
    struct ask *a = calloc(1, sizeof(*a));
    struct err err;

    assert(a != NULL);
    a->owner = asks;
    a->x = call->x;
    a->next = asks->head;
    if (a->next != NULL)
        a->next->prev = a;
    else
        uv_timer_start(&asks->tick, on_tick, TICK_MS, TICK_MS);
    asks->head = a;
    http_keep(call->x)->ctx = a;
    http_keep(call->x)->leave = on_leave;
    err_clear(&err);
    if (prepare(a, call, route, id, &err) == 0)
        command_run(asks->d, a->request);
    else if (a->request != NULL)
        request_refuse(a->request, &err, NULL);
    else
        on_refuse(a, NULL, &err, NULL);
}

struct http_asks *
http_asks_create(struct daemon *d)
{
    struct http_asks *asks = calloc(1, sizeof(*asks));

    if (asks == NULL)
        return NULL;
    asks->d = d;
    uv_timer_init(d->loop, &asks->tick);
    asks->tick.data = asks;
    return asks;
}

static void
on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
http_asks_destroy(struct http_asks **ap)
{
    struct http_asks *asks = *ap;

    if (asks == NULL)
        return;
    assert(asks->head == NULL);
    *ap = NULL;
    uv_close((uv_handle_t *)&asks->tick, on_closed);
}
