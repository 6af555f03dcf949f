/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_guard: which requests are not even looked at.
 *
 * Pure. A browser that was led here by another site (foreign Origin,
 * Sec-Fetch-Site: cross-site), a name that only points at this machine (DNS
 * rebinding: foreign Host), and requests that two parsers could read in two
 * ways (Content-Length beside Transfer-Encoding, two Hosts) are refused before
 * anybody asks who sent them.
 */
#ifndef DAEMON_HTTP_GUARD_H
#define DAEMON_HTTP_GUARD_H

#include <stdbool.h>

struct http_guard_headers {
    const char *host, *origin, *fetch_site, *content_type; /* NULL: none */
    int n_hosts, n_lengths, n_encodings; /* how many such headers there are */
};

struct http_guard {
    bool local;          /* a Unix socket: no name leads there */
    int port;            /* that is listened at */
    const char *hosts;   /* further names, separated by blanks or commas */
    const char *origins; /* further origins, likewise */
};

/* The status to refuse with and its sentence, or 0. api: no page or file of
 * one, to which a link may lead; changes: the method changes something. */
int http_guard_check(const struct http_guard *guard,
                     const struct http_guard_headers *headers, bool api,
                     bool changes, bool has_body, const char **sentence);

#endif
