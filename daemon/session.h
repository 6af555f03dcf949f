/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session: one connection on the control socket.
 *
 * Owns the socket, what has arrived and what waits to be sent, and knows the
 * requests that are under way. Says hello at once. A frame that is none gets a
 * refusal and the connection ends; so does a request that does not arrive
 * whole in time, and a connection that asks for nothing. While much waits to
 * be sent nothing more is read. Knows no message's meaning: command.c does.
 */
#ifndef DAEMON_SESSION_H
#define DAEMON_SESSION_H

#include "daemon/request.h"

#include <uv.h>

struct session_options {
    uv_loop_t *loop;
    size_t max_message;
    int64_t idle_timeout_ms, request_timeout_ms;
    const struct view_hello *hello; /* uid is filled in; borrowed for good */
};
struct session_hooks {
    /* The request is the callee's. */
    void (*request)(void *ctx, struct request *request);
    void (*credit)(void *ctx, struct session *session, int64_t id, int64_t n);
    /* A request was answered: 0, or refused with an enum err_code. */
    void (*answered)(void *ctx, enum message_id message, int code);
    /* It is closed and will be freed. */
    void (*closed)(void *ctx, struct session *session);
    void *ctx;
};

/* Accepts from the listening pipe. NULL: nothing to accept. */
struct session *session_accept(uv_stream_t *listener,
                               const struct session_options *options,
                               const struct session_hooks *hooks,
                               const char *admin_group);
/* Says why, in a refusal, and ends the connection. */
void session_refuse(struct session *session, const struct err *err);
void session_close(struct session *session);
/* Looks at the clocks. */
void session_check(struct session *session);

const struct auth_peer *session_peer(const struct session *session);

/* For request.c. */
void session_link(struct session *session, struct request *request);
void session_unlink(struct session *session, struct request *request);
/* NULL text (no memory) closes the session: an answer must not be missing. */
void session_send_take(struct session *session, char *text, size_t len);
void session_answered(struct session *session, enum message_id message,
                      int code);
bool session_has_room(const struct session *session);

#endif
