/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/request.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/session.h"
#include "proto/frame.h"

#define REQUEST_MAGIC 0x52455153u

struct request *
request_create(struct session *session, int64_t id, enum message_id message,
               const struct auth_peer *peer)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->magic = REQUEST_MAGIC;
    r->id = id;
    r->message = message;
    r->peer = *peer;
    session_link(session, r);
    return r;
}

struct request *
request_create_at(const struct request_door *door, void *ctx,
                  enum message_id message, const struct auth_peer *peer)
{
    struct request *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->magic = REQUEST_MAGIC;
    r->message = message;
    r->peer = *peer;
    r->door = door;
    r->door_ctx = ctx;
    view_init(message_table[message].request, &r->args);
    return r;
}

void
request_leave(struct request *r)
{
    assert(r->magic == REQUEST_MAGIC && r->door != NULL);
    r->door = NULL;
    if (r->gone != NULL)
        r->gone(r->ctx, r);
}

void
request_drop(struct request *r)
{
    assert(r->magic == REQUEST_MAGIC);
    if (r->session != NULL)
        session_unlink(r->session, r);
    if (r->door != NULL)
        r->door->dropped(r->door_ctx);
    codec_doc_close(&r->doc);
    free(r->memory);
    r->magic = 0;
    free(r);
}

/* code: 0, or what it is refused with. */
static void
answer_take(struct request *r, int code, char *text, size_t len)
{
    assert(r->magic == REQUEST_MAGIC);
    if (r->session != NULL) {
        session_answered(r->session, r->message, code);
        session_send_take(r->session, text, len);
    } else {
        free(text);
    }
    request_drop(r);
}

void
request_reply_take(struct request *r, char *text, size_t len)
{
    answer_take(r, 0, text, len);
}

void
request_reply(struct request *r, const void *items, int n, bool more)
{
    size_t len = 0;
    char *text;

    assert(r->magic == REQUEST_MAGIC);
    if (r->session == NULL) {
        const struct request_door *door = r->door;

        r->door = NULL;
        if (door != NULL)
            door->reply(r->door_ctx, r, items, n, more);
        request_drop(r);
        return;
    }
    text = codec_write_reply(r->id, r->message, items, n, more, &len);
    while (text != NULL && len > FRAME_MAX_BYTES && n > 1) {
        free(text);
        n /= 2;
        text = codec_write_reply(r->id, r->message, items, n, true, &len);
    }
    request_reply_take(r, text, len);
}

void
request_refuse(struct request *r, const struct err *err,
               const struct spec_faults *faults)
{
    const struct request_door *door = r->door;
    size_t len;
    char *text;

    assert(r->magic == REQUEST_MAGIC);
    if (r->session == NULL) {
        r->door = NULL;
        if (door != NULL)
            door->refuse(r->door_ctx, r, err, faults);
        request_drop(r);
        return;
    }
    text = codec_write_refusal(r->id, err, faults, &len);
    answer_take(r, err->code, text, len);
}

bool
request_notice(struct request *r, const struct view_notice *notice)
{
    size_t len;
    char *text;

    assert(r->magic == REQUEST_MAGIC);
    if (r->session == NULL || !session_has_room(r->session))
        return false;
    text = codec_write_notice(r->id, notice, &len);
    session_send_take(r->session, text, len);
    return true;
}

void
request_watch(struct request *r, request_gone_fn *fn, void *ctx)
{
    assert(r->magic == REQUEST_MAGIC);
    r->gone = fn;
    r->ctx = ctx;
}
