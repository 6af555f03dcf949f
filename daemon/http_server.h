/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server: libmicrohttpd inside the libuv loop, at one listening socket.
 *
 * Owns the socket, the connections and every exchange on them: one request
 * and its answer, which may be given at once or later, or as a stream. Knows
 * no route and no right; http_api.c does. Nothing blocks, nothing runs on
 * another thread. Bodies, connections and times are bounded.
 */
#ifndef DAEMON_HTTP_SERVER_H
#define DAEMON_HTTP_SERVER_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct http_server;
struct http_exchange;

struct http_server_options {
    uv_loop_t *loop;
    int fd;                   /* listening, not blocking; taken over */
    char *tls_cert, *tls_key; /* PEM text, or NULL; needed for opening only */
    int max_connections;
    size_t max_body;
    int64_t timeout_ms; /* without a byte; also for a whole body */
};
struct http_server_hooks {
    /* A whole request. It is to be answered, now or later. */
    void (*request)(void *ctx, struct http_exchange *x);
    /* The answer has been sent, or the client has gone; x is freed then. */
    void (*done)(void *ctx, const struct http_exchange *x);
    void *ctx;
};

int http_server_open(const struct http_server_options *options,
                     const struct http_server_hooks *hooks,
                     struct http_server **out, struct err *err);
/* What still waits for its answer is told to leave and answered 503. */
void http_server_close(struct http_server **server);
int http_server_connections(const struct http_server *server);

/* ---- the request; valid until it is done ----------------------------------*/

const char *http_method(const struct http_exchange *x); /* HEAD is "GET" */
const char *http_target(const struct http_exchange *x); /* as it was sent */
/* First of that name, or NULL; and how many there are. */
const char *http_header(const struct http_exchange *x, const char *name);
int http_count_headers(const struct http_exchange *x, const char *name);
const char *http_body(const struct http_exchange *x,
                      size_t *len); /* with NUL */
int http_socket(const struct http_exchange *x);
/* Seconds since it began to arrive. */
double http_seconds(const struct http_exchange *x);

/* What its handler keeps with it. `leave` is called when the server closes
 * before the answer; `gone` when a stream's client has gone or it was ended. */
struct http_keep {
    void *ctx;
    void (*leave)(void *ctx, struct http_exchange *x);
    void (*gone)(void *ctx, struct http_exchange *x);
    const char *route; /* pattern, a constant, for the record */
};
struct http_keep *http_keep(struct http_exchange *x);
const struct http_keep *http_kept(const struct http_exchange *x);

/* ---- the answer: exactly one ----------------------------------------------*/

/* Before the answer; the value is copied. At most 8. */
void http_add_header(struct http_exchange *x, const char *name,
                     const char *value);
/* body is malloc'd and taken; NULL: no memory, becomes a 507. */
void http_answer_take(struct http_exchange *x, int status, const char *type,
                      char *body, size_t len);
/* body lives for ever. */
void http_answer_fixed(struct http_exchange *x, int status, const char *type,
                       const void *body, size_t len);
/* len bytes of a regular file, from offset on; the descriptor is taken. */
void http_answer_file_take(struct http_exchange *x, int status,
                           const char *type, int fd, int64_t offset,
                           int64_t len);
int http_status(const struct http_exchange *x); /* 0: not yet */

/* A stream of text. Whoever reads too slowly is cut off. */
void http_stream_begin(struct http_exchange *x, const char *type);
/* false: it is over; gone has been or will be called. */
bool http_stream_put(struct http_exchange *x, const char *text, size_t len);
/* Nothing more comes; gone will be called. */
void http_stream_end(struct http_exchange *x);

#endif
