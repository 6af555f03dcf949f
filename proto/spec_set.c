/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_locate.h"
#include "proto/text.h"
#include "proto/utf8.h"

/*
 * Only the value's own bytes change, so that lines and columns of everything
 * else stay what a person sees in the file.
 */

#define PATH_MAX_BYTES 512
#define MAX_PARTS      32

/* "model[2].linear" is model, 2, linear. */
struct parts {
    char buf[PATH_MAX_BYTES];
    const char *part[MAX_PARTS];
    int n;
};

/* Where the new bytes go, and how many parts of the path exist already. */
struct splice {
    size_t start, end; /* bytes that are replaced */
    const char *before, *after;
    int known;
};

static int
split_path(const char *path, size_t n, struct parts *parts, struct err *err)
{
    size_t len = 0;
    char *save = NULL;
    bool bad = n == 0 || n >= sizeof(parts->buf) || path[0] == '[';

    for (size_t i = 0; i < n && !bad; i++) {
        char next = i + 1 < n ? path[i + 1] : '.';

        if (path[i] == ']')
            bad = next != '.' && next != '[';
        else
            parts->buf[len++] = path[i] == '[' ? '.' : path[i];
        bad = bad || ((path[i] == '.' || path[i] == '[') && next == '.');
    }
    parts->buf[len] = '\0';
    parts->n = 0;
    for (char *part = strtok_r(parts->buf, ".", &save); part != NULL && !bad;
         part = strtok_r(NULL, ".", &save)) {
        bad = parts->n == MAX_PARTS;
        if (!bad)
            parts->part[parts->n++] = part;
    }
    if (!bad && parts->n > 0)
        return 0;
    return err_set(err, ERR_USAGE,
                   "\"%.*s\" is no path of a key, such as train.epochs or "
                   "model[2].dropout.p",
                   (int)utf8_cut(path, n < 100 ? n : 100), path);
}

static int
find_element(const struct spec_tree *tree, int node, const char *part,
             struct err *err)
{
    int n = tree->nodes[node].n;
    int at = tree->nodes[node].first;
    char path[160];
    long i;

    spec_locate_path(tree, node, NULL, path, sizeof(path));
    if (node == 0)
        return err_set(err, ERR_SPEC, "the spec is a list, not an object");
    if (part[strspn(part, "0123456789")] != '\0' || strlen(part) > 9)
        return err_set(err, ERR_USAGE,
                       "%s is a list of %d; \"%.60s\" is no "
                       "position in it",
                       path, n, part);
    i = strtol(part, NULL, 10);
    if (i >= n)
        return err_set(err, ERR_USAGE, "%s has %d elements, the last is %d",
                       path, n, n - 1);
    while (i-- > 0)
        at = tree->nodes[at].next;
    return at;
}

/* A new member goes after the last one of an object. */
static void
splice_member(const struct spec_tree *tree, int node, struct splice *s)
{
    int last = tree->nodes[node].first;

    s->before = ", ";
    s->after = "";
    s->start = tree->nodes[node].start + 1;
    if (last < 0)
        s->before = "";
    for (; last >= 0; last = tree->nodes[last].next)
        s->start = tree->nodes[last].end;
    s->end = s->start;
}

/* Follows the path as far as the text goes. A bare word where the path goes
 * on by that word ("loss": "mse", loss.mse...) becomes an object, null too. */
static int
find_splice(const struct spec_tree *tree, const struct parts *parts,
            struct splice *s, struct err *err)
{
    int node = 0;

