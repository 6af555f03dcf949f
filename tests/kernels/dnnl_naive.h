/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnnl_naive: products and convolutions by loops in double, for dnnl_test.
 *
 * Independent of every kernel: it shares only descriptors and the scalar
 * conversions with them. value is the exact result (to double rounding) and
 * terms the sum of the absolute terms behind it, which scales the tolerance.
 */
#ifndef TESTS_KERNELS_DNNL_NAIVE_H
#define TESTS_KERNELS_DNNL_NAIVE_H

#include "kernels/kernel.h"

/* Output element `at` (in memory) of LINEAR*, CONV2D*. */
void dnnl_naive_element(const struct kernel_sig *sig,
                        const void *const in[OP_MAX_IN], int64_t at,
                        double *value, double *terms);

/* ops.def: L x 2^-24 x terms + ulps in the output's last place. */
double dnnl_naive_tolerance(const struct kernel_sig *sig, double value,
                            double terms);

#endif
