/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/dnnl.h"

#include "kernels/dnnl/batched.h"
#include "kernels/dnnl/conv.h"
#include "kernels/dnnl/flash.h"
#include "kernels/dnnl/linear.h"
#include "kernels/dnnl/onednn.h"
#include "kernels/dnnl/pool.h"
#include "kernels/dnnl/relu.h"

const struct kernel_table dnnl_table = {
    .name = "dnnl",
    .describe = onednn_describe,
    .op =
        {
            [OP_LINEAR] = &linear_forward,
            [OP_LINEAR_DX] = &linear_dx,
            [OP_LINEAR_DW] = &linear_dw,
            [OP_CONV2D] = &conv_forward,
            [OP_CONV2D_DX] = &conv_dx,
            [OP_CONV2D_DW] = &conv_dw,
            [OP_CONV1D] = &conv_lifted,
            [OP_CONV1D_DX] = &conv_lifted,
            [OP_CONV1D_DW] = &conv_lifted,
            [OP_CONV_TRANSPOSE2D] = &conv_lifted,
            [OP_CONV_TRANSPOSE2D_DX] = &conv_lifted,
            [OP_CONV_TRANSPOSE2D_DW] = &conv_lifted,
            [OP_MATMUL] = &batched_product,
            [OP_MATMUL_DA] = &batched_product,
            [OP_MATMUL_DB] = &batched_product,
            [OP_ATTENTION] = &flash_forward,
            [OP_ATTENTION_BWD] = &flash_backward,
            [OP_RELU] = &relu_forward,
            [OP_RELU_BWD] = &relu_backward,
            [OP_MAX_POOL2D] = &pool_max,
            [OP_MAX_POOL2D_BWD] = &pool_max_backward,
        },
};

const struct kernel_table dnnl_native_table = {
    .name = "dnnl-native",
    .op =
        {
            [OP_LINEAR] = &linear_forward_native,
            [OP_LINEAR_DX] = &linear_dx_native,
            [OP_LINEAR_DW] = &linear_dw_native,
            [OP_CONV2D] = &conv_forward_native,
            [OP_CONV2D_DX] = &conv_dx_native,
            [OP_CONV2D_DW] = &conv_dw_native,
            [OP_MATMUL] = &batched_product_native,
            [OP_MATMUL_DA] = &batched_product_native,
            [OP_MATMUL_DB] = &batched_product_native,
        },
};
