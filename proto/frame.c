/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/frame.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC      0x66726d31u
#define IDLE_BYTES (64 * 1024) /* a drained buffer above this is given back */

/*
 *  0 ....... start ....... checked ....... len ....... cap
 *    handed out   whole frames    ^ first header that has not all arrived, or
 *                                   whose frame has not
 */
struct frame_reader {
    unsigned magic;
    size_t max_bytes;
    char *buf; /* owned; one byte more than cap, for the NUL */
    size_t cap, len, start;
    size_t checked; /* where the next header to be looked at begins */
    size_t hidden;  /* where the NUL after a payload hides a byte; 0 nowhere */
    char hidden_byte;
    bool broken;
    uint32_t bad_length;
};

struct frame_reader *
frame_reader_create(size_t max_bytes)
{
    struct frame_reader *r = calloc(1, sizeof(*r));

    assert(max_bytes > 0 && max_bytes <= FRAME_MAX_BYTES);
    if (r == NULL)
        return NULL;
    r->magic = MAGIC;
    r->max_bytes = max_bytes;
    return r;
}

void
frame_reader_destroy(struct frame_reader **reader)
{
    if (*reader == NULL)
        return;
    assert((*reader)->magic == MAGIC);
    (*reader)->magic = 0;
    free((*reader)->buf);
    free(*reader);
    *reader = NULL;
}

static uint32_t
read_length(const char *header)
{
    const unsigned char *h = (const unsigned char *)header;

    return (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 |
           h[3];
}

static void
unhide(struct frame_reader *r)
{
    if (r->hidden != 0)
        r->buf[r->hidden] = r->hidden_byte;
    r->hidden = 0;
}

static void
drop_read(struct frame_reader *r)
{
    if (r->start == 0)
        return;
    memmove(r->buf, r->buf + r->start, r->len - r->start);
    r->len -= r->start;
    r->checked -= r->start;
    r->start = 0;
    if (r->len == 0 && r->cap > IDLE_BYTES) {
        free(r->buf);
        r->buf = NULL;
        r->cap = 0;
    }
}

static int
make_room(struct frame_reader *r, size_t n)
{
    size_t cap = r->cap ? r->cap : 1024;
    char *buf;

    if (n > (size_t)-1 / 4 - r->len)
        return ERR_NOMEM;
    if (r->len + n <= r->cap)
        return 0;
    while (cap < r->len + n)
        cap += cap / 2;
    buf = realloc(r->buf, cap + 1);
    if (buf == NULL)
        return ERR_NOMEM;
    r->buf = buf;
    r->cap = cap;
    return 0;
}

static int
refuse(const struct frame_reader *r, struct err *err)
{
    if (r->bad_length == 0)
        return err_set(err, ERR_PROTO, "frame of length 0");
    return err_set(err, ERR_PROTO,
                   "frame of %lu bytes, at most %zu are accepted",
                   (unsigned long)r->bad_length, r->max_bytes);
}

int
frame_reader_feed(struct frame_reader *r, const void *bytes, size_t n,
                  struct err *err)
{
    assert(r->magic == MAGIC);
    if (r->broken)
        return refuse(r, err);
    unhide(r);
    drop_read(r);
    if (make_room(r, n) != 0)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes of a frame", n);
    if (n > 0)
        memcpy(r->buf + r->len, bytes, n);
    r->len += n;
    while (r->len >= r->checked + FRAME_HEADER_BYTES) {
        uint32_t length = read_length(r->buf + r->checked);

        if (length == 0 || length > r->max_bytes) {
            r->broken = true;
            r->bad_length = length;
            return refuse(r, err);
        }
        if (r->len - r->checked - FRAME_HEADER_BYTES < length)
            break;
        r->checked += FRAME_HEADER_BYTES + length;
    }
    return 0;
}

const char *
frame_reader_next(struct frame_reader *r, size_t *len)
{
    char *payload;
    size_t end;

    assert(r->magic == MAGIC);
    *len = 0;
    if (r->buf == NULL)
        return NULL;
    unhide(r);
    if (r->start == r->checked)
        return NULL;
    payload = r->buf + r->start + FRAME_HEADER_BYTES;
    *len = read_length(r->buf + r->start);
    end = r->start + FRAME_HEADER_BYTES + *len;
    assert(end <= r->checked);
    r->hidden = end;
    r->hidden_byte = r->buf[end];
    r->buf[end] = '\0';
    r->start = end;
    return payload;
}

void
frame_write_header(uint8_t header[FRAME_HEADER_BYTES], size_t n)
{
    assert(n > 0 && n <= FRAME_MAX_BYTES);
    header[0] = (uint8_t)(n >> 24);
    header[1] = (uint8_t)(n >> 16);
    header[2] = (uint8_t)(n >> 8);
    header[3] = (uint8_t)n;
}
