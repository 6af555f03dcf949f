/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/tfevents.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CRC_MASK   0xa282ead8u
#define HEAD_BYTES 12 /* of a record before its event */

/* ---- checksums -----------------------------------------------------------*/

/* Remainders of half bytes by Castagnoli's polynomial, 0x82f63b78 with its bits
 * reversed. */
static const uint32_t remainder_of[16] = {
    0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u,
    0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du,
    0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u, 0xb21572c9u,
    0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u,
};

uint32_t
tfevents_crc(const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < n; i++) {
        crc ^= b[i];
        crc = (crc >> 4) ^ remainder_of[crc & 15];
        crc = (crc >> 4) ^ remainder_of[crc & 15];
    }
    return ~crc;
}

/* A checksum of bytes that hold checksums is weak; masked ones are not. */
static uint32_t
masked_crc(const void *bytes, size_t n)
{
    const uint32_t crc = tfevents_crc(bytes, n);

    return ((crc >> 15) | (crc << 17)) + CRC_MASK;
}

/* ---- bytes ---------------------------------------------------------------*/

static void
put_bytes(struct tfevents *t, const void *bytes, size_t n)
{
    if (!t->failed && t->len + n > t->cap) {
        const size_t cap = (t->len + n) * 2;
        unsigned char *more = realloc(t->bytes, cap);

        t->failed = more == NULL;
        if (more != NULL) {
            t->bytes = more;
            t->cap = cap;
        }
    }
    if (t->failed)
        return;
    memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

/* The n low bytes of v, the lowest first. */
static void
set_fixed(unsigned char *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static void
put_fixed(struct tfevents *t, uint64_t v, int n)
{
    unsigned char bytes[8];

    set_fixed(bytes, v, n);
    put_bytes(t, bytes, (size_t)n);
}

static void
put_varint(struct tfevents *t, uint64_t v)
{
    unsigned char byte;

    do {
        byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        put_bytes(t, &byte, 1);
        v >>= 7;
    } while (v > 0);
}

static size_t
varint_bytes(uint64_t v)
{
    size_t n = 1;

    for (; v > 0x7f; v >>= 7)
        n++;
    return n;
}

/* ---- protobuf ------------------------------------------------------------*/

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void
put_key(struct tfevents *t, unsigned field, enum wire wire)
{
    put_varint(t, field << 3 | wire);
}

static void
put_string(struct tfevents *t, unsigned field, const char *s)
{
    put_key(t, field, WIRE_BYTES);
    put_varint(t, strlen(s));
    put_bytes(t, s, strlen(s));
}

static void
put_double(struct tfevents *t, unsigned field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    put_key(t, field, WIRE_64);
    put_fixed(t, bits, 8);
}

static void
put_float(struct tfevents *t, unsigned field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    put_key(t, field, WIRE_32);
    put_fixed(t, bits, 4);
}

/* ---- records -------------------------------------------------------------*/

/* Leaves room for the record's head and begins its event; what it returns is
 * given to end_record(). Zeros are what is not said. */
static size_t
begin_record(struct tfevents *t, double wall_time, int64_t step)
{
    const unsigned char head[HEAD_BYTES] = {0};
    const size_t start = t->len;

    assert(step >= 0);
    put_bytes(t, head, sizeof(head));
    put_double(t, 1, wall_time);
    if (step > 0) {
        put_key(t, 2, WIRE_VARINT);
        put_varint(t, (uint64_t)step);
    }
    return start;
}

static void
end_record(struct tfevents *t, size_t start)
{
    unsigned char *head = t->bytes + start;
    uint64_t n;

    if (t->failed)
        return;
    n = t->len - start - HEAD_BYTES;
    set_fixed(head, n, 8);
    set_fixed(head + 8, masked_crc(head, 8), 4);
    put_fixed(t, masked_crc(head + HEAD_BYTES, n), 4);
}

void
tfevents_put_version(struct tfevents *t, double wall_time)
{
    const size_t start = begin_record(t, wall_time, 0);

    put_string(t, 3, "brain.Event:2");
    end_record(t, start);
}

void
tfevents_put_start(struct tfevents *t, double wall_time, int64_t step)
{
    const size_t start = begin_record(t, wall_time, step);

    put_key(t, 7, WIRE_BYTES);
    put_varint(t, 2);
    put_key(t, 1, WIRE_VARINT);
    put_varint(t, 1);
    end_record(t, start);
}

/* Key and length of the tag, the tag, key and value. */
static size_t
scalar_bytes(const struct tfevents_scalar *scalar)
{
    const size_t n = strlen(scalar->tag);

    return 1 + varint_bytes(n) + n + 1 + sizeof(float);
}

void
tfevents_put_scalars(struct tfevents *t, double wall_time, int64_t step,
                     const struct tfevents_scalar *scalars, int n)
{
    const size_t start = begin_record(t, wall_time, step);
    size_t summary_bytes = 0;

    for (int i = 0; i < n; i++) {
        const size_t bytes = scalar_bytes(&scalars[i]);
        summary_bytes += 1 + varint_bytes(bytes) + bytes;
    }
    put_key(t, 5, WIRE_BYTES);
    put_varint(t, summary_bytes);
    for (int i = 0; i < n; i++) {
        put_key(t, 1, WIRE_BYTES);
        put_varint(t, scalar_bytes(&scalars[i]));
        put_string(t, 1, scalars[i].tag);
        put_float(t, 2, scalars[i].value);
    }
    end_record(t, start);
}

/* ---- the file ------------------------------------------------------------*/

static int
write_whole(const struct tfevents *t, int fd)
{
    size_t done = 0;

    while (done < t->len) {
        const ssize_t n = write(fd, t->bytes + done, t->len - done);
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int
tfevents_write(struct tfevents *t, int fd, const char *path, struct err *err)
{
    const off_t end = lseek(fd, 0, SEEK_END);
    int rc = 0;

    if (t->failed)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (end < 0 || write_whole(t, fd) < 0) {
        rc = err_set_errno(err, errno == ENOSPC ? ERR_NOSPACE : ERR_IO, errno,
                           "%s", path);
        if (end >= 0 && ftruncate(fd, end) < 0)
            rc = err_set_errno(err, ERR_IO, errno,
                               "%s: its last record may be cut short", path);
    }
    t->len = 0;
    return rc;
}

void
tfevents_fini(struct tfevents *t)
{
    free(t->bytes);
    *t = (struct tfevents){0};
}
