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

#define OP_MAX_IN  8
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
    OP_REDUCE_AXIS,
    OP_REDUCE_DIMS,
    OP_REDUCE_SPREAD,
    OP_REDUCE_KEYS,
    OP_REDUCE_GROUP,
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

enum op_compare {
    OP_COMPARE_EQ,
    OP_COMPARE_NE,
    OP_COMPARE_LT,
    OP_COMPARE_LE,
    OP_COMPARE_GT,
    OP_COMPARE_GE
};

enum op_upsample { OP_UPSAMPLE_NEAREST, OP_UPSAMPLE_BILINEAR };

/* One struct per parameter set; which one an op reads stands beside it. Dims
 * and axes are logical ones, never negative. */
union op_params {
    struct { /* CONV2D, CONV1D (entry 1), CONV_TRANSPOSE2D, their gradients */
        int64_t stride[2], padding[2], dilation[2], groups;
        int64_t output_padding[2]; /* transposed ones */
    } conv;
    struct { /* MATMUL*: a is [..,K,M], b is [..,N,K] */
        bool a_transposed, b_transposed;
    } matmul;
    struct
    { /* ATTENTION*: stream as in dropout, of the weights after softmax */
        int64_t n_heads;
        bool causal; /* query t sees keys <= t + (S - T) */
        double scale;
        double p;
        uint32_t stream;
    } attention;
    struct { /* EMBEDDING* */
        bool has_padding;
        int64_t padding_index; /* its row gets no gradient */
    } embedding;
    struct { /* GROUP_NORM* */
        double eps;
        int64_t n_groups;
    } group_norm;
    struct
    { /* SOFTMAX*, LOG_SOFTMAX*, CUMSUM*, PROD*, COSINE_SIMILARITY* (eps),
                CAT, STACK, STACK_BWD (start), NARROW* (start, length) */
        int axis;
        bool keepdim; /* PROD */
        int64_t start, length;
        double eps;
    } axis;
    struct { /* SUM*, MEAN*, NORM* (p), LOGSUMEXP*: bit i: dim i is reduced */
        unsigned dims;
        bool keepdim;
        double p;
    } reduce;
    struct { /* POW* */
        double exponent;
    } pow;
    struct { /* SOFTPLUS* */
        double beta, threshold;
    } softplus;
    struct {          /* ADD, SUB, MUL*, DIV*, WHERE */
        double value; /* of the absent operand */
    } binary;
    struct { /* COMPARE */
        enum op_compare how;
        double value; /* of an absent b */
    } compare;
    struct { /* TRANSPOSE */
        int dim0, dim1;
    } transpose;
    struct { /* UPSAMPLE* */
        enum op_upsample mode;
        bool align_corners; /* bilinear */
    } upsample;
    struct { /* BATCH_NORM*, STATS_TRACK (n: elements a channel) */
        double eps, momentum;
        int64_t n;
    } batch_norm;
    struct { /* LAYER_NORM*, RMS_NORM*: the trailing n_dims are normalized */
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
    struct { /* CROSS_ENTROPY*, NLL*, CORRECT (k), CONFUSION, SMOOTH_L1* (beta),
                HUBER* (delta), KL_DIV* (log_target, factor) */
        double label_smoothing;
        bool has_ignore_index;
        int64_t ignore_index;
        int64_t k; /* 0: 1 */
        double beta, delta;
        bool log_target;
        double factor;
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
