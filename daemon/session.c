/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "proto/frame.h"

#define SESSION_MAGIC   0x53455353u
#define READ_BUF_BYTES  (64 * 1024)
#define MAX_REQUESTS    32
#define NOTICE_ROOM     (256 * 1024)  /* notices only below this */
#define READ_HIGH_BYTES (1024 * 1024) /* no more is read above this */
#define READ_LOW_BYTES  (128 * 1024)
#define LINGER_MS       1000 /* after a refusal that ends a connection */
#define LINGER_BYTES    (1024 * 1024)

struct session {
    unsigned magic;
    uv_pipe_t pipe;
    struct session_options o;
    struct session_hooks hooks;
    struct auth_peer peer;
    struct frame_reader *reader; /* owned */
    struct request *requests;
    int n_requests;
    uint64_t n_fed, n_taken; /* bytes that arrived, bytes of whole frames */
    int64_t active_ms;       /* last sign of the client */
    int64_t partial_ms;      /* since when half a request is there, 0 = none */
    int64_t progress_ms;     /* last time something was sent */
    bool reading, lingering, closing;
    uint64_t n_lingered;
    int64_t linger_ms;
    char *buf; /* owned */
};

struct out_frame {
    uv_write_t req;
    struct session *session;
    uint8_t header[FRAME_HEADER_BYTES];
    char *text; /* owned */
};

static void start_reading(struct session *s);

static int64_t
now_ms(const struct session *s)
{
    return (int64_t)uv_now(s->o.loop);
}

/* ---- out ------------------------------------------------------------------*/

static void
on_sent(uv_write_t *req, int status)
{
    struct out_frame *f = req->data;
    struct session *s = f->session;

    free(f->text);
    free(f);
    if (s->closing)
        return;
    s->progress_ms = now_ms(s);
    if (status != 0)
        session_close(s);
    else if (!s->reading && !s->lingering &&
             uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) <
                 READ_LOW_BYTES)
        start_reading(s);
}

void
session_send_take(struct session *s, char *text, size_t len)
{
    struct out_frame *f = calloc(1, sizeof(*f));
    uv_buf_t bufs[2];

    assert(s->magic == SESSION_MAGIC);
    if (f == NULL || text == NULL || len > FRAME_MAX_BYTES || s->closing) {
        free(text);
        free(f);
        session_close(s);
        return;
    }
    if (uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) == 0)
        s->progress_ms = now_ms(s);
    f->session = s;
    f->text = text;
    f->req.data = f;
    frame_write_header(f->header, len);
    bufs[0] = uv_buf_init((char *)f->header, FRAME_HEADER_BYTES);
    bufs[1] = uv_buf_init(text, (unsigned)len);
    if (uv_write(&f->req, (uv_stream_t *)&s->pipe, bufs, 2, on_sent) != 0) {
        free(f->text);
        free(f);
        session_close(s);
    }
}

bool
session_has_room(const struct session *s)
{
    return !s->closing && !s->lingering &&
           uv_stream_get_write_queue_size((const uv_stream_t *)&s->pipe) <
               NOTICE_ROOM;
}

static void
send_refusal(struct session *s, int64_t id, const struct err *err)
{
    size_t len;
    char *text = codec_write_refusal(id, err, NULL, &len);

    session_send_take(s, text, len);
}

/* The end of a conversation gone wrong. What is still arriving is read and
 * thrown away for a moment: closing over unread bytes would look like a reset
 * to the client. */
void
session_refuse(struct session *s, const struct err *err)
{
    assert(s->magic == SESSION_MAGIC);
    if (s->closing || s->lingering)
        return;
    send_refusal(s, 0, err);
    s->lingering = true;
    s->linger_ms = now_ms(s);
    if (!s->closing && !s->reading)
        start_reading(s);
}

/* ---- in -------------------------------------------------------------------*/

static void
take_request(struct session *s, const struct codec_envelope *e,
             struct codec_doc **doc)
{
    struct request *r;
    struct err err;

    if (s->n_requests >= MAX_REQUESTS) {
        err_set(&err, ERR_AGAIN, "%d requests are under way already",
                s->n_requests);
        send_refusal(s, e->id, &err);
        return;
    }
    for (r = s->requests; r != NULL; r = r->next)
        if (r->id == e->id) {
            err_set(&err, ERR_PROTO, "request %lld is under way already",
                    (long long)e->id);
            session_refuse(s, &err);
            return;
        }
    r = request_create(s, e->id, e->message, &s->peer);
    if (r == NULL) {
        session_close(s);
        return;
    }
    r->doc = *doc;
    *doc = NULL;
    s->hooks.request(s->hooks.ctx, r);
}

static void
take_frame(struct session *s, const char *text, size_t len)
{
    struct codec_envelope e;
    struct codec_doc *doc = NULL;
    struct err err;

    err_clear(&err);
    if (codec_open(text, len, &e, &doc, &err) != 0) {
        /* With a number it is a request gone wrong, without it is noise. */
        if (e.id > 0)
            send_refusal(s, e.id, &err);
        else
            session_refuse(s, &err);
        return;
    }
    if (e.kind == CODEC_REQUEST) {
        take_request(s, &e, &doc);
    } else if (e.kind == CODEC_CREDIT) {
        s->hooks.credit(s->hooks.ctx, s, e.id, e.credit);
    } else {
        err_set(&err, ERR_PROTO, "a client sends requests and credit");
        session_refuse(s, &err);
    }
    codec_doc_close(&doc);
}

