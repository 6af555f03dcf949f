/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/http_exchange.h"
#include "daemon/log.h"

#define SERVER_MAGIC 0x48545453u
#define MEMORY_BYTES (64 * 1024) /* of a connection: headers fit in */
#define SWALLOW_FACTOR                                                         \
    4 /* of a body that is too large, before the
                                      connection is closed */
#define LAST_RUNS 64

struct http_server {
    unsigned magic;
    struct http_server_options o;
    struct http_server_hooks hooks;
    struct MHD_Daemon *mhd; /* owned */
    struct http_exchange *head;
    uv_poll_t poll;
    uv_timer_t timer; /* what libmicrohttpd wants to be called for */
    uv_idle_t idle;   /* the same, at once */
    int n_handles;
    bool closing;
};

/* ---- the loop -------------------------------------------------------------*/

static void pump(struct http_server *s);

static void
on_idle(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    pump(idle->data);
}

void
http_server_kick(struct http_server *s)
{
    if (!s->closing)
        uv_idle_start(&s->idle, on_idle);
}

static void
on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

/* After every run: when the next one is due. One run a turn of the loop, so
 * that a busy client does not keep the others of the loop waiting. */
static void
pump(struct http_server *s)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (s->closing)
        return;
    MHD_run(s->mhd);
    if (MHD_get_timeout(s->mhd, &ms) != MHD_YES)
        uv_timer_stop(&s->timer);
    else if (ms == 0)
        http_server_kick(s);
    else
        uv_timer_start(&s->timer, on_timer, ms, 0);
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump(poll->data);
}

/* ---- exchanges ------------------------------------------------------------*/

static void *
on_target(void *ctx, const char *target, struct MHD_Connection *connection)
{
    struct http_server *s = ctx;
    struct http_exchange *x = http_exchange_create(s, target);

    (void)connection;
    if (x == NULL)
        return NULL;
    x->next = s->head;
    if (x->next != NULL)
        x->next->prev = x;
    s->head = x;
    return x;
}

static void
on_completed(void *ctx, struct MHD_Connection *connection, void **con_cls,
             enum MHD_RequestTerminationCode code)
{
    struct http_server *s = ctx;
    struct http_exchange *x = *con_cls;

    (void)connection;
    (void)code;
    if (x == NULL)
        return;
    *con_cls = NULL;
    if (x->prev != NULL)
        x->prev->next = x->next;
    else
        s->head = x->next;
    if (x->next != NULL)
        x->next->prev = x->prev;
    if ((x->handed_on || x->response != NULL) && s->hooks.done != NULL)
        s->hooks.done(s->hooks.ctx, x);
    http_exchange_free(x);
}

static enum MHD_Result
send_answer(struct http_exchange *x)
{
    return MHD_queue_response(x->connection, (unsigned)x->status, x->response);
}

static void
answer_too_large(struct http_exchange *x)
{
    char *text = malloc(256);

    if (text != NULL)
        snprintf(text, 256,
                 "{\"type\":\"about:blank\",\"title\":\"Content Too Large\","
                 "\"status\":413,\"detail\":\"the body is larger than %zu "
                 "bytes (http.max_body)\",\"error\":\"usage\"}",
                 x->server->o.max_body);
    http_answer_take(x, 413, "application/problem+json", text,
                     text != NULL ? strlen(text) : 0);
}

/* Headers are there; a body may follow. */
static enum MHD_Result
begin(struct http_exchange *x, struct MHD_Connection *connection,
      const char *method)
{
    const char *length;

    x->connection = connection;
    snprintf(x->method, sizeof(x->method), "%s", method);
    length = http_header(x, "Content-Length");
    if (length != NULL && strtoull(length, NULL, 10) >
                              (unsigned long long)x->server->o.max_body) {
        answer_too_large(x);
        return send_answer(x);
    }
    return MHD_YES;
}

static enum MHD_Result
take_body(struct http_exchange *x, const char *data, size_t *n)
{
    const struct http_server_options *o = &x->server->o;

    x->n_body += *n;
    /* One byte in each interval would keep the connection for ever. */
    if (x->n_body > SWALLOW_FACTOR * o->max_body ||
        http_seconds(x) * 1e3 > (double)o->timeout_ms)
        return MHD_NO;
    if (!x->too_large)
        x->too_large = !http_exchange_take_body(x, data, *n, o->max_body);
    *n = 0;
    return MHD_YES;
}

