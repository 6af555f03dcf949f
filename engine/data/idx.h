/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idx: reader of IDX, the format of MNIST and its family, gzip or not.
 *
 *   00 00 | type | n dims | n times u32 BE | elements, big-endian, row-major
 *   type: 08 u8, 09 i8, 0b i16, 0c i32, 0d f32, 0e f64
 *
 * The file must be exactly as long as its header says. Fills an array in this
 * machine's byte order; used by dataset. Holds no state.
 */
#ifndef ENGINE_DATA_IDX_H
#define ENGINE_DATA_IDX_H

#include "engine/data/array.h"

/* ERR_DATA, ERR_IO or ERR_NOMEM; sentences start with path or name. */
int idx_open(const char *path, struct array *out, struct err *err);
int idx_parse(const void *bytes, size_t len, const char *name,
              struct array *out, struct err *err);

#endif
