# SPDX-License-Identifier: Apache-2.0
target_sources(traind_kernels PRIVATE
    dnnl/pdesc.c
    dnnl/onednn.c
    dnnl/product.c
    dnnl/product_run.c
    dnnl/linear.c
    dnnl/batched.c
    dnnl/conv.c
    dnnl/pool.c
    dnnl/relu.c
    dnnl/tile.c
    dnnl/flash.c
    dnnl/dnnl.c)
