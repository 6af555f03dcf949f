/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/room.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MAGIC 0x524f4f4du
#define PERIOD_MS  10000

struct room {
    unsigned magic;
    char *directory; /* owned */
    uv_timer_t timer;
    uv_fs_t ask;
    bool asking, closing;
    int n_open; /* the timer and the question that still refer to us */
    int64_t free_bytes, size_bytes;
};

static void
release(struct room *r)
{
    if (--r->n_open > 0)
        return;
    free(r->directory);
    r->magic = 0;
    free(r);
}

static void
on_answer(uv_fs_t *ask)
{
    struct room *r = ask->data;
    const uv_statfs_t *st = ask->ptr;

    assert(r->magic == ROOM_MAGIC && r->asking);
    r->free_bytes = r->size_bytes = -1;
    if (ask->result == 0) {
        r->free_bytes = (int64_t)(st->f_bavail * st->f_bsize);
        r->size_bytes = (int64_t)(st->f_blocks * st->f_bsize);
    }
    uv_fs_req_cleanup(ask);
    r->asking = false;
    release(r);
}

static void
on_timer(uv_timer_t *timer)
{
    struct room *r = timer->data;

    if (r->asking)
        return;
    r->ask.data = r;
    if (uv_fs_statfs(timer->loop, &r->ask, r->directory, on_answer) != 0)
        return;
    r->asking = true;
    r->n_open++;
}

struct room *
room_open(uv_loop_t *loop, const char *directory)
{
    struct room *r = calloc(1, sizeof(*r));

    if (r != NULL)
        r->directory = strdup(directory);
    if (r == NULL || r->directory == NULL) {
        free(r);
        return NULL;
    }
    r->magic = ROOM_MAGIC;
    r->n_open = 1;
    r->free_bytes = r->size_bytes = -1;
    uv_timer_init(loop, &r->timer);
    r->timer.data = r;
    uv_timer_start(&r->timer, on_timer, 0, PERIOD_MS);
    return r;
}

static void
on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void
room_close(struct room **rp)
{
    struct room *r = *rp;

    if (r == NULL)
        return;
    assert(r->magic == ROOM_MAGIC && !r->closing);
    *rp = NULL;
    r->closing = true;
    uv_close((uv_handle_t *)&r->timer, on_closed);
}

int64_t
room_free_bytes(const struct room *r)
{
    return r->free_bytes;
}

int64_t
room_size_bytes(const struct room *r)
{
    return r->size_bytes;
}
