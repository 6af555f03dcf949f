/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: the file format of checkpoints and of initial weights.
 *
 *   u64 LE n | n bytes of JSON: name -> dtype, shape, data_offsets | data
 *
 * Reader: checks everything that huggingface/safetensors' README demands
 * before any tensor is handed out (header within the file, no duplicate keys,
 * offsets contiguous from 0 to the end of the file, sizes without overflow).
 * Writer: tensors sorted by alignment then name, header padded to 8 bytes.
 * No locks; a struct belongs to one thread.
 */
#ifndef ENGINE_DATA_SAFETENSORS_H
#define ENGINE_DATA_SAFETENSORS_H

#include "kernels/tensor.h"
#include "proto/err.h"

#define SAFETENSORS_MAX_HEADER_BYTES (16 * 1024 * 1024)

struct safetensors_entry {
    const char *name;
    struct tensor_desc desc; /* layout ROW */
    const void *data;        /* borrowed; may be unaligned when read */
};

struct safetensors; /* an opened file: the whole of it mapped or in memory */

int safetensors_open(const char *path, struct safetensors **out,
                     struct err *err);
/* From memory (fuzzing, tests); bytes are borrowed. `name` for messages. */
int safetensors_parse(const void *bytes, size_t len, const char *name,
                      struct safetensors **out, struct err *err);
void safetensors_close(struct safetensors **file);

int safetensors_n_entries(const struct safetensors *file);
const struct safetensors_entry *safetensors_at(const struct safetensors *file,
                                               int i);
const struct safetensors_entry *safetensors_find(const struct safetensors *f,
                                                 const char *name);
/* Value of a key of __metadata__, or NULL. */
const char *safetensors_metadata(const struct safetensors *file,
                                 const char *key);

struct safetensors_pair {
    const char *key, *value;
};

/* Writes to fd at its position. A digest of all bytes written (xxh3-128, hex,
 * 33 bytes with NUL) goes to digest, their number to *n_bytes. ERR_NOSPACE or
 * ERR_IO. */
int safetensors_write(int fd, const struct safetensors_entry *entries, int n,
                      const struct safetensors_pair *metadata, int n_metadata,
                      char digest[33], int64_t *n_bytes, struct err *err);

#endif
