/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy_header: what the header of an .npy file says.
 *
 * Private to npy.c. Reads the magic, the length and the Python literal, in the
 * strict subset that NumPy writes: a dict of exactly three keys in any order,
 * strings without escapes, plain decimal integers. Allocates nothing.
 */
#ifndef ENGINE_DATA_NPY_HEADER_H
#define ENGINE_DATA_NPY_HEADER_H

#include "kernels/tensor.h"
#include "proto/err.h"

struct npy_header {
    struct tensor_desc desc;
    bool is_u64; /* desc says int64, the elements are uint64 */
    bool big_endian, fortran_order;
    size_t data_at;
    int64_t n_data_bytes;
};

struct npy_source {
    const uint8_t *head; /* n bytes of the file: all, or FILE_HEAD_BYTES */
    size_t n, total;     /* total: of the whole file, SIZE_MAX: not known */
    const char *name;    /* for sentences */
};

int npy_header_parse(const struct npy_source *from, struct npy_header *out,
                     struct err *err);

#endif
