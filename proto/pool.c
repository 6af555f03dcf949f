/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 4000

struct chunk {
    struct chunk *next; /* owned */
    size_t used, size;
    max_align_t bytes[];
};

struct pool {
    struct chunk *chunks; /* owned, newest first */
    bool failed;
};

struct pool *
pool_create(void)
{
    return calloc(1, sizeof(struct pool));
}

void
pool_destroy(struct pool **pool)
{
    if (*pool == NULL)
        return;
    while ((*pool)->chunks != NULL) {
        struct chunk *c = (*pool)->chunks;

        (*pool)->chunks = c->next;
        free(c);
    }
    free(*pool);
    *pool = NULL;
}

static struct chunk *
add_chunk(struct pool *pool, size_t need)
{
    size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    struct chunk *c = calloc(1, sizeof(*c) + size);

    if (c == NULL)
        return NULL;
    c->size = size;
    c->next = pool->chunks;
    pool->chunks = c;
    return c;
}

void *
pool_alloc(struct pool *pool, size_t n, size_t size)
{
    const size_t align = sizeof(max_align_t);
    struct chunk *c = pool->chunks;
    size_t need;
    void *p;

    assert(size > 0);
    if (n > (size_t)-1 / 4 / size) {
        pool->failed = true;
        return NULL;
    }
    need = (n * size + align - 1) / align * align;
    if (need == 0)
        need = align;
    if (c == NULL || c->size - c->used < need)
        c = add_chunk(pool, need);
    if (c == NULL) {
        pool->failed = true;
        return NULL;
    }
    p = (char *)c->bytes + c->used;
    c->used += need;
    assert(c->used <= c->size);
    return p;
}

char *
pool_copy(struct pool *pool, const char *s, size_t n)
{
    char *copy = pool_alloc(pool, n + 1, 1);

    if (copy != NULL)
        memcpy(copy, s, n);
    return copy;
}

bool
pool_failed(const struct pool *pool)
{
    return pool->failed;
}
