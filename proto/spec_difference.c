/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two specs, out of their printed forms: these hold every
 * default, and equal values in equal bytes. */
#include "proto/spec_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_locate.h"
#include "proto/text.h"

#define PATH_MAX_BYTES 320
#define VALUE_BYTES    100

struct compare {
    const struct spec_tree *a, *b; /* borrowed */
    struct text out;
    char path[PATH_MAX_BYTES];
    char fixed[PATH_MAX_BYTES]; /* the first that may not differ, or "" */
};

static bool
begins(const char *path, const char *section)
{
    size_t n = strlen(section);

    return strncmp(path, section, n) == 0 &&
           (path[n] == '\0' || path[n] == '.');
}

static bool
may_change(const char *path)
{
    static const char *const sections[] = {"amp", "guard", "diagnose",
                                           "schedule", "train.clip_grad_norm"};
    static const char *const settings[] = {"lr", "eps", "betas", "momentum",
                                           "weight_decay"};
    const char *last = strrchr(path, '.');

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (begins(path, sections[i]))
            return true;
    if (strncmp(path, "optimizer", 9) != 0 || last == NULL)
        return false;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (strcmp(last + 1, settings[i]) == 0)
            return true;
    return false;
}

/* Without the line breaks and indents of the printer. */
static void
put_value(struct text *t, const struct spec_tree *tree, int node)
{
    char quoted[VALUE_BYTES];
    struct text flat = {0};
    char *value;
    size_t n = 0;

    if (node < 0) {
        text_puts(t, "none");
        return;
    }
    for (size_t i = tree->nodes[node].start; i < tree->nodes[node].end; i++) {
        const char *c = tree->text + i;

        if (*c != '\n')
            text_putc(&flat, *c);
        else
            while (c[1] == ' ')
                c = tree->text + ++i;
    }
    value = text_take(&flat, &n);
    if (value == NULL) {
        t->failed = true;
        return;
    }
    spec_locate_quote(&(const struct spec_tree){.text = value}, 0, n, quoted,
                      sizeof(quoted));
    text_puts(t, quoted);
    free(value);
}

static void
note(struct compare *c, int a, int b)
{
    if (!may_change(c->path)) {
        if (c->fixed[0] == '\0')
            snprintf(c->fixed, sizeof(c->fixed), "%s", c->path);
        return;
    }
    text_puts(&c->out, c->out.len > 0 ? ", " : "");
    text_puts(&c->out, c->path);
    text_puts(&c->out, ": ");
    put_value(&c->out, c->a, a);
    text_puts(&c->out, " -> ");
    put_value(&c->out, c->b, b);
}

static void compare(struct compare *c, int a, int b);

static void
compare_objects(struct compare *c, int a, int b)
{
    const struct spec_node *nodes[2] = {c->a->nodes, c->b->nodes};
    const struct spec_tree *tree[2] = {c->a, c->b};
    size_t old = strlen(c->path);

    /* The members of a, then those that b alone has. */
    for (int side = 0; side < 2; side++) {
        int at = nodes[side][side == 0 ? a : b].first;

        for (; at >= 0; at = nodes[side][at].next) {
            const struct spec_node *node = &nodes[side][at];
            char key[64];
            int other;

            snprintf(key, sizeof(key), "%.*s",
                     (int)(node->key_end - node->key - 2),
                     tree[side]->text + node->key + 1);
            other = spec_locate_find(tree[1 - side], side == 0 ? b : a, key);
            if (side == 1 && other >= 0)
                continue;
            snprintf(c->path + old, sizeof(c->path) - old, "%s%s",
                     old > 0 ? "." : "", key);
            compare(c, side == 0 ? at : other, side == 0 ? other : at);
            c->path[old] = '\0';
        }
    }
}

static void
compare_lists(struct compare *c, int a, int b)
{
    size_t old = strlen(c->path);

    a = c->a->nodes[a].first;
    b = c->b->nodes[b].first;
    for (int i = 0; a >= 0; i++) {
        snprintf(c->path + old, sizeof(c->path) - old, "[%d]", i);
        compare(c, a, b);
        c->path[old] = '\0';
        a = c->a->nodes[a].next;
        b = c->b->nodes[b].next;
    }
}

/* Lists of objects are compared one by one: of plain values, as a whole. */
static bool
is_list_of_objects(const struct spec_tree *tree, int node)
{
    int first = tree->nodes[node].first;

    return first >= 0 && tree->nodes[first].type == SPEC_NODE_OBJECT;
}

static void
compare(struct compare *c, int a, int b)
{
    const struct spec_node *x = a < 0 ? NULL : &c->a->nodes[a];
    const struct spec_node *y = b < 0 ? NULL : &c->b->nodes[b];

    if (x != NULL && y != NULL && x->end - x->start == y->end - y->start &&
        memcmp(c->a->text + x->start, c->b->text + y->start,
               x->end - x->start) == 0)
        return;
    if (x == NULL || y == NULL || x->type != y->type)
        note(c, a, b);
    else if (x->type == SPEC_NODE_OBJECT)
        compare_objects(c, a, b);
    else if (x->type == SPEC_NODE_ARRAY && x->n == y->n &&
             is_list_of_objects(c->a, a))
        compare_lists(c, a, b);
    else
        note(c, a, b);
}

int
spec_difference(const struct spec *before, const struct spec *after, char **out,
                struct err *err)
{
    char *texts[2] = {spec_print(before), spec_print(after)};
    struct spec_tree trees[2] = {{0}, {0}};
    struct compare c = {.a = &trees[0], .b = &trees[1]};
    int rc = texts[0] == NULL || texts[1] == NULL ? ERR_NOMEM : 0;

    *out = NULL;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = strlen(texts[i]) > SPEC_LOCATE_MAX_BYTES ? ERR_NOMEM : 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = spec_locate_init(&trees[i], texts[i], strlen(texts[i]));
    if (rc == 0) {
        compare(&c, 0, 0);
        text_puts(&c.out, "");
    }
    if (rc != 0)
        err_set(err, rc, "no memory for the two specs");
    else if (c.fixed[0] != '\0')
        rc = err_set(err, ERR_SPEC,
                     "%s cannot be changed after submit: submit a new job",
                     c.fixed);
    else if ((*out = text_take(&c.out, NULL)) == NULL)
        rc = err_set(err, ERR_NOMEM, "no memory for the difference");
    for (int i = 0; i < 2; i++) {
        spec_locate_fini(&trees[i]);
        free(texts[i]);
    }
    text_fini(&c.out);
    return rc;
}
