/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"

void
array_fini(struct array *array)
{
    free(array->memory);
    memset(array, 0, sizeof(*array));
}

bool
array_count(int rank, const int64_t *dim, size_t elem_bytes, int64_t *n_elems,
            int64_t *n_bytes)
{
    int64_t n = 1;
    bool empty = false;

    /* Sizes beside a zero must fit too: whoever multiplies them may do so in
     * any order. */
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0)
            return false;
        if (dim[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(n, dim[i], &n))
            return false;
    }
    if (__builtin_mul_overflow(n, (int64_t)elem_bytes, n_bytes))
        return false;
    *n_elems = empty ? 0 : n;
    *n_bytes = empty ? 0 : *n_bytes;
    return true;
}

static void
swap_bytes(uint8_t *bytes, int64_t n_elems, size_t size)
{
    for (int64_t i = 0; i < n_elems; i++, bytes += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            const uint8_t t = bytes[a];

            bytes[a] = bytes[b];
            bytes[b] = t;
        }
}

void
array_init_take(struct array *array, const struct tensor_desc *desc,
                void *memory, size_t offset, bool swap)
{
    const size_t size = dtype_size_bytes(desc->dtype);
    const int64_t n = tensor_n_elems(desc);
    uint8_t *bytes = memory;

    assert(desc->layout == TENSOR_ROW);
    if (offset % size != 0) {
        memmove(bytes, bytes + offset, (size_t)n * size);
        offset = 0;
    }
    if (swap)
        swap_bytes(bytes + offset, n, size);
    *array = (struct array){
        .desc = *desc,
        .n_elems = n,
        .memory = memory,
        .data = bytes != NULL ? bytes + offset : NULL,
    };
}

/* One row-major sweep over the output; `from` follows in the file's order,
 * where the first axis is the fastest. */
static void
copy_reversed(const struct tensor_desc *desc, const uint8_t *src, uint8_t *dst,
              size_t size)
{
    int64_t stride[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK] = {0};
    const int64_t n = tensor_n_elems(desc);
    int64_t from = 0, step = 1;

    for (int i = 0; i < desc->rank; i++) {
        stride[i] = step;
        step *= desc->dim[i];
    }
    for (int64_t at = 0; at < n; at++) {
        memcpy(dst + (size_t)at * size, src + (size_t)from * size, size);
        for (int i = desc->rank - 1; i >= 0; i--) {
            from += stride[i];
            if (++index[i] < desc->dim[i])
                break;
            from -= stride[i] * desc->dim[i];
            index[i] = 0;
        }
    }
}

int
array_from_fortran(struct array *array, struct err *err)
{
    const size_t size = dtype_size_bytes(array->desc.dtype);
    const size_t n_bytes = (size_t)array->n_elems * size;
    uint8_t *memory;

    if (array->desc.rank < 2 || array->n_elems == 0)
        return 0;
    memory = malloc(n_bytes);
    if (memory == NULL)
        return err_set(err, ERR_NOMEM, "%zu bytes for reordering", n_bytes);
    copy_reversed(&array->desc, array->data, memory, size);
    free(array->memory);
    array->memory = memory;
    array->data = memory;
    return 0;
}

#define TO_F32(type)                                                           \
    do {                                                                       \
        const type *src = (const type *)array->data + at;                      \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = (float)src[i];                                            \
    } while (0)

void
array_to_f32(const struct array *array, int64_t at, int64_t n, float *out)
{
    const enum dtype t = array->desc.dtype;

    assert(at >= 0 && n >= 0 && at + n <= array->n_elems);
    switch (t) {
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        if (n > 0)
            convert_to_f32(out,
                           (const uint8_t *)array->data +
                               (size_t)at * dtype_size_bytes(t),
                           t, n);
        return;
    case DTYPE_F64: TO_F32(double); return;
    case DTYPE_I8: TO_F32(int8_t); return;
    case DTYPE_I16: TO_F32(int16_t); return;
    case DTYPE_I32: TO_F32(int32_t); return;
    case DTYPE_I64: TO_F32(int64_t); return;
    case DTYPE_U8: TO_F32(uint8_t); return;
    case DTYPE_U16: TO_F32(uint16_t); return;
    case DTYPE_U32: TO_F32(uint32_t); return;
    case DTYPE_BOOL:
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const uint8_t *)array->data)[at + i] != 0 ? 1.0f : 0.0f;
        return;
    case DTYPE_NONE:
    case DTYPE_COUNT: break;
    }
    abort();
}

bool
array_get_int(const struct array *array, int64_t at, int64_t *out)
{
    const void *p = array->data;

    assert(at >= 0 && at < array->n_elems);
    switch (array->desc.dtype) {
    case DTYPE_I8: *out = ((const int8_t *)p)[at]; return true;
    case DTYPE_I16: *out = ((const int16_t *)p)[at]; return true;
    case DTYPE_I32: *out = ((const int32_t *)p)[at]; return true;
    case DTYPE_I64: *out = ((const int64_t *)p)[at]; return true;
    case DTYPE_U8: *out = ((const uint8_t *)p)[at]; return true;
    case DTYPE_U16: *out = ((const uint16_t *)p)[at]; return true;
    case DTYPE_U32: *out = ((const uint32_t *)p)[at]; return true;
    case DTYPE_BOOL: *out = ((const uint8_t *)p)[at] != 0; return true;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
    case DTYPE_F64: return false;
    case DTYPE_NONE:
    case DTYPE_COUNT: break;
    }
    abort();
}

double
array_get_double(const struct array *array, int64_t at)
{
    int64_t integer;
    float f;

    if (array_get_int(array, at, &integer))
        return (double)integer;
    if (array->desc.dtype == DTYPE_F64)
        return ((const double *)array->data)[at];
    array_to_f32(array, at, 1, &f);
    return (double)f;
}
