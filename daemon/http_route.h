/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_route: which operation a method and a path name.
 *
 * Pure, over the table of http_routes.def.
 */
#ifndef DAEMON_HTTP_ROUTE_H
#define DAEMON_HTTP_ROUTE_H

#include "daemon/http_api.h"

struct http_route {
    const char *method, *pattern, *doc;
    unsigned scope;          /* SCOPE_READ, ...; 0: none is asked for */
    const char *field;       /* of the view, that {id} fills; "" none */
    enum message_id message; /* MESSAGE_ID_COUNT: give */
    http_call_fn *give;      /* NULL: a message */
};

extern const struct http_route http_routes[];
extern const int http_n_routes;

/* NULL: no such path, or (allow not "") not by this method: then allow is the
 * value of the header Allow. *id is the segment at {id}, or "". */
const struct http_route *http_route_find(const char *method,
                                         const struct http_uri *uri,
                                         const char **id, char allow[64]);

#endif
