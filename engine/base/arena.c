/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 4096
#define ALIGN       alignof(max_align_t)

struct chunk {
    struct chunk *next;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena {
    struct chunk *head; /* the one that is being filled */
};

struct arena *
arena_create(void)
{
    return calloc(1, sizeof(struct arena));
}

void
arena_destroy(struct arena **arena)
{
    if (*arena == NULL)
        return;
    for (struct chunk *c = (*arena)->head, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(*arena);
    *arena = NULL;
}

static struct chunk *
chunk_add(struct arena *arena, size_t need)
{
    const size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    struct chunk *c = NULL;

    if (size <= SIZE_MAX - sizeof(*c))
        c = calloc(1, sizeof(*c) + size);
    if (c == NULL)
        return NULL;
    c->size = size;
    c->next = arena->head;
    arena->head = c;
    return c;
}

void *
arena_alloc(struct arena *arena, size_t n, size_t size)
{
    struct chunk *c = arena->head;
    size_t need;
    void *p;

    if (__builtin_mul_overflow(n, size, &need) || need > SIZE_MAX - ALIGN)
        return NULL;
    need = (need + ALIGN - 1) / ALIGN * ALIGN;
    if (c == NULL || c->size - c->used < need)
        c = chunk_add(arena, need);
    if (c == NULL)
        return NULL;
    assert(c->used % ALIGN == 0);
    p = c->bytes + c->used;
    c->used += need;
    return p;
}

char *
arena_copy(struct arena *arena, const char *s)
{
    const size_t n = strlen(s) + 1;
    char *copy = arena_alloc(arena, n, 1);

    return copy == NULL ? NULL : memcpy(copy, s, n);
}

char *
arena_format(struct arena *arena, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    text = arena_alloc(arena, (size_t)n + 1, 1);
    if (text == NULL)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return text;
}
