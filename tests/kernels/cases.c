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
    case OP_EXP:
    case OP_EXP_BWD:
    case OP_LOG:
    case OP_LOG_BWD:
    case OP_POW:
    case OP_POW_BWD:
    case OP_RECIPROCAL:
    case OP_RECIPROCAL_BWD:
    case OP_RSQRT:
    case OP_RSQRT_BWD:
    case OP_SOFTPLUS:
    case OP_SOFTPLUS_BWD: cases_function(&m); break;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_SUM_TO:
    case OP_SUM_TO_NEG:
    case OP_MUL_BWD:
    case OP_DIV_BWD_A:
    case OP_DIV_BWD_B:
    case OP_COMPARE:
    case OP_WHERE:
    case OP_WHERE_BWD_A:
    case OP_WHERE_BWD_B: cases_broadcast(&m); break;
    case OP_SOFTMAX:
    case OP_SOFTMAX_BWD:
    case OP_LOG_SOFTMAX:
    case OP_LOG_SOFTMAX_BWD:
    case OP_CUMSUM:
    case OP_CUMSUM_BWD:
    case OP_PROD:
    case OP_PROD_BWD:
    case OP_COSINE_SIMILARITY:
    case OP_COSINE_SIMILARITY_BWD: cases_axis(&m); break;
    case OP_SUM:
    case OP_SUM_BWD:
    case OP_MEAN:
    case OP_MEAN_BWD:
    case OP_NORM:
    case OP_NORM_BWD:
    case OP_LOGSUMEXP:
    case OP_LOGSUMEXP_BWD: cases_reduce(&m); break;
    case OP_CONV1D:
    case OP_CONV1D_DX:
    case OP_CONV1D_DW:
    case OP_CONV_TRANSPOSE2D:
    case OP_CONV_TRANSPOSE2D_DX:
    case OP_CONV_TRANSPOSE2D_DW: cases_conv_lift(&m); break;
    case OP_GROUP_NORM:
    case OP_GROUP_NORM_BWD:
    case OP_RMS_NORM:
    case OP_RMS_NORM_BWD: cases_group_norm(&m); break;
    case OP_EMBEDDING:
    case OP_EMBEDDING_BWD:
    case OP_PRELU:
    case OP_PRELU_DX:
    case OP_PRELU_DW: cases_embedding(&m); break;
    case OP_RELAYOUT:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_NARROW:
    case OP_NARROW_BWD:
    case OP_CAT:
    case OP_STACK:
    case OP_STACK_BWD: cases_move(&m); break;
    case OP_UPSAMPLE:
    case OP_UPSAMPLE_BWD: cases_upsample(&m); break;
    case OP_MATMUL:
    case OP_MATMUL_DA:
    case OP_MATMUL_DB: cases_matmul(&m); break;
    case OP_ATTENTION:
    case OP_ATTENTION_BWD: cases_attention(&m); break;
    case OP_NLL:
    case OP_NLL_BWD:
    case OP_SMOOTH_L1:
    case OP_SMOOTH_L1_BWD:
    case OP_HUBER:
    case OP_HUBER_BWD:
    case OP_KL_DIV:
    case OP_KL_DIV_BWD:
    case OP_CONFUSION: cases_loss(&m); break;
    case OP_COUNT: break;
    }
}
