/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"

#define MAX_SCOPES 8

/* ---- create ---------------------------------------------------------------*/

/* "30d", "12h", "90min", "45s". */
static int
read_duration(const char *text, int64_t *seconds, struct err *err)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    char *end;

    errno = 0;
    *seconds = strtoll(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && errno == 0 && *seconds > 0)
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
            if (strcmp(end, units[i].unit) == 0 &&
                *seconds <= INT64_MAX / units[i].seconds) {
                *seconds *= units[i].seconds;
                return 0;
            }
    return err_set(err, ERR_USAGE,
                   "--expires: \"%.60s\" is no time such as 30d, 12h, 90min",
                   text);
}

/* Cuts a copy of "read,submit" into words. */
static int
read_scopes(char *text, const char *words[MAX_SCOPES], int *n, struct err *err)
{
    char *save, *word = strtok_r(text, ",", &save);

    for (*n = 0; word != NULL; word = strtok_r(NULL, ",", &save)) {
        if (*n == MAX_SCOPES)
            return err_set(err, ERR_USAGE, "--scope: too many words");
        words[(*n)++] = word;
    }
    return 0;
}

static int
tell_created(struct session *s, const struct view_token *t, struct err *err)
{
    char when[FORMAT_MAX];

    if (!output_is_text(&s->out))
        return session_put_result(s, VIEW_ID_token, t, err);
    session_tell(s, "%s", t->secret);
    format_time(t->expires_us, s->out.utc, when, sizeof(when));
    session_say(s, "token %" PRId64 "%s%s; it is told this once", t->id,
                t->expires_us > 0 ? " is good until " : " does not expire",
                t->expires_us > 0 ? when : "");
    return 0;
}

static int
create(struct session *s, struct err *err)
{
    const char *scope = args_value(s->args, "scope");
    const char *name = args_value(s->args, "name");
    const char *expires = args_value(s->args, "expires");
    char *text = strdup(scope != NULL ? scope : "read");
    const char *words[MAX_SCOPES];
    struct view_token_new args;
    struct view_token token;
    int rc;

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    view_init(VIEW_ID_token_new, &args);
    args.name = name != NULL ? name : "";
    rc = read_scopes(text, words, &args.scopes.n, err);
    args.scopes.v = words;
    if (rc == 0 && expires != NULL)
        rc = read_duration(expires, &args.expires_s, err);
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_token_create, &args, &token, err);
    if (rc == 0)
        rc = tell_created(s, &token, err);
    free(text);
    return rc;
}

/* ---- list, revoke ---------------------------------------------------------*/

static int
list(struct session *s, struct err *err)
{
    struct view_none none;
    int rc;

    view_init(VIEW_ID_none, &none);
    rc = session_list(s, MESSAGE_ID_tokens, &none, &layout_tokens, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "you have no tokens");
    return rc;
}

static int
revoke(struct session *s, struct err *err)
{
    const char *text = args_at(s->args, 1);
    struct view_token_ref args;
    struct view_token token;
    char *end;
    int rc;

    view_init(VIEW_ID_token_ref, &args);
    args.id = strtoll(text, &end, 10);
    if (*end != '\0' || args.id <= 0)
        return err_set(err, ERR_USAGE,
                       "\"%.60s\" is no token's number; token list has them",
                       text);
    rc = session_one(s, MESSAGE_ID_token_revoke, &args, &token, err);
    if (rc < 0)
        return rc;
    if (output_is_text(&s->out))
        session_say(s, "token %" PRId64 " is revoked", token.id);
    return session_put_result(s, VIEW_ID_token, &token, err);
}

static int
run_token(struct session *s, struct err *err)
{
    const char *what = args_at(s->args, 0);
    int n = args_n(s->args);

    if (strcmp(what, "create") == 0 && n == 1)
        return create(s, err);
    if (strcmp(what, "list") == 0 && n == 1)
        return list(s, err);
    if (strcmp(what, "revoke") == 0 && n == 2)
        return revoke(s, err);
    return err_set(err, ERR_USAGE,
                   "token %.60s: there are create, list, and revoke NUMBER",
                   what);
}

const struct cmd cmd_token = {
    .name = "token",
    .synopsis = "create|list|revoke [NUMBER]",
    .doc = "tokens for those who ask over HTTP",
    .detail = "create prints the secret alone on standard output, this once; "
              "it is sent as \"Authorization: Bearer SECRET\". A token acts "
              "for whoever made it, within its scopes: read; submit, which "
              "also changes jobs; admin; metrics.",
    .options =
        (const struct args_option[]){
            {"scope", 0, "WORDS", "create: read,submit,...; default read"},
            {"name", 0, "TEXT", "create: what it is for"},
            {"expires", 0, "TIME", "create: good for so long, as in 30d"},
            {0},
        },
    .min_args = 1,
    .max_args = 2,
    .run = run_token,
};
