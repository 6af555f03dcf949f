/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/checkpoints.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ------------------------------------------------------------*/

struct gather {
    struct store *store; /* borrowed */
    int64_t job;
    struct checkpoints list;
    checkpoints_fn *done;
    void *ctx;
};

static void ask_page(struct gather *g);

static bool
add_row(struct checkpoints *list, const struct view_checkpoint *row)
{
    struct checkpoints_item *item;

    if (list->n == list->cap) {
        int cap = list->cap == 0 ? 16 : list->cap * 2;
        void *v = realloc(list->v, (size_t)cap * sizeof(*list->v));

        if (v == NULL)
            return false;
        list->v = v;
        list->cap = cap;
    }
    item = &list->v[list->n++];
    memset(item, 0, sizeof(*item));
    item->id = row->id;
    item->iteration = row->iteration;
    item->updates = row->updates;
    item->skips = row->skips;
    item->attempt = row->attempt;
    item->live = row->live;
    item->good = strcmp(row->state, "good") == 0;
    item->best = row->best;
    item->metric = row->metric;
    snprintf(item->name, sizeof(item->name), "%s", row->name);
    return true;
}

static void
finish(struct gather *g, int rc, const struct err *err)
{
    g->done(g->ctx, rc, &g->list, err);
    free(g->list.v);
    free(g);
}

static void
on_page(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct gather *g = ctx;
    const struct view_checkpoint *rows = items;
    struct err none;
    bool ok = true;

    if (rc != 0) {
        finish(g, rc, err);
        return;
    }
    for (int i = 0; i < n && ok; i++)
        ok = add_row(&g->list, &rows[i]);
    err_clear(&none);
    if (!ok)
        finish(g, err_set(&none, ERR_NOMEM, "checkpoints: out of memory"),
               &none);
    else if (more && n > 0)
        ask_page(g);
    else
        finish(g, 0, &none);
}

static void
ask_page(struct gather *g)
{
    struct view_query query;

    view_init(VIEW_ID_query, &query);
    query.all_lines = true;
    if (g->list.n > 0)
        query.after_row = g->list.v[g->list.n - 1].id;
    store_query(g->store, MESSAGE_ID_checkpoints, g->job, &query, on_page, g);
}

void
checkpoints_gather(struct store *store, int64_t job, checkpoints_fn *done,
                   void *ctx)
{
    struct gather *g = calloc(1, sizeof(*g));

    assert(g != NULL);
    g->store = store;
    g->job = job;
    g->done = done;
    g->ctx = ctx;
    ask_page(g);
}

/* ---- choices --------------------------------------------------------------*/

const struct checkpoints_item *
checkpoints_last(const struct checkpoints *list)
{
    for (int i = list->n - 1; i >= 0; i--)
        if (list->v[i].live && list->v[i].good)
            return &list->v[i];
    return NULL;
}

const struct checkpoints_item *
checkpoints_best(const struct checkpoints *list)
{
    for (int i = list->n - 1; i >= 0; i--)
        if (list->v[i].live && list->v[i].good && list->v[i].best)
            return &list->v[i];
    return NULL;
}

const struct checkpoints_item *
checkpoints_find(const struct checkpoints *list, int64_t id)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i].id == id)
            return &list->v[i];
    return NULL;
}

const struct checkpoints_item *
checkpoints_find_name(const struct checkpoints *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->v[i].name, name) == 0)
            return &list->v[i];
    return NULL;
}

const struct checkpoints_item *
checkpoints_choose(const struct checkpoints *list, const char *to,
                   struct err *err)
{
    const struct checkpoints_item *item;
    char *end;
    int64_t id;

    if (to[0] == '\0' || strcmp(to, "last") == 0) {
        item = checkpoints_last(list);
        if (item == NULL)
            err_set(err, ERR_NOTFOUND, "it has no good checkpoint");
        return item;
    }
    if (strcmp(to, "best") == 0) {
        item = checkpoints_best(list);
        if (item == NULL)
            err_set(err, ERR_NOTFOUND,
                    "it has no good checkpoint that is marked best");
        return item;
    }
    errno = 0;
    id = strtoll(to, &end, 10);
    item = errno == 0 && *end == '\0' ? checkpoints_find(list, id)
                                      : checkpoints_find_name(list, to);
    if (item == NULL) {
        err_set(err, ERR_NOTFOUND,
                "it has no checkpoint %.60s: last, best, or one that "
                "\"trainctl checkpoints\" lists",
                to);
    } else if (!item->good) {
        err_set(err, ERR_CKPT,
                "checkpoint %" PRId64 " (%s) is not good any more", item->id,
                item->name);
        item = NULL;
    }
    return item;
}

bool
checkpoints_parse_name(const char *name, int64_t *iteration, int64_t *attempt)
{
    char again[CHECKPOINTS_NAME_MAX];
    long long it, a;

    if (strlen(name) >= sizeof(again) ||
        sscanf(name, "it%lld-a%lld", &it, &a) != 2 || it < 0 || a < 1)
        return false;
    snprintf(again, sizeof(again), "it%09lld-a%lld", it, a);
    *iteration = it;
    *attempt = a;
    return strcmp(again, name) == 0;
}
