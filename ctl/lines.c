/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/lines.h"

#include <assert.h>
#include <stdlib.h>

static const struct lines_attempt *
find(const struct lines *l, int64_t attempt)
{
    for (int i = l->n - 1; i >= 0; i--)
        if (l->v[i].attempt == attempt)
            return &l->v[i];
    return NULL;
}

bool
lines_add(struct lines *l, const struct lines_attempt *attempt)
{
    struct lines_attempt *more;

    assert(attempt->attempt > lines_last(l));
    more = realloc(l->v, (size_t)(l->n + 1) * sizeof(*more));
    if (more == NULL)
        return false;
    l->v = more;
    more[l->n] = *attempt;
    if (find(l, attempt->parent) == NULL)
        more[l->n].parent = 0;
    l->n++;
    return true;
}

void
lines_fini(struct lines *l)
{
    free(l->v);
    *l = (struct lines){0};
}

int64_t
lines_last(const struct lines *l)
{
    return l->n > 0 ? l->v[l->n - 1].attempt : 0;
}

/* Parents are earlier than their children, so every walk ends. */
int64_t
lines_at(const struct lines *l, int64_t line, int64_t iteration)
{
    const struct lines_attempt *a = find(l, line);

    while (a != NULL && iteration <= a->start)
        a = find(l, a->parent);
    return a != NULL ? a->attempt : 0;
}

static int64_t
start_of(const struct lines *l, int64_t attempt)
{
    const struct lines_attempt *a = find(l, attempt);

    return a != NULL ? a->start : 0;
}

/* Where two attempts made an iteration, both did so since the later of their
 * starts. */
int64_t
lines_fork(const struct lines *l, int64_t a, int64_t b, int64_t upto)
{
    while (upto > 0) {
        const int64_t in_a = lines_at(l, a, upto), in_b = lines_at(l, b, upto);

        if (in_a == in_b)
            return upto;
        const int64_t start_a = start_of(l, in_a), start_b = start_of(l, in_b);
        upto = start_a > start_b ? start_a : start_b;
    }
    return 0;
}

int64_t
lines_limit(const struct lines *l, int64_t line, int64_t attempt)
{
    int64_t limit = INT64_MAX;
    const struct lines_attempt *a = find(l, line);

    while (a != NULL && a->attempt != attempt) {
        limit = a->start;
        a = find(l, a->parent);
    }
    return a != NULL ? limit : -1;
}
