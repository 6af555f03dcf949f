/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_ask: HTTP requests that are messages, on their way to an answer.
 *
 * A door of request.h: fills in the message's arguments from path, query and
 * body, runs the handler that the control socket has, and writes its answer.
 * Owns what is under way and the clock of those who wait: an answer that takes
 * longer than `wait` (seconds, 20) becomes a 202 with the job as it is; what
 * was ordered goes on.
 */
#ifndef DAEMON_HTTP_ASK_H
#define DAEMON_HTTP_ASK_H

#include "daemon/http_route.h"

struct http_asks;

struct http_asks *http_asks_create(struct daemon *d); /* NULL: no memory */
/* The servers are closed: nothing is under way. */
void http_asks_destroy(struct http_asks **asks);

void http_ask(struct http_asks *asks, const struct http_call *call,
              const struct http_route *route, const char *id);

#endif
