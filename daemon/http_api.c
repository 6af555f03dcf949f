/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_api.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/http_ask.h"
#include "daemon/http_events.h"
#include "daemon/http_guard.h"
#include "daemon/http_listen.h"
#include "daemon/http_problem.h"
#include "daemon/http_route.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/tokens.h"
#include "daemon/web.h"

#define PEM_MAX (256 * 1024)
#define BACKLOG 128

/* A server and who may come in there. */
struct entrance {
    struct http_api *api;
    struct http_server *server; /* owned; NULL: not open */
    struct http_guard guard;
};

struct http_api {
    struct daemon *d;
    struct entrance local, tcp;
    char url[CONF_STR_MAX + 32];
    struct http_asks *asks;     /* owned */
    struct http_events *events; /* owned */
};

struct http_events *
http_api_events(struct http_api *api)
{
    return api->events;
}

const char *
http_api_url(const struct http_api *api)
{
    return api != NULL ? api->url : "";
}

/* ---- who asks -------------------------------------------------------------*/

/* true: peer is who it is; else the answer is given. */
static bool
identify(struct entrance *e, struct http_exchange *x, struct auth_peer *peer)
{
    static const char bearer[] = "Bearer ";
    const char *authorization = http_header(x, "Authorization");
    struct daemon *d = e->api->d;
    struct err err;

    if (authorization != NULL) {
        uv_timeval64_t now;
        const char *secret = authorization + sizeof(bearer) - 1;

        uv_gettimeofday(&now);
        if (strncasecmp(authorization, bearer, sizeof(bearer) - 1) == 0 &&
            tokens_find(d->tokens, secret, now.tv_sec * 1000000 + now.tv_usec,
                        peer))
            return true;
        http_problem_status(x, 401, ERR_DENIED,
                            "this token is unknown, has expired, or was "
                            "revoked");
        return false;
    }
    if (e->guard.local) {
        err_clear(&err);
        if (auth_identify(http_socket(x), d->conf.control_admin_group, peer,
                          &err) == 0)
            return true;
        http_problem(x, &err, NULL);
        return false;
    }
    http_problem_status(x, 401, ERR_DENIED,
                        "a token is needed: Authorization: Bearer ...; "
                        "trainctl token create makes one");
    return false;
}

/* ---- routes ---------------------------------------------------------------*/

static void
answer_file(struct http_exchange *x, const struct web_file *file)
{
    const char *known = http_header(x, "If-None-Match");

    http_add_header(x, "ETag", file->etag);
    http_add_header(x, "Cache-Control", "no-cache");
    if (known != NULL && strcmp(known, file->etag) == 0)
        http_answer_fixed(x, 304, NULL, "", 0);
    else
        http_answer_fixed(x, 200, file->type, file->data, file->len);
}

/* The dashboard's, by the target without its query. */
static const struct web_file *
find_file(const char *target)
{
    size_t n = strcspn(target, "?");
    char path[64];

    if (n >= sizeof(path))
        return NULL;
    memcpy(path, target, n);
    path[n] = '\0';
    return web_find(path);
}

static void
refuse_method(struct http_exchange *x, const char *allow)
{
    http_add_header(x, "Allow", allow);
    http_problem_status(x, 405, ERR_USAGE,
                        "this path is not asked by this method");
}

static bool
is_free(const struct http_route *route, const struct daemon *d)
{
    return route->scope == 0 ||
           (route->scope == SCOPE_METRICS && d->conf.http_metrics_public);
}

static void
take_route(struct entrance *e, struct http_exchange *x,
           const struct http_route *route, const struct http_uri *uri,
           const char *id)
{
    struct http_call call = {.d = e->api->d, .api = e->api, .x = x, .uri = uri};

    http_keep(x)->route = route->pattern;
    if (!is_free(route, e->api->d)) {
        if (!identify(e, x, &call.peer))
            return;
        if ((auth_scopes_implied(call.peer.scopes) & route->scope) == 0) {
            http_problem_status(x, 403, ERR_DENIED,
                                "this token's scopes do not allow that");
            return;
        }
    }
    if (route->give != NULL)
        route->give(&call);
    else
        http_ask(e->api->asks, &call, route, id);
}

static bool
is_changing(const char *method)
{
    return strcmp(method, "GET") != 0;
}

/* Nobody knows where the next request begins after one that is none. */
static void
hang_up(struct http_exchange *x)
{
    http_add_header(x, "Connection", "close");
}

static void
on_request(void *ctx, struct http_exchange *x)
{
    struct entrance *e = ctx;
    const struct http_guard_headers h = {
        .host = http_header(x, "Host"),
        .origin = http_header(x, "Origin"),
        .fetch_site = http_header(x, "Sec-Fetch-Site"),
        .content_type = http_header(x, "Content-Type"),
        .n_hosts = http_count_headers(x, "Host"),
        .n_lengths = http_count_headers(x, "Content-Length"),
        .n_encodings = http_count_headers(x, "Transfer-Encoding")};
    const char *method = http_method(x), *sentence, *id;
    const struct http_route *route;
    const struct web_file *file;
    struct http_uri uri;
    char allow[64];
    struct err err;
    size_t n_body;
    int status;

    http_body(x, &n_body);
    http_keep(x)->route = "other";
    status =
        http_guard_check(&e->guard, &h, strncmp(http_target(x), "/v1/", 4) == 0,
                         is_changing(method), n_body > 0, &sentence);
    if (status != 0) {
        if (status == 400)
            hang_up(x);
        http_problem_status(x, status, status == 403 ? ERR_DENIED : ERR_USAGE,
                            sentence);
        return;
    }
    err_clear(&err);
    if (http_uri_parse(http_target(x), &uri, &err) != 0) {
        hang_up(x);
        http_problem(x, &err, NULL);
        return;
    }
    route = http_route_find(method, &uri, &id, allow);
    if (route != NULL) {
        take_route(e, x, route, &uri, id);
    } else if (allow[0] != '\0') {
        refuse_method(x, allow);
    } else if ((file = find_file(http_target(x))) == NULL) {
        http_problem_status(x, 404, ERR_NOTFOUND, "there is no such path");
    } else if (is_changing(method)) {
        refuse_method(x, "GET, HEAD");
    } else {
        http_keep(x)->route = "/";
        answer_file(x, file);
    }
}

