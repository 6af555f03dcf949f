/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer: which optimizer and group each parameter belongs to, and steps.
 *
 * Decides once (fnmatch patterns, first match wins; an optimizer without
 * patterns takes what is left, group 0 what no other group takes) and sweeps
 * runs of neighbours of one group with one kernel call. Formulas are the
 * kernels', what each kind keeps is run/optimizer_kind's. Moments and time
 * steps live in struct state, so nothing here is saved. Used by the thread that
 * owns the step; steps allocate nothing.
 */
#ifndef ENGINE_RUN_OPTIMIZER_H
#define ENGINE_RUN_OPTIMIZER_H

#include "engine/run/lrate.h"
#include "engine/run/state.h"
#include "kernels/kernel.h"

struct optimizer;

/* Moment blocks that the state needs: as many as the neediest optimizer. */
int optimizer_n_moments(const struct spec *spec);

/* Writes into the state whose each parameter is, the names of its moments, and
 * what they start at. The spec is borrowed and must outlive the optimizer.
 * ERR_SPEC when a pattern matches no parameter, an optimizer gets none, or a
 * parameter is left over. */
int optimizer_create(const struct spec *spec, struct state *state,
                     const struct kernel_flat *flat, int threads,
                     const struct lrate *lrate, struct optimizer **out,
                     struct err *err);
void optimizer_destroy(struct optimizer **optimizer);

/* How many optimizers there are. */
int optimizer_n(const struct optimizer *o);
/* The group of parameter i within its optimizer. */
int optimizer_group_of(const struct optimizer *o, int param);
/* The rate that the next step of optimizer 0 uses for its group 0. */
double optimizer_lr(const struct optimizer *o, const struct state *state);

/* Unscales the gradients of optimizer i and says what they are. One optimizer:
 * the block from end to end. */
void optimizer_unscale(const struct optimizer *o, struct state *state, int i,
                       float inverse, struct kernel_unscale *result);

/* Applies step number optim_steps[i] + 1 of optimizer i to its weights;
 * gradients enter as g x clip. Counts nothing. */
void optimizer_step(const struct optimizer *o, struct state *state, int i,
                    float clip);

/* Moves the average of optimizer i's weights towards them. */
void optimizer_average(const struct optimizer *o, struct state *state, int i,
                       double decay);

#endif
