/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/dtype.h"

#include <assert.h>
#include <string.h>

struct row {
    size_t size_bytes;
    const char *name, *short_name, *safetensors;
    bool is_float;
};

static const struct row rows[DTYPE_COUNT] = {
    [DTYPE_NONE] = {0, "none", "none", "", false},
    [DTYPE_F32] = {4, "float32", "f32", "F32", true},
    [DTYPE_F16] = {2, "float16", "f16", "F16", true},
    [DTYPE_BF16] = {2, "bfloat16", "bf16", "BF16", true},
    [DTYPE_F64] = {8, "float64", "f64", "F64", true},
    [DTYPE_I8] = {1, "int8", "i8", "I8", false},
    [DTYPE_I16] = {2, "int16", "i16", "I16", false},
    [DTYPE_I32] = {4, "int32", "i32", "I32", false},
    [DTYPE_I64] = {8, "int64", "i64", "I64", false},
    [DTYPE_U8] = {1, "uint8", "u8", "U8", false},
    [DTYPE_U16] = {2, "uint16", "u16", "U16", false},
    [DTYPE_U32] = {4, "uint32", "u32", "U32", false},
    [DTYPE_BOOL] = {1, "bool", "bool", "BOOL", false},
};

static const struct row *
row_of(enum dtype t)
{
    assert((int)t >= 0 && t < DTYPE_COUNT);
    return &rows[t];
}

size_t
dtype_size_bytes(enum dtype t)
{
    return row_of(t)->size_bytes;
}

bool
dtype_is_float(enum dtype t)
{
    return row_of(t)->is_float;
}

bool
dtype_is_half(enum dtype t)
{
    return row_of(t)->is_float && rows[t].size_bytes == 2;
}

const char *
dtype_name(enum dtype t)
{
    return row_of(t)->name;
}

const char *
dtype_short_name(enum dtype t)
{
    return row_of(t)->short_name;
}

const char *
dtype_safetensors_name(enum dtype t)
{
    return row_of(t)->safetensors;
}

enum dtype
dtype_parse(const char *name)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (strcmp(rows[t].name, name) == 0)
            return (enum dtype)t;
    return DTYPE_NONE;
}

enum dtype
dtype_parse_safetensors(const char *name)
{
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (strcmp(rows[t].safetensors, name) == 0)
            return (enum dtype)t;
    return DTYPE_NONE;
}

enum dtype
dtype_widest_float(enum dtype a, enum dtype b)
{
    assert(dtype_is_float(a) && dtype_is_float(b));
    if (a == b)
        return a;
    if (a == DTYPE_F64 || b == DTYPE_F64)
        return DTYPE_F64;
    return DTYPE_F32;
}
