/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/codec.h"

#define INGEST_MAGIC 0x494e4745u
#define RETRY_MS     1000
#define REWIND_BYTES (64 * 1024)

struct ingest {
    unsigned magic;
    struct store *store; /* borrowed */
    struct ingest_hooks hooks;
    char *path; /* owned */
    int64_t job, attempt, offset;
    int fd;    /* -1: not there yet */
    char *buf; /* owned: the piece under way, or room to read into */
    size_t cap, len;
    bool in_store, draining, broken, told, refused, dead;
    uv_timer_t retry; /* the store refused, or the next piece is due */
    int n_open;       /* handle and store call that still refer to us */
};

static void read_more(struct ingest *in);

static void
release(struct ingest *in)
{
    if (--in->n_open > 0)
        return;
    if (in->fd >= 0)
        close(in->fd);
    free(in->buf);
    free(in->path);
    in->magic = 0;
    free(in);
}

static void
say_broken(struct ingest *in, const struct err *err)
{
    if (in->broken)
        return;
    in->broken = true;
    in->hooks.broken(in->hooks.ctx, err);
}

static void
say_drained(struct ingest *in)
{
    struct err none;

    if (!in->draining || in->told)
        return;
    in->told = true;
    err_clear(&none);
    in->hooks.drained(in->hooks.ctx, &none);
}

static void
on_retry(uv_timer_t *timer)
{
    struct ingest *in = timer->data;

    assert(in->magic == INGEST_MAGIC);
    read_more(in);
}

/* ---- events of a piece ---------------------------------------------------- */

/* By its text: to parse each line once more only for this would be a waste,
 * and a wrong guess costs no more than one commit. */
static bool
is_plain_step(const char *line, size_t len)
{
    static const char mark[] = "\"kind\":\"step\"";

    return memmem(line, len, mark, sizeof(mark) - 1) != NULL;
}

/* Progress may wait for the next group commit; anything else is news. */
static bool
is_urgent(const char *lines, size_t len)
{
    const char *p = lines, *end = lines + len;

    while (p < end) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));

        if (!is_plain_step(p, (size_t)(lf - p)))
            return true;
        p = lf + 1;
    }
    return false;
}

static void
tell_events(struct ingest *in, const char *lines, size_t len, bool replay)
{
    const char *p = lines, *end = lines + len;

    while (p < end && !in->dead) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));
        struct codec_doc *doc = NULL;
        struct event event;
        struct err err;

        if (lf > p &&
            codec_read_event(p, (size_t)(lf - p), &event, &doc, &err) == 0)
            in->hooks.event(in->hooks.ctx, &event, replay);
        else if (lf > p)
            log_warnx("job %" PRId64 ": events.jsonl of attempt %" PRId64
                      ": %s",
                      in->job, in->attempt, err.msg);
        codec_doc_close(&doc);
        p = lf + 1;
    }
}

static void
on_stored(void *ctx, int rc, int64_t offset, const struct err *err)
{
    struct ingest *in = ctx;
    size_t len = in->len;

    assert(in->magic == INGEST_MAGIC && in->in_store);
    in->in_store = false;
    if (in->dead) {
        release(in);
        return;
    }
    if (rc != 0) {
        if (!in->refused)
            log_errx("job %" PRId64 ": events not stored: %s; trying again",
                     in->job, err->msg);
        in->refused = true;
        in->len = 0;
        in->n_open--;
        uv_timer_start(&in->retry, on_retry, RETRY_MS, 0);
        return;
    }
    if (in->refused)
        log_info("job %" PRId64 ": events stored after all", in->job);
    in->refused = false;
    in->offset = offset;
    in->len = 0;
    tell_events(in, in->buf, len, false);
    /* A hook may have destroyed us; the count kept the memory. */
    if (in->dead) {
        release(in);
        return;
    }
    in->n_open--;
    read_more(in);
}

/* ---- the file ------------------------------------------------------------- */

