/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/cpu.h"

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/flat.h"
#include "kernels/cpu/shape.h"

const struct kernel_table cpu_table = {
    .name = "cpu",
    .op =
        {
            [OP_CAST] = &elementwise_unary,
            [OP_SCALE_LOSS] = &elementwise_scale_loss,
            [OP_GRAD_ACCUMULATE] = &elementwise_grad_accumulate,
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
            [OP_ADD] = &elementwise_binary,
            [OP_DROPOUT] = &dropout_kernel,
            [OP_DROPOUT_BWD] = &dropout_kernel,
            [OP_FLATTEN] = &shape_flatten,
            [OP_UNFLATTEN] = &shape_flatten,
        },
    .flat =
        {
            .unscale = flat_unscale,
            .sgd = flat_sgd,
            .adam = flat_adam,
            .find_nonfinite = flat_find_nonfinite,
        },
};
