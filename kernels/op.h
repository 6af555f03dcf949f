/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op: the table of operations of ops.def, and their parameters.
 *
 * Pure tables and shape arithmetic; no kernel is called here. The graph, the
 * passes, the kernels and their tests all read the same rows.
 */
#ifndef KERNELS_OP_H
#define KERNELS_OP_H

#include "kernels/tensor.h"

#define OP_MAX_IN  6
#define OP_MAX_OUT 3

/* What autocast does with an op's floating inputs. GIVEN: nothing. */
enum op_cast {
    OP_CAST_NONE,
    OP_CAST_LOWER,
    OP_CAST_FP32,
    OP_CAST_WIDEST,
    OP_CAST_GIVEN
};

enum op_reduce {
    OP_REDUCE_ONE,
    OP_REDUCE_IN,
    OP_REDUCE_ROWS,
    OP_REDUCE_TAPS,
    OP_REDUCE_PIXELS,
    OP_REDUCE_CHAN,
    OP_REDUCE_WINDOW,
    OP_REDUCE_ALL
};

enum op {
#define OP(id, name, in, out, cast, inplace, ulps, reduce, doc) OP_##id,
#include "kernels/ops.def"
#undef OP
    OP_COUNT
};

struct op_info {
    const char *name;
    const char *in_name[OP_MAX_IN]; /* without the '?' */
    bool in_optional[OP_MAX_IN];
    int n_in;
    const char *out_name[OP_MAX_OUT];
    int n_out;
    enum op_cast cast;
    int inplace;
    double ulps;
    enum op_reduce reduce;
    const char *doc;
};

/* One struct per parameter set; which one an op reads stands beside it. */
union op_params {
    struct { /* CONV2D and its gradients */
        int64_t stride[2], padding[2], dilation[2], groups;
    } conv;
    struct { /* BATCH_NORM*, STATS_TRACK (n: elements a channel) */
        double eps, momentum;
        int64_t n;
    } batch_norm;
    struct { /* LAYER_NORM*: the trailing n_dims are normalized */
        double eps;
        int n_dims;
    } layer_norm;
    struct { /* GELU, GELU_BWD */
        bool tanh;
    } gelu;
    struct { /* MAX_POOL2D*, AVG_POOL2D* */
        int64_t kernel[2], stride[2], padding[2];
        bool count_include_pad;
    } pool;
    struct { /* DROPOUT*: stream numbers the layer within the model */
        double p;
        uint32_t stream;
    } dropout;
    struct { /* CROSS_ENTROPY*, CORRECT */
        double label_smoothing;
        bool has_ignore_index;
        int64_t ignore_index;
    } loss;
};

const struct op_info *op_info(enum op op);

/* Length of the sum behind one output element; 1 for OP_REDUCE_ONE. */
int64_t op_reduce_length(enum op op, const union op_params *params,
                         const struct tensor_desc *in,
                         const struct tensor_desc *out);

/* Multiply-adds counted as two operations, and bytes moved at least: for
 * floors and reports. */
double op_flops(enum op op, const union op_params *params,
                const struct tensor_desc *in, const struct tensor_desc *out);
double op_bytes(enum op op, const struct tensor_desc *in,
                const struct tensor_desc *out);

/* Output size of a window along one axis; -1 when it does not fit. */
int64_t op_window_out(int64_t in, int64_t kernel, int64_t stride,
                      int64_t padding, int64_t dilation);

#endif
