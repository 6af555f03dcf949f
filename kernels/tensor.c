/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct tensor_desc
tensor_make(enum dtype dtype, int rank, const int64_t *dim)
{
    struct tensor_desc t = {.dtype = dtype, .rank = rank};

    assert(rank >= 0 && rank <= TENSOR_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        assert(dim[i] >= 0);
        t.dim[i] = dim[i];
    }
    return t;
}

struct tensor_desc
tensor_make_nhwc(enum dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
    struct tensor_desc t = tensor_make(dtype, 4, (int64_t[]){n, c, h, w});

    t.layout = TENSOR_NHWC;
    return t;
}

struct tensor_desc
tensor_make_nlc(enum dtype dtype, int64_t n, int64_t c, int64_t l)
{
    struct tensor_desc t = tensor_make(dtype, 3, (int64_t[]){n, c, l});

    t.layout = TENSOR_NHWC;
    return t;
}

struct tensor_desc
tensor_with_dtype(const struct tensor_desc *t, enum dtype dtype)
{
    struct tensor_desc copy = *t;

    copy.dtype = dtype;
    return copy;
}

int64_t
tensor_n_elems(const struct tensor_desc *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

size_t
tensor_n_bytes(const struct tensor_desc *t)
{
    return (size_t)tensor_n_elems(t) * dtype_size_bytes(t->dtype);
}

bool
tensor_same_shape(const struct tensor_desc *a, const struct tensor_desc *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const int *
tensor_axis_order(const struct tensor_desc *t)
{
    static const int row[TENSOR_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    static const int image[4] = {0, 2, 3, 1}, signal[3] = {0, 2, 1};

    if (t->layout == TENSOR_ROW)
        return row;
    assert(t->rank == 3 || t->rank == 4);
    return t->rank == 4 ? image : signal;
}

void
tensor_strides(const struct tensor_desc *t, int64_t *stride)
{
    const int *order = tensor_axis_order(t);
    int64_t step = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        stride[order[i]] = step;
        step *= t->dim[order[i]];
    }
}

void
tensor_split_axis(const struct tensor_desc *t, int axis, int64_t *outer,
                  int64_t *n, int64_t *inner)
{
    const int *order = tensor_axis_order(t);
    int i = 0;

    assert(axis >= 0 && axis < t->rank);
    *outer = *inner = 1;
    for (; order[i] != axis; i++)
        *outer *= t->dim[order[i]];
    *n = t->dim[axis];
    for (i++; i < t->rank; i++)
        *inner *= t->dim[order[i]];
}

void
tensor_unravel(const struct tensor_desc *t, int64_t at, int64_t *index)
{
    const int *order = tensor_axis_order(t);

    for (int i = t->rank - 1; i >= 0; i--) {
        const int64_t size = t->dim[order[i]];

        assert(size > 0);
        index[order[i]] = at % size;
        at /= size;
    }
    assert(at == 0);
}

int64_t
tensor_ravel(const struct tensor_desc *t, const int64_t *index)
{
    const int *order = tensor_axis_order(t);
    int64_t at = 0;

    for (int i = 0; i < t->rank; i++) {
        assert(index[order[i]] >= 0 && index[order[i]] < t->dim[order[i]]);
        at = at * t->dim[order[i]] + index[order[i]];
    }
    return at;
}

const char *
tensor_format(const struct tensor_desc *t, char *text, size_t size)
{
    size_t at = 0;
    const char *tail = t->layout == TENSOR_ROW ? "]"
                       : t->rank == 3          ? "]nlc"
                                               : "]nhwc";

    assert(size > 0);
    if (t->dtype == DTYPE_NONE) {
        snprintf(text, size, "none");
        return text;
    }
    at = (size_t)snprintf(text, size, "%s[", dtype_short_name(t->dtype));
    for (int i = 0; i < t->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64,
                               i > 0 ? "," : "", t->dim[i]);
    if (at < size)
        snprintf(text + at, size - at, "%s", tail);
    return text;
}
