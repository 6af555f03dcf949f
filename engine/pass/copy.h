/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy: the start of every pass: a new graph with the old one's outside.
 *
 * Keeps which value of the old graph became which of the new one. Private to
 * engine/pass; the old graph is only read. Nodes are copied by the pass, which
 * may change a node's inputs on the way.
 */
#ifndef ENGINE_PASS_COPY_H
#define ENGINE_PASS_COPY_H

#include "engine/graph/graph.h"

struct copy {
    const struct graph *from; /* borrowed */
    struct graph *to;         /* borrowed by users, freed by the pass */
    int *value;               /* owned: new id of an old value, -1: none yet */
};

/* Inputs, parameters and buffers are copied in the order of their values. */
int copy_init(struct copy *copy, const struct graph *from, struct err *err);
/* Frees the map; the new graph stays. */
void copy_fini(struct copy *copy);

/* Copies old node `id` reading new values `in`; absent[i]: leave output i out
 * (absent may be NULL). Returns the new node's id or an error. */
int copy_add_node(struct copy *copy, int id, const int *in, bool fp32_region,
                  const bool *absent, struct err *err);

/* Roles as in the old graph, with new ids. */
void copy_roles(struct copy *copy);

#endif
