/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_changes.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_merge.h"

static json_t *
load(const char *list)
{
    json_t *json = list[0] == '\0'
                       ? json_array()
                       : json_loads(list, JSON_REJECT_DUPLICATES, NULL);

    if (json != NULL && json_is_array(json))
        return json;
    json_decref(json);
    return NULL;
}

static const char *
get_text(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));

    return text != NULL ? text : "";
}

static bool
is_plain(const json_t *entry)
{
    return get_text(entry, "difference")[0] == '\0';
}

/* Rollbacks that changed nothing are of no use once there is a later one. */
static void
drop_plain(json_t *list)
{
    for (size_t i = json_array_size(list); i-- > 0;)
        if (is_plain(json_array_get(list, i)))
            json_array_remove(list, i);
}

int
spec_changes_add(const char *list, const struct spec_changes_entry *entry,
                 char **out, struct err *err)
{
    json_t *json = load(list);
    json_t *last =
        json_pack("{sI sI sI ss ss ss}", "attempt", (json_int_t)entry->attempt,
                  "iteration", (json_int_t)entry->iteration, "uid",
                  (json_int_t)entry->uid, "cause", entry->cause, "difference",
                  entry->difference, "change", entry->change);
    int rc = 0;

    *out = NULL;
    if (json == NULL) {
        rc = err_set(err, ERR_INTERNAL, "the list of changes is no JSON list");
    } else if (last == NULL) {
        rc = err_set(err, ERR_SPEC, "the change is no UTF-8 text");
    } else {
        drop_plain(json);
        json_array_append(json, last);
        *out = json_dumps(json, JSON_COMPACT);
        if (*out == NULL)
            rc = err_set(err, ERR_NOMEM, "no memory for the list of changes");
    }
    if (rc == 0 && strlen(*out) > SPEC_CHANGES_MAX_BYTES) {
        free(*out);
        *out = NULL;
        rc = err_set(err, ERR_STATE,
                     "it was changed too often: more than %d bytes of changes "
                     "to keep",
                     SPEC_CHANGES_MAX_BYTES);
    }
    json_decref(last);
    json_decref(json);
    return rc;
}

int
spec_changes_apply(const char *text, size_t len, const char *list, char **out,
                   struct err *err)
{
    json_t *json = load(list);
    size_t n = json_array_size(json);
    char *next = NULL;
    int rc;

    *out = NULL;
    if (json == NULL)
        return err_set(err, ERR_INTERNAL,
                       "the list of changes is no JSON list");
    rc = spec_merge(text, len, "{}", out, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc =
            spec_merge(*out, strlen(*out),
                       get_text(json_array_get(json, i), "change"), &next, err);
        free(*out);
        *out = next;
    }
    json_decref(json);
    return rc;
}

bool
spec_changes_last(const char *list, struct spec_changes_entry *out)
{
    json_t *json = load(list);
    const json_t *last = json_array_get(json, json_array_size(json) - 1);

    *out = (struct spec_changes_entry){.uid = -1,
                                       .cause = "",
                                       .difference = "",
                                       .change = "{}",
                                       .memory = json};
    if (last == NULL)
        return false;
    out->attempt = json_integer_value(json_object_get(last, "attempt"));
    out->iteration = json_integer_value(json_object_get(last, "iteration"));
    out->uid = json_integer_value(json_object_get(last, "uid"));
    out->cause = get_text(last, "cause");
    out->difference = get_text(last, "difference");
    out->change = get_text(last, "change");
    return true;
}

void
spec_changes_fini(struct spec_changes_entry *entry)
{
    json_decref(entry->memory);
    entry->memory = NULL;
}

bool
spec_changes_any(const char *list)
{
    json_t *json = load(list);
    bool any = false;

    for (size_t i = 0; i < json_array_size(json) && !any; i++)
        any = !is_plain(json_array_get(json, i));
    json_decref(json);
    return any;
}

char *
spec_changes_tell(const char *list)
{
    json_t *json = load(list), *told = json_array();
    char *text = NULL;

    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *entry = json_array_get(json, i);

        if (!is_plain(entry))
            json_array_append_new(
                told, json_pack("{sO sO sO sO}", "attempt",
                                json_object_get(entry, "attempt"), "iteration",
                                json_object_get(entry, "iteration"), "cause",
                                json_object_get(entry, "cause"), "difference",
                                json_object_get(entry, "difference")));
    }
    if (told != NULL)
        text = json_array_size(told) > 0 ? json_dumps(told, JSON_COMPACT)
                                         : strdup("");
    json_decref(told);
    json_decref(json);
    return text;
}
