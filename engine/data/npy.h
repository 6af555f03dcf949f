/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy: reader of NumPy's array files, versions 1, 2 and 3.
 *
 *   93 'NUMPY' | major | minor | header length, u16 LE (v1) or u32 LE |
 *   a Python dict literal: descr, fortran_order, shape | data
 *
 * Takes f2 f4 f8, i1..i8, u1..u8, b1 of either byte order and either element
 * order; refuses objects, structures, strings and complex numbers. Unsigned
 * 64-bit elements become int64 and must fit. The file must be exactly as long
 * as its header says; the header at most 64 KiB. Holds no state.
 */
#ifndef ENGINE_DATA_NPY_H
#define ENGINE_DATA_NPY_H

#include "engine/data/array.h"

#define NPY_MAX_HEADER_BYTES 65536

/* ERR_DATA, ERR_IO or ERR_NOMEM; sentences start with path or name. */
int npy_open(const char *path, struct array *out, struct err *err);
int npy_parse(const void *bytes, size_t len, const char *name,
              struct array *out, struct err *err);

#endif
