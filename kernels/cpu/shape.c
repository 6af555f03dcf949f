/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/shape.h"

#include <assert.h>

#include "kernels/cpu/permute.h"

/* The logical tensor of shape in dst's memory order, from src's: both are
 * descriptions of one shape. */
static void
move(const struct kernel_call *call, const struct tensor_desc *src,
     const struct tensor_desc *dst)
{
    const int *order = tensor_axis_order(dst);
    struct permute p = {.src = call->in[0],
                        .dst = call->out[0],
                        .elem_bytes = dtype_size_bytes(src->dtype),
                        .rank = dst->rank};
    int64_t stride[TENSOR_MAX_RANK];

    assert(tensor_same_shape(src, dst));
    tensor_strides(src, stride);
    for (int i = 0; i < dst->rank; i++) {
        p.dim[i] = dst->dim[order[i]];
        p.stride[i] = stride[order[i]];
    }
    permute_run(&p, call->sig->threads);
}

static bool
moves_bits(const struct kernel_sig *sig)
{
    const struct tensor_desc *in = &sig->in[0], *out = &sig->out[0];

    return in->dtype == out->dtype && dtype_size_bytes(in->dtype) <= 4 &&
           tensor_n_elems(in) == tensor_n_elems(out);
}

/* ---- FLATTEN, UNFLATTEN --------------------------------------------------- */

static bool
supports_flatten(const struct kernel_sig *sig)
{
    return moves_bits(sig) && (sig->in[0].layout == TENSOR_ROW ||
                               sig->out[0].layout == TENSOR_ROW);
}

/* The side that is (N, rest) is the other's shape, row-major. */
static void
run_flatten(const struct kernel_call *call)
{
    const struct tensor_desc *in = &call->sig->in[0], *out = &call->sig->out[0];
    struct tensor_desc rows = in->layout == TENSOR_NHWC ? *in : *out;

    rows.layout = TENSOR_ROW;
    if (in->layout == TENSOR_NHWC)
        move(call, in, &rows);
    else
        move(call, &rows, out);
}

/* ---- RELAYOUT ------------------------------------------------------------- */

static bool
supports_relayout(const struct kernel_sig *sig)
{
    return moves_bits(sig) && tensor_same_shape(&sig->in[0], &sig->out[0]);
}

static void
run_relayout(const struct kernel_call *call)
{
    move(call, &call->sig->in[0], &call->sig->out[0]);
}

/* ---- RESHAPE -------------------------------------------------------------- */

static bool
supports_reshape(const struct kernel_sig *sig)
{
    return moves_bits(sig) && sig->in[0].layout == TENSOR_ROW &&
           sig->out[0].layout == TENSOR_ROW;
}

static void
run_reshape(const struct kernel_call *call)
{
    if (call->in[0] != call->out[0])
        move(call, &call->sig->out[0], &call->sig->out[0]);
}

/* ---- TRANSPOSE ------------------------------------------------------------ */

static bool
supports_transpose(const struct kernel_sig *sig)
{
    const int a = sig->params.transpose.dim0, b = sig->params.transpose.dim1;

    return supports_reshape(sig) && a >= 0 && a < sig->in[0].rank && b >= 0 &&
           b < sig->in[0].rank;
}

static void
run_transpose(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int a = sig->params.transpose.dim0, b = sig->params.transpose.dim1;
    const struct tensor_desc *out = &sig->out[0];
    struct permute p = {.src = call->in[0],
                        .dst = call->out[0],
                        .elem_bytes = dtype_size_bytes(out->dtype),
                        .rank = out->rank};
    int64_t stride[TENSOR_MAX_RANK];

    tensor_strides(&sig->in[0], stride);
    for (int i = 0; i < out->rank; i++) {
        const int from = i == a ? b : i == b ? a : i;

        assert(out->dim[i] == sig->in[0].dim[from]);
        p.dim[i] = out->dim[i];
        p.stride[i] = stride[from];
    }
    permute_run(&p, sig->threads);
}

const struct kernel shape_flatten = {.supports = supports_flatten,
                                     .run = run_flatten};
const struct kernel shape_relayout = {.supports = supports_relayout,
                                      .run = run_relayout};
const struct kernel shape_reshape = {.supports = supports_reshape,
                                     .run = run_reshape};
const struct kernel shape_transpose = {.supports = supports_transpose,
                                       .run = run_transpose};
