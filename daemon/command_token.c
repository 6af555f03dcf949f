/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens: tokens, token_create, token_revoke. */
#include "daemon/command.h"

#include <assert.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/tokens.h"
#include "proto/utf8.h"

#define MOST_SECONDS (INT64_C(10) * 366 * 86400)
#define N_SCOPES     4

/* A token as its owner may see it; lists live in `names`. */
static void
fill(struct view_token *v, const struct token *t, const char *names[N_SCOPES])
{
    int n = 0;

    view_init(VIEW_ID_token, v);
    for (unsigned scope = 1; scope <= SCOPE_ALL; scope *= 2)
        if ((t->scopes & scope) != 0)
            names[n++] = auth_scope_name(scope);
    v->id = t->id;
    v->uid = t->uid;
    v->user = t->user;
    v->name = t->name;
    v->scopes.v = names;
    v->scopes.n = n;
    v->created_us = t->created_us;
    v->expires_us = t->expires_us;
    v->revoked_us = t->revoked_us;
    v->last_used_us = t->last_used_us;
}

static bool
may_see(const struct request *request, const struct token *t)
{
    return request->peer.admin || t->uid == (int64_t)request->peer.uid;
}

static int64_t
wall_us(void)
{
    uv_timeval64_t now;

    uv_gettimeofday(&now);
    return now.tv_sec * 1000000 + now.tv_usec;
}

/* ---- list -----------------------------------------------------------------*/

void
command_tokens(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    const char *(*names)[N_SCOPES];
    struct view_token *views;
    int n = 0, i = 0;

    (void)target;
    while (tokens_at(d->tokens, n) != NULL)
        n++;
    views = calloc((size_t)n + 1, sizeof(*views));
    names = calloc((size_t)n + 1, sizeof(*names));
    assert(views != NULL && names != NULL);
    for (int k = 0; k < n; k++) {
        const struct token *t = tokens_at(d->tokens, k);

        if (may_see(request, t)) {
            fill(&views[i], t, names[i]);
            i++;
        }
    }
    request_reply(request, views, i, false);
    free(names);
    free(views);
}

/* ---- create ---------------------------------------------------------------*/

static int
read_scopes(const struct request *request, unsigned *out, struct err *err)
{
    const struct view_strs *words = &request->args.token_new.scopes;

    *out = words->n == 0 ? SCOPE_READ : 0;
    for (int i = 0; i < words->n; i++) {
        unsigned scope = auth_scope_parse(words->v[i]);

        if (scope == 0)
            return err_set(err, ERR_USAGE,
                           "scopes: \"%.60s\" is none of read, submit, admin, "
                           "metrics",
                           words->v[i]);
        *out |= scope;
    }
    if ((*out & SCOPE_ADMIN) != 0 && !request->peer.admin)
        return err_set(err, ERR_DENIED,
                       "scope admin is for administrators of this traind");
    return 0;
}

static int
count_good(const struct tokens *tokens, int64_t uid, int64_t now)
{
    const struct token *t;
    int n = 0;

    for (int i = 0; (t = tokens_at(tokens, i)) != NULL; i++)
        n += t->uid == uid && tokens_is_good(t, now);
    return n;
}

static int
check_new(const struct daemon *d, const struct request *request, int64_t now,
          struct err *err)
{
    const struct view_token_new *args = &request->args.token_new;
    size_t len = strlen(args->name);

    /* Else one that is stolen, or runs out, would have children. */
    if (request->peer.token != 0)
        return err_set(err, ERR_DENIED,
                       "a token makes no tokens: trainctl token create does");
    if (len > TOKENS_NAME_MAX || !utf8_valid(args->name, len) ||
        utf8_has_control(args->name, len))
        return err_set(err, ERR_USAGE,
                       "name: at most %d bytes of text in one line",
                       TOKENS_NAME_MAX);
    if (args->expires_s < 0 || args->expires_s > MOST_SECONDS)
        return err_set(err, ERR_USAGE,
                       "expires_s: seconds, at most ten years; 0 = for ever");
    if (count_good(d->tokens, request->peer.uid, now) >= TOKENS_PER_USER)
        return err_set(err, ERR_AGAIN,
                       "you have %d tokens already: revoke some",
                       TOKENS_PER_USER);
    return 0;
}

