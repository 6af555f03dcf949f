/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_exchange: one request on its way in and its answer on its way out.
 *
 * Private to http_server.c and http_exchange.c. Owned by its connection until
 * libmicrohttpd says that it is completed.
 */
#ifndef DAEMON_HTTP_EXCHANGE_H
#define DAEMON_HTTP_EXCHANGE_H

#include "daemon/http_server.h"

#include <microhttpd.h>

#define HTTP_MAX_HEADERS 8

struct http_exchange {
    unsigned magic;
    struct http_server *server;
    struct http_exchange *next, *prev;
    struct MHD_Connection *connection; /* NULL before the first call */
    char *target, *body;               /* owned */
    size_t len, cap;
    size_t n_body; /* bytes of it that came, kept or not */
    bool too_large;
    char method[12];
    uint64_t begin_ns;
    bool handed_on; /* the handler has it */
    bool suspended;
    struct MHD_Response *response; /* owned; NULL: none yet */
    int status;
    struct {
        char *name, *value; /* owned */
    } header[HTTP_MAX_HEADERS];
    int n_headers;
    struct http_keep keep;
    /* of a stream */
    bool streaming, cut_off, ending;
    char *out; /* owned */
    size_t out_len, out_cap;
};

/* NULL: no memory. */
struct http_exchange *http_exchange_create(struct http_server *server,
                                           const char *target);
/* The server closes: whoever has the request lets go of it. */
void http_exchange_leave(struct http_exchange *x);
/* false: no memory, or more than `most` bytes. */
bool http_exchange_take_body(struct http_exchange *x, const char *data,
                             size_t n, size_t most);
void http_exchange_free(struct http_exchange *x);
/* Something can go on: the server runs soon (http_server.c). */
void http_server_kick(struct http_server *server);

#endif
