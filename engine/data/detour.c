/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/detour.h"

#include <stdlib.h>

#define POSITION_LIMIT (INT64_C(1) << 53)

struct stretch {
    int64_t first, behind;
};

struct detour {
    int n;
    struct stretch stretch[]; /* in order, with gaps between them */
};

static int
compare(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static void
merge(struct detour *d)
{
    int n = 0;

    qsort(d->stretch, (size_t)d->n, sizeof(d->stretch[0]), compare);
    for (int i = 0; i < d->n; i++) {
        const struct stretch s = d->stretch[i];

        if (n > 0 && s.first <= d->stretch[n - 1].behind) {
            if (s.behind > d->stretch[n - 1].behind)
                d->stretch[n - 1].behind = s.behind;
        } else {
            d->stretch[n++] = s;
        }
    }
    d->n = n;
}

int
detour_create(const int64_t *pairs, int n, struct detour **out, struct err *err)
{
    struct detour *d = NULL;

    *out = NULL;
    if (n % 2 != 0)
        return err_set(err, ERR_PROTO, "skip_windows: %d numbers are no pairs",
                       n);
    d = calloc(1, sizeof(*d) + (size_t)(n / 2) * sizeof(d->stretch[0]));
    if (d == NULL)
        return err_set(err, ERR_NOMEM, "skip_windows: no memory");
    d->n = n / 2;
    for (int i = 0; i < d->n; i++) {
        const int64_t first = pairs[2 * i], count = pairs[2 * i + 1];

        if (first < 0 || count < 1 || first > POSITION_LIMIT ||
            count > POSITION_LIMIT - first) {
            free(d);
            return err_set(err, ERR_PROTO,
                           "skip_windows: %lld windows from %lld on",
                           (long long)count, (long long)first);
        }
        d->stretch[i] = (struct stretch){first, first + count};
    }
    merge(d);
    *out = d;
    return 0;
}

void
detour_destroy(struct detour **detour)
{
    free(*detour);
    *detour = NULL;
}

int64_t
detour_next(const struct detour *detour, int64_t position)
{
    int low = 0, high = detour != NULL ? detour->n : 0;

    /* The last stretch that begins at or before position. */
    while (low < high) {
        const int mid = (low + high) / 2;
        if (detour->stretch[mid].first <= position)
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && position < detour->stretch[low - 1].behind)
        return detour->stretch[low - 1].behind;
    return position;
}
