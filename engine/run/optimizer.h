/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer: parameter groups over the flat blocks.
 *
 * Decides once which parameter belongs to which group (fnmatch patterns, first
 * match wins, the rest is group 0) and sweeps runs of neighbours of one group
 * with one kernel call. The formulas are the kernels'. Moments live in struct
 * state; the time step is its count of updates, so nothing here is saved.
 * Used by the thread that owns the step; steps allocate nothing.
 */
#ifndef ENGINE_RUN_OPTIMIZER_H
#define ENGINE_RUN_OPTIMIZER_H

#include "engine/run/lrate.h"
#include "engine/run/state.h"
#include "kernels/kernel.h"

struct optimizer;

/* 0, 1 (sgd with momentum) or 2 (adam, adamw), and their names in files. */
int optimizer_n_moments(const struct spec *spec);
const char *optimizer_moment_name(const struct spec *spec, int i);

/* The spec is borrowed and must outlive it. ERR_SPEC when a group's pattern
 * matches no parameter. */
int optimizer_create(const struct spec *spec, const struct state *state,
                     const struct kernel_flat *flat, int threads,
                     const struct lrate *lrate, struct optimizer **out,
                     struct err *err);
void optimizer_destroy(struct optimizer **optimizer);

/* The group of parameter i. */
int optimizer_group_of(const struct optimizer *o, int param);
/* The rate that the next update uses for group 0. */
double optimizer_lr(const struct optimizer *o, const struct state *state);

/* Applies update number count.updates + 1 to the weights; gradients enter as
 * g x clip. Counts nothing. */
void optimizer_step(const struct optimizer *o, struct state *state, float clip);

#endif
