/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_api: from an HTTP request to the handler that the control socket has.
 *
 * Owns the two servers (Unix socket and TCP). Looks at each request in one
 * order: headers (http_guard.h), route (http_routes.def), who asks (peer
 * credentials or a token), scope, arguments; then the message's own rights
 * decide as they do for trainctl (command.h). Answers are views as JSON, with
 * an ETag; errors are problems (http_problem.h). What takes longer than the
 * caller waits is answered 202 with the job as it is.
 */
#ifndef DAEMON_HTTP_API_H
#define DAEMON_HTTP_API_H

#include "daemon/daemon.h"
#include "daemon/http_server.h"
#include "daemon/http_uri.h"
#include "daemon/listen.h"

struct http_api;

/* Servers as http.* of the configuration says; the local one on `local`
 * (bound; fd -1: none). *out is NULL when there is nothing to serve. */
int http_api_open(struct daemon *d, const struct listen *local,
                  struct http_api **out, struct err *err);
void http_api_close(struct http_api **api);
/* "http://127.0.0.1:9477/", or "" where TCP is not served. */
const char *http_api_url(const struct http_api *api);

/* How many are open, at both sockets. */
int http_api_connections(const struct http_api *api);

/* A job has changed, or its progress: for those who watch. */
void http_api_changed(struct http_api *api, const struct job *job);

/* ---- for the handlers that no message has ---------------------------------*/

struct http_call {
    struct daemon *d;
    struct http_api *api;
    struct http_exchange *x;
    const struct http_uri *uri;
    struct auth_peer peer;
};
typedef void http_call_fn(const struct http_call *call);

#define GIVE(method, pattern, handler, scope, doc)                             \
    http_call_fn http_give_##handler;
#define ASK(method, pattern, field, message, scope, doc)
#include "daemon/http_routes.def"
#undef GIVE
#undef ASK

/* 200 with an ETag, or 304 when the client has it already. Takes body. */
void http_api_answer_json(struct http_exchange *x, int status, char *body,
                          size_t len);
struct http_events;
struct http_events *http_api_events(struct http_api *api);

#endif
