/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_args.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"

static const struct view_field *
find_field(enum view_id view, const char *name)
{
    const struct view_desc *desc = &view_table[view];

    for (int i = 0; i < desc->n_fields; i++)
        if (strcmp(desc->fields[i].name, name) == 0)
            return &desc->fields[i];
    return NULL;
}

static int
set_integer(const char *name, const char *text, int64_t *out, struct err *err)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if ((text[0] != '-' && (text[0] < '0' || text[0] > '9')) || *end != '\0' ||
        errno != 0)
        return err_set(err, ERR_USAGE, "%s: \"%.60s\" is no whole number", name,
                       text);
    return 0;
}

static int
set_bool(const char *name, const char *text, bool *out, struct err *err)
{
    *out = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!*out && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return err_set(err, ERR_USAGE,
                       "%s: \"%.60s\" is neither true nor false", name, text);
    return 0;
}

int
http_args_set(enum view_id view, const char *name, const char *text, void *args,
              struct err *err)
{
    const struct view_field *field = find_field(view, name);
    char *at = (char *)args + (field != NULL ? field->offset : 0);

    assert(field != NULL);
    switch (field->type) {
    case VIEW_I64: return set_integer(name, text, (int64_t *)(void *)at, err);
    case VIEW_F64:
        if (!text_parse_real(text, strlen(text), (double *)(void *)at))
            return err_set(err, ERR_USAGE, "%s: \"%.60s\" is no number", name,
                           text);
        return 0;
    case VIEW_BOOL: return set_bool(name, text, (bool *)(void *)at, err);
    case VIEW_STR: *(const char **)(void *)at = text; return 0;
    case VIEW_I64S:
    case VIEW_STRS: break;
    }
    return err_set(err, ERR_USAGE, "%s: a list belongs into the body", name);
}

static bool
is_listed(const char *const *list, const char *word)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static int
refuse_unknown(enum view_id view, const char *const *skip, const char *key,
               struct err *err)
{
    char known[256] = "";
    size_t n = 0;

    for (int i = 0; i < view_table[view].n_fields; i++) {
        const char *name = view_table[view].fields[i].name;

        if (strcmp(name, "job") != 0 && n < sizeof(known))
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s",
                                  n > 0 ? ", " : "", name);
    }
    for (; skip != NULL && *skip != NULL && n < sizeof(known); skip++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s",
                              n > 0 ? ", " : "", *skip);
    return err_set(err, ERR_USAGE, "%.60s: unknown parameter; known: %s", key,
                   n > 0 ? known : "none");
}

int
http_args_query(const struct http_uri *uri, enum view_id view,
                const char *const *skip, void *args, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < uri->n_pairs; i++) {
        const char *key = uri->pair[i].key;

        if (is_listed(skip, key))
            continue;
        /* The job is the path's business. */
        if (strcmp(key, "job") == 0 || find_field(view, key) == NULL)
            return refuse_unknown(view, skip, key, err);
        rc = http_args_set(view, key, uri->pair[i].value, args, err);
    }
    return rc;
}
