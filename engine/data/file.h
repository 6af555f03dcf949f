/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file: a whole regular file in memory, unpacked when it is gzip.
 *
 * Files are read, not mapped: what was checked is what is used, though
 * somebody rewrites or cuts the file meanwhile. Memory is bounded by what the
 * file's own header declares and by what can be there at all (the size on
 * disk; 1032 times that for gzip), so no header makes us allocate much. Gzip
 * is known by its first two bytes, its CRC and length are checked. Opens with
 * the process's rights; refuses what is not a regular file.
 */
#ifndef ENGINE_DATA_FILE_H
#define ENGINE_DATA_FILE_H

#include "proto/err.h"

#include <stddef.h>
#include <stdint.h>

#define FILE_HEAD_BYTES (72 * 1024)
#define FILE_ALL        SIZE_MAX /* a sizer's answer: as much as there is */

struct file {
    uint8_t *bytes; /* owned; len of them, 64-byte aligned */
    size_t len;     /* in memory: total, or less when the header says less */
    size_t total;   /* in the file, unpacked */
};

/* How many bytes the whole file should have, from its first n_head (at most
 * FILE_HEAD_BYTES, `total` SIZE_MAX when not known yet). Errors end the
 * reading; sentences start with name. */
typedef int file_sizer_fn(const uint8_t *head, size_t n_head, size_t total,
                          const char *name, size_t *n_bytes, struct err *err);

/* ERR_IO, ERR_NOMEM, ERR_DATA (gzip), or what sizer returned. Without a sizer
 * the file is taken as it is, whole and never unpacked: for formats without a
 * magic number, whose first two bytes may look like gzip's. */
int file_load(const char *path, file_sizer_fn *sizer, struct file *out,
              struct err *err);
/* The same for bytes in memory, which are copied: fuzzing and tests. */
int file_load_bytes(const void *bytes, size_t len, const char *name,
                    file_sizer_fn *sizer, struct file *out, struct err *err);
void file_fini(struct file *file);

#endif
