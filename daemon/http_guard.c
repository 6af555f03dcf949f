/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* name, or name:port with the port that is listened at. */
static bool
is_host(const char *host, const char *name, size_t len, int port)
{
    char suffix[16];

    if (strncasecmp(host, name, len) != 0)
        return false;
    snprintf(suffix, sizeof(suffix), ":%d", port);
    return host[len] == '\0' || strcmp(host + len, suffix) == 0;
}

/* Calls for each word of a list; true when one is the host. */
static bool
lists_host(const char *list, const char *host, int port)
{
    for (const char *p = list; *p != '\0';) {
        size_t n = strcspn(p, " ,");

        if (n > 0 && is_host(host, p, n, port))
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

static bool
lists_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; *p != '\0';) {
        size_t n = strcspn(p, " ,");

        if (n == len && n > 0 && strncasecmp(p, word, n) == 0)
            return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

static bool
knows_host(const struct http_guard *g, const char *host)
{
    return lists_host("localhost 127.0.0.1 [::1]", host, g->port) ||
           lists_host(g->hosts, host, g->port);
}

/* The page's own origin is this daemon under the name it was asked by. */
static bool
knows_origin(const struct http_guard *g, const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");

    if (lists_word(g->origins, origin))
        return true;
    return name != NULL && host != NULL && strcasecmp(name + 3, host) == 0;
}

static bool
is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;

    return type != NULL && strncasecmp(type, json, n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

int
http_guard_check(const struct http_guard *g, const struct http_guard_headers *h,
                 bool api, bool changes, bool has_body, const char **sentence)
{
    if (h->n_hosts > 1 || h->n_encodings > 1 || h->n_lengths > 1 ||
        (h->n_lengths > 0 && h->n_encodings > 0)) {
        *sentence = "the request's headers contradict each other";
        return 400;
    }
    if (!g->local && (h->host == NULL || !knows_host(g, h->host))) {
        *sentence = "this Host is none of this traind's names; "
                    "http.allowed_hosts has further ones";
        return 421;
    }
    if (h->origin != NULL && !knows_origin(g, h->origin, h->host)) {
        *sentence = "this Origin may not ask here; http.allowed_origins has "
                    "those that may";
        return 403;
    }
    if (h->fetch_site != NULL && h->origin == NULL && api &&
        strcasecmp(h->fetch_site, "cross-site") == 0) {
        *sentence = "another site may not ask here";
        return 403;
    }
    if (changes && (has_body || h->content_type != NULL) &&
        !is_json(h->content_type)) {
        *sentence = "the body must be application/json";
        return 415;
    }
    return 0;
}
