/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/frame.h"

#define LINK_MAGIC     0x4c494e4bu
#define REPORT_MAX     (64 * 1024)
#define ORDER_QUEUE    (64 * 1024)
#define READ_BUF_BYTES (64 * 1024)

struct worker_link {
    unsigned magic;
    uv_pipe_t pipe;
    struct worker_link_hooks hooks;
    struct frame_reader *reader; /* owned */
    bool broken, dead;
    char buf[READ_BUF_BYTES];
};

struct out_frame {
    uv_write_t req;
    uint8_t header[FRAME_HEADER_BYTES];
    char *text; /* owned */
};

static void
on_sent(uv_write_t *req, int status)
{
    struct out_frame *f = req->data;

    (void)status; /* a dead worker is noticed by its exit */
    free(f->text);
    free(f);
}

static void
send_take(struct worker_link *link, char *text, size_t len)
{
    struct out_frame *f = calloc(1, sizeof(*f));
    uv_buf_t bufs[2];

    if (f == NULL || text == NULL || len > FRAME_MAX_BYTES) {
        free(text);
        free(f);
        return;
    }
    f->text = text;
    f->req.data = f;
    frame_write_header(f->header, len);
    bufs[0] = uv_buf_init((char *)f->header, FRAME_HEADER_BYTES);
    bufs[1] = uv_buf_init(text, (unsigned)len);
    if (uv_write(&f->req, (uv_stream_t *)&link->pipe, bufs, 2, on_sent) != 0) {
        free(f->text);
        free(f);
    }
}

static void
break_link(struct worker_link *link, const struct err *err)
{
    if (link->broken)
        return;
    link->broken = true;
    uv_read_stop((uv_stream_t *)&link->pipe);
    link->hooks.garbage(link->hooks.ctx, err);
}

static int
take_report(struct worker_link *link, struct codec_doc *doc,
            const struct codec_envelope *envelope, struct err *err)
{
    struct view_checkin checkin;
    struct view_beat beat;
    int rc;

    if (envelope->kind != CODEC_ONE_WAY ||
        (envelope->message != MESSAGE_ID_checkin &&
         envelope->message != MESSAGE_ID_beat))
        return err_set(err, ERR_PROTO, "a worker reports checkin and beat");
    if (envelope->message == MESSAGE_ID_checkin) {
        rc = codec_read(doc, 0, VIEW_ID_checkin, &checkin, err);
        if (rc == 0)
            link->hooks.checkin(link->hooks.ctx, &checkin);
    } else {
        rc = codec_read(doc, 0, VIEW_ID_beat, &beat, err);
        if (rc == 0)
            link->hooks.beat(link->hooks.ctx, &beat);
    }
    return rc;
}

static void
take_frames(struct worker_link *link)
{
    const char *text;
    size_t len;
    int rc = 0;

    while (rc == 0 && !link->dead &&
           (text = frame_reader_next(link->reader, &len)) != NULL) {
        struct codec_envelope envelope;
        struct codec_doc *doc = NULL;
        struct err err;

        err_clear(&err);
        rc = codec_open(text, len, &envelope, &doc, &err);
        if (rc == 0)
            rc = take_report(link, doc, &envelope, &err);
        codec_doc_close(&doc);
        if (rc != 0 && !link->dead)
            break_link(link, &err);
    }
}

static void
on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct worker_link *link = handle->data;

    (void)size;
    *buf = uv_buf_init(link->buf, sizeof(link->buf));
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct worker_link *link = stream->data;
    struct err err;

    assert(link->magic == LINK_MAGIC);
    if (n == 0 || link->dead)
        return;
    if (n < 0) {
        /* EOF: its exit follows, and that is what counts. */
        uv_read_stop(stream);
        return;
    }
    err_clear(&err);
    if (frame_reader_feed(link->reader, buf->base, (size_t)n, &err) != 0) {
        take_frames(link);
        if (!link->dead)
            break_link(link, &err);
        return;
    }
    take_frames(link);
}

void
worker_link_start(struct worker_link *link, const struct view_start *start)
{
    size_t len;
    char *text = codec_write_one_way(MESSAGE_ID_start, start, &len);

    assert(link->magic == LINK_MAGIC);
    send_take(link, text, len);
}

bool
worker_link_order(struct worker_link *link, const char *order, int64_t token)
{
    struct view_order view;
    size_t len;
    char *text;

    assert(link->magic == LINK_MAGIC);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&link->pipe) >
        ORDER_QUEUE + SPEC_MAX_BYTES)
        return false;
    view_init(VIEW_ID_order, &view);
    view.order = order;
    view.token = token;
    text = codec_write_one_way(MESSAGE_ID_order, &view, &len);
    send_take(link, text, len);
    return text != NULL;
}

static void
on_closed(uv_handle_t *handle)
{
    struct worker_link *link = handle->data;

    frame_reader_destroy(&link->reader);
    link->magic = 0;
    free(link);
}

struct worker_link *
worker_link_create_take(uv_loop_t *loop, int fd,
                        const struct worker_link_hooks *hooks, struct err *err)
{
    struct worker_link *link = calloc(1, sizeof(*link));
    int rc;

    if (link != NULL)
        link->reader = frame_reader_create(REPORT_MAX);
    if (link == NULL || link->reader == NULL) {
        err_set(err, ERR_NOMEM, "worker's socket: out of memory");
        free(link);
        close(fd);
        return NULL;
    }
    link->magic = LINK_MAGIC;
    link->hooks = *hooks;
    uv_pipe_init(loop, &link->pipe, 0);
    link->pipe.data = link;
    rc = uv_pipe_open(&link->pipe, fd);
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read);
    if (rc != 0) {
        err_set(err, ERR_IO, "worker's socket: %s", uv_strerror(rc));
        worker_link_destroy(&link);
        return NULL;
    }
    return link;
}

void
worker_link_destroy(struct worker_link **linkp)
{
    struct worker_link *link = *linkp;

    if (link == NULL)
        return;
    assert(link->magic == LINK_MAGIC && !link->dead);
    *linkp = NULL;
    link->dead = true;
    uv_close((uv_handle_t *)&link->pipe, on_closed);
}
