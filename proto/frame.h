/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame: bytes to frames and back; knows no message and no socket.
 *
 *   +----------------+---------------------+
 *   | u32 big endian | that many bytes     |   1 <= length <= FRAME_MAX_BYTES
 *   +----------------+---------------------+
 *
 * A reader is fed whatever arrived, in any pieces, and hands out whole frames.
 * Once a length is out of range the reader is broken for good: the stream has
 * no later place to start again from. Memory is bounded by the largest frame
 * announced, and grows only as bytes arrive, never on the announcement alone.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include "proto/err.h"

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES 4
#define FRAME_MAX_BYTES    (8 * 1024 * 1024)

struct frame_reader; /* opaque */

/* max_bytes: the largest payload accepted, <= FRAME_MAX_BYTES. NULL: no
 * memory. */
struct frame_reader *frame_reader_create(size_t max_bytes);
void frame_reader_destroy(struct frame_reader **reader);

/* Adds n bytes. ERR_PROTO (now and ever after) on a bad length; ERR_NOMEM. */
int frame_reader_feed(struct frame_reader *reader, const void *bytes, size_t n,
                      struct err *err);

/* The next whole payload, or NULL. It is NUL-terminated beyond its length and
 * borrowed until the next call on the reader. */
const char *frame_reader_next(struct frame_reader *reader, size_t *len);

/* Writes the four header bytes for a payload of n bytes. */
void frame_write_header(uint8_t header[FRAME_HEADER_BYTES], size_t n);

#endif
