/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join: parts of a tensor along one axis: NARROW, CAT, STACK and their
 * gradients.
 *
 * In memory order, whatever the layout: a tensor is outer x axis x inner, a
 * part of it a block of rows at some distance. Elements keep their bits, of
 * any dtype. Called through the kernel table only.
 */
#ifndef KERNELS_CPU_JOIN_H
#define KERNELS_CPU_JOIN_H

#include "kernels/kernel.h"

extern const struct kernel join_narrow;
extern const struct kernel join_narrow_backward;
extern const struct kernel join_cat;
extern const struct kernel join_stack;
extern const struct kernel join_stack_backward;

#endif
