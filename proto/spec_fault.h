/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_fault: the faults of a spec while it is being read.
 *
 * Private to proto/. Keeps the first SPEC_MAX_FAULTS of the text, sorted by
 * place, however many are reported and in whatever order; what would not be
 * kept costs next to nothing.
 */
#ifndef PROTO_SPEC_FAULT_H
#define PROTO_SPEC_FAULT_H

#include "proto/pool.h"
#include "proto/spec.h"
#include "proto/spec_locate.h"

#define SPEC_MAX_FAULTS 100

struct spec_reader {
    struct spec_tree tree;
    struct pool *pool; /* borrowed */
    struct spec_slot {
        size_t at; /* byte in the text */
        struct spec_fault fault;
    } * slots; /* owned; SPEC_MAX_FAULTS of them, sorted by place */
    int n_slots;
};

/* A fault at byte `at`; its path is node's (-1: none), with ".key" unless
 * NULL. Beyond SPEC_MAX_FAULTS the first ones of the text stay. */
void spec_fault_add(struct spec_reader *r, size_t at, int node, const char *key,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The same at a node's own place. */
void spec_fault_at(struct spec_reader *r, int node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A fault there would not be kept. */
bool spec_fault_is_late(const struct spec_reader *r, size_t at);

/* "unknown WHAT NAME; did you mean X?" or the list of the known ones. */
void spec_fault_unknown(struct spec_reader *r, size_t at, int node,
                        const char *what, const char *asked,
                        const char *const *known, int n);

#endif
