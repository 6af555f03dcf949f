/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product: from a struct pdesc_problem to a slot of the table.
 *
 * The stages that all products and convolutions share: inputs to the dtype
 * that is multiplied, weights to the library's format, the primitive, the
 * weight gradient back to rows, one rounding into a half output. linear.c and
 * conv.c say what the problem is, this file runs it. State is a struct
 * product; everything else lies in the workspace.
 *
 * Half precision: float16 is always widened to float32, exactly, and bfloat16
 * too where its own instructions are no faster; either way sums are float32
 * and the result is rounded once.
 */
#ifndef KERNELS_DNNL_PRODUCT_H
#define KERNELS_DNNL_PRODUCT_H

#include "kernels/dnnl/pdesc.h"
#include "kernels/kernel.h"

/* When bfloat16 is multiplied as it is. */
enum product_native {
    PRODUCT_NATIVE_PAYS,  /* where that is faster */
    PRODUCT_NATIVE_ALWAYS /* where there are instructions: for tests */
};

/* Shapes, plain formats and `any` of a signature; dtypes are filled in by
 * product_*. False: not this op's shape. */
typedef bool product_describe_fn(const struct kernel_sig *sig,
                                 struct pdesc_problem *problem);

bool product_supports(const struct kernel_sig *sig,
                      product_describe_fn *describe,
                      enum product_native native);
int product_prepare(const struct kernel_sig *sig, product_describe_fn *describe,
                    enum product_native native, void **state, struct err *err);

/* Members of struct kernel as they stand. */
size_t product_workspace_bytes(const struct kernel_sig *sig, void *state);
void product_run(const struct kernel_call *call);
void product_release(void *state);

/* `const struct kernel name` and `name_native` of a describe function. */
#define PRODUCT_KERNEL_AS(name, describe, native)                              \
    static bool name##_supports(const struct kernel_sig *sig)                  \
    {                                                                          \
        return product_supports(sig, describe, native);                        \
    }                                                                          \
    static int name##_prepare(const struct kernel_sig *sig, void **state,      \
                              struct err *err)                                 \
    {                                                                          \
        return product_prepare(sig, describe, native, state, err);             \
    }                                                                          \
    const struct kernel name = {                                               \
        .supports = name##_supports,                                           \
        .prepare = name##_prepare,                                             \
        .workspace_bytes = product_workspace_bytes,                            \
        .run = product_run,                                                    \
        .release = product_release,                                            \
    };
#define PRODUCT_KERNEL(name, describe)                                         \
    PRODUCT_KERNEL_AS(name, describe, PRODUCT_NATIVE_PAYS)                     \
    PRODUCT_KERNEL_AS(name##_native, describe, PRODUCT_NATIVE_ALWAYS)

#endif