    for (s->known = 0; s->known < parts->n; s->known++) {
        const struct spec_node *at = &tree->nodes[node];
        const char *part = parts->part[s->known];
        char path[160];
        int child;

        s->start = at->start;
        s->end = at->end;
        s->before = "{";
        s->after = "}";
        if (at->type == SPEC_NODE_NULL ||
            (at->type == SPEC_NODE_STRING &&
             spec_locate_equals(tree, at->start, at->end, part)))
            return 0;
        if (at->type == SPEC_NODE_OBJECT) {
            child = spec_locate_find(tree, node, part);
            if (child < 0) {
                splice_member(tree, node, s);
                return 0;
            }
        } else if (at->type == SPEC_NODE_ARRAY) {
            child = find_element(tree, node, part, err);
            if (child < 0)
                return child;
        } else {
            spec_locate_path(tree, node, NULL, path, sizeof(path));
            return err_set(err, ERR_USAGE,
                           "%s is no object, it has no key \"%.60s\"",
                           node == 0 ? "the spec" : path, part);
        }
        node = child;
    }
    s->start = tree->nodes[node].start;
    s->end = tree->nodes[node].end;
    s->before = s->after = "";
    return 0;
}

/* JSON as it stands, anything else as a string. */
static int
put_value(struct text *t, const char *value, struct err *err)
{
    json_error_t error = {.text = ""};
    json_t *json = json_loadb(value, strlen(value),
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (json != NULL) {
        json_decref(json);
        text_puts(t, value);
        return 0;
    }
    if (error.text[0] == '\0')
        return err_set(err, ERR_NOMEM, "no memory for the value");
    if (value[0] == '{' || value[0] == '[' || value[0] == '"')
        return err_set(err, ERR_USAGE, "the value is no JSON: column %d: %s",
                       error.column, error.text);
    text_json_string(t, value);
    return 0;
}

static int
build(const struct spec_tree *tree, const struct parts *parts,
      const struct splice *s, const char *value, struct text *t,
      struct err *err)
{
    int rc;

    text_put(t, tree->text, s->start);
    text_puts(t, s->before);
    for (int i = s->known; i < parts->n; i++) {
        text_puts(t, i > s->known ? "{" : "");
        text_json_string(t, parts->part[i]);
        text_puts(t, ": ");
    }
    rc = put_value(t, value, err);
    if (rc != 0)
        return rc;
    for (int i = s->known + 1; i < parts->n; i++)
        text_putc(t, '}');
    text_puts(t, s->after);
    text_put(t, tree->text + s->end, tree->len - s->end);
    return 0;
}

/* Says where a text is no JSON. */
static int
refuse_text(const char *text, size_t len, struct err *err)
{
    json_error_t error = {.text = ""};
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

    if (json != NULL) {
        json_decref(json);
        return err_set(err, ERR_SPEC, "the spec is nested deeper than %d",
                       SPEC_MAX_DEPTH);
    }
    if (error.text[0] == '\0')
        return err_set(err, ERR_NOMEM, "no memory for the spec");
    return err_set(err, ERR_SPEC, "%d:%d: %s", error.line, error.column,
                   error.text);
}

int
spec_set(const char *text, size_t len, const char *assignment, char **out,
         struct err *err)
{
    const char *equals = strchr(assignment, '=');
    struct spec_tree tree = {0};
    struct splice s = {0};
    struct text t = {0};
    struct parts parts;
    int rc;

    *out = NULL;
    if (equals == NULL || !utf8_valid(assignment, strlen(assignment)))
        return err_set(err, ERR_USAGE,
                       "\"%.100s\" is not of the form path=value", assignment);
    if (len > SPEC_MAX_BYTES)
        return err_set(err, ERR_SPEC,
                       "the spec is %zu bytes long, at most %d are allowed",
                       len, SPEC_MAX_BYTES);
    rc = split_path(assignment, (size_t)(equals - assignment), &parts, err);
    if (rc != 0)
        return rc;
    rc = spec_locate_init(&tree, text, len);
    if (rc == ERR_SPEC)
        rc = refuse_text(text, len, err);
    if (rc == 0)
        rc = find_splice(&tree, &parts, &s, err);
    if (rc == 0)
        rc = build(&tree, &parts, &s, equals + 1, &t, err);
    if (rc == 0)
        *out = text_take(&t, NULL);
    if (rc == 0 && *out == NULL)
        rc = err_set(err, ERR_NOMEM, "no memory for the spec");
    text_fini(&t);
    spec_locate_fini(&tree);
    return rc;
}
