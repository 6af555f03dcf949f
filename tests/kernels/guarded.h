/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guarded: a kernel's signature with data, and canaries around what it writes.
 *
 * For the tests of kernels/dnnl. Inputs are filled at random; a run checks the
 * canaries of output and workspace and fails the test when they changed. Every
 * function may fail the test; include cmocka.h before this.
 */
#ifndef TESTS_KERNELS_GUARDED_H
#define TESTS_KERNELS_GUARDED_H

#include "kernels/kernel.h"

#define CANARY       64
#define CANARY_VALUE 0x5a

struct guarded {
    struct kernel_sig sig;
    void *in[OP_MAX_IN];
    unsigned char *out; /* with CANARY bytes at both ends */
    size_t out_bytes;
};

void guarded_init(struct guarded *c, const struct kernel_sig *sig);
void guarded_fini(struct guarded *c);

/* Runs n times on fresh state; every run must give the same bits. second: room
 * for output 1, if there is one. */
void guarded_run(struct guarded *c, const struct kernel *kernel, int n,
                 void *second);

/* Output element i. */
double guarded_result(const struct guarded *c, int64_t i);
void guarded_fail(const struct guarded *c, const char *table, int64_t i,
                  double got, double want, double tolerance);

void *guarded_alloc(size_t bytes);
uint32_t guarded_random(uint32_t *state);

#endif
