/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_locate: JSON text as a tree of byte ranges, so that every value of a
 * spec has a place to point at.
 *
 * Private to proto/. Strict JSON (RFC 8259) in UTF-8, without \u0000, without
 * recursion; nodes are stored in the order of the text. jansson says what is
 * wrong with a text that this refuses; this says where things are in one that
 * both accept. The text is borrowed. Not thread-safe (one place cursor).
 */
#ifndef PROTO_SPEC_LOCATE_H
#define PROTO_SPEC_LOCATE_H

#include "proto/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spec_node_type {
    SPEC_NODE_OBJECT,
    SPEC_NODE_ARRAY,
    SPEC_NODE_STRING,
    SPEC_NODE_INTEGER,
    SPEC_NODE_REAL,
    SPEC_NODE_TRUE,
    SPEC_NODE_FALSE,
    SPEC_NODE_NULL
};

struct spec_node {
    enum spec_node_type type;
    uint32_t start, end;         /* the value's bytes, quotes included */
    uint32_t key, key_end;       /* the key's, quotes included; 0, 0: none */
    int32_t parent, first, next; /* node indices, -1 = none */
    int32_t n;                   /* children */
};

struct spec_tree {
    const char *text; /* borrowed */
    size_t len;
    struct spec_node *nodes; /* owned; 0 is the root */
    int n, cap;
    size_t fault_at; /* where an ERR_SPEC arose */
    bool too_deep;   /* and whether nesting was the reason */
    struct {
        size_t at;
        int line, col;
    } cursor;
};

/* A spec as it is written has SPEC_MAX_BYTES, but it grows when it is printed
 * with every default. */
#define SPEC_LOCATE_MAX_BYTES (256 * 1024 * 1024)

/* ERR_SPEC (fault_at says where) or ERR_NOMEM; fini in any case. len is at
 * most SPEC_LOCATE_MAX_BYTES. */
int spec_locate_init(struct spec_tree *tree, const char *text, size_t len);
void spec_locate_fini(struct spec_tree *tree);

/* 1-based line and column of a byte; columns count characters. Cheap when
 * asked in the order of the text. */
void spec_locate_place(struct spec_tree *tree, size_t at, int *line, int *col);

/* Writes "model[2].conv2d" for a node, with ".key" appended unless NULL; cut
 * to fit. */
void spec_locate_path(const struct spec_tree *tree, int node, const char *key,
                      char *out, size_t size);

/* First member of an object called key, or -1. */
int spec_locate_find(const struct spec_tree *tree, int object, const char *key);

/* The string token [start, end) (quotes included) equals s. */
bool spec_locate_equals(const struct spec_tree *tree, size_t start, size_t end,
                        const char *s);
/* Its decoded bytes, NUL-terminated; NULL when pool has no memory. */
char *spec_locate_decode(const struct spec_tree *tree, size_t start, size_t end,
                         struct pool *pool);

/* Writes at most size - 1 bytes of the text [start, end) for a message:
 * printable, one line, "..." where it was cut. */
void spec_locate_quote(const struct spec_tree *tree, size_t start, size_t end,
                       char *out, size_t size);

#endif
