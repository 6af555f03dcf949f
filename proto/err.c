/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

/* Names are capitals in C and small letters everywhere else; a table built of
 * folded letters keeps errors.def the only place that spells them. */
#define NAME_MAX_LETTERS 12
#define FOLD(s, i)                                                             \
    ((i) < sizeof(s) - 1 ? (char)(s[(i) < sizeof(s) ? (i) : 0] | 0x20) : '\0')
#define FOLD_NAME(s)                                                           \
    {                                                                          \
        FOLD(s, 0), FOLD(s, 1), FOLD(s, 2), FOLD(s, 3), FOLD(s, 4),            \
            FOLD(s, 5), FOLD(s, 6), FOLD(s, 7), FOLD(s, 8), FOLD(s, 9),        \
            FOLD(s, 10), FOLD(s, 11), '\0'                                     \
    }

struct row {
    int code, exit_code, http;
    char name[NAME_MAX_LETTERS + 1];
    const char *line;
};

static const struct row rows[] = {
#define ERR(name, number, exit_code, http, line)                               \
    {-(number), exit_code, http, FOLD_NAME(#name), line},
#include "proto/errors.def"
#undef ERR
};

#define ERR(name, number, exit_code, http, line)                               \
    _Static_assert(sizeof(#name) - 1 <= NAME_MAX_LETTERS, #name);
#include "proto/errors.def"
#undef ERR

static const struct row *
find_row(int code)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

/* A sentence is one line for a terminal or a journal, and valid UTF-8. */
static void
put_sentence(struct err *e, const char *s)
{
    size_t n = strlen(s);

    if (n > sizeof(e->msg) - 1)
        n = sizeof(e->msg) - 1;
    n = utf8_cut(s, n);
    memcpy(e->msg, s, n);
    for (size_t i = 0; i < n; i++) {
        size_t k = utf8_length(e->msg + i, n - i);

        if (k == 0 || utf8_has_control(e->msg + i, k))
            e->msg[i] = '?';
        else
            i += k - 1;
    }
    e->msg[n] = '\0';
}

void
err_clear(struct err *e)
{
    if (e == NULL)
        return;
    e->code = ERR_OK;
    e->msg[0] = '\0';
}

/* In all three the arguments may be parts of e: the text is made first. */
int
err_set(struct err *e, int code, const char *fmt, ...)
{
    char buf[ERR_SENTENCE_MAX + 8];
    va_list ap;

    if (e == NULL)
        return code;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    e->code = code;
    put_sentence(e, buf);
    return code;
}

int
err_set_errno(struct err *e, int code, int errnum, const char *fmt, ...)
{
    char buf[ERR_SENTENCE_MAX + 8];
    char reason[96];
    char whole[sizeof(buf) + sizeof(reason) + 2];
    va_list ap;

    if (e == NULL)
        return code;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof(whole), "%s: %s", buf,
             strerror_r(errnum, reason, sizeof(reason)));
    e->code = code;
    put_sentence(e, whole);
    return code;
}

int
err_prefix(struct err *e, const char *fmt, ...)
{
    char buf[ERR_SENTENCE_MAX + 8];
    char whole[sizeof(buf) + ERR_SENTENCE_MAX + 2];
    va_list ap;

    if (e == NULL)
        return ERR_INTERNAL;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof(whole), "%s: %s", buf, e->msg);
    put_sentence(e, whole);
    return e->code;
}

const char *
err_name(int code)
{
    const struct row *row = find_row(code);

    if (code == ERR_OK)
        return "ok";
    return row != NULL ? row->name : "unknown";
}

const char *
err_line(int code)
{
    const struct row *row = find_row(code);

    if (code == ERR_OK)
        return "all is well";
    return row != NULL ? row->line : "unknown error";
}

int
err_exit_code(int code)
{
    const struct row *row = find_row(code);

    if (code == ERR_OK)
        return 0;
    return row != NULL ? row->exit_code : 70;
}

int
err_http_status(int code)
{
    const struct row *row = find_row(code);

    if (code == ERR_OK)
        return 200;
    return row != NULL ? row->http : 500;
}
