/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_events.h"

#include "engine/base/failpoint.h"
#include "proto/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct worker_events {
    int fd;
    struct clock clock;
    char *path; /* owned */
    int64_t seq;
    char *pending; /* owned: lines not written yet */
    size_t len, cap;
    int64_t written_us; /* when there was nothing left to write */
    _Atomic int64_t n_bytes;
};

int
worker_events_open(const char *path, const struct clock *clock,
                   struct worker_events **out, struct err *err)
{
    struct worker_events *e = calloc(1, sizeof(*e));
    struct stat st;
    int rc = 0;

    *out = NULL;
    if (e == NULL || (e->path = strdup(path)) == NULL) {
        free(e);
        return err_set(err, ERR_NOMEM, "events: no memory");
    }
    e->clock = *clock;
    e->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                 0644);
    if (e->fd < 0 || fstat(e->fd, &st) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s", path);
    else if (!S_ISREG(st.st_mode) || st.st_size != 0)
        rc = err_set(err, ERR_EXISTS, "%s: the attempt has been run already",
                     path);
    if (rc != 0) {
        worker_events_close(&e);
        return rc;
    }
    e->written_us = clock_mono_us(clock);
    *out = e;
    return 0;
}

/* The file ends in half a line, as after a power cut. */
static void
tear(const struct worker_events *e)
{
    if (failpoint_hit("events.torn_line") == 0)
        return;
    if (write(e->fd, e->pending, (e->len + 1) / 2) >= 0)
        raise(SIGKILL);
}

/* 0 or an errno; what was written is forgotten. */
static int
flush(struct worker_events *e)
{
    size_t done = 0;
    int errnum = 0;

    if (e->len == 0)
        return 0;
    tear(e);
    while (done < e->len && errnum == 0) {
        const ssize_t n = write(e->fd, e->pending + done, e->len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EINTR)
            errnum = errno;
    }
    e->len -= done;
    memmove(e->pending, e->pending + done, e->len);
    atomic_fetch_add(&e->n_bytes, (int64_t)done);
    e->written_us = clock_mono_us(&e->clock);
    return errnum;
}

void
worker_events_close(struct worker_events **events)
{
    struct worker_events *e = *events;

    *events = NULL;
    if (e == NULL)
        return;
    if (e->fd >= 0) {
        flush(e);
        close(e->fd);
    }
    free(e->path);
    free(e->pending);
    free(e);
}

static int
reserve(struct worker_events *e, size_t n)
{
    size_t cap = e->cap > 0 ? e->cap : 65536;
    char *grown;

    while (cap < e->len + n)
        cap *= 2;
    if (cap == e->cap)
        return 0;
    grown = realloc(e->pending, cap);
    if (grown == NULL)
        return ERR_NOMEM;
    e->pending = grown;
    e->cap = cap;
    return 0;
}

int
worker_events_put(struct worker_events *e, const struct event *event,
                  struct err *err)
{
    struct event numbered = *event;
    size_t len;
    char *line;
    int errnum = 0;

    numbered.seq = e->seq + 1;
    line = codec_write_event(&numbered, &len);
    if (line == NULL || reserve(e, len + 1) != 0) {
        free(line);
        return err_set(err, ERR_NOMEM, "events: no memory");
    }
    memcpy(e->pending + e->len, line, len);
    e->pending[e->len + len] = '\n';
    e->len += len + 1;
    e->seq++;
    free(line);
    if (event->kind != EVENT_STEP)
        errnum = flush(e);
    else
        worker_events_tick(e);
    if (e->len <= WORKER_EVENTS_MAX_PENDING)
        return 0;
    return err_set_errno(
        err, errnum == ENOSPC || errnum == EDQUOT ? ERR_NOSPACE : ERR_IO,
        errnum, "%s: %zu bytes of events cannot be written", e->path, e->len);
}

bool
worker_events_tick(struct worker_events *e)
{
    const size_t len = e->len;

    if (len == 0 ||
        clock_mono_us(&e->clock) - e->written_us < WORKER_EVENTS_GATHER_US)
        return false;
    flush(e);
    return e->len < len;
}

int
worker_events_sync(struct worker_events *e, struct err *err)
{
    int errnum = flush(e);

    if (errnum == 0 && fdatasync(e->fd) < 0)
        errnum = errno;
    if (errnum == 0)
        return 0;
    return err_set_errno(
        err, errnum == ENOSPC || errnum == EDQUOT ? ERR_NOSPACE : ERR_IO,
        errnum, "%s", e->path);
}

int64_t
worker_events_bytes(const struct worker_events *e)
{
    return atomic_load(&e->n_bytes);
}
