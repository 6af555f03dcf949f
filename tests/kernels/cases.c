/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

struct kcase
cases_start(const struct cases_maker *m)
{
    struct kcase c = {.sig = {.op = m->op, .threads = 1}};

    c.sig.n_in = op_info(m->op)->n_in;
    c.sig.n_out = op_info(m->op)->n_out;
    return c;
}

struct tensor_desc
cases_vector(enum dtype t, int64_t n)
{
    return tensor_make(t, 1, &n);
}

struct tensor_desc
cases_matrix(enum dtype t, int64_t rows, int64_t cols)
{
    return tensor_make(t, 2, (int64_t[]){rows, cols});
}

struct tensor_desc
cases_scalar(enum dtype t)
{
    return tensor_make(t, 0, NULL);
}

void
cases_each(enum op op, enum dtype t, cases_fn *fn, void *ctx)
{
    const struct cases_maker m = {fn, ctx, op, t};

    switch (op) {
    case OP_CAST:
    case OP_SCALE_LOSS:
    case OP_GRAD_ACCUMULATE:
    case OP_RELU:
    case OP_RELU_BWD:
    case OP_GELU:
    case OP_GELU_BWD:
    case OP_TANH:
    case OP_TANH_BWD:
    case OP_SIGMOID:
    case OP_SIGMOID_BWD:
    case OP_SILU:
    case OP_SILU_BWD:
    case OP_ADD:
    case OP_DROPOUT:
    case OP_DROPOUT_BWD: cases_elementwise(&m); break;
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
    case OP_BIAS_GRAD: cases_product(&m); break;
    case OP_CONV2D:
    case OP_CONV2D_DX:
    case OP_CONV2D_DW: cases_conv(&m); break;
    case OP_STATS_TRACK:
    case OP_BATCH_NORM:
    case OP_BATCH_NORM_EVAL:
    case OP_BATCH_NORM_BWD:
    case OP_LAYER_NORM:
    case OP_LAYER_NORM_BWD: cases_norm(&m); break;
    case OP_MAX_POOL2D:
    case OP_MAX_POOL2D_BWD:
    case OP_AVG_POOL2D:
    case OP_AVG_POOL2D_BWD:
    case OP_ADAPTIVE_AVG_POOL2D:
    case OP_ADAPTIVE_AVG_POOL2D_BWD: cases_pool(&m); break;
    case OP_FLATTEN:
    case OP_UNFLATTEN: cases_flatten(&m); break;
    case OP_CROSS_ENTROPY:
    case OP_CROSS_ENTROPY_BWD:
    case OP_MSE:
    case OP_MSE_BWD:
    case OP_L1:
    case OP_L1_BWD:
    case OP_BCE_WITH_LOGITS:
    case OP_BCE_WITH_LOGITS_BWD:
    case OP_CORRECT: cases_loss(&m); break;
    case OP_COUNT: break;
    }
}
