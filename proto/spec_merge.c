/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_merge.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_locate.h"
#include "proto/text.h"

/*
 * A merge is one spec_set() for each value of the fragment, so that all that
 * is not changed keeps its bytes, and its place.
 */

#define PATH_MAX_BYTES 400 /* spec_set() takes 511 */

static const char key_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

/* ---- reading a fragment --------------------------------------------------- */

static int
check_fragment(const char *fragment, struct err *err)
{
    json_error_t error = {.text = ""};
    json_t *json;
    size_t len = strlen(fragment);
    bool object;

    if (len > SPEC_MERGE_MAX_BYTES)
        return err_set(err, ERR_SPEC,
                       "the change is %zu bytes long, at most %d are allowed",
                       len, SPEC_MERGE_MAX_BYTES);
    json = json_loadb(fragment, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
                      &error);
    if (json == NULL && error.text[0] == '\0')
        return err_set(err, ERR_NOMEM, "no memory for the change");
    if (json == NULL)
        return err_set(err, ERR_SPEC, "the change is no JSON: %d:%d: %s",
                       error.line, error.column, error.text);
    object = json_is_object(json);
    json_decref(json);
    if (!object)
        return err_set(err, ERR_SPEC, "the change is not a JSON object");
    return 0;
}

static int
scan_fragment(struct spec_tree *tree, const char *fragment, struct err *err)
{
    int rc = check_fragment(fragment, err);

    if (rc == 0)
        rc = spec_locate_init(tree, fragment, strlen(fragment));
    if (rc == ERR_SPEC && tree->too_deep)
        err_set(err, rc, "the change is nested deeper than %d", SPEC_MAX_DEPTH);
    return rc;
}

/* ---- one value ------------------------------------------------------------ */

struct merge {
    const struct spec_tree *change; /* borrowed */
    char *text;                     /* owned: the spec so far */
    size_t len;
    int n_values;
    char path[PATH_MAX_BYTES];
    struct err *err;
};

/* Puts bytes at a path of keys: path=BEFORE value AFTER. */
static int
put(struct merge *m, const char *path, const char *before, const char *value,
    size_t n, const char *after)
{
    struct text t = {0};
    char *assignment, *next = NULL;
    int rc;

    text_puts(&t, path);
    text_putc(&t, '=');
    text_puts(&t, before);
    text_put(&t, value, n);
    text_puts(&t, after);
    assignment = text_take(&t, NULL);
    if (assignment == NULL)
        return err_set(m->err, ERR_NOMEM, "no memory for the spec");
    rc = spec_set(m->text, m->len, assignment, &next, m->err);
    free(assignment);
    if (rc != 0) {
        err_prefix(m->err, "the change does not fit");
        return rc == ERR_USAGE ? ERR_SPEC : rc;
    }
    free(m->text);
    m->text = next;
    m->len = strlen(next);
    if (m->len > SPEC_MAX_BYTES)
        return err_set(m->err, ERR_SPEC,
                       "with the change the spec is %zu bytes long, at most %d "
                       "are allowed",
                       m->len, SPEC_MAX_BYTES);
    return 0;
}

static int
put_node(struct merge *m, const char *path, int node)
{
    const struct spec_node *at = &m->change->nodes[node];

    if (++m->n_values > SPEC_MERGE_MAX_VALUES)
        return err_set(m->err, ERR_SPEC, "the change holds more than %d values",
                       SPEC_MERGE_MAX_VALUES);
    return put(m, path, "", m->change->text + at->start, at->end - at->start,
               "");
}

/* What the text has at a path of keys; -1: nothing. */
static int
find_path(const struct spec_tree *tree, const char *path)
{
    char key[PATH_MAX_BYTES];
    int node = 0;

    while (*path != '\0' && node >= 0) {
        size_t n = strcspn(path, ".");

        if (tree->nodes[node].type != SPEC_NODE_OBJECT)
            return -1;
        snprintf(key, sizeof(key), "%.*s", (int)n, path);
        node = spec_locate_find(tree, node, key);
        path += n + (path[n] == '.');
    }
    return node;
}

/* Gives a short form its long one, where the change has an object for it. */
static int
expand_guard(struct merge *m, const struct spec_tree *tree, int node)
{
    const struct spec_node *at = &tree->nodes[node];
    const char *before = "{\"mode\": ";

    if (at->type == SPEC_NODE_ARRAY)
        before = "{\"rules\": ";
    else if (at->type != SPEC_NODE_STRING)
        return 0;
    return put(m, "guard", before, tree->text + at->start, at->end - at->start,
               "}");
}

