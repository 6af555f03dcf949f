/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tfevents: records of TensorBoard's event files, encoded by hand.
 *
 * Owns the bytes of whole records until they are written. Knows the three
 * kinds of event that a curve needs, and no other: the version that a file
 * begins with, the start of a session, and scalars. tfevents_write() is the
 * only function that touches a file; it leaves whole records there or none.
 *
 * A record:  u64 n | u32 crc(n) | n bytes | u32 crc(bytes), little-endian,
 *            crc = CRC-32C turned right by 15 bits, plus 0xa282ead8
 * Its bytes: a protobuf Event: 1 wall_time double, 2 step varint, then one of
 *            3 file_version, 5 summary (1: values of 1 tag, 2 simple_value),
 *            7 session_log (1: status, 1 = start).
 */
#ifndef CTL_TFEVENTS_H
#define CTL_TFEVENTS_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tfevents {
    unsigned char *bytes; /* owned */
    size_t len, cap;
    bool failed; /* there was no memory; told by tfevents_write() */
};

struct tfevents_scalar {
    const char *tag;
    float value; /* NaN and infinities as they are */
};

/* CRC-32C, not masked. */
uint32_t tfevents_crc(const void *bytes, size_t n);

/* wall_time: seconds since the epoch. step is not negative. */
void tfevents_put_version(struct tfevents *t, double wall_time);
/* Whoever reads on forgets what earlier files have of `step` and beyond. */
void tfevents_put_start(struct tfevents *t, double wall_time, int64_t step);
void tfevents_put_scalars(struct tfevents *t, double wall_time, int64_t step,
                          const struct tfevents_scalar *scalars, int n);

/* Appends the records to the file at fd and forgets them. When they do not fit
 * the file is cut back to where it ended; path is for the sentence. */
int tfevents_write(struct tfevents *t, int fd, const char *path,
                   struct err *err);
void tfevents_fini(struct tfevents *t);

#endif
