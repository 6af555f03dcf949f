/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array: what a reader of data files hands over: dense, row-major, in memory.
 *
 * Owns the bytes of one file. Elements are in this machine's byte order and
 * aligned to their size, of the file's own dtype (64-bit unsigned ones become
 * int64, which the readers check). Made by idx and npy, consumed by dataset.
 * Knows no file format; reading elements is thread-safe.
 */
#ifndef ENGINE_DATA_ARRAY_H
#define ENGINE_DATA_ARRAY_H

#include "kernels/tensor.h"
#include "proto/err.h"

struct array {
    struct tensor_desc desc; /* layout ROW */
    int64_t n_elems;
    void *memory;     /* owned */
    const void *data; /* into memory */
};

void array_fini(struct array *array);

/* Elements and bytes of a shape. False when they do not fit into int64. */
bool array_count(int rank, const int64_t *dim, size_t elem_bytes,
                 int64_t *n_elems, int64_t *n_bytes);

/* Takes memory (n_bytes of data at offset) as elements of desc: aligned,
 * swapped when the file's order is not ours. memory is consumed. */
void array_init_take(struct array *array, const struct tensor_desc *desc,
                     void *memory, size_t offset, bool swap);

/* Reverses the axes: from first index fastest to row-major. */
int array_from_fortran(struct array *array, struct err *err);

/* Elements at .. at + n - 1 as float32, rounded to nearest. */
void array_to_f32(const struct array *array, int64_t at, int64_t n, float *out);

/* Element at: exactly, when the dtype is an integer (false for floats). */
bool array_get_int(const struct array *array, int64_t at, int64_t *out);
/* Element at of any dtype as double. */
double array_get_double(const struct array *array, int64_t at);

#endif
