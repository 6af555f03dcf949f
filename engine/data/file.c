/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define ALIGN         64
#define GZIP_MAX_RATE 1032 /* deflate cannot do better */
#define READ_MAX      (1 << 30)

static void *
allocate(size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    return aligned_alloc(ALIGN, n / ALIGN * ALIGN + ALIGN);
}

void
file_fini(struct file *file)
{
    free(file->bytes);
    memset(file, 0, sizeof(*file));
}

static bool
is_gzip(const uint8_t *head, size_t n)
{
    return n >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

/* Where bytes come from: a descriptor, or memory when fd < 0. */
struct source {
    int fd;
    const uint8_t *from;
    size_t at, total;
    const char *name;
    file_sizer_fn *sizer;
    uint8_t *head; /* the first n_head bytes */
    size_t n_head;
};

static int
source_read(struct source *s, uint8_t *to, size_t n, struct err *err)
{
    if (s->fd < 0) {
        assert(n <= s->total - s->at);
        memcpy(to, s->from + s->at, n);
        s->at += n;
        return 0;
    }
    for (size_t done = 0; done < n;) {
        const size_t room = n - done < READ_MAX ? n - done : READ_MAX;
        const ssize_t got = read(s->fd, to + done, room);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(err, ERR_IO, errno, "%s", s->name);
        if (got == 0)
            return err_set(err, ERR_IO, "%s: became shorter while read",
                           s->name);
        done += (size_t)got;
        s->at += (size_t)got;
    }
    return 0;
}

/* The first n bytes of the source, whose head is read already. */
static int
source_read_all(struct source *s, size_t n, uint8_t **out, struct err *err)
{
    const size_t n_head = s->n_head < n ? s->n_head : n;

    *out = allocate(n);
    if (*out == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", s->name,
                       n);
    memcpy(*out, s->head, n_head);
    return source_read(s, *out + n_head, n - n_head, err);
}

/* ---- gzip --------------------------------------------------------------- */

struct unpacker {
    z_stream z;
    const uint8_t *packed; /* all of it: n_packed bytes */
    size_t n_packed;
    const uint8_t *from; /* not yet given to z */
    size_t n_from;
    const char *name;
    size_t total; /* bytes out so far */
    bool ended;
};

static int
refuse_gzip(const struct unpacker *u, int rc, struct err *err)
{
    const char *why = u->z.msg != NULL ? u->z.msg : zError(rc);

    if (rc == Z_MEM_ERROR)
        return err_set(err, ERR_NOMEM, "%s: no memory to unpack", u->name);
    if (rc == Z_BUF_ERROR)
        return err_set(err, ERR_DATA,
                       "%s: gzip data end early, after %zu unpacked bytes",
                       u->name, u->total);
    if (strcmp(why, "incorrect data check") == 0)
        return err_set(err, ERR_DATA,
                       "%s: gzip CRC does not match the %zu unpacked bytes",
                       u->name, u->total);
    return err_set(err, ERR_DATA, "%s: gzip: %s after %zu unpacked bytes",
                   u->name, why, u->total);
}

static void
feed(struct unpacker *u)
{
    const size_t n = u->n_from < READ_MAX ? u->n_from : READ_MAX;

    if (u->z.avail_in != 0 || n == 0)
        return;
    u->z.next_in = (Bytef *)(uintptr_t)u->from; /* zlib only reads it */
    u->z.avail_in = (uInt)n;
    u->from += n;
    u->n_from -= n;
}

/* A member has ended: nothing, padding or another member may follow. */
static int
go_on_after_member(struct unpacker *u, struct err *err)
{
    const uint8_t *rest = u->z.next_in;
    const size_t n = u->z.avail_in + u->n_from; /* lie in one piece */
    size_t zeros = 0;

    if (is_gzip(rest, n)) {
        inflateReset(&u->z);
        return 0;
    }
    while (zeros < n && rest[zeros] == 0)
        zeros++;
    if (zeros < n)
        return err_set(err, ERR_DATA, "%s: %zu bytes after the gzip data",
                       u->name, n);
    u->ended = true;
    return 0;
}

/* Up to n bytes to `to`; *got of them, fewer only at the end. */
static int
unpack(struct unpacker *u, uint8_t *to, size_t n, size_t *got, struct err *err)
{
    size_t done = 0;

    while (done < n && !u->ended) {
        const size_t room = n - done < READ_MAX ? n - done : READ_MAX;
        int rc;

        feed(u);
        u->z.next_out = to + done;
        u->z.avail_out = (uInt)room;
        rc = inflate(&u->z, Z_NO_FLUSH);
        done += room - u->z.avail_out;
        u->total += room - u->z.avail_out;
        if (rc == Z_STREAM_END)
            rc = go_on_after_member(u, err);
        else if (rc != Z_OK)
            rc = refuse_gzip(u, rc, err);
        if (rc < 0)
            return rc;
    }
    *got = done;
    return 0;
}

/* Runs to the end, so that length and CRC are seen, and counts. */
static int
unpack_rest(struct unpacker *u, uint8_t *scratch, size_t n, struct err *err)
{
    int rc = 0;
    size_t got;

    while (rc == 0 && !u->ended)
        rc = unpack(u, scratch, n, &got, err);
    return rc;
}

static int
start_unpacker(struct unpacker *u, const uint8_t *packed, size_t n,
               const char *name, struct err *err)
{
    *u = (struct unpacker){.packed = packed,
                           .n_packed = n,
                           .from = packed,
                           .n_from = n,
                           .name = name};
    if (inflateInit2(&u->z, 15 + 16) != Z_OK)
        return err_set(err, ERR_NOMEM, "%s: no memory to unpack", name);
    return 0;
}

/* Unpacks everything once, keeping nothing, to know how much it is. */
static int
measure(const struct unpacker *like, uint8_t *scratch, size_t *total,
        struct err *err)
{
    struct unpacker u;
    int rc = start_unpacker(&u, like->packed, like->n_packed, like->name, err);

    if (rc < 0)
        return rc;
    rc = unpack_rest(&u, scratch, FILE_HEAD_BYTES, err);
    *total = u.total;
    inflateEnd(&u.z);
    return rc;
}

static int
unpack_all(struct unpacker *u, size_t most, file_sizer_fn *sizer,
           struct file *out, struct err *err)
{
    uint8_t *head = malloc(FILE_HEAD_BYTES), *scratch = malloc(FILE_HEAD_BYTES);
    size_t n_head, got = 0, n = 0;
    int rc = ERR_NOMEM;

    if (head == NULL || scratch == NULL)
        goto out;
    rc = unpack(u, head, FILE_HEAD_BYTES, &n_head, err);
    if (rc < 0)
        goto out;
    rc = sizer(head, n_head, u->ended ? u->total : SIZE_MAX, u->name, &n, err);
    if (rc == 0 && n == FILE_ALL)
        rc = measure(u, scratch, &n, err);
    if (rc < 0)
        goto out;
    n = n < most ? n : most;
    out->bytes = allocate(n);
    rc = out->bytes == NULL ? ERR_NOMEM : 0;
    if (rc < 0)
        goto out;
    if (n_head > n)
        n_head = n;
    memcpy(out->bytes, head, n_head);
    rc = unpack(u, out->bytes + n_head, n - n_head, &got, err);
    if (rc == 0)
        rc = unpack_rest(u, scratch, FILE_HEAD_BYTES, err);
    out->len = n_head + got;
    out->total = u->total;
out:
    if (rc == ERR_NOMEM)
        err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", u->name, n);
    free(head);
    free(scratch);
    return rc;
}

/* ---- both ---------------------------------------------------------------- */

static int
load_gzip(struct source *s, struct file *out, struct err *err)
{
    struct unpacker u;
    uint8_t *packed = NULL;
    size_t most;
    int rc = source_read_all(s, s->total, &packed, err);

    if (rc < 0)
        goto out;
    rc = start_unpacker(&u, packed, s->total, s->name, err);
    if (rc < 0)
        goto out;
    if (__builtin_mul_overflow(s->total, (size_t)GZIP_MAX_RATE, &most))
        most = SIZE_MAX;
    rc = unpack_all(&u, most, s->sizer, out, err);
    inflateEnd(&u.z);
out:
    free(packed);
    return rc;
}

static int
load_plain(struct source *s, struct file *out, struct err *err)
{
    size_t n = FILE_ALL;
    int rc = 0;

    if (s->sizer != NULL)
        rc = s->sizer(s->head, s->n_head, s->total, s->name, &n, err);
    if (rc < 0)
        return rc;
    out->total = s->total;
    out->len = n < s->total ? n : s->total;
    return source_read_all(s, out->len, &out->bytes, err);
}

static int
load(struct source *s, struct file *out, struct err *err)
{
    int rc;

    s->n_head = s->total < FILE_HEAD_BYTES ? s->total : FILE_HEAD_BYTES;
    s->head = malloc(FILE_HEAD_BYTES);
    if (s->head == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", s->name);
    rc = source_read(s, s->head, s->n_head, err);
    if (rc == 0)
        rc = s->sizer != NULL && is_gzip(s->head, s->n_head)
                 ? load_gzip(s, out, err)
                 : load_plain(s, out, err);
    free(s->head);
    if (rc < 0)
        file_fini(out);
    return rc;
}

int
file_load(const char *path, file_sizer_fn *sizer, struct file *out,
          struct err *err)
{
    struct source s = {.name = path, .sizer = sizer};
    struct stat st;
    int rc;

    memset(out, 0, sizeof(*out));
    /* NONBLOCK: opening a FIFO or a device must not hang. */
    s.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (s.fd < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    if (fstat(s.fd, &st) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_IO, "%s: not a regular file", path);
    else {
        s.total = (size_t)st.st_size;
        rc = load(&s, out, err);
    }
    close(s.fd);
    return rc;
}

int
file_load_bytes(const void *bytes, size_t len, const char *name,
                file_sizer_fn *sizer, struct file *out, struct err *err)
{
    static const uint8_t none[1];
    struct source s = {
        .fd = -1,
        .from = len > 0 ? bytes : none,
        .total = len,
        .name = name,
        .sizer = sizer,
    };

    memset(out, 0, sizeof(*out));
    return load(&s, out, err);
}