/* true and false of amp.scaler. */
static int
expand_scaler(struct merge *m, const struct spec_tree *tree, int node)
{
    const struct spec_node *at = &tree->nodes[node];

    if (at->type != SPEC_NODE_TRUE && at->type != SPEC_NODE_FALSE)
        return 0;
    return put(m, "amp.scaler", "{\"enabled\": ", tree->text + at->start,
               at->end - at->start, "}");
}

/* "cosine" or {"cosine": {...}}: the kind is a key, and there is one only.
 * True: the change names another. */
static bool
is_other_kind(const struct spec_tree *tree, int node, const char *kind)
{
    const struct spec_node *at = &tree->nodes[node];

    if (at->type == SPEC_NODE_STRING)
        return !spec_locate_equals(tree, at->start, at->end, kind);
    return at->type == SPEC_NODE_OBJECT && at->n > 0 &&
           spec_locate_find(tree, node, kind) < 0;
}

/* ---- the walk ------------------------------------------------------------- */

static int merge_members(struct merge *m, int object);

/* An object of the change, at m->path. *done: nothing is left to merge. */
static int
meet_object(struct merge *m, int object, bool *done)
{
    const struct spec_node *o = &m->change->nodes[object];
    struct spec_tree tree = {0};
    int rc = spec_locate_init(&tree, m->text, m->len);
    int node = rc == 0 ? find_path(&tree, m->path) : -1;

    *done = false;
    if (rc == ERR_SPEC) {
        err_set(m->err, rc, "the spec is no JSON");
    } else if (rc == ERR_NOMEM) {
        err_set(m->err, rc, "no memory for the spec");
    } else if (o->n == 0) {
        /* Nothing to merge, but there is an object from now on. */
        *done = true;
        if (node < 0 || tree.nodes[node].type == SPEC_NODE_NULL)
            rc = put_node(m, m->path, object);
        else if (tree.nodes[node].type == SPEC_NODE_ARRAY)
            rc = err_set(m->err, ERR_SPEC,
                         "the change does not fit: %s is a list, not an object",
                         m->path);
    } else if (node >= 0 && strcmp(m->path, "guard") == 0) {
        rc = expand_guard(m, &tree, node);
    } else if (node >= 0 && strcmp(m->path, "amp.scaler") == 0) {
        rc = expand_scaler(m, &tree, node);
    } else if (node >= 0 && strcmp(m->path, "schedule") == 0 && o->n == 1) {
        const struct spec_node *only = &m->change->nodes[o->first];
        char kind[64];

        snprintf(kind, sizeof(kind), "%.*s",
                 (int)(only->key_end - only->key - 2),
                 m->change->text + only->key + 1);
        *done = is_other_kind(&tree, node, kind);
        if (*done)
            rc = put_node(m, m->path, object);
    }
    spec_locate_fini(&tree);
    return rc;
}

static int
merge_member(struct merge *m, int node)
{
    const struct spec_node *at = &m->change->nodes[node];
    const char *key = m->change->text + at->key + 1;
    size_t n = at->key_end - at->key - 2, old = strlen(m->path);
    char quoted[80];
    bool done = false;
    int rc = 0;

    /* No key of a spec looks otherwise, and such a one would be taken for a
     * path, or for a position in a list. */
    if (n == 0 || strspn(key, key_letters) != n || key[0] < 'a') {
        spec_locate_quote(m->change, at->key, at->key_end, quoted,
                          sizeof(quoted));
        return err_set(m->err, ERR_SPEC, "the change has a key %s: no spec has",
                       quoted);
    }
    if (old + 1 + n >= sizeof(m->path))
        return err_set(m->err, ERR_SPEC, "the change has a key of %zu bytes",
                       old + 1 + n);
    snprintf(m->path + old, sizeof(m->path) - old, "%s%.*s", old > 0 ? "." : "",
             (int)n, key);
    if (at->type != SPEC_NODE_OBJECT)
        rc = put_node(m, m->path, node);
    else
        rc = meet_object(m, node, &done);
    if (rc == 0 && at->type == SPEC_NODE_OBJECT && !done)
        rc = merge_members(m, node);
    m->path[old] = '\0';
    return rc;
}

