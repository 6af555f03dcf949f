/* SPDX-License-Identifier: Apache-2.0 */
/* Places that meet in time never meet in space, and little is wasted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/pass/memplan.h"

#define MAX_BLOCKS 200

static uint64_t
next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static size_t
rounded(size_t n)
{
    return (n + MEMPLAN_ALIGN - 1) / MEMPLAN_ALIGN * MEMPLAN_ALIGN;
}

static bool
overlap(const struct memplan_block *a, const struct memplan_block *b)
{
    return a->first <= b->last && b->first <= a->last &&
           a->offset < b->offset + b->size_bytes &&
           b->offset < a->offset + a->size_bytes;
}

static void
check_plan(const struct memplan_block *b, int n, size_t total)
{
    for (int i = 0; i < n; i++) {
        assert_true(b[i].offset % MEMPLAN_ALIGN == 0);
        assert_true(b[i].offset + b[i].size_bytes <= total);
        for (int k = 0; k < i; k++)
            assert_false(overlap(&b[i], &b[k]));
    }
}

/* No plan can do with less: what stands at the fullest instant. */
static size_t
least(const struct memplan_block *b, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++) {
        size_t live = 0;

        for (int k = 0; k < n; k++)
            if (b[k].first <= b[i].first && b[i].first <= b[k].last)
                live += rounded(b[k].size_bytes);
        most = live > most ? live : most;
    }
    return most;
}

/* First fit by size, as simply as it can be said: the lowest multiple of 64
 * where nothing that stands when the block does is in the way. */
static size_t
first_fit(struct memplan_block *b, int n)
{
    size_t total = 0;
    bool done[MAX_BLOCKS] = {false};

    for (int round = 0; round < n; round++) {
        int next = -1;

        for (int i = 0; i < n; i++)
            if (!done[i] && (next < 0 || b[i].size_bytes > b[next].size_bytes))
                next = i;
        b[next].offset = 0;
        for (int i = 0; i < n && b[next].size_bytes > 0; i++) {
            if (!done[i] || !overlap(&b[i], &b[next]))
                continue;
            b[next].offset = b[i].offset + rounded(b[i].size_bytes);
            i = -1; /* look again from there */
        }
        done[next] = true;
        if (b[next].offset + rounded(b[next].size_bytes) > total)
            total = b[next].offset + rounded(b[next].size_bytes);
    }
    return total;
}

static void
test_memplan_is_no_worse_than_first_fit(void **state)
{
    uint64_t seed = 0xC0FFEE;
    int n_better = 0;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct memplan_block b[MAX_BLOCKS], other[MAX_BLOCKS];
        const int n = 1 + (int)(next_random(&seed) % MAX_BLOCKS);
        size_t total, simple;

        for (int i = 0; i < n; i++) {
            const int first = (int)(next_random(&seed) % 100);
            /* Half live into the way back, as activations do. */
            const int last = next_random(&seed) % 2 == 0
                                 ? 200 - first
                                 : first + (int)(next_random(&seed) % 9);

            b[i] = other[i] =
                (struct memplan_block){.size_bytes = next_random(&seed) % 5000,
                                       .first = first,
                                       .last = last};
        }
        total = memplan_assign_offsets(b, n);
        check_plan(b, n, total);
        simple = first_fit(other, n);
        check_plan(other, n, simple);
        assert_true(total <= simple);
        assert_int_equal(memplan_lower_bound(b, n), least(b, n));
        n_better += total < simple;
    }
    assert_true(n_better > 30);
}

static void
test_memplan_random_lifetimes_never_overlap(void **state)
{
    uint64_t seed = 0x9E3779B97F4A7C15u;
    double waste = 0;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct memplan_block b[MAX_BLOCKS];
        const int n = 1 + (int)(next_random(&seed) % MAX_BLOCKS);
        size_t total, bound;

        for (int i = 0; i < n; i++) {
            const int first = (int)(next_random(&seed) % 100);
            const size_t bits = next_random(&seed) % 16;

            b[i] = (struct memplan_block){
                .size_bytes = next_random(&seed) % ((size_t)1 << bits),
                .first = first,
                .last = first + (int)(next_random(&seed) % 20)};
        }
        total = memplan_assign_offsets(b, n);
        bound = least(b, n);
        check_plan(b, n, total);
        assert_true(total >= bound);
        /* The paper's worst case over real nets is below this by far. */
        assert_true(total <= bound + bound / 2);
        waste += bound == 0 ? 0 : (double)(total - bound) / (double)bound;
    }
    assert_true(waste / 300 < 0.05);
}

/* Each block meets only its neighbours. Where sizes fall, as in a net that
 * narrows, nothing is lost. */
static void
test_memplan_chain_needs_its_widest_pair(void **state)
{
    uint64_t seed = 42;

    (void)state;
    for (int round = 0; round < 100; round++) {
        struct memplan_block b[50];
        size_t total, size = 64 * 100000;

        for (int i = 0; i < 50; i++) {
            size -= 64 * (next_random(&seed) % 2000);
            b[i] = (struct memplan_block){
                .size_bytes = size, .first = i, .last = i + 1};
        }
        total = memplan_assign_offsets(b, 50);
        check_plan(b, 50, total);
        assert_int_equal(total, least(b, 50));
    }
}

/* As forward activations do: all stand at the turn, none can share. */
static void
test_memplan_nested_lifetimes_stand_side_by_side(void **state)
{
    struct memplan_block b[20];
    size_t sum = 0, total;

    (void)state;
    for (int i = 0; i < 20; i++) {
        b[i] = (struct memplan_block){
            .size_bytes = (size_t)(i * 37 + 1), .first = i, .last = 40 - i};
        sum += rounded(b[i].size_bytes);
    }
    total = memplan_assign_offsets(b, 20);
    check_plan(b, 20, total);
    assert_int_equal(total, sum);
}

static void
test_memplan_takes_the_smallest_hole(void **state)
{
    /* Blocks 1 and 3 end early and leave holes of 512 and 192 bytes. */
    struct memplan_block b[] = {
        {.size_bytes = 1024, .first = 0, .last = 9},
        {.size_bytes = 512, .first = 0, .last = 1},
        {.size_bytes = 256, .first = 0, .last = 9},
        {.size_bytes = 192, .first = 0, .last = 1},
        {.size_bytes = 128, .first = 0, .last = 9},
        {.size_bytes = 100, .first = 5, .last = 6},
    };
    size_t total;

    (void)state;
    total = memplan_assign_offsets(b, 6);
    check_plan(b, 6, total);
    assert_int_equal(total, 2112);
    assert_int_equal(b[5].offset, b[3].offset);
}

static void
test_memplan_nothing_and_zero_sizes(void **state)
{
    struct memplan_block b[] = {
        {.size_bytes = 0, .first = 0, .last = 5, .offset = 7},
        {.size_bytes = 1, .first = 0, .last = 5},
    };

    (void)state;
    assert_int_equal(memplan_assign_offsets(b, 0), 0);
    assert_int_equal(memplan_assign_offsets(b, 2), 64);
    assert_int_equal(b[0].offset, 0);
    assert_int_equal(b[1].offset, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memplan_random_lifetimes_never_overlap),
        cmocka_unit_test(test_memplan_is_no_worse_than_first_fit),
        cmocka_unit_test(test_memplan_chain_needs_its_widest_pair),
        cmocka_unit_test(test_memplan_nested_lifetimes_stand_side_by_side),
        cmocka_unit_test(test_memplan_takes_the_smallest_hole),
        cmocka_unit_test(test_memplan_nothing_and_zero_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