/* 0, or 1 when there is no file (yet). */
static int
open_file(struct ingest *in, struct err *err)
{
    struct stat st;

    if (in->fd >= 0)
        return 0;
    in->fd = open(in->path,
                  O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (in->fd < 0 && errno == ENOENT)
        return 1;
    if (in->fd < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", in->path);
    /* A second name would be one that somebody gave to a file of others. */
    if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        return 0;
    close(in->fd);
    in->fd = -1;
    return err_set(err, ERR_IO, "%s: not a regular file with one name",
                   in->path);
}

static bool
grow(struct ingest *in)
{
    size_t cap = in->cap == 0 ? INGEST_PIECE : in->cap * 2;
    char *buf = realloc(in->buf, cap);

    if (buf == NULL)
        return false;
    in->buf = buf;
    in->cap = cap;
    return true;
}

/* Reads from the offset until the buffer is full or the file ends. */
static ssize_t
read_piece(struct ingest *in)
{
    size_t n = 0;
    ssize_t got;

    while (n < in->cap) {
        got = pread(in->fd, in->buf + n, in->cap - n,
                    (off_t)in->offset + (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

/* Length of the whole lines in buf, 0 when there are none; -1: err says why
 * the file is of no use. */
static ssize_t
find_lines(struct ingest *in, struct err *err)
{
    for (;;) {
        const char *last;
        ssize_t n;

        if (in->cap == 0 && !grow(in))
            return err_set(err, ERR_NOMEM, "%s: out of memory", in->path), -1;
        n = read_piece(in);
        if (n < 0)
            return err_set_errno(err, ERR_IO, errno, "%s", in->path), -1;
        last = n == 0 ? NULL : memrchr(in->buf, '\n', (size_t)n);
        if (last != NULL)
            return last - in->buf + 1;
        if ((size_t)n < in->cap)
            return 0;
        if (in->cap >= INGEST_LINE_MAX)
            return err_set(err, ERR_PROTO,
                           "%s, byte %" PRId64 ": a line of more than %d bytes",
                           in->path, in->offset, INGEST_LINE_MAX),
                   -1;
        if (!grow(in))
            return err_set(err, ERR_NOMEM, "%s: out of memory", in->path), -1;
    }
}

static void
read_more(struct ingest *in)
{
    struct err err;
    ssize_t len;
    int rc;

    if (in->in_store || in->dead)
        return;
    err_clear(&err);
    rc = in->broken ? 1 : open_file(in, &err);
    if (rc < 0) {
        say_broken(in, &err);
        rc = 1;
    }
    len = rc == 0 ? find_lines(in, &err) : 0;
    if (len < 0) {
        say_broken(in, &err);
        len = 0;
    }
    if (len == 0) {
        say_drained(in);
        return;
    }
    in->len = (size_t)len;
    in->in_store = true;
    in->n_open++;
    store_ingest(in->store, in->job, in->attempt, in->offset, in->buf, in->len,
                 in->draining || in->len >= INGEST_PIECE / 2 ||
                     is_urgent(in->buf, in->len),
                 on_stored, in);
}

void
ingest_poll(struct ingest *in)
{
    assert(in->magic == INGEST_MAGIC);
    if (!uv_is_active((uv_handle_t *)&in->retry))
        read_more(in);
}

void
ingest_drain(struct ingest *in)
{
    assert(in->magic == INGEST_MAGIC);
    in->draining = true;
    ingest_poll(in);
}

void
ingest_rewind(struct ingest *in)
{
    int64_t from = in->offset > REWIND_BYTES ? in->offset - REWIND_BYTES : 0;
    char *tail = malloc(REWIND_BYTES), *first = tail;
    struct err err;
    ssize_t n;

    if (tail == NULL || in->offset == 0 || open_file(in, &err) != 0) {
        free(tail);
        return;
    }
    n = pread(in->fd, tail, (size_t)(in->offset - from), (off_t)from);
    if (n > 0 && from > 0) {
        first = memchr(tail, '\n', (size_t)n);
        first = first == NULL ? tail + n : first + 1;
    }
    if (n > 0 && tail[n - 1] == '\n' && first < tail + n)
        tell_events(in, first, (size_t)(tail + n - first), true);
    free(tail);
}

struct ingest *
ingest_create(uv_loop_t *loop, struct store *store, const char *path,
              int64_t job, int64_t attempt, int64_t offset,
              const struct ingest_hooks *hooks)
{
    struct ingest *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return NULL;
    in->path = strdup(path);
    if (in->path == NULL) {
        free(in);
        return NULL;
    }
    in->magic = INGEST_MAGIC;
    in->store = store;
    in->hooks = *hooks;
    in->job = job;
    in->attempt = attempt;
    in->offset = offset;
    in->fd = -1;
    uv_timer_init(loop, &in->retry);
    in->retry.data = in;
    in->n_open = 1;
    return in;
}

static void
on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

void
ingest_destroy(struct ingest **inp)
{
    struct ingest *in = *inp;

    if (in == NULL)
        return;
    assert(in->magic == INGEST_MAGIC && !in->dead);
    *inp = NULL;
    in->dead = true;
    uv_close((uv_handle_t *)&in->retry, on_closed);
}
