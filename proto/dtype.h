/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dtype: the element types that specs, files, checkpoints and kernels name.
 *
 * A table of names, sizes and classes; no conversion lives here (kernels/cpu/
 * convert does that). Everybody may call it; it holds no state.
 */
#ifndef PROTO_DTYPE_H
#define PROTO_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum dtype {
    DTYPE_NONE = 0, /* "no tensor here": an absent optional input */
    DTYPE_F32,
    DTYPE_F16,  /* IEEE binary16 */
    DTYPE_BF16, /* bfloat16: the upper half of binary32 */
    DTYPE_F64,
    DTYPE_I8,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_U8,
    DTYPE_U16,
    DTYPE_U32,
    DTYPE_BOOL, /* one byte, 0 or 1 */
    DTYPE_COUNT
};

size_t dtype_size_bytes(enum dtype t);      /* 0 for DTYPE_NONE */
bool dtype_is_float(enum dtype t);          /* f16, bf16, f32, f64 */
bool dtype_is_half(enum dtype t);           /* f16, bf16 */
const char *dtype_name(enum dtype t);       /* "float32", PyTorch's name */
const char *dtype_short_name(enum dtype t); /* "f32", for listings */
const char *dtype_safetensors_name(enum dtype t); /* "F32" */

/* By PyTorch name; DTYPE_NONE when there is none such. */
enum dtype dtype_parse(const char *name);
/* By safetensors name ("F32", "BF16"); DTYPE_NONE when unknown. */
enum dtype dtype_parse_safetensors(const char *name);

/* The wider of two floating types, PyTorch's promotion: f64 > f32 > {f16,
 * bf16}; f16 with bf16 gives f32. */
enum dtype dtype_widest_float(enum dtype a, enum dtype b);

#endif
