/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_uri: a request target taken apart, strictly.
 *
 * Pure. A path is split at '/' and each segment decoded; empty segments, dots,
 * encoded slashes, control characters and what is no UTF-8 make the whole
 * target wrong (our own paths never need them), so that no later code meets
 * a path in disguise. The query's keys and values are decoded, '+' is a space.
 */
#ifndef DAEMON_HTTP_URI_H
#define DAEMON_HTTP_URI_H

#include "proto/err.h"

#include <stddef.h>

#define HTTP_URI_MAX      4096 /* bytes of a whole target */
#define HTTP_URI_SEGMENTS 8
#define HTTP_URI_PAIRS    24

struct http_uri {
    char text[HTTP_URI_MAX + 1]; /* what the pointers point into */
    const char *segment[HTTP_URI_SEGMENTS];
    int n_segments; /* 0: the root */
    struct {
        const char *key, *value;
    } pair[HTTP_URI_PAIRS];
    int n_pairs;
};

/* ERR_USAGE names the fault. */
int http_uri_parse(const char *target, struct http_uri *out, struct err *err);

/* The value of a key, or NULL. */
const char *http_uri_find(const struct http_uri *uri, const char *key);

#endif