struct creation {
    struct daemon *d;
    struct request *request;
    struct token token;
    char secret[TOKENS_SECRET_MAX];
};

static void
on_inserted(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct creation *c = ctx;
    const char *names[N_SCOPES];
    struct view_token view;

    if (command_is_over(c->d, c->request)) {
        /* nobody to tell */
    } else if (rc != 0) {
        request_refuse(c->request, err, NULL);
    } else {
        c->token.id = id;
        tokens_add(c->d->tokens, &c->token);
        fill(&view, &c->token, names);
        view.secret = c->secret;
        request_reply(c->request, &view, 1, false);
    }
    explicit_bzero(c->secret, sizeof(c->secret));
    free(c);
}

void
command_token_create(struct daemon *d, struct request *request,
                     const struct command_target *target)
{
    const struct view_token_new *args = &request->args.token_new;
    struct passwd account, *found = NULL;
    int64_t now = wall_us();
    struct creation *c = calloc(1, sizeof(*c));
    struct token *t = &c->token;
    char buf[4096];
    struct err err;
    int rc;

    (void)target;
    assert(c != NULL);
    err_clear(&err);
    c->d = d;
    c->request = request;
    rc = check_new(d, request, now, &err);
    if (rc == 0)
        rc = read_scopes(request, &t->scopes, &err);
    if (rc == 0)
        rc = tokens_make_secret(c->secret, t->hash, &err);
    if (rc != 0) {
        free(c);
        request_refuse(request, &err, NULL);
        return;
    }
    if (getpwuid_r(request->peer.uid, &account, buf, sizeof(buf), &found) != 0)
        found = NULL;
    snprintf(t->user, sizeof(t->user), "%s",
             found != NULL ? found->pw_name : "");
    snprintf(t->name, sizeof(t->name), "%s", args->name);
    t->uid = request->peer.uid;
    t->admin = request->peer.admin;
    t->created_us = now;
    t->expires_us = args->expires_s > 0 ? now + args->expires_s * 1000000 : 0;
    store_insert_token(d->store,
                       &(struct store_token){.uid = t->uid,
                                             .created_us = t->created_us,
                                             .expires_us = t->expires_us,
                                             .user = t->user,
                                             .name = t->name,
                                             .hash = t->hash,
                                             .scopes = t->scopes,
                                             .admin = t->admin},
                       on_inserted, c);
}

/* ---- revoke ---------------------------------------------------------------*/

struct revocation {
    struct daemon *d;
    struct request *request;
    int64_t id, when_us;
};

static void
on_revoked(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct revocation *r = ctx;
    const char *names[N_SCOPES];
    struct view_token view;

    (void)id;
    if (!command_is_over(r->d, r->request)) {
        struct token *t = tokens_get(r->d->tokens, r->id);

        if (rc != 0) {
            /* It is not revoked, and nobody is to think that it is. */
            t->revoked_us = 0;
            request_refuse(r->request, err, NULL);
        } else {
            fill(&view, t, names);
            request_reply(r->request, &view, 1, false);
        }
    }
    free(r);
}

void
command_token_revoke(struct daemon *d, struct request *request,
                     const struct command_target *target)
{
    int64_t id = request->args.token_ref.id;
    struct token *t = tokens_get(d->tokens, id);
    const char *names[N_SCOPES];
    struct view_token view;
    struct revocation *r;

    (void)target;
    if (t == NULL || !may_see(request, t)) {
        command_refuse(request, ERR_NOTFOUND, "there is no token %" PRId64, id);
        return;
    }
    if (t->revoked_us != 0) {
        fill(&view, t, names);
        request_reply(request, &view, 1, false);
        return;
    }
    r = calloc(1, sizeof(*r));
    assert(r != NULL);
    r->d = d;
    r->request = request;
    r->id = id;
    /* It is good no more from here on, unless that cannot be written. */
    t->revoked_us = wall_us();
    store_revoke_token(d->store, id, t->revoked_us, request->peer.uid,
                       on_revoked, r);
}
