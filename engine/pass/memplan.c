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

/* Longer lived first, then larger. */
static int
compare_lives(const void *pa, const void *pb, void *ctx)
{
    const struct memplan_block *blocks = ctx;
    const struct memplan_block *a = &blocks[*(const int *)pa];
    const struct memplan_block *b = &blocks[*(const int *)pb];
    const int life_a = a->last - a->first, life_b = b->last - b->first;

    if (life_a != life_b)
        return life_a > life_b ? -1 : 1;
    return compare_sizes(pa, pb, ctx);
}

/* Where block b goes between those placed blocks (in order of offset) that live
 * when it does: the smallest hole that takes it, or the first; else the place
 * above them all. */
static size_t
find_place(const struct memplan_block *blocks, const int *placed, int n_placed,
           const struct memplan_block *b, bool first_fit)
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
            if (first_fit)
                return best;
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

/* A way to plan: an order, and which hole is taken. */
struct way {
    const int *order;
    bool first_fit;
};

/* Places the blocks that way; the bytes needed in all. */
static size_t
place_all(struct memplan_block *blocks, int n, const struct way *way,
          int *placed)
{
    size_t total = 0;
    int n_placed = 0;

    for (int i = 0; i < n; i++) {
        struct memplan_block *b = &blocks[way->order[i]];

        assert(b->first <= b->last);
        b->offset = 0;
        if (b->size_bytes == 0)
            continue;
        b->offset = find_place(blocks, placed, n_placed, b, way->first_fit);
        insert_placed(blocks, placed, n_placed++, way->order[i]);
        if (b->offset + rounded(b->size_bytes) > total)
            total = b->offset + rounded(b->size_bytes);
    }
    return total;
}

/* Plans in every way until one needs no more than the least possible, and
 * leaves the offsets of the best. */
static size_t
place_best(struct memplan_block *blocks, int n, const struct way *ways,
           int n_ways, int *placed)
{
    const size_t least = memplan_lower_bound(blocks, n);
    size_t best = SIZE_MAX;
    int chosen = 0, last = 0;

    for (int i = 0; i < n_ways && best > least; i++) {
        const size_t total = place_all(blocks, n, &ways[i], placed);

        last = i;
        if (total >= best)
            continue;
        best = total;
        chosen = i;
    }
    return chosen == last ? best : place_all(blocks, n, &ways[chosen], placed);
}

size_t
memplan_assign_offsets(struct memplan_block *blocks, int n)
{
    int *by_size = calloc((size_t)n + 1, sizeof(*by_size));
    int *by_life = calloc((size_t)n + 1, sizeof(*by_life));
    int *placed = calloc((size_t)n + 1, sizeof(*placed));
    const struct way ways[] = {
        {by_size, false}, {by_life, false}, {by_size, true}};
    size_t total = SIZE_MAX;

    if (by_size == NULL || by_life == NULL || placed == NULL)
        goto out;
    for (int i = 0; i < n; i++)
        by_size[i] = by_life[i] = i;
    qsort_r(by_size, (size_t)n, sizeof(*by_size), compare_sizes, blocks);
    qsort_r(by_life, (size_t)n, sizeof(*by_life), compare_lives, blocks);
    total = place_best(blocks, n, ways, 3, placed);
out:
    free(by_size);
    free(by_life);
    free(placed);
    return total;
}

/* The most that stands at once does so when some block begins. */
size_t
memplan_lower_bound(const struct memplan_block *blocks, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++) {
        size_t live = 0;

        for (int k = 0; k < n; k++)
            if (blocks[k].first <= blocks[i].first &&
                blocks[i].first <= blocks[k].last)
                live += rounded(blocks[k].size_bytes);
        if (live > most)
            most = live;
    }
    return most;
}
