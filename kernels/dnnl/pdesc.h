/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pdesc: a product or convolution, described for oneDNN 2.x and 3.x alike.
 *
 * From a struct pdesc_problem to a primitive descriptor of the library. The
 * two versions differ in how descriptors are made and owned, and in nothing
 * else that we use: every #if on the version is in pdesc.c. Called by onednn.c
 * only; holds no state.
 *
 * Tensors have fixed places, the op's own: 0 and 1 the inputs, then bias and
 * output. kind    0          1          PDESC_BIAS  PDESC_OUT
 *         MATMUL  A [M,K]    B [K,N]    [1,N]       C [M,N]
 *         CONV    x          w          [O]         y
 *         CONV_DX dy         w          -           dx
 *         CONV_DW dy         x          -           dw
 */
#ifndef KERNELS_DNNL_PDESC_H
#define KERNELS_DNNL_PDESC_H

#include "proto/dtype.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>

enum { PDESC_BIAS = 2, PDESC_OUT = 3, PDESC_MAX = 4 };

enum pdesc_kind {
    PDESC_MATMUL,
    PDESC_CONV,
    PDESC_CONV_DX,
    PDESC_CONV_DW,
    PDESC_REORDER /* made by onednn_create_reorder() alone */
};

/* dnnl_dims_t: the library declares that it reads all of an array. */
struct pdesc_tensor {
    enum dtype dtype; /* f32, bf16; NONE: absent (bias) */
    int rank;
    dnnl_dims_t dim;
    dnnl_format_tag_t plain; /* as it lies in our memory */
    bool any;                /* the library may choose another */
    int cut; /* dimension along which the problem can be cut; -1: none */
};

struct pdesc_problem {
    enum pdesc_kind kind;
    struct pdesc_tensor tensor[PDESC_MAX];
    /* convolutions; dilation 0 is a dense window, as oneDNN has it */
    dnnl_dims_t stride, padding, dilation;
};

/* All return the library's status. Scratchpads are the user's. */
dnnl_status_t pdesc_create(const struct pdesc_problem *problem,
                           dnnl_engine_t engine, dnnl_primitive_desc_t *pd);
/* Tensor i between plain and what pd wants; *pd_out NULL when equal. */
dnnl_status_t pdesc_create_reorder(const struct pdesc_problem *problem,
                                   const_dnnl_primitive_desc_t pd, int i,
                                   bool to_prim, dnnl_engine_t engine,
                                   dnnl_primitive_desc_t *pd_out);

/* The library's name of tensor i of such a primitive; a reorder's are 0, 1. */
int pdesc_arg(enum pdesc_kind kind, int i);
/* A memory object of the shape and format that pd wants for that argument,
 * without data. */
dnnl_status_t pdesc_create_memory(const_dnnl_primitive_desc_t pd, int arg,
                                  dnnl_engine_t engine, dnnl_memory_t *memory);
bool pdesc_same(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b,
                int arg);
size_t pdesc_bytes(const_dnnl_primitive_desc_t pd, int arg);
const char *pdesc_name(const_dnnl_primitive_desc_t pd);

#endif
