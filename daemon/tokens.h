/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens: who may ask over HTTP without being known to the kernel.
 *
 * Owns all tokens in memory, as the store has them, so that asking costs no
 * query. A token acts for whoever made it, within its scopes; only one with
 * the scope admin, made by an administrator, is one. Of the secret (32 random
 * bytes) only the SHA-256 is kept; hashes are compared in constant time.
 * Loop's thread.
 */
#ifndef DAEMON_TOKENS_H
#define DAEMON_TOKENS_H

#include "daemon/auth.h"
#include "daemon/store.h"

#define TOKENS_SECRET_MAX 64
#define TOKENS_PER_USER   100 /* that are good */
#define TOKENS_NAME_MAX   100 /* bytes */

struct tokens;
struct token {
    int64_t id, uid, created_us, expires_us, revoked_us, last_used_us;
    char user[64], name[TOKENS_NAME_MAX + 1], hash[STORE_TOKEN_HASH];
    unsigned scopes;
    bool admin;
};

/* Loads them. NULL: err says why. */
struct tokens *tokens_open(struct store *store, struct err *err);
void tokens_close(struct tokens **tokens);

/* Whom a secret stands for. false: nobody; unknown, expired, revoked. */
bool tokens_find(struct tokens *tokens, const char *secret, int64_t now_us,
                 struct auth_peer *peer);

/* Fills in secret and hash. 0 or ERR_IO. */
int tokens_make_secret(char secret[TOKENS_SECRET_MAX],
                       char hash[STORE_TOKEN_HASH], struct err *err);
/* The row is in the store. */
void tokens_add(struct tokens *tokens, const struct token *token);
/* NULL: no such. Borrowed until the next tokens_add(). */
struct token *tokens_get(struct tokens *tokens, int64_t id);
/* i from 0, in order of their numbers; NULL at the end. */
const struct token *tokens_at(const struct tokens *tokens, int i);
bool tokens_is_good(const struct token *token, int64_t now_us);

#endif
