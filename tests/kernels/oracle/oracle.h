/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle: the calls of ops.txt and the tensors of ops.safetensors.
 *
 * Reads what oracle_ops.py wrote (its comment shows a line) into kernel
 * signatures with the inputs that PyTorch was given and the outputs that it
 * gave. Ends the program with a sentence on a line that it does not know: the
 * files are the project's own.
 */
#ifndef TESTS_KERNELS_ORACLE_ORACLE_H
#define TESTS_KERNELS_ORACLE_ORACLE_H

#include "engine/data/safetensors.h"
#include "kernels/kernel.h"

struct oracle_call {
    struct kernel_sig sig; /* threads 1 */
    int line;
    bool native; /* by PyTorch's kernel in this very dtype */
    const void *in[OP_MAX_IN];
    const void *want[OP_MAX_OUT]; /* NULL: nothing to compare */
    bool or_zero[OP_MAX_OUT];     /* 0 is right as well, anywhere */
};

struct oracle; /* both files */

struct oracle *oracle_open(const char *directory);
void oracle_close(struct oracle **oracle);
const char *oracle_header(const struct oracle *oracle); /* torch, date */
/* Call after call; false at the end. Its pointers live as long as oracle. */
bool oracle_next(struct oracle *oracle, struct oracle_call *call);

#endif
