/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAGIC      0x48545850u
#define STREAM_MAX (256 * 1024) /* that waits for a slow reader */
#define BLOCK      4096

static const char no_memory[] =
    "{\"type\":\"about:blank\",\"title\":\"Insufficient "
    "Storage\",\"status\":507,"
    "\"detail\":\"out of memory\",\"error\":\"nomem\"}";

/* ---- the request ----------------------------------------------------------*/

bool
http_exchange_take_body(struct http_exchange *x, const char *data, size_t n,
                        size_t most)
{
    if (n > most || x->len > most - n)
        return false;
    if (x->len + n + 1 > x->cap) {
        size_t cap = 2 * (x->len + n + 1);
        char *body = realloc(x->body, cap);

        if (body == NULL)
            return false;
        x->body = body;
        x->cap = cap;
    }
    memcpy(x->body + x->len, data, n);
    x->len += n;
    x->body[x->len] = '\0';
    return true;
}

const char *
http_method(const struct http_exchange *x)
{
    return strcmp(x->method, "HEAD") == 0 ? "GET" : x->method;
}

const char *
http_target(const struct http_exchange *x)
{
    return x->target;
}

const char *
http_header(const struct http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

struct counting {
    const char *name;
    int n;
};

static enum MHD_Result
count_one(void *ctx, enum MHD_ValueKind kind, const char *key,
          const char *value)
{
    struct counting *c = ctx;

    (void)kind;
    (void)value;
    c->n += strcasecmp(key, c->name) == 0;
    return MHD_YES;
}

int
http_count_headers(const struct http_exchange *x, const char *name)
{
    struct counting c = {name, 0};

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_one, &c);
    return c.n;
}

const char *
http_body(const struct http_exchange *x, size_t *len)
{
    *len = x->len;
    return x->body != NULL ? x->body : "";
}

int
http_socket(const struct http_exchange *x)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info != NULL ? info->connect_fd : -1;
}

double
http_seconds(const struct http_exchange *x)
{
    return (double)(uv_hrtime() - x->begin_ns) * 1e-9;
}

struct http_keep *
http_keep(struct http_exchange *x)
{
    return &x->keep;
}

const struct http_keep *
http_kept(const struct http_exchange *x)
{
    return &x->keep;
}

int
http_status(const struct http_exchange *x)
{
    return x->status;
}

/* ---- the answer -----------------------------------------------------------*/

void
http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    char *n = strdup(name), *v = strdup(value);

    assert(x->response == NULL && x->n_headers < HTTP_MAX_HEADERS);
    assert(n != NULL && v != NULL);
    x->header[x->n_headers].name = n;
    x->header[x->n_headers++].value = v;
}

static bool
has_header(const struct http_exchange *x, const char *name)
{
    for (int i = 0; i < x->n_headers; i++)
        if (strcasecmp(x->header[i].name, name) == 0)
            return true;
    return false;
}

static void
put_header(struct http_exchange *x, const char *name, const char *value)
{
    if (!has_header(x, name))
        MHD_add_response_header(x->response, name, value);
}

static void
answer(struct http_exchange *x, int status, const char *type,
       struct MHD_Response *response)
{
    assert(x->magic == MAGIC && x->response == NULL && response != NULL);
    x->response = response;
    x->status = status;
    for (int i = 0; i < x->n_headers; i++)
        MHD_add_response_header(response, x->header[i].name,
                                x->header[i].value);
    if (type != NULL)
        put_header(x, "Content-Type", type);
    put_header(x, "Cache-Control", "no-store");
    put_header(x, "X-Content-Type-Options", "nosniff");
    put_header(x, "Referrer-Policy", "no-referrer");
    put_header(x, "Content-Security-Policy",
               "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
               "form-action 'none'");
    if (x->suspended) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
        http_server_kick(x->server);
    }
}

void
http_answer_take(struct http_exchange *x, int status, const char *type,
                 char *body, size_t len)
{
    if (body == NULL) {
        http_answer_fixed(x, 507, "application/problem+json", no_memory,
                          sizeof(no_memory) - 1);
        return;
    }
    answer(x, status, type,
           MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE));
}

