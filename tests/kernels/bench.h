/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench: how fast each op is, beside floors measured in the same run.
 *
 * For checkkern --bench. Prints for each op and dtype the best and the median
 * time of rounds that alternate with a plain copy of the same number of bytes
 * (or, for products, alone), as GB/s and per cent of the copy, or GFLOP/s.
 */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

/* op, or all of them with -1; the program's exit code. */
int bench_main(int op);

#endif
