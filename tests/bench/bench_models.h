/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_models: one training step as a list of kernels, for bench_kernels.
 *
 * The demo's CNN and the MLP of performance.md, written down by hand as the
 * engine would compile them: forward, loss, backward, weight gradients in
 * float32. Only shapes; no memory, no kernels.
 */
#ifndef TESTS_BENCH_BENCH_MODELS_H
#define TESTS_BENCH_BENCH_MODELS_H

#include "kernels/kernel.h"

#define BENCH_MAX_VALUES 96
#define BENCH_MAX_STEPS  64

struct bench_step {
    enum op op;
    union op_params params;
    int n_in, n_out;
    int in[OP_MAX_IN]; /* values; -1: absent */
    int out[OP_MAX_OUT];
};

struct bench_model {
    const char *name;
    int64_t batch;
    int64_t n_params; /* for the optimizer */
    int n_values, n_steps;
    struct tensor_desc value[BENCH_MAX_VALUES];
    struct bench_step step[BENCH_MAX_STEPS];
};

/* conv32-conv64-fc128-fc10 on 28 x 28, batch 128. */
void bench_models_cnn(struct bench_model *m, enum dtype t);
/* 784-1024-1024-10, batch 256. */
void bench_models_mlp(struct bench_model *m, enum dtype t);

#endif
