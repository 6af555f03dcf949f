/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_read.h"
#include "proto/utf8.h"

/* ---- all layers by path -------------------------------------------------- */

#define N_SLOTS (4 * SPEC_MAX_LAYERS) /* a power of two, never full */

bool
spec_scope_init(struct spec_scope_map *map)
{
    map->slot = calloc(N_SLOTS, sizeof(*map->slot));
    return map->slot != NULL;
}

void
spec_scope_fini(struct spec_scope_map *map)
{
    free(map->slot);
    map->slot = NULL;
}

/* FNV-1a, going on from hash. */
static uint32_t
hash_bytes(uint32_t hash, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)s[i]) * 16777619u;
    return hash;
}

/* The slot of the path "container.name", where name has n bytes, or the free
 * one where it would be. */
static const struct spec_layer **
find_slot(const struct spec_scope_map *map, const char *container,
          const char *name, size_t n)
{
    const size_t len = strlen(container), dot = len > 0;
    uint32_t at = hash_bytes(2166136261u, container, len);

    at = hash_bytes(hash_bytes(at, ".", dot), name, n);
    for (;; at++) {
        const struct spec_layer **slot = &map->slot[at % N_SLOTS];
        const char *path = *slot != NULL ? (*slot)->path : NULL;

        if (path == NULL || (strncmp(path, container, len) == 0 &&
                             strncmp(path + len, ".", dot) == 0 &&
                             strncmp(path + len + dot, name, n) == 0 &&
                             path[len + dot + n] == '\0'))
            return slot;
    }
}

void
spec_scope_add(struct spec_scope_map *map, const struct spec_layer *layer)
{
    *find_slot(map, "", layer->path, strlen(layer->path)) = layer;
}

/* ---- finding ------------------------------------------------------------- */

/* What a path adds to that of its container, whose length is given. */
static const char *
tail(const char *path, size_t container)
{
    return path + container + (container > 0);
}

const char *
spec_scope_find(const struct spec_scope *scope, const char *name,
                const struct spec_layer **layer)
{
    size_t len = strcspn(name, ".");

    *layer = NULL;
    if (strcmp(name, SPEC_SCOPE_DATA) == 0)
        return SPEC_SCOPE_DATA;
    if (len == 0 || name[strlen(name) - 1] == '.')
        return NULL;
    for (; scope != NULL; scope = scope->up) {
        if (*find_slot(scope->map, scope->path, name, len) == NULL)
            continue;
        *layer = *find_slot(scope->map, scope->path, name, strlen(name));
        return *layer != NULL ? (*layer)->path : NULL;
    }
    return NULL;
}

const char *
spec_scope_name(const struct spec_scope *scope, const char *path)
{
    const struct spec_layer *layer;

    for (const struct spec_scope *s = scope; s != NULL; s = s->up) {
        size_t len = strlen(s->path);
        const char *name, *found;

        if (strncmp(s->path, path, len) != 0 || (len > 0 && path[len] != '.'))
            continue;
        name = tail(path, len);
        found = spec_scope_find(scope, name, &layer);
        if (found != NULL && strcmp(found, path) == 0)
            return name;
    }
    return path;
}

/* ---- faults -------------------------------------------------------------- */

/* The element of a list in the text that would be called this. */
static int
find_element(const struct spec_reader *r, int list, const char *name,
             size_t len)
{
    int i = 0;

    for (int at = r->tree.nodes[list].first; at >= 0;
         at = r->tree.nodes[at].next, i++) {
        int given = spec_read_find(r, at, "name");
        char own[SPEC_NAME_MAX + 8];

        if (given >= 0 && r->tree.nodes[given].type == SPEC_NODE_STRING)
            spec_locate_quote(&r->tree, r->tree.nodes[given].start + 1,
                              r->tree.nodes[given].end - 1, own, sizeof(own));
        else
            snprintf(own, sizeof(own), "%d", i);
        if (strncmp(own, name, len) == 0 && own[len] == '\0')
            return i;
    }
    return -1;
}

/* A name that the text has, but not before this place. */
static bool
fault_early(const struct spec_scope *scope, struct spec_reader *r, int node,
            const char *name)
{
    const size_t len = strcspn(name, ".");
    const int shown =
        (int)utf8_cut(name, strlen(name) < 100 ? strlen(name) : 100);

    for (const struct spec_scope *s = scope; s != NULL; s = s->up) {
        int i = s->node >= 0 ? find_element(r, s->node, name, len) : -1;

        if (i < s->n)
            continue;
        if (i > s->n)
            spec_fault_at(r, node,
                          "\"%.*s\" comes later: a layer reads earlier ones",
                          shown, name);
        else if (s == scope)
            spec_fault_at(r, node, "a layer may not read itself");
        else
            spec_fault_at(r, node,
                          "\"%.*s\" is around this layer: it is not "
                          "complete yet",
                          shown, name);
        return true;
    }
    return false;
}

/* Every name that means something here. */
static int
list_names(const struct spec_scope *scope, const char **names)
{
    int n = 0;

    for (; scope != NULL; scope = scope->up)
        for (int i = scope->n - 1; i >= 0; i--)
            if (scope->list[i].path != NULL)
                names[n++] = tail(scope->list[i].path, strlen(scope->path));
    names[n++] = SPEC_SCOPE_DATA;
    return n;
}

void
spec_scope_fault(const struct spec_scope *scope, struct spec_reader *r,
                 int node, const char *name)
{
    const size_t at = r->tree.nodes[node].start;
    const size_t len = strlen(name);
    const char **names;
    char what[128];
    int n = 1;

    if (spec_fault_is_late(r, at) || fault_early(scope, r, node, name))
        return;
    for (const struct spec_scope *s = scope; s != NULL; s = s->up)
        n += s->n;
    names = pool_alloc(r->pool, (size_t)n, sizeof(*names));
    if (names == NULL)
        return;
    n = list_names(scope, names);
    snprintf(what, sizeof(what), "layer \"%.*s\"",
             (int)utf8_cut(name, len < 100 ? len : 100), name);
    spec_fault_unknown(r, at, node, what, name, names, n);
}
