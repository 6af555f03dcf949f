/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer_kind: what each kind of optimizer keeps, and which kernel it calls.
 *
 * Knows PyTorch's names of the moments, in which of the state's moment blocks
 * each lies, and where a first value other than zero is due. One call sweeps a
 * run of elements of one group. Holds nothing; used by run/optimizer.
 */
#ifndef ENGINE_RUN_OPTIMIZER_KIND_H
#define ENGINE_RUN_OPTIMIZER_KIND_H

#include "engine/run/state.h"
#include "kernels/kernel.h"

/* How many moments its parameters have, and their names, in block order:
 *   sgd      momentum, where any group has some
 *   adam(w)  m, v
 *   adagrad  sum
 *   rmsprop  square_avg; momentum_buffer and grad_avg where any group has
 *            momentum or is centered
 *   lion     m */
int optimizer_kind_moments(const struct spec_optim *optim,
                           const char *name[STATE_MAX_MOMENTS]);

/* What moment i of a group starts at. */
double optimizer_kind_start(const struct spec_optim *optim,
                            const struct spec_group *group, int i);

/* Zero weight, gradient and moments stay zero through the formula. */
bool optimizer_kind_keeps_zero(const struct spec_optim *optim,
                               const struct spec_group *group);

/* Is there a kernel? */
bool optimizer_kind_is_here(enum spec_optimizer kind,
                            const struct kernel_flat *flat);

struct optimizer_kind_sweep {
    const struct kernel_flat *flat;
    const struct spec_optim *optim;
    const struct spec_group *group;
    struct state *state;
    int64_t offset, n_elems;
    float clip;
    double lr;
    int64_t t; /* number of this step, 1-based */
    int threads;
};
void optimizer_kind_step(const struct optimizer_kind_sweep *sweep);

#endif