static void
on_done(void *ctx, const struct http_exchange *x)
{
    const struct entrance *e = ctx;
    const char *route = http_kept(x)->route;

    /* A body that is too large is refused before anybody looks further. */
    metrics_http_request(e->api->d->metrics, route != NULL ? route : "other",
                         http_method(x), http_status(x), http_seconds(x));
}

static int
count_connections(const struct entrance *e)
{
    return e->server != NULL ? http_server_connections(e->server) : 0;
}

int
http_api_connections(const struct http_api *api)
{
    return count_connections(&api->local) + count_connections(&api->tcp);
}

void
http_api_changed(struct http_api *api, const struct job *job)
{
    if (api != NULL)
        http_events_changed(api->events, job);
}

/* ---- life -----------------------------------------------------------------*/

/* A file of the configuration: the administrator's, so ours to read. */
static int
read_pem(const char *key, const char *path, char **out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = calloc(1, PEM_MAX + 1);
    ssize_t n = fd < 0 || text == NULL ? -1 : read(fd, text, PEM_MAX);

    if (n < 0)
        err_set_errno(err, ERR_CONFIG, errno, "http.%s: %s", key, path);
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        free(text);
        return ERR_CONFIG;
    }
    *out = text;
    return 0;
}

static int
open_entrance(struct entrance *e, int fd, char *cert, char *key,
              struct err *err)
{
    const struct conf *conf = &e->api->d->conf;
    const struct http_server_options o = {
        .loop = e->api->d->loop,
        .fd = fd,
        .tls_cert = cert,
        .tls_key = key,
        .max_connections = (int)conf->http_max_connections,
        .max_body = (size_t)conf->http_max_body,
        .timeout_ms = conf->http_timeout};
    const struct http_server_hooks hooks = {on_request, on_done, e};

    return http_server_open(&o, &hooks, &e->server, err);
}

static int
open_tcp(struct http_api *api, struct err *err)
{
    const struct conf *conf = &api->d->conf;
    bool tls = conf->http_tls_cert[0] != '\0';
    char *cert = NULL, *key = NULL;
    int fd = -1, rc = 0;

    if (tls != (conf->http_tls_key[0] != '\0'))
        return err_set(err, ERR_CONFIG,
                       "http.tls_cert and http.tls_key come together");
    if (tls)
        rc = read_pem("tls_cert", conf->http_tls_cert, &cert, err);
    if (tls && rc == 0)
        rc = read_pem("tls_key", conf->http_tls_key, &key, err);
    if (rc == 0)
        rc = http_listen_open(conf->http_listen, tls, &fd, &api->tcp.guard.port,
                              err);
    if (rc == 0)
        rc = open_entrance(&api->tcp, fd, cert, key, err);
    if (key != NULL)
        explicit_bzero(key, strlen(key));
    free(key);
    free(cert);
    if (rc == 0) {
        snprintf(api->url, sizeof(api->url), "%s://%.*s:%d/",
                 tls ? "https" : "http",
                 (int)(strrchr(conf->http_listen, ':') - conf->http_listen),
                 conf->http_listen, api->tcp.guard.port);
        log_info("http: listening at %s", api->url);
    }
    return rc;
}

static int
open_local(struct http_api *api, const struct listen *local, struct err *err)
{
    if (listen(local->fd, BACKLOG) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s", local->path);
    return open_entrance(&api->local, local->fd, NULL, NULL, err);
}

int
http_api_open(struct daemon *d, const struct listen *local,
              struct http_api **out, struct err *err)
{
    const bool wants_tcp = d->conf.http_listen[0] != '\0' &&
                           strcmp(d->conf.http_listen, "off") != 0;
    struct http_api *api;
    int rc = 0;

    *out = NULL;
    if (local->fd < 0 && !wants_tcp)
        return 0;
    api = calloc(1, sizeof(*api));
    if (api == NULL)
        return err_set(err, ERR_NOMEM, "http: out of memory");
    api->d = d;
    api->local.api = api->tcp.api = api;
    api->local.guard.local = true;
    api->local.guard.hosts = api->tcp.guard.hosts = d->conf.http_allowed_hosts;
    api->local.guard.origins = api->tcp.guard.origins =
        d->conf.http_allowed_origins;
    api->asks = http_asks_create(d);
    api->events = http_events_create(d);
    if (api->asks == NULL || api->events == NULL)
        rc = err_set(err, ERR_NOMEM, "http: out of memory");
    if (rc == 0 && local->fd >= 0)
        rc = open_local(api, local, err);
    if (rc == 0 && wants_tcp)
        rc = open_tcp(api, err);
    if (rc != 0)
        http_api_close(&api);
    *out = api;
    return rc;
}

void
http_api_close(struct http_api **ap)
{
    struct http_api *api = *ap;

    if (api == NULL)
        return;
    *ap = NULL;
    http_server_close(&api->local.server);
    http_server_close(&api->tcp.server);
    http_asks_destroy(&api->asks);
    http_events_destroy(&api->events);
    free(api);
}
