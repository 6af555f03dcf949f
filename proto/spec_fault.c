/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/spec_suggest.h"
#include "proto/utf8.h"

/* Opens a slot for a fault at `at`, or NULL when enough earlier ones are
 * known. */
static struct spec_fault *
open_slot(struct spec_reader *r, size_t at)
{
    int i = r->n_slots;

    if (i == SPEC_MAX_FAULTS) {
        if (at >= r->slots[i - 1].at)
            return NULL;
        i--;
    } else {
        r->n_slots++;
    }
    while (i > 0 && r->slots[i - 1].at > at) {
        r->slots[i] = r->slots[i - 1];
        i--;
    }
    memset(&r->slots[i], 0, sizeof(r->slots[i]));
    r->slots[i].at = at;
    return &r->slots[i].fault;
}

static void __attribute__((format(printf, 6, 0)))
fill_fault(struct spec_reader *r, struct spec_fault *f, size_t at, int node,
           const char *key, const char *fmt, va_list ap)
{
    size_t n;

    spec_locate_place(&r->tree, at, &f->line, &f->col);
    if (r->tree.n > 0 && node >= 0)
        spec_locate_path(&r->tree, node, key, f->path, sizeof(f->path));
    vsnprintf(f->message, sizeof(f->message), fmt, ap);
    n = strlen(f->message);
    f->message[utf8_cut(f->message, n)] = '\0';
}

void
spec_fault_add(struct spec_reader *r, size_t at, int node, const char *key,
               const char *fmt, ...)
{
    struct spec_fault *f = open_slot(r, at);
    va_list ap;

    if (f == NULL)
        return;
    va_start(ap, fmt);
    fill_fault(r, f, at, node, key, fmt, ap);
    va_end(ap);
}

void
spec_fault_at(struct spec_reader *r, int node, const char *fmt, ...)
{
    size_t at = r->tree.nodes[node].start;
    struct spec_fault *f = open_slot(r, at);
    va_list ap;

    if (f == NULL)
        return;
    va_start(ap, fmt);
    fill_fault(r, f, at, node, NULL, fmt, ap);
    va_end(ap);
}

bool
spec_fault_is_late(const struct spec_reader *r, size_t at)
{
    return r->n_slots == SPEC_MAX_FAULTS &&
           at >= r->slots[SPEC_MAX_FAULTS - 1].at;
}

void
spec_fault_unknown(struct spec_reader *r, size_t at, int node, const char *what,
                   const char *asked, const char *const *known, int n)
{
    const char *best;
    char list[160] = "";
    size_t len = 0;

    if (spec_fault_is_late(r, at))
        return;
    best = spec_suggest(asked, known, n);
    if (best != NULL) {
        spec_fault_add(r, at, node, NULL, "unknown %s; did you mean %s?", what,
                       best);
        return;
    }
    for (int i = 0; i < n && len + strlen(known[i]) + 8 < sizeof(list); i++) {
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
                                i > 0 ? ", " : "", known[i]);
        if (i + 1 < n && len + strlen(known[i + 1]) + 8 >= sizeof(list))
            snprintf(list + len, sizeof(list) - len, ", ...");
    }
    if (n == 0)
        spec_fault_add(r, at, node, NULL, "unknown %s; none is known here",
                       what);
    else
        spec_fault_add(r, at, node, NULL, "unknown %s; known: %s", what, list);
}

/* The member of `object` that the first key of *path names; *path moves on. */
static int
step_into(const struct spec_tree *tree, int object, const char **path)
{
    const size_t len = strcspn(*path, ".");
    char key[64];

    if (tree->nodes[object].type != SPEC_NODE_OBJECT || len >= sizeof(key))
        return -1;
    memcpy(key, *path, len);
    key[len] = '\0';
    *path += len + ((*path)[len] == '.');
    return spec_locate_find(tree, object, key);
}

bool
spec_find_place(const char *text, size_t len, const char *path, int *line,
                int *col)
{
    struct spec_tree tree;
    int at = -1;

    *line = *col = 0;
    if (spec_locate_init(&tree, text, len) == 0)
        at = 0;
    while (at >= 0 && *path != '\0')
        at = step_into(&tree, at, &path);
    if (at >= 0)
        spec_locate_place(&tree, tree.nodes[at].start, line, col);
    spec_locate_fini(&tree);
    return at >= 0;
}
