/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/spread.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1 / (the 0.75 quantile of the normal distribution) */
#define MAD_TO_SIGMA 1.4826

struct spread {
    int size, n, oldest;
    double *ring, *sorted; /* owned, in one block: ring is its start */
};

struct spread *
spread_create(int n)
{
    struct spread *s = calloc(1, sizeof(*s));

    assert(n >= 2 && n <= SPREAD_MAX);
    if (s == NULL)
        return NULL;
    s->size = n;
    s->ring = calloc(2 * (size_t)n, sizeof(*s->ring));
    if (s->ring == NULL)
        spread_destroy(&s);
    else
        s->sorted = s->ring + n;
    return s;
}

void
spread_destroy(struct spread **spread)
{
    if (*spread != NULL)
        free((*spread)->ring);
    free(*spread);
    *spread = NULL;
}

/* The first of the sorted ones that is not below value; n when all are. */
static int
find(const struct spread *s, double value)
{
    int low = 0, high = s->n;

    while (low < high) {
        const int mid = (low + high) / 2;
        if (s->sorted[mid] < value)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void
move(struct spread *s, int from, int to, int n)
{
    memmove(s->sorted + to, s->sorted + from, (size_t)n * sizeof(*s->sorted));
}

void
spread_add(struct spread *spread, double value)
{
    struct spread *s = spread;
    int at;

    assert(isfinite(value));
    if (s->n == s->size) {
        at = find(s, s->ring[s->oldest]);
        s->n--;
        move(s, at + 1, at, s->n - at);
    }
    at = find(s, value);
    move(s, at, at + 1, s->n - at);
    s->sorted[at] = value;
    s->n++;
    /* Until the ring is full its oldest one is the next free place. */
    s->ring[s->oldest] = value;
    s->oldest = (s->oldest + 1) % s->size;
}

bool
spread_is_full(const struct spread *spread)
{
    return spread->n == spread->size;
}

double
spread_median(const struct spread *spread)
{
    const double *v = spread->sorted;
    const int n = spread->n;

    assert(n > 0);
    return v[(n - 1) / 2] / 2 + v[n / 2] / 2;
}

/* The k-th smallest distance from a number, k from 1: the k nearest of a
 * sorted list lie side by side, and the farther end is the answer. */
static double
find_distance(const struct spread *s, double from, int k)
{
    int low = 0, high = s->n - k;

    while (low < high) {
        const int mid = (low + high) / 2;
        if (from - s->sorted[mid] > s->sorted[mid + k] - from)
            low = mid + 1;
        else
            high = mid;
    }
    return fmax(from - s->sorted[low], s->sorted[low + k - 1] - from);
}

double
spread_width(const struct spread *spread)
{
    const double from = spread_median(spread);
    const int n = spread->n;

    return MAD_TO_SIGMA * (find_distance(spread, from, (n + 1) / 2) / 2 +
                           find_distance(spread, from, n / 2 + 1) / 2);
}
