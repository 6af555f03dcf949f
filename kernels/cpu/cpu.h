/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu: the reference table, the definition of every op in plain C.
 *
 * One family of kernels per file beside this one. Every op of ops.def has a
 * slot here; other tables only ever step in front of it.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/kernel.h"

extern const struct kernel_table cpu_table;

#endif
