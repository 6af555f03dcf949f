/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_scope: which layer a name means where it stands.
 *
 * Private to proto/. A name is looked up among the layers of its own list that
 * stand complete, then in the list around it, and so on outwards; "a.b" goes
 * on into the container a. The reader asks for a name's layer, the printer for
 * a layer's name: both see the same lists, filled so far. Finds, reports
 * nothing but a name that means no layer.
 */
#ifndef PROTO_SPEC_SCOPE_H
#define PROTO_SPEC_SCOPE_H

#include "proto/spec_fault.h"

#define SPEC_SCOPE_DATA "input" /* the name of what the model reads */

/* All layers that stand complete, by path. */
struct spec_scope_map {
    const struct spec_layer **slot; /* owned */
};

struct spec_scope {
    const struct spec_scope_map *map; /* borrowed: of all lists */
    const struct spec_scope *up;      /* the list around the container */
    const char *path;                 /* of the container; "" for the model */
    const struct spec_layer *list;    /* of which n stand complete */
    int n;
    int node; /* of the list's text, -1 for none: to tell what comes later */
};

bool spec_scope_init(struct spec_scope_map *map); /* false: no memory */
void spec_scope_fini(struct spec_scope_map *map);
/* The layer stands complete; it and its path stay where they are. */
void spec_scope_add(struct spec_scope_map *map, const struct spec_layer *layer);

/* The path that name means: of a layer, or "input"; NULL where it means
 * nothing. *layer is the layer, NULL for the data. */
const char *spec_scope_find(const struct spec_scope *scope, const char *name,
                            const struct spec_layer **layer);

/* The shortest name that means path here; there is one for every path that
 * spec_scope_find() gave. Points into path. */
const char *spec_scope_name(const struct spec_scope *scope, const char *path);

/* Reports that name, at node, means nothing. */
void spec_scope_fault(const struct spec_scope *scope, struct spec_reader *r,
                      int node, const char *name);

#endif
