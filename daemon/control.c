/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/log.h"

#define CONTROL_MAGIC 0x4354524cu
#define CHECK_MS      250
#define BACKLOG       128

struct control {
    unsigned magic;
    struct control_options o;
    struct session_hooks hooks;
    struct listen listen;
    uv_pipe_t pipe;
    uv_timer_t check;
    struct session **v; /* owned */
    int n, n_handles;
    bool closing;
};

static void
on_request(void *ctx, struct request *request)
{
    struct control *c = ctx;

    c->hooks.request(c->hooks.ctx, request);
}

static void
on_credit(void *ctx, struct session *session, int64_t id, int64_t n)
{
    struct control *c = ctx;

    c->hooks.credit(c->hooks.ctx, session, id, n);
}

static void
on_answered(void *ctx, enum message_id message, int code)
{
    struct control *c = ctx;

    if (c->hooks.answered != NULL)
        c->hooks.answered(c->hooks.ctx, message, code);
}

static void
on_session_closed(void *ctx, struct session *session)
{
    struct control *c = ctx;

    for (int i = 0; i < c->n; i++)
        if (c->v[i] == session) {
            c->v[i] = c->v[--c->n];
            return;
        }
}

/* One user must not keep all others out. */
static bool
is_crowd(const struct control *c, const struct auth_peer *peer)
{
    int same = 0;

    for (int i = 0; i < c->n; i++)
        same += session_peer(c->v[i])->uid == peer->uid;
    return !peer->admin && same > c->o.max_clients / 2;
}

static void
on_connection(uv_stream_t *stream, int status)
{
    struct control *c = stream->data;
    const struct session_hooks hooks = {on_request, on_credit, on_answered,
                                        on_session_closed, c};
    struct session *s;
    struct err err;

    assert(c->magic == CONTROL_MAGIC);
    if (status != 0) {
        log_warnx("control socket: %s", uv_strerror(status));
        return;
    }
    s = session_accept(stream, &c->o.session, &hooks, c->o.admin_group);
    if (s == NULL)
        return;
    /* One place is kept beyond the limit for those who are told so. */
    if (c->n > c->o.max_clients) {
        session_close(s);
        return;
    }
    c->v[c->n++] = s;
    if (c->n > c->o.max_clients || is_crowd(c, session_peer(s))) {
        err_set(&err, ERR_AGAIN, "%d clients are connected already", c->n - 1);
        session_refuse(s, &err);
    }
}

static void
on_check(uv_timer_t *timer)
{
    struct control *c = timer->data;

    /* Backwards: closing one moves the last into its place. */
    for (int i = c->n - 1; i >= 0; i--)
        if (i < c->n)
            session_check(c->v[i]);
}

static void
on_closed(uv_handle_t *handle)
{
    struct control *c = handle->data;

    if (--c->n_handles > 0)
        return;
    free(c->v);
    c->magic = 0;
    free(c);
}

int
control_open(const struct control_options *o, const struct listen *listen,
             const struct session_hooks *hooks, struct control **out,
             struct err *err)
{
    struct control *c = calloc(1, sizeof(*c));
    int rc;

    *out = NULL;
    if (c != NULL)
        c->v = calloc((size_t)o->max_clients + 1, sizeof(struct session *));
    if (c == NULL || c->v == NULL) {
        free(c);
        return err_set(err, ERR_NOMEM, "control socket: out of memory");
    }
    c->magic = CONTROL_MAGIC;
    c->o = *o;
    c->hooks = *hooks;
    c->listen = *listen;
    c->n_handles = 2;
    uv_pipe_init(o->session.loop, &c->pipe, 0);
    uv_timer_init(o->session.loop, &c->check);
    c->pipe.data = c->check.data = c;
    rc = uv_pipe_open(&c->pipe, listen->fd);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&c->pipe, BACKLOG, on_connection);
    if (rc != 0) {
        err_set(err, ERR_IO, "%s: %s", listen->path, uv_strerror(rc));
        control_close(&c);
        return ERR_IO;
    }
    uv_timer_start(&c->check, on_check, CHECK_MS, CHECK_MS);
    *out = c;
    return 0;
}

int
control_clients(const struct control *c)
{
    assert(c->magic == CONTROL_MAGIC);
    return c->n;
}

void
control_close(struct control **cp)
{
    struct control *c = *cp;

    if (c == NULL)
        return;
    assert(c->magic == CONTROL_MAGIC && !c->closing);
    *cp = NULL;
    c->closing = true;
    while (c->n > 0)
        session_close(c->v[c->n - 1]);
    listen_remove(&c->listen);
    uv_close((uv_handle_t *)&c->pipe, on_closed);
    uv_close((uv_handle_t *)&c->check, on_closed);
}
