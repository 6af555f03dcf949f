/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

/* One header a family: more than eight, as the table names them all. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/axis.h"
#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/conv_lift.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/flat.h"
#include "kernels/cpu/flat_rules.h"
#include "kernels/cpu/function.h"
#include "kernels/cpu/group_norm.h"
#include "kernels/cpu/join.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/metric.h"
#include "kernels/cpu/nll.h"
#include "kernels/cpu/pool2d.h"
#include "kernels/cpu/prelu.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/shape.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/upsample.h"

const struct kernel_table cpu_table = {
    .name = "cpu",
    .op =
        {
            [OP_CAST] = &elementwise_unary,
            [OP_SCALE_LOSS] = &elementwise_scale_loss,
            [OP_GRAD_ACCUMULATE] = &elementwise_grad_accumulate,
            [OP_STATS_TRACK] = &batch_norm_stats_track,
            [OP_LINEAR] = &linear_product,
            [OP_LINEAR_DX] = &linear_product,
            [OP_LINEAR_DW] = &linear_product,
            [OP_BIAS_GRAD] = &linear_bias_grad,
            [OP_CONV2D] = &conv2d_forward,
            [OP_CONV2D_DX] = &conv2d_backward_input,
            [OP_CONV2D_DW] = &conv2d_backward_weight,
            [OP_CONV1D] = &conv_lift_kernel,
            [OP_CONV1D_DX] = &conv_lift_kernel,
            [OP_CONV1D_DW] = &conv_lift_kernel,
            [OP_CONV_TRANSPOSE2D] = &conv_lift_kernel,
            [OP_CONV_TRANSPOSE2D_DX] = &conv_lift_kernel,
            [OP_CONV_TRANSPOSE2D_DW] = &conv_lift_kernel,
            [OP_MATMUL] = &matmul_product,
            [OP_MATMUL_DA] = &matmul_product,
            [OP_MATMUL_DB] = &matmul_product,
            [OP_ATTENTION] = &attention_forward,
            [OP_ATTENTION_BWD] = &attention_backward,
            [OP_EMBEDDING] = &embedding_forward,
            [OP_EMBEDDING_BWD] = &embedding_backward,
            [OP_PRELU] = &prelu_pointwise,
            [OP_PRELU_DX] = &prelu_pointwise,
            [OP_PRELU_DW] = &prelu_backward_weight,
            [OP_BATCH_NORM] = &batch_norm_forward,
            [OP_BATCH_NORM_EVAL] = &batch_norm_eval,
            [OP_BATCH_NORM_BWD] = &batch_norm_backward,
            [OP_LAYER_NORM] = &layer_norm_forward,
            [OP_LAYER_NORM_BWD] = &layer_norm_backward,
            [OP_GROUP_NORM] = &group_norm_forward,
            [OP_GROUP_NORM_BWD] = &group_norm_backward,
            [OP_RMS_NORM] = &layer_norm_forward,
            [OP_RMS_NORM_BWD] = &layer_norm_backward,
            [OP_SOFTMAX] = &softmax_forward,
            [OP_SOFTMAX_BWD] = &softmax_backward,
            [OP_LOG_SOFTMAX] = &softmax_forward,
            [OP_LOG_SOFTMAX_BWD] = &softmax_backward,
            [OP_CUMSUM] = &axis_cumsum,
            [OP_CUMSUM_BWD] = &axis_cumsum,
            [OP_PROD] = &axis_prod,
            [OP_PROD_BWD] = &axis_prod_backward,
            [OP_COSINE_SIMILARITY] = &axis_cosine,
            [OP_COSINE_SIMILARITY_BWD] = &axis_cosine,
            [OP_SUM] = &reduce_forward,
            [OP_SUM_BWD] = &reduce_backward,
            [OP_MEAN] = &reduce_forward,
            [OP_MEAN_BWD] = &reduce_backward,
            [OP_NORM] = &reduce_forward,
            [OP_NORM_BWD] = &reduce_backward,
            [OP_LOGSUMEXP] = &reduce_logsumexp,
            [OP_LOGSUMEXP_BWD] = &reduce_backward,
            [OP_RELU] = &elementwise_unary,
            [OP_RELU_BWD] = &elementwise_binary,
            [OP_GELU] = &elementwise_unary,
            [OP_GELU_BWD] = &elementwise_binary,
            [OP_TANH] = &elementwise_unary,
            [OP_TANH_BWD] = &elementwise_binary,
            [OP_SIGMOID] = &elementwise_unary,
            [OP_SIGMOID_BWD] = &elementwise_binary,
            [OP_SILU] = &elementwise_unary,
            [OP_SILU_BWD] = &elementwise_binary,
            [OP_EXP] = &function_kernel,
            [OP_EXP_BWD] = &function_kernel,
            [OP_LOG] = &function_kernel,
            [OP_LOG_BWD] = &function_kernel,
            [OP_POW] = &function_kernel,
            [OP_POW_BWD] = &function_kernel,
            [OP_RECIPROCAL] = &function_kernel,
            [OP_RECIPROCAL_BWD] = &function_kernel,
            [OP_RSQRT] = &function_kernel,
            [OP_RSQRT_BWD] = &function_kernel,
            [OP_SOFTPLUS] = &function_kernel,
            [OP_SOFTPLUS_BWD] = &function_kernel,
            [OP_ADD] = &broadcast_binary,
            [OP_SUB] = &broadcast_binary,
            [OP_MUL] = &broadcast_binary,
            [OP_DIV] = &broadcast_binary,
            [OP_SUM_TO] = &broadcast_gradient,
            [OP_SUM_TO_NEG] = &broadcast_gradient,
            [OP_MUL_BWD] = &broadcast_gradient,
            [OP_DIV_BWD_A] = &broadcast_gradient,
            [OP_DIV_BWD_B] = &broadcast_gradient,
            [OP_COMPARE] = &broadcast_compare,
            [OP_WHERE] = &broadcast_where,
            [OP_WHERE_BWD_A] = &broadcast_gradient,
            [OP_WHERE_BWD_B] = &broadcast_gradient,
            [OP_DROPOUT] = &dropout_kernel,
            [OP_DROPOUT_BWD] = &dropout_kernel,
            [OP_MAX_POOL2D] = &pool2d_kernel,
            [OP_MAX_POOL2D_BWD] = &pool2d_kernel,
            [OP_AVG_POOL2D] = &pool2d_kernel,
            [OP_AVG_POOL2D_BWD] = &pool2d_kernel,
            [OP_ADAPTIVE_AVG_POOL2D] = &pool2d_kernel,
            [OP_ADAPTIVE_AVG_POOL2D_BWD] = &pool2d_kernel,
            [OP_FLATTEN] = &shape_flatten,
            [OP_UNFLATTEN] = &shape_flatten,
            [OP_RELAYOUT] = &shape_relayout,
            [OP_RESHAPE] = &shape_reshape,
            [OP_TRANSPOSE] = &shape_transpose,
            [OP_NARROW] = &join_narrow,
            [OP_NARROW_BWD] = &join_narrow_backward,
            [OP_CAT] = &join_cat,
            [OP_STACK] = &join_stack,
            [OP_STACK_BWD] = &join_stack_backward,
            [OP_UPSAMPLE] = &upsample_forward,
            [OP_UPSAMPLE_BWD] = &upsample_backward,
            [OP_CROSS_ENTROPY] = &cross_entropy_forward,
            [OP_CROSS_ENTROPY_BWD] = &cross_entropy_backward,
            [OP_MSE] = &loss_forward,
            [OP_MSE_BWD] = &loss_backward,
            [OP_L1] = &loss_forward,
            [OP_L1_BWD] = &loss_backward,
            [OP_BCE_WITH_LOGITS] = &loss_forward,
            [OP_BCE_WITH_LOGITS_BWD] = &loss_backward,
            [OP_NLL] = &nll_forward,
            [OP_NLL_BWD] = &nll_backward,
            [OP_SMOOTH_L1] = &loss_forward,
            [OP_SMOOTH_L1_BWD] = &loss_backward,
            [OP_HUBER] = &loss_forward,
            [OP_HUBER_BWD] = &loss_backward,
            [OP_KL_DIV] = &loss_forward,
            [OP_KL_DIV_BWD] = &loss_backward,
            [OP_CORRECT] = &metric_correct,
            [OP_CONFUSION] = &metric_confusion,
        },
    .flat =
        {
            .unscale = flat_unscale,
            .sgd = flat_sgd,
            .adam = flat_adam,
            .adagrad = flat_rules_adagrad,
            .rmsprop = flat_rules_rmsprop,
            .lion = flat_rules_lion,
            .ema = flat_rules_ema,
            .find_nonfinite = flat_find_nonfinite,
        },
};