void
http_answer_fixed(struct http_exchange *x, int status, const char *type,
                  const void *body, size_t len)
{
    /* libmicrohttpd does not write to it. */
    union {
        const void *in;
        void *out;
    } fixed = {.in = body};

    answer(x, status, type,
           MHD_create_response_from_buffer(len, fixed.out,
                                           MHD_RESPMEM_PERSISTENT));
}

void
http_answer_file_take(struct http_exchange *x, int status, const char *type,
                      int fd, int64_t offset, int64_t len)
{
    answer(x, status, type,
           MHD_create_response_from_fd_at_offset64((uint64_t)len, fd,
                                                   (uint64_t)offset));
}

/* ---- a stream -------------------------------------------------------------*/

static ssize_t
on_read(void *ctx, uint64_t pos, char *buf, size_t max)
{
    struct http_exchange *x = ctx;
    size_t n = x->out_len < max ? x->out_len : max;

    (void)pos;
    if (x->cut_off)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0 && x->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
        return 0;
    }
    memcpy(buf, x->out, n);
    memmove(x->out, x->out + n, x->out_len - n);
    x->out_len -= n;
    return (ssize_t)n;
}

void
http_stream_begin(struct http_exchange *x, const char *type)
{
    x->streaming = true;
    http_add_header(x, "X-Accel-Buffering", "no");
    answer(x, 200, type,
           MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, on_read,
                                             x, NULL));
}

bool
http_stream_put(struct http_exchange *x, const char *text, size_t len)
{
    assert(x->magic == MAGIC && x->streaming);
    if (x->cut_off || x->ending)
        return false;
    if (x->out_len + len > x->out_cap) {
        size_t cap = 2 * (x->out_len + len);
        char *out = cap <= STREAM_MAX ? realloc(x->out, cap) : NULL;

        if (out == NULL) {
            x->cut_off = true;
        } else {
            x->out = out;
            x->out_cap = cap;
        }
    }
    if (!x->cut_off) {
        memcpy(x->out + x->out_len, text, len);
        x->out_len += len;
    }
    if (x->suspended) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
        http_server_kick(x->server);
    }
    return !x->cut_off;
}

void
http_stream_end(struct http_exchange *x)
{
    assert(x->magic == MAGIC && x->streaming);
    x->ending = true;
    if (x->suspended) {
        x->suspended = false;
        MHD_resume_connection(x->connection);
        http_server_kick(x->server);
    }
}

/* ---- its life --------------------------------------------------------------*/

struct http_exchange *
http_exchange_create(struct http_server *server, const char *target)
{
    struct http_exchange *x = calloc(1, sizeof(*x));

    if (x != NULL)
        x->target = strdup(target);
    if (x == NULL || x->target == NULL) {
        free(x);
        return NULL;
    }
    x->magic = MAGIC;
    x->server = server;
    x->begin_ns = uv_hrtime();
    return x;
}

void
http_exchange_leave(struct http_exchange *x)
{
    static const char body[] =
        "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
        "\"status\":503,\"detail\":\"the daemon goes down; ask again later\","
        "\"error\":\"again\"}";

    if (x->streaming) {
        x->cut_off = true;
        if (x->suspended)
            MHD_resume_connection(x->connection);
        x->suspended = false;
    } else if (x->handed_on && x->response == NULL) {
        if (x->keep.leave != NULL)
            x->keep.leave(x->keep.ctx, x);
        http_answer_fixed(x, 503, "application/problem+json", body,
                          sizeof(body) - 1);
    }
}

void
http_exchange_free(struct http_exchange *x)
{
    assert(x->magic == MAGIC);
    if (x->streaming && x->keep.gone != NULL)
        x->keep.gone(x->keep.ctx, x);
    if (x->response != NULL)
        MHD_destroy_response(x->response);
    for (int i = 0; i < x->n_headers; i++) {
        free(x->header[i].name);
        free(x->header[i].value);
    }
    free(x->target);
    free(x->body);
    free(x->out);
    x->magic = 0;
    free(x);
}
