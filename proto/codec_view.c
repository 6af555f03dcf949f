/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec_view.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- out ----------------------------------------------------------------- */

static void
put_ints(struct text *t, const struct view_i64s *list)
{
    text_putc(t, '[');
    for (int i = 0; i < list->n; i++) {
        text_puts(t, i > 0 ? "," : "");
        text_json_int(t, list->v[i]);
    }
    text_putc(t, ']');
}

static void
put_strings(struct text *t, const struct view_strs *list)
{
    text_putc(t, '[');
    for (int i = 0; i < list->n; i++) {
        text_puts(t, i > 0 ? "," : "");
        text_json_string(t, list->v[i] != NULL ? list->v[i] : "");
    }
    text_putc(t, ']');
}

static void
put_field(struct text *t, enum view_field_type type, const void *at)
{
    const char *s;

    switch (type) {
    case VIEW_I64: text_json_int(t, *(const int64_t *)at); return;
    case VIEW_F64: text_json_real(t, *(const double *)at); return;
    case VIEW_BOOL: text_puts(t, *(const bool *)at ? "true" : "false"); return;
    case VIEW_STR:
        s = *(const char *const *)at;
        text_json_string(t, s != NULL ? s : "");
        return;
    case VIEW_I64S: put_ints(t, at); return;
    case VIEW_STRS: put_strings(t, at); return;
    }
}

void
codec_view_encode(struct text *t, enum view_id id, const void *view, int indent)
{
    const struct view_desc *desc = &view_table[id];

    text_putc(t, '{');
    for (int i = 0; i < desc->n_fields; i++) {
        const struct view_field *f = &desc->fields[i];

        text_puts(t, i > 0 ? "," : "");
        if (indent > 0) {
            text_putc(t, '\n');
            text_fill(t, ' ', indent);
        }
        text_json_string(t, f->name);
        text_puts(t, indent > 0 ? ": " : ":");
        put_field(t, f->type, (const char *)view + f->offset);
    }
    if (indent > 0 && desc->n_fields > 0)
        text_putc(t, '\n');
    text_putc(t, '}');
}

/* ---- in ------------------------------------------------------------------ */

bool
codec_view_real(const json_t *value, double *out)
{
    const char *s = json_string_value(value);

    if (json_is_number(value))
        *out = json_number_value(value);
    else if (s != NULL && strcmp(s, "NaN") == 0)
        *out = (double)NAN;
    else if (s != NULL && strcmp(s, "Infinity") == 0)
        *out = HUGE_VAL;
    else if (s != NULL && strcmp(s, "-Infinity") == 0)
        *out = -HUGE_VAL;
    else
        return false;
    return true;
}

int
codec_view_ints(const json_t *value, struct pool *pool, const int64_t **out)
{
    size_t n = json_array_size(value);
    int64_t *v;

    if (!json_is_array(value) || n > INT_MAX)
        return -1;
    v = pool_alloc(pool, n, sizeof(*v));
    if (v == NULL)
        return -2;
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(value, i);

        if (!json_is_integer(element))
            return -1;
        v[i] = json_integer_value(element);
    }
    *out = v;
    return (int)n;
}

/* 0, -1 or -2 as above. */
static int
read_strings(const json_t *value, struct pool *pool, struct view_strs *out)
{
    size_t n = json_array_size(value);
    const char **v;

    if (!json_is_array(value) || n > INT_MAX)
        return -1;
    v = pool_alloc(pool, n, sizeof(*v));
    if (v == NULL)
        return -2;
    for (size_t i = 0; i < n; i++) {
        v[i] = json_string_value(json_array_get(value, i));
        if (v[i] == NULL)
            return -1;
    }
    out->v = v;
    out->n = (int)n;
    return 0;
}

static int
read_field(const json_t *value, enum view_field_type type, void *at,
           struct pool *pool)
{
    struct view_i64s *ints = at;
    int n;

    switch (type) {
    case VIEW_I64:
        if (!json_is_integer(value))
            return -1;
        *(int64_t *)at = json_integer_value(value);
        return 0;
    case VIEW_F64: return codec_view_real(value, at) ? 0 : -1;
    case VIEW_BOOL:
        if (!json_is_boolean(value))
            return -1;
        *(bool *)at = json_is_true(value);
        return 0;
    case VIEW_STR:
        if (!json_is_string(value))
            return -1;
        *(const char **)at = json_string_value(value);
        return 0;
    case VIEW_I64S:
        n = codec_view_ints(value, pool, &ints->v);
        if (n < 0)
            return n;
        ints->n = n;
        return 0;
    case VIEW_STRS: return read_strings(value, pool, at);
    }
    return -1;
}

static const char *
type_words(enum view_field_type type)
{
    switch (type) {
    case VIEW_I64: return "an integer";
    case VIEW_F64: return "a number, \"NaN\", \"Infinity\" or \"-Infinity\"";
    case VIEW_BOOL: return "true or false";
    case VIEW_STR: return "a string";
    case VIEW_I64S: return "a list of integers";
    case VIEW_STRS: return "a list of strings";
    }
    return "something else";
}

static const struct view_field *
find_field(const struct view_desc *desc, const char *name)
{
    for (int i = 0; i < desc->n_fields; i++)
        if (strcmp(desc->fields[i].name, name) == 0)
            return &desc->fields[i];
    return NULL;
}

static int
refuse_unknown(const struct view_desc *desc, const char *name, struct err *err)
{
    char known[300] = "none";
    size_t n = 0;

    for (int i = 0; i < desc->n_fields && n < sizeof(known) - 1; i++) {
        snprintf(known + n, sizeof(known) - n, "%s%s", i > 0 ? ", " : "",
                 desc->fields[i].name);
        n += strlen(known + n);
    }
    return err_set(err, ERR_PROTO, "unknown field \"%.80s\"; known: %s", name,
                   known);
}

int
codec_view_decode(const json_t *object, enum view_id id, bool strict,
                  void *view, struct pool *pool, struct err *err)
{
    const struct view_desc *desc = &view_table[id];
    void *iter;

    view_init(id, view);
    if (object == NULL)
        return 0;
    if (!json_is_object(object))
        return err_set(err, ERR_PROTO, "%s must be an object", desc->name);
    /* jansson iterates over objects without const, changing nothing. */
    for (iter = json_object_iter((json_t *)(uintptr_t)object); iter != NULL;
         iter = json_object_iter_next((json_t *)(uintptr_t)object, iter)) {
        const char *key = json_object_iter_key(iter);
        const struct view_field *f = find_field(desc, key);
        int rc;

        if (f == NULL && strict)
            return refuse_unknown(desc, key, err);
        if (f == NULL)
            continue;
        rc = read_field(json_object_iter_value(iter), f->type,
                        (char *)view + f->offset, pool);
        if (rc == -2)
            return err_set(err, ERR_NOMEM, "no memory for %s.%s", desc->name,
                           f->name);
        if (rc < 0)
            return err_set(err, ERR_PROTO, "%s.%s must be %s", desc->name,
                           f->name, type_words(f->type));
    }
    return 0;
}