static int
merge_members(struct merge *m, int object)
{
    int node = m->change->nodes[object].first;
    int rc = 0;

    for (; node >= 0 && rc == 0; node = m->change->nodes[node].next)
        rc = merge_member(m, node);
    return rc;
}

int
spec_merge(const char *text, size_t len, const char *fragment, char **out,
           struct err *err)
{
    struct spec_tree change = {0};
    struct merge m = {.change = &change, .err = err};
    int rc;

    *out = NULL;
    if (len > SPEC_MAX_BYTES)
        return err_set(err, ERR_SPEC,
                       "the spec is %zu bytes long, at most %d are allowed",
                       len, SPEC_MAX_BYTES);
    rc = scan_fragment(&change, fragment, err);
    if (rc == 0) {
        struct text copy = {0};

        text_put(&copy, text, len);
        m.text = text_take(&copy, &m.len);
        if (m.text == NULL)
            rc = err_set(err, ERR_NOMEM, "no memory for the spec");
    }
    if (rc == 0)
        rc = merge_members(&m, 0);
    if (rc == 0) {
        *out = m.text;
        m.text = NULL;
    }
    free(m.text);
    spec_locate_fini(&change);
    return rc;
}

/* ---- path=value ----------------------------------------------------------- */

/* Bytes of the path up to where it first leads into a list: "[2]" or ".2".
 * 0: nowhere. */
static size_t
find_list(const char *assignment)
{
    size_t n = strcspn(assignment, "=");

    for (size_t i = 1; i < n; i++)
        if (assignment[i] == '[' ||
            (assignment[i] == '.' && assignment[i + 1] >= '0' &&
             assignment[i + 1] <= '9'))
            return i;
    return 0;
}

int
spec_merge_set(const char *text, size_t len, const char *assignment,
               char **fragment, struct err *err)
{
    size_t n = find_list(assignment);
    struct spec_tree tree = {0};
    struct text t = {0};
    char *changed = NULL, *whole = NULL, path[PATH_MAX_BYTES];
    int rc, node;

    *fragment = NULL;
    if (n == 0)
        return spec_set("{}", 2, assignment, fragment, err);
    rc = spec_set(text, len, assignment, &changed, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%.*s", (int)n, assignment);
    rc = spec_locate_init(&tree, changed, strlen(changed));
    node = rc == 0 ? find_path(&tree, path) : -1;
    if (node < 0 || tree.nodes[node].type != SPEC_NODE_ARRAY) {
        rc = err_set(err, rc == ERR_NOMEM ? rc : ERR_USAGE,
                     "%.100s is no list in the spec", path);
    } else {
        text_puts(&t, path);
        text_putc(&t, '=');
        text_put(&t, changed + tree.nodes[node].start,
                 tree.nodes[node].end - tree.nodes[node].start);
        whole = text_take(&t, NULL);
        rc = whole == NULL ? err_set(err, ERR_NOMEM, "no memory for the change")
                           : spec_set("{}", 2, whole, fragment, err);
    }
    free(whole);
    free(changed);
    spec_locate_fini(&tree);
    return rc;
}

/* ---- regions -------------------------------------------------------------- */

static bool
has_region(const struct spec *spec, const char *region)
{
    for (int i = 0; i < spec->amp.n_fp32_regions; i++)
        if (strcmp(spec->amp.fp32_regions[i], region) == 0)
            return true;
    return false;
}

char *
spec_merge_regions(const struct spec *before, const struct spec *after)
{
    struct text t = {0};
    int n = 0;

    text_puts(&t, "{\"amp\": {\"fp32_regions\": [");
    for (int i = 0; i < after->amp.n_fp32_regions; i++) {
        text_puts(&t, i > 0 ? ", " : "");
        text_json_string(&t, after->amp.fp32_regions[i]);
    }
    for (int i = 0; i < before->amp.n_fp32_regions; i++) {
        const char *region = before->amp.fp32_regions[i];

        if (has_region(after, region))
            continue;
        text_puts(&t, n + after->amp.n_fp32_regions > 0 ? ", " : "");
        text_json_string(&t, region);
        n++;
    }
    text_puts(&t, "]}}");
    if (n == 0) {
        text_fini(&t);
        t = (struct text){0};
        text_puts(&t, "");
    }
    return text_take(&t, NULL);
}
