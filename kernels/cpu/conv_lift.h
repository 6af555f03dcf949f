/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv_lift: CONV1D and CONV_TRANSPOSE2D and their gradients, by the 2-D
 * kernels of whichever table.
 *
 * [N,C,L] channels last has the memory of [N,C,1,L], [O,C/g,k] that of
 * [O,C/g,1,k]. A transposed convolution is conv2d_dx (and a bias, added in
 * float32 before the one rounding), its dx is conv2d, its dw is conv2d_dw with
 * dy and x in each other's place. So only the signature is rewritten. A table
 * says with CONV_LIFT_KERNEL which kernels it has; this file holds the
 * reference's. State is the 2-D kernel's own.
 */
#ifndef KERNELS_CPU_CONV_LIFT_H
#define KERNELS_CPU_CONV_LIFT_H

#include "kernels/kernel.h"

/* The table's kernel of OP_CONV2D, OP_CONV2D_DX or OP_CONV2D_DW. */
typedef const struct kernel *conv_lift_find_fn(enum op op);

/* Members of struct kernel, with the table's find. */
bool conv_lift_supports(const struct kernel_sig *sig, conv_lift_find_fn *find);
int conv_lift_prepare(const struct kernel_sig *sig, conv_lift_find_fn *find,
                      void **state, struct err *err);
size_t conv_lift_workspace_bytes(const struct kernel_sig *sig,
                                 conv_lift_find_fn *find, void *state);
void conv_lift_run(const struct kernel_call *call, conv_lift_find_fn *find);

/* `const struct kernel name` for all six ops. release: of the 2-D kernels, the
 * same for all three, or NULL. */
#define CONV_LIFT_KERNEL(name, find, release_state)                            \
    static bool name##_supports(const struct kernel_sig *sig)                  \
    {                                                                          \
        return conv_lift_supports(sig, find);                                  \
    }                                                                          \
    static int name##_prepare(const struct kernel_sig *sig, void **state,      \
                              struct err *err)                                 \
    {                                                                          \
        return conv_lift_prepare(sig, find, state, err);                       \
    }                                                                          \
    static size_t name##_workspace_bytes(const struct kernel_sig *sig,         \
                                         void *state)                          \
    {                                                                          \
        return conv_lift_workspace_bytes(sig, find, state);                    \
    }                                                                          \
    static void name##_run(const struct kernel_call *call)                     \
    {                                                                          \
        conv_lift_run(call, find);                                             \
    }                                                                          \
    const struct kernel name = {                                               \
        .supports = name##_supports,                                           \
        .prepare = name##_prepare,                                             \
        .workspace_bytes = name##_workspace_bytes,                             \
        .run = name##_run,                                                     \
        .release = release_state,                                              \
    };

extern const struct kernel conv_lift_kernel;

#endif
