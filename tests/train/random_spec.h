/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_spec: a small job spec from a seed.
 *
 * Rows, sequences or images in, a handful of layers of most kinds with named
 * branches, containers, every dtype of autocast, and settings of training
 * drawn at random; the model always ends in three numbers. The same seed gives
 * the same text on any machine. Pure.
 */
#ifndef TESTS_TRAIN_RANDOM_SPEC_H
#define TESTS_TRAIN_RANDOM_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#define RANDOM_SPEC_TEXT_MAX 16384
#define RANDOM_SPEC_OUT      3 /* numbers or classes at the end */

struct random_spec {
    char text[RANDOM_SPEC_TEXT_MAX]; /* ' stands for " */
    int rank;                        /* of a sample */
    int64_t dim[3];
    int64_t n_samples;
    bool classes;  /* y.npy holds class ids, else three numbers a sample */
    bool by_signs; /* Lion: steps of a gradient that should be 0 are whole */
};

/* Data are called x.npy and y.npy. */
void random_spec_make(struct random_spec *spec, uint64_t seed);

/* The next number of a stream: [0, n). */
int random_spec_draw(uint64_t *state, int n);

#endif
