/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena: many small allocations with one lifetime.
 *
 * Owned by whoever makes it, one per lifetime (a graph, a program); used by
 * one thread. Nothing is freed alone; arena_destroy() frees it all. Memory is
 * zeroed and aligned for anything. It never fails halfway: NULL means that
 * there was no memory, and what was handed out before stays valid.
 */
#ifndef ENGINE_BASE_ARENA_H
#define ENGINE_BASE_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_create(void); /* NULL: no memory */
void arena_destroy(struct arena **arena);

/* n x size bytes; NULL also when the product overflows. Never NULL for 0. */
void *arena_alloc(struct arena *arena, size_t n, size_t size);
char *arena_copy(struct arena *arena, const char *s);
char *arena_format(struct arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
