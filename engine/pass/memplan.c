/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/memplan.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t
rounded(size_t bytes)
{
    assert(bytes <= SIZE_MAX - MEMPLAN_ALIGN);
    return (bytes + MEMPLAN_ALIGN - 1) / MEMPLAN_ALIGN * MEMPLAN_ALIGN;
}

static bool
meet(const struct memplan_block *a, const struct memplan_block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Larger first; among equals the earlier in the list, so that plans repeat. */
static int
compare_sizes(const void *pa, const void *pb, void *ctx)
{
    const struct memplan_block *blocks = ctx;
    const int a = *(const int *)pa, b = *(const int *)pb;

    if (blocks[a].size_bytes != blocks[b].size_bytes)
        return blocks[a].size_bytes > blocks[b].size_bytes ? -1 : 1;
    return (a > b) - (a < b);
}

/* The smallest hole that takes block b between those placed blocks (in order
 * of offset) that live when it does; else the place above them all. */
static size_t
find_place(const struct memplan_block *blocks, const int *placed, int n_placed,
           const struct memplan_block *b)
{
    const size_t size = rounded(b->size_bytes);
    size_t end = 0, best = 0, best_hole = SIZE_MAX;

    for (int i = 0; i < n_placed; i++) {
        const struct memplan_block *p = &blocks[placed[i]];

        if (!meet(p, b))
            continue;
        if (p->offset >= end && p->offset - end >= size &&
            p->offset - end < best_hole) {
            best_hole = p->offset - end;
            best = end;
        }
        if (p->offset + rounded(p->size_bytes) > end)
            end = p->offset + rounded(p->size_bytes);
    }
    return best_hole == SIZE_MAX ? end : best;
}

/* Keeps `placed` in order of offset. */
static void
insert_placed(const struct memplan_block *blocks, int *placed, int n_placed,
              int id)
{
    int at = n_placed;

    while (at > 0 && blocks[placed[at - 1]].offset > blocks[id].offset)
        at--;
    memmove(placed + at + 1, placed + at,
            (size_t)(n_placed - at) * sizeof(*placed));
    placed[at] = id;
}

size_t
memplan_assign_offsets(struct memplan_block *blocks, int n)
{
    int *order = calloc((size_t)n + 1, sizeof(*order));
    int *placed = calloc((size_t)n + 1, sizeof(*placed));
    size_t total = 0;
    int n_placed = 0;

    if (order == NULL || placed == NULL) {
        total = SIZE_MAX;
        goto out;
    }
    for (int i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, (size_t)n, sizeof(*order), compare_sizes, blocks);
    for (int i = 0; i < n; i++) {
        struct memplan_block *b = &blocks[order[i]];

        assert(b->first <= b->last);
        b->offset = 0;
        if (b->size_bytes == 0)
            continue;
        b->offset = find_place(blocks, placed, n_placed, b);
        insert_placed(blocks, placed, n_placed++, order[i]);
        if (b->offset + rounded(b->size_bytes) > total)
            total = b->offset + rounded(b->size_bytes);
    }
out:
    free(order);
    free(placed);
    return total;
}
