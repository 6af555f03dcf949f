/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

int64_t
golden_at(const struct tensor_desc *t, int64_t n, int64_t c, int64_t h,
          int64_t w)
{
    const int64_t index[4] = {n, c, h, w};

    return tensor_ravel(t, index);
}

void
golden_run(const struct golden *g)
{
    switch (g->sig->op) {
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
    case OP_DROPOUT_BWD: golden_elementwise(g); break;
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
    case OP_BIAS_GRAD: golden_product(g); break;
    case OP_CONV2D:
    case OP_CONV2D_DX:
    case OP_CONV2D_DW: golden_conv(g); break;
    case OP_STATS_TRACK:
    case OP_BATCH_NORM:
    case OP_BATCH_NORM_EVAL:
    case OP_BATCH_NORM_BWD:
    case OP_LAYER_NORM:
    case OP_LAYER_NORM_BWD: golden_norm(g); break;
    case OP_MAX_POOL2D:
    case OP_MAX_POOL2D_BWD:
    case OP_AVG_POOL2D:
    case OP_AVG_POOL2D_BWD:
    case OP_ADAPTIVE_AVG_POOL2D:
    case OP_ADAPTIVE_AVG_POOL2D_BWD: golden_pool(g); break;
    case OP_FLATTEN:
    case OP_UNFLATTEN: golden_shape(g); break;
    case OP_CROSS_ENTROPY:
    case OP_CROSS_ENTROPY_BWD:
    case OP_MSE:
    case OP_MSE_BWD:
    case OP_L1:
    case OP_L1_BWD:
    case OP_BCE_WITH_LOGITS:
    case OP_BCE_WITH_LOGITS_BWD:
    case OP_CORRECT: golden_loss(g); break;
    case OP_COUNT: break;
    }
}
