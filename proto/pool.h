/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool: many small allocations that are freed together.
 *
 * Private to proto/: the strings and lists of one parsed spec or one decoded
 * frame. A pool that ran out of memory says so once, by pool_failed(), so
 * that a reader need not stop at every line. Not thread-safe.
 */
#ifndef PROTO_POOL_H
#define PROTO_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

struct pool *pool_create(void); /* NULL: no memory */
void pool_destroy(struct pool **pool);

/* Zeroed and aligned for anything; NULL (and the pool failed) when there is
 * no memory or n * size overflows. Never NULL for n * size == 0. */
void *pool_alloc(struct pool *pool, size_t n, size_t size);
/* n bytes of s and a NUL. */
char *pool_copy(struct pool *pool, const char *s, size_t n);
bool pool_failed(const struct pool *pool);

#endif
