/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_route.h"

#include <string.h>

#define SCOPE_NONE 0u

const struct http_route http_routes[] = {
#define ASK(method, pattern, field, message, scope, doc)                       \
    {#method, pattern, doc, SCOPE_##scope, field, MESSAGE_ID_##message, NULL},
#define GIVE(method, pattern, handler, scope, doc)                             \
    {#method,                                                                  \
     pattern,                                                                  \
     doc,                                                                      \
     SCOPE_##scope,                                                            \
     "",                                                                       \
     MESSAGE_ID_COUNT,                                                         \
     http_give_##handler},
#include "daemon/http_routes.def"
#undef ASK
#undef GIVE
};
const int http_n_routes = sizeof(http_routes) / sizeof(http_routes[0]);

static bool
matches(const char *pattern, const struct http_uri *uri, const char **id)
{
    int i = 0;

    *id = "";
    for (const char *p = pattern; *p == '/'; i++) {
        size_t n = strcspn(p + 1, "/");

        if (i == uri->n_segments)
            return false;
        if (strncmp(p + 1, "{id}", n) == 0 && n == 4)
            *id = uri->segment[i];
        else if (strlen(uri->segment[i]) != n ||
                 strncmp(p + 1, uri->segment[i], n) != 0)
            return false;
        p += 1 + n;
    }
    return i == uri->n_segments;
}

const struct http_route *
http_route_find(const char *method, const struct http_uri *uri, const char **id,
                char allow[64])
{
    allow[0] = '\0';
    for (int i = 0; i < http_n_routes; i++) {
        const struct http_route *r = &http_routes[i];

        if (!matches(r->pattern, uri, id))
            continue;
        if (strcmp(r->method, method) == 0)
            return r;
        if (allow[0] != '\0')
            strcat(allow, ", ");
        strcat(allow, r->method);
        if (strcmp(r->method, "GET") == 0)
            strcat(allow, ", HEAD");
    }
    return NULL;
}
