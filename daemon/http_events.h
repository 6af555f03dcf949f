/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_events: what happens, to those who watch over HTTP.
 *
 * Two kinds of readers of GET /v1/events: a stream of server-sent events, with
 * the store's events (their number is the id to resume at) and jobs as they
 * change, and a long poll for a page of events. Owns them until they go. A
 * reader gets only what is of jobs of its own, or everything as administrator.
 * Never more than one question of a reader is with the store.
 */
#ifndef DAEMON_HTTP_EVENTS_H
#define DAEMON_HTTP_EVENTS_H

#include "daemon/http_api.h"

struct http_events;

struct http_events *http_events_create(struct daemon *d); /* NULL: no memory */
/* The servers are closed. */
void http_events_destroy(struct http_events **events);

void http_events_changed(struct http_events *events, const struct job *job);

#endif
