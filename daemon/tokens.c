/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/tokens.h"

#include <assert.h>
#include <errno.h>
#include <nettle/base64.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX       "traind_"
#define SECRET_BYTES 32
#define USED_US      60000000 /* last_used_us is written this often */

struct tokens {
    struct store *store;
    struct token *v; /* owned, ascending ids */
    int n, cap;
};

/* ---- secrets --------------------------------------------------------------*/

static void
hash_of(const char *secret, char out[STORE_TOKEN_HASH])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx ctx;

    sha256_init(&ctx);
    sha256_update(&ctx, strlen(secret), (const uint8_t *)secret);
    sha256_digest(&ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        sprintf(out + 2 * i, "%02x", digest[i]);
}

int
tokens_make_secret(char secret[TOKENS_SECRET_MAX], char hash[STORE_TOKEN_HASH],
                   struct err *err)
{
    uint8_t bytes[SECRET_BYTES];
    struct base64_encode_ctx ctx;
    char *p = secret + sizeof(PREFIX) - 1;
    size_t n;

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_set_errno(err, ERR_IO, errno, "random numbers");
    strcpy(secret, PREFIX);
    base64url_encode_init(&ctx);
    n = base64_encode_update(&ctx, p, sizeof(bytes), bytes);
    n += base64_encode_final(&ctx, p + n);
    while (n > 0 && p[n - 1] == '=')
        n--;
    p[n] = '\0';
    explicit_bzero(bytes, sizeof(bytes));
    hash_of(secret, hash);
    return 0;
}

/* ---- the table ------------------------------------------------------------*/

void
tokens_add(struct tokens *t, const struct token *token)
{
    if (t->n == t->cap) {
        t->cap = t->cap == 0 ? 16 : 2 * t->cap;
        t->v = realloc(t->v, (size_t)t->cap * sizeof(*t->v));
        assert(t->v != NULL);
    }
    t->v[t->n++] = *token;
}

static void
load(void *ctx, const struct store_token *row)
{
    struct token token = {.id = row->id,
                          .uid = row->uid,
                          .created_us = row->created_us,
                          .expires_us = row->expires_us,
                          .revoked_us = row->revoked_us,
                          .last_used_us = row->last_used_us,
                          .scopes = row->scopes,
                          .admin = row->admin};

    snprintf(token.user, sizeof(token.user), "%s", row->user);
    snprintf(token.name, sizeof(token.name), "%s", row->name);
    snprintf(token.hash, sizeof(token.hash), "%s", row->hash);
    tokens_add(ctx, &token);
}

struct tokens *
tokens_open(struct store *store, struct err *err)
{
    struct tokens *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        err_set(err, ERR_NOMEM, "tokens: out of memory");
        return NULL;
    }
    t->store = store;
    if (store_load_tokens(store, load, t, err) != 0)
        tokens_close(&t);
    return t;
}

void
tokens_close(struct tokens **t)
{
    if (*t == NULL)
        return;
    free((*t)->v);
    free(*t);
    *t = NULL;
}

struct token *
tokens_get(struct tokens *t, int64_t id)
{
    for (int i = 0; i < t->n; i++)
        if (t->v[i].id == id)
            return &t->v[i];
    return NULL;
}

const struct token *
tokens_at(const struct tokens *t, int i)
{
    return i < t->n ? &t->v[i] : NULL;
}

bool
tokens_is_good(const struct token *t, int64_t now_us)
{
    return t->revoked_us == 0 && (t->expires_us == 0 || now_us < t->expires_us);
}

/* Every hash is looked at, each in constant time. */
bool
tokens_find(struct tokens *t, const char *secret, int64_t now_us,
            struct auth_peer *peer)
{
    char hash[STORE_TOKEN_HASH];
    struct token *found = NULL;

    if (strlen(secret) >= TOKENS_SECRET_MAX)
        return false;
    hash_of(secret, hash);
    for (int i = 0; i < t->n; i++)
        if (memeql_sec(t->v[i].hash, hash, sizeof(hash)))
            found = &t->v[i];
    if (found == NULL || !tokens_is_good(found, now_us))
        return false;
    *peer = (struct auth_peer){.uid = (uid_t)found->uid,
                               .gid = (gid_t)-1,
                               .admin = found->admin &&
                                        (found->scopes & SCOPE_ADMIN) != 0,
                               .scopes = found->scopes,
                               .token = found->id};
    if (now_us - found->last_used_us >= USED_US) {
        found->last_used_us = now_us;
        store_use_token(t->store, found->id, now_us);
    }
    return true;
}