static enum MHD_Result
on_access(void *ctx, struct MHD_Connection *connection, const char *url,
          const char *method, const char *version, const char *data, size_t *n,
          void **con_cls)
{
    struct http_server *s = ctx;
    struct http_exchange *x = *con_cls;

    (void)url;
    (void)version;
    if (x == NULL)
        return MHD_NO; /* no memory */
    if (x->connection == NULL)
        return begin(x, connection, method);
    if (*n > 0)
        return take_body(x, data, n);
    if (x->too_large && x->response == NULL)
        answer_too_large(x);
    if (x->response == NULL && !x->handed_on) {
        x->handed_on = true;
        s->hooks.request(s->hooks.ctx, x);
    }
    if (x->response != NULL)
        return send_answer(x);
    x->suspended = true;
    MHD_suspend_connection(connection);
    return MHD_YES;
}

static void
on_log(void *ctx, const char *fmt, va_list ap)
{
    char line[512];

    (void)ctx;
    vsnprintf(line, sizeof(line), fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    log_debug("http: %s", line);
}

/* ---- life -----------------------------------------------------------------*/

static struct MHD_Daemon *
start_mhd(struct http_server *s)
{
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->o.tls_cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->o.tls_key},
        {MHD_OPTION_END, 0, NULL}};

    if (s->o.tls_cert != NULL)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_log,
        s, MHD_OPTION_LISTEN_SOCKET, s->o.fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->o.max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((s->o.timeout_ms + 999) / 1000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

static void
on_closed(uv_handle_t *handle)
{
    struct http_server *s = handle->data;

    if (--s->n_handles > 0)
        return;
    s->magic = 0;
    free(s);
}

int
http_server_open(const struct http_server_options *o,
                 const struct http_server_hooks *hooks,
                 struct http_server **out, struct err *err)
{
    struct http_server *s = calloc(1, sizeof(*s));
    const union MHD_DaemonInfo *info;

    *out = NULL;
    if (s == NULL) {
        close(o->fd);
        return err_set(err, ERR_NOMEM, "http: out of memory");
    }
    s->magic = SERVER_MAGIC;
    s->o = *o;
    s->hooks = *hooks;
    s->mhd = start_mhd(s);
    if (s->mhd == NULL) {
        close(o->fd);
        free(s);
        return err_set(err, ERR_CONFIG,
                       o->tls_cert != NULL
                           ? "http: the server does not start: are "
                             "http.tls_cert and http.tls_key a pair of PEM?"
                           : "http: the server does not start");
    }
    info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info != NULL);
    uv_poll_init(o->loop, &s->poll, info->epoll_fd);
    uv_timer_init(o->loop, &s->timer);
    uv_idle_init(o->loop, &s->idle);
    s->poll.data = s->timer.data = s->idle.data = s;
    s->n_handles = 3;
    uv_poll_start(&s->poll, UV_READABLE, on_poll);
    http_server_kick(s);
    *out = s;
    return 0;
}

int
http_server_connections(const struct http_server *s)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

    return info != NULL ? (int)info->num_connections : 0;
}

void
http_server_close(struct http_server **sp)
{
    struct http_server *s = *sp;

    if (s == NULL)
        return;
    assert(s->magic == SERVER_MAGIC);
    *sp = NULL;
    s->closing = true;
    /* libmicrohttpd must not be stopped over suspended connections. */
    for (struct http_exchange *x = s->head; x != NULL; x = x->next)
        http_exchange_leave(x);
    for (int i = 0; i < LAST_RUNS && s->head != NULL; i++)
        MHD_run(s->mhd);
    uv_poll_stop(&s->poll);
    MHD_stop_daemon(s->mhd);
    assert(s->head == NULL);
    uv_close((uv_handle_t *)&s->poll, on_closed);
    uv_close((uv_handle_t *)&s->timer, on_closed);
    uv_close((uv_handle_t *)&s->idle, on_closed);
}
