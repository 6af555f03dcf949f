/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_policy.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES  160
#define VALUE_BYTES 240
#define MAX_DEPTH   8

/* ---- a sentence under way -------------------------------------------------*/

struct sentence {
    char *to;
    size_t n;
};

static void
put(struct sentence *s, const char *text)
{
    const size_t room = SPEC_POLICY_DIFFERENCE_MAX - s->n;
    const int n = snprintf(s->to + s->n, room, "%s", text);

    s->n += (size_t)n < room ? (size_t)n : room - 1;
}

/* A value as people write it: no quotes, lists in brackets. */
static void
write_value(const json_t *v, char out[VALUE_BYTES])
{
    char *text;
    size_t n = 0;

    out[0] = '\0';
    if (v == NULL) {
        snprintf(out, VALUE_BYTES, "unset");
        return;
    }
    text =
        json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    for (const char *c = text; c != NULL && *c != '\0' && n < VALUE_BYTES - 2;
         c++)
        if (*c != '"') {
            out[n++] = *c;
            if (*c == ',')
                out[n++] = ' ';
        }
    out[n] = '\0';
    free(text);
}

static void
put_pair(struct sentence *s, const char *path, const json_t *a, const json_t *b)
{
    char value[VALUE_BYTES];

    put(s, s->n > 0 ? "; " : "");
    put(s, path);
    put(s, " ");
    if (a != b) { /* the same for "now it is" */
        write_value(a, value);
        put(s, value);
        put(s, " -> ");
    }
    write_value(b, value);
    put(s, value);
}

/* ---- walks ----------------------------------------------------------------*/

static void
join(char out[PATH_BYTES], const char *path, const char *key)
{
    snprintf(out, PATH_BYTES, "%.80s%s%.70s", path, path[0] != '\0' ? "." : "",
             key);
}

static void
compare(struct sentence *s, const char *path, json_t *a, json_t *b, int depth)
{
    char below[PATH_BYTES];
    const char *key;
    json_t *value;

    if (json_equal(a, b) || depth > MAX_DEPTH)
        return;
    if (!json_is_object(a) || !json_is_object(b)) {
        put_pair(s, path, a, b);
        return;
    }
    json_object_foreach(a, key, value)
    {
        join(below, path, key);
        compare(s, below, value, json_object_get(b, key), depth + 1);
    }
    json_object_foreach(b, key, value)
    {
        join(below, path, key);
        if (json_object_get(a, key) == NULL)
            compare(s, below, NULL, value, depth + 1);
    }
}

/* Leaves of a change that no policy shows. */
static void
tell_change(struct sentence *s, const char *path, json_t *change, int depth)
{
    char below[PATH_BYTES];
    const char *key;
    json_t *value;

    if (!json_is_object(change) || depth > MAX_DEPTH) {
        put_pair(s, path, change, change);
        return;
    }
    json_object_foreach(change, key, value)
    {
        join(below, path, key);
        tell_change(s, below, value, depth + 1);
    }
}

bool
spec_policy_difference(const char *before, const char *after,
                       const char *change, char out[SPEC_POLICY_DIFFERENCE_MAX])
{
    struct sentence s = {out, 0};
    json_t *a = json_loads(before, 0, NULL);
    json_t *b = json_loads(after, 0, NULL);
    json_t *c = json_loads(change, 0, NULL);

    out[0] = '\0';
    if (json_is_object(a) && json_is_object(b))
        compare(&s, "", a, b, 0);
    if (json_is_object(c)) {
        /* The policy has shown amp; the other two change no bit. */
        if (json_is_object(a))
            json_object_del(c, "amp");
        json_object_del(c, "guard");
        json_object_del(c, "diagnose");
        tell_change(&s, "", c, 0);
    }
    json_decref(a);
    json_decref(b);
    json_decref(c);
    return s.n > 0;
}

double
spec_policy_scale_floor(const char *policy)
{
    json_t *p = json_loads(policy, 0, NULL);
    double floor = 0;
    int enabled = 0, dynamic = 1; /* where it is not said it moves */

    if (json_unpack(p, "{s:{s:b,s?b,s?F}}", "scaler", "enabled", &enabled,
                    "dynamic", &dynamic, "min_scale", &floor) != 0)
        enabled = 0;
    json_decref(p);
    return enabled && dynamic && floor > 0 ? floor : (double)NAN;
}
