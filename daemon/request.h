/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request: one question of a client on its way to its answer.
 *
 * Came in by a door: the control socket (session.h) or HTTP, which takes the
 * answer back. Belongs to whoever handles it until request_reply(),
 * request_refuse() or request_drop() takes it away. The client may go first:
 * then the answer goes nowhere, and a handler that waits (set by
 * request_watch()) is told, so that it lets go. Loop's thread.
 */
#ifndef DAEMON_REQUEST_H
#define DAEMON_REQUEST_H

#include "daemon/auth.h"
#include "proto/codec.h"

struct session;
struct request;

typedef void request_gone_fn(void *ctx, struct request *request);

/* Another door than the control socket. Exactly one of these is called, once,
 * unless request_leave() came before. */
struct request_door {
    void (*reply)(void *ctx, const struct request *request, const void *items,
                  int n, bool more);
    void (*refuse)(void *ctx, const struct request *request,
                   const struct err *err, const struct spec_faults *faults);
    void (*dropped)(void *ctx);
};

struct request {
    unsigned magic;
    struct session *session;         /* NULL: another door, or gone */
    const struct request_door *door; /* NULL: the control socket, or gone */
    void *door_ctx;
    struct request *next, *prev; /* among those of the session */
    int64_t id;
    enum message_id message;
    struct auth_peer peer;
    struct codec_doc *doc; /* owned; args live in it */
    void *memory;          /* owned, malloc'd; so they may in this */
    union {
        struct view_incident_ref incident_ref;
        struct view_job_ref job_ref;
        struct view_submit submit;
        struct view_validate validate;
        struct view_list list;
        struct view_query query;
        struct view_rollback rollback;
        struct view_cancel cancel;
        struct view_wait wait;
        struct view_follow follow;
        struct view_priority priority;
        struct view_events_query events_query;
        struct view_token_new token_new;
        struct view_token_ref token_ref;
    } args;
    request_gone_fn *gone; /* NULL: nobody waits */
    void *ctx;
};

struct request *request_create(struct session *session, int64_t id,
                               enum message_id message,
                               const struct auth_peer *peer);

/* Through another door, with its arguments filled in: doc (taken) and args are
 * set by the caller afterwards. */
struct request *request_create_at(const struct request_door *door, void *ctx,
                                  enum message_id message,
                                  const struct auth_peer *peer);
/* Whoever stands at the other door goes: no answer is wanted any more. */
void request_leave(struct request *request);

/* items: n structs of the reply's view; too many for a frame become fewer with
 * more set. */
void request_reply(struct request *request, const void *items, int n,
                   bool more);
/* An answer that was encoded before (malloc'd). */
void request_reply_take(struct request *request, char *text, size_t len);
void request_refuse(struct request *request, const struct err *err,
                    const struct spec_faults *faults);
/* false: the client has gone, or its queue is full. */
bool request_notice(struct request *request, const struct view_notice *notice);
/* Without an answer. */
void request_drop(struct request *request);

/* Calls fn when the client goes; fn must drop the request. */
void request_watch(struct request *request, request_gone_fn *fn, void *ctx);

#endif
