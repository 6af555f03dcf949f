/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_uri.h"

#include <string.h>

#include "proto/utf8.h"

static int
hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes n bytes in place, ends them with a NUL. false: not well formed. */
static bool
decode(char *s, size_t n, bool plus)
{
    char *out = s;

    for (size_t i = 0; i < n; i++) {
        char c = s[i];

        if (c == '%') {
            int high = i + 2 < n ? hex(s[i + 1]) : -1;
            int low = i + 2 < n ? hex(s[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return false;
        *out++ = c;
    }
    *out = '\0';
    return utf8_valid(s, (size_t)(out - s));
}

static int
take_segment(struct http_uri *u, char *s, size_t n, struct err *err)
{
    if (u->n_segments == HTTP_URI_SEGMENTS)
        return err_set(err, ERR_NOTFOUND, "the path has too many parts");
    if (!decode(s, n, false))
        return err_set(err, ERR_USAGE, "the path is not well formed: part %d",
                       u->n_segments + 1);
    if (s[0] == '\0' || s[0] == '.' || strchr(s, '/') != NULL)
        return err_set(err, ERR_NOTFOUND, "there is no such path");
    u->segment[u->n_segments++] = s;
    return 0;
}

static int
take_pair(struct http_uri *u, char *s, size_t n, struct err *err)
{
    char *equals = memchr(s, '=', n), *value = s + n;

    if (n == 0)
        return 0;
    if (u->n_pairs == HTTP_URI_PAIRS)
        return err_set(err, ERR_USAGE, "the query has more than %d parameters",
                       HTTP_URI_PAIRS);
    if (equals != NULL)
        value = equals + 1;
    if (!decode(value, (size_t)(s + n - value), true) ||
        !decode(s, equals != NULL ? (size_t)(equals - s) : n, true))
        return err_set(err, ERR_USAGE,
                       "the query is not well formed: parameter %d",
                       u->n_pairs + 1);
    if (http_uri_find(u, s) != NULL)
        return err_set(err, ERR_USAGE, "%.60s: given twice", s);
    u->pair[u->n_pairs].key = s;
    u->pair[u->n_pairs++].value = value;
    return 0;
}

int
http_uri_parse(const char *target, struct http_uri *u, struct err *err)
{
    size_t len = strlen(target);
    char *p = u->text, *query;
    int rc = 0;

    u->n_segments = u->n_pairs = 0;
    if (len > HTTP_URI_MAX)
        return err_set(err, ERR_USAGE,
                       "the request target is longer than %d bytes",
                       HTTP_URI_MAX);
    if (target[0] != '/')
        return err_set(err, ERR_USAGE, "the request target is no path");
    memcpy(u->text, target, len + 1);
    query = strchr(p, '?');
    if (query != NULL)
        *query++ = '\0';
    for (p++; rc == 0 && *p != '\0';) {
        size_t n = strcspn(p, "/");
        char end = p[n];

        rc = take_segment(u, p, n, err);
        p += n + (end != '\0');
        if (end != '\0' && *p == '\0' && rc == 0)
            rc = err_set(err, ERR_NOTFOUND, "there is no such path");
    }
    while (rc == 0 && query != NULL && *query != '\0') {
        size_t n = strcspn(query, "&");
        char end = query[n];

        rc = take_pair(u, query, n, err);
        query += n + (end != '\0');
    }
    return rc;
}

const char *
http_uri_find(const struct http_uri *u, const char *key)
{
    for (int i = 0; i < u->n_pairs; i++)
        if (strcmp(u->pair[i].key, key) == 0)
            return u->pair[i].value;
    return NULL;
}
