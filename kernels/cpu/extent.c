/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/extent.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#define ITEM_ELEMS 65536 /* a count of them fits 32 bits */
#define WAVE       64

/* Magnitudes as bits, whose order is theirs. least is one less than the
 * smallest that is not 0, so that 0 wraps around to the end. */
struct part {
    uint32_t most; /* of the finite; 0: none, or all are 0 */
    uint32_t least;
    int64_t n_nonfinite;
};

struct args {
    const void *x;
    enum dtype t;
    const float *full;
    int64_t n, first;   /* elements; the wave's first item */
    struct part *part;  /* of the wave */
    int64_t *n_flushed; /* of the wave */
};

CPU_CLONES static struct part
measure_u32(const uint32_t *x, int64_t n)
{
    uint32_t most = 0, least = UINT32_MAX, bad = 0;

#pragma omp simd reduction(max : most) reduction(min : least) reduction(+ : bad)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t mag = x[i] & 0x7fffffffu;
        const uint32_t is_bad = mag >= 0x7f800000u;
        const uint32_t finite = is_bad ? 0 : mag;
        const uint32_t below = mag - 1u;

        most = finite > most ? finite : most;
        least = below < least ? below : least;
        bad += is_bad;
    }
    return (struct part){most, least, bad};
}

CPU_CLONES static struct part
measure_u16(const uint16_t *x, int64_t n, uint16_t inf)
{
    uint16_t most = 0, least = UINT16_MAX;
    uint32_t bad = 0;

#pragma omp simd reduction(max : most) reduction(min : least) reduction(+ : bad)
    for (int64_t i = 0; i < n; i++) {
        const uint16_t mag = x[i] & 0x7fffu;
        const uint16_t finite = mag >= inf ? 0 : mag;
        const uint16_t below = (uint16_t)(mag - 1u);

        most = finite > most ? finite : most;
        least = below < least ? below : least;
        bad += mag >= inf;
    }
    return (struct part){most, least, bad};
}

static uint16_t
inf_of(enum dtype t)
{
    return t == DTYPE_F16 ? 0x7c00u : 0x7f80u;
}

static int64_t
item_size(const struct args *a, int64_t item)
{
    const int64_t left = a->n - item * ITEM_ELEMS;

    return left < ITEM_ELEMS ? left : ITEM_ELEMS;
}

static void
measure_item(const void *ctx, int64_t i)
{
    const struct args *a = ctx;
    const int64_t at = (a->first + i) * ITEM_ELEMS;
    const int64_t n = item_size(a, a->first + i);

    a->part[i] = a->t == DTYPE_F32 ? measure_u32((const uint32_t *)a->x + at, n)
                                   : measure_u16((const uint16_t *)a->x + at, n,
                                                 inf_of(a->t));
}

static void
join(struct part *all, const struct part *one)
{
    all->most = one->most > all->most ? one->most : all->most;
    all->least = one->least < all->least ? one->least : all->least;
    all->n_nonfinite += one->n_nonfinite;
}

static double
value_of(uint32_t magnitude, enum dtype t)
{
    const uint16_t half = (uint16_t)magnitude;

    return t == DTYPE_F32 ? (double)convert_get(&magnitude, t, 0)
                          : (double)convert_get(&half, t, 0);
}

/* Non-finite ones are above all others, and no smallest. */
static bool
is_number(uint32_t magnitude, enum dtype t)
{
    return magnitude != 0 &&
           magnitude < (t == DTYPE_F32 ? 0x7f800000u : inf_of(t));
}

void
extent_measure(const void *x, enum dtype t, int64_t n, int threads,
               struct extent *out)
{
    const int64_t items = (n + ITEM_ELEMS - 1) / ITEM_ELEMS;
    struct part all = {0, UINT32_MAX, 0}, part[WAVE];

    assert(t == DTYPE_F32 || dtype_is_half(t));
    for (int64_t first = 0; first < items; first += WAVE) {
        const int64_t now = items - first < WAVE ? items - first : WAVE;
        const struct args a = {
            .x = x, .t = t, .n = n, .first = first, .part = part};

        parallel_run(now, now * ITEM_ELEMS, threads, measure_item, &a);
        for (int64_t i = 0; i < now; i++)
            join(&all, &part[i]);
    }
    const uint32_t smallest = all.least + 1u;
    out->largest = all.n_nonfinite < n ? value_of(all.most, t) : (double)NAN;
    out->smallest =
        is_number(smallest, t) ? value_of(smallest, t) : (double)NAN;
    out->n_nonfinite = all.n_nonfinite;
}

/* ---- flushed to zero ------------------------------------------------------*/

CPU_CLONES static int64_t
flushed_u32(const uint32_t *x, const uint32_t *full, int64_t n)
{
    uint32_t count = 0;

#pragma omp simd reduction(+ : count)
    for (int64_t i = 0; i < n; i++)
        count += (x[i] << 1) == 0 && (full[i] << 1) != 0;
    return count;
}

CPU_CLONES static int64_t
flushed_u16(const uint16_t *x, const uint32_t *full, int64_t n)
{
    uint32_t count = 0;

#pragma omp simd reduction(+ : count)
    for (int64_t i = 0; i < n; i++)
        count += (x[i] & 0x7fffu) == 0 && (full[i] << 1) != 0;
    return count;
}

static void
flushed_item(const void *ctx, int64_t i)
{
    const struct args *a = ctx;
    const int64_t at = (a->first + i) * ITEM_ELEMS;
    const int64_t n = item_size(a, a->first + i);
    const uint32_t *full = (const uint32_t *)(const void *)a->full + at;

    a->n_flushed[i] = a->t == DTYPE_F32
                          ? flushed_u32((const uint32_t *)a->x + at, full, n)
                          : flushed_u16((const uint16_t *)a->x + at, full, n);
}

int64_t
extent_count_flushed(const void *x, enum dtype t, const float *full, int64_t n,
                     int threads)
{
    const int64_t items = (n + ITEM_ELEMS - 1) / ITEM_ELEMS;
    int64_t part[WAVE], sum = 0;

    assert(t == DTYPE_F32 || dtype_is_half(t));
    for (int64_t first = 0; first < items; first += WAVE) {
        const int64_t now = items - first < WAVE ? items - first : WAVE;
        const struct args a = {.x = x,
                               .t = t,
                               .full = full,
                               .n = n,
                               .first = first,
                               .n_flushed = part};

        parallel_run(now, now * ITEM_ELEMS, threads, flushed_item, &a);
        for (int64_t i = 0; i < now; i++)
            sum += part[i];
    }
    return sum;
}
