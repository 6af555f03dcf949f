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

#endif
