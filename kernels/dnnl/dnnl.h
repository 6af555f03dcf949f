/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnnl: the table of kernels that oneDNN does better than the reference.
 *
 * Steps in front of cpu_table in backend "cpu"; same contract.
 */
#ifndef KERNELS_DNNL_DNNL_H
#define KERNELS_DNNL_DNNL_H

#include "kernels/kernel.h"

extern const struct kernel_table dnnl_table;

/* The same with bfloat16's own instructions wherever the processor has them,
 * also where they are slower than float32's. For tests and the bench: no
 * backend has it. */
extern const struct kernel_table dnnl_native_table;

#endif