static void
take_frames(struct session *s)
{
    const char *text;
    size_t len;

    while (!s->closing && !s->lingering &&
           (text = frame_reader_next(s->reader, &len)) != NULL) {
        s->n_taken += len + FRAME_HEADER_BYTES;
        take_frame(s, text, len);
    }
    if (s->n_fed == s->n_taken)
        s->partial_ms = 0;
    else if (s->partial_ms == 0)
        s->partial_ms = now_ms(s);
}

static void
on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct session *s = handle->data;

    (void)size;
    *buf = uv_buf_init(s->buf, READ_BUF_BYTES);
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct session *s = stream->data;
    struct err err;

    assert(s->magic == SESSION_MAGIC);
    if (n == 0 || s->closing)
        return;
    if (n < 0) {
        session_close(s);
        return;
    }
    if (s->lingering) {
        s->n_lingered += (uint64_t)n;
        if (s->n_lingered > LINGER_BYTES)
            session_close(s);
        return;
    }
    s->active_ms = now_ms(s);
    s->n_fed += (uint64_t)n;
    err_clear(&err);
    if (frame_reader_feed(s->reader, buf->base, (size_t)n, &err) != 0) {
        take_frames(s);
        session_refuse(s, &err);
        return;
    }
    take_frames(s);
    if (!s->closing && s->reading && !s->lingering &&
        uv_stream_get_write_queue_size(stream) > READ_HIGH_BYTES) {
        uv_read_stop(stream);
        s->reading = false;
    }
}

static void
start_reading(struct session *s)
{
    if (uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read) == 0)
        s->reading = true;
    else
        session_close(s);
}

/* ---- life -----------------------------------------------------------------*/

void
session_link(struct session *s, struct request *r)
{
    assert(s->magic == SESSION_MAGIC);
    r->session = s;
    r->next = s->requests;
    if (r->next != NULL)
        r->next->prev = r;
    s->requests = r;
    s->n_requests++;
}

void
session_unlink(struct session *s, struct request *r)
{
    assert(s->magic == SESSION_MAGIC && r->session == s);
    if (r->prev != NULL)
        r->prev->next = r->next;
    else
        s->requests = r->next;
    if (r->next != NULL)
        r->next->prev = r->prev;
    r->session = NULL;
    r->next = r->prev = NULL;
    s->n_requests--;
    s->active_ms = now_ms(s);
}

void
session_answered(struct session *s, enum message_id message, int code)
{
    assert(s->magic == SESSION_MAGIC);
    s->hooks.answered(s->hooks.ctx, message, code);
}

static void
on_closed(uv_handle_t *handle)
{
    struct session *s = handle->data;

    frame_reader_destroy(&s->reader);
    free(s->buf);
    s->magic = 0;
    free(s);
}

void
session_close(struct session *s)
{
    assert(s->magic == SESSION_MAGIC);
    if (s->closing)
        return;
    s->closing = true;
    while (s->requests != NULL) {
        struct request *r = s->requests;

        session_unlink(s, r);
        if (r->gone != NULL)
            r->gone(r->ctx, r);
    }
    s->hooks.closed(s->hooks.ctx, s);
    uv_close((uv_handle_t *)&s->pipe, on_closed);
}

void
session_check(struct session *s)
{
    int64_t now = now_ms(s);
    bool waits_for_reader =
        uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) > 0;

    assert(s->magic == SESSION_MAGIC);
    if (s->closing)
        return;
    if (s->lingering) {
        if (now - s->linger_ms > LINGER_MS)
            session_close(s);
    } else if (s->partial_ms != 0 && s->reading &&
               now - s->partial_ms > s->o.request_timeout_ms) {
        log_info("client of uid %u: half a request, closed",
                 (unsigned)s->peer.uid);
        session_close(s);
    } else if (s->n_requests == 0 &&
               now - (waits_for_reader ? s->progress_ms : s->active_ms) >
                   s->o.idle_timeout_ms) {
        session_close(s);
    }
}

const struct auth_peer *
session_peer(const struct session *s)
{
    return &s->peer;
}

static void
say_hello(struct session *s)
{
    struct view_hello hello = *s->o.hello;
    size_t len;
    char *text;

    hello.uid = s->peer.uid;
    text = codec_write_hello(&hello, &len);
    session_send_take(s, text, len);
}

struct session *
session_accept(uv_stream_t *listener, const struct session_options *o,
               const struct session_hooks *hooks, const char *admin_group)
{
    struct session *s = calloc(1, sizeof(*s));
    struct err err;
    uv_os_fd_t fd;

    if (s == NULL)
        return NULL;
    s->magic = SESSION_MAGIC;
    s->o = *o;
    s->hooks = *hooks;
    s->buf = malloc(READ_BUF_BYTES);
    s->reader = frame_reader_create(o->max_message);
    uv_pipe_init(o->loop, &s->pipe, 0);
    s->pipe.data = s;
    s->active_ms = s->progress_ms = now_ms(s);
    if (s->buf == NULL || s->reader == NULL ||
        uv_accept(listener, (uv_stream_t *)&s->pipe) != 0) {
        s->closing = true;
        uv_close((uv_handle_t *)&s->pipe, on_closed);
        return NULL;
    }
    err_clear(&err);
    if (uv_fileno((uv_handle_t *)&s->pipe, &fd) != 0 ||
        auth_identify(fd, admin_group, &s->peer, &err) != 0) {
        session_refuse(s, &err);
    } else {
        say_hello(s);
        if (!s->closing)
            start_reading(s);
    }
    /* Closed already: it frees itself. */
    return s->closing ? NULL : s;
}
