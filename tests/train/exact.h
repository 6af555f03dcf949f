/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exact: a forward graph run in double by the naive ops of tests/kernels.
 *
 * What a program's float32 is compared with, and what finite differences are
 * taken of. Owns one array of doubles for each value of the graph, in memory
 * order; whoever uses it fills what comes from outside and reads the rest.
 * Running statistics are not tracked.
 */
#ifndef TESTS_TRAIN_EXACT_H
#define TESTS_TRAIN_EXACT_H

#include "engine/graph/graph.h"
#include "kernels/kernel.h"

struct exact;

/* The graph is borrowed. */
struct exact *exact_create(const struct graph *graph);
void exact_destroy(struct exact **exact);

/* Elements of a value, to be written for inputs, parameters and buffers and
 * read for all others after a run. */
double *exact_value(struct exact *exact, int id);
int64_t exact_n_elems(const struct exact *exact, int id);

/* All nodes in order. The loss, when the graph has one. */
double exact_run(struct exact *exact, const struct kernel_step *step);

#endif
