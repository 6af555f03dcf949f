/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setups: every optimizer, alone and in company, for tests of the whole step.
 *
 * Replaces the optimizers of a spec that was parsed: number 0 to 5 is that kind
 * alone, 6 sgd for "head.*" and adam for the rest, 7 adagrad for biases,
 * rmsprop for "head.*", lion for the rest. Header only.
 */
#ifndef TESTS_TRAIN_SETUPS_H
#define TESTS_TRAIN_SETUPS_H

#include "proto/spec.h"

#define SETUPS_N      8
#define SETUPS_UNUSED __attribute__((unused))

static SETUPS_UNUSED struct spec_group setups_group[] = {
    {.lr = 0.05, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.01},
    {.lr = 0.05, .betas = {0.9, 0.999}, .eps = 1e-8},
    {.lr = 0.05, .betas = {0.9, 0.999}, .eps = 1e-8, .weight_decay = 0.1},
    {.lr = 0.05, .eps = 1e-10, .lr_decay = 0.1, .initial_accumulator = 0.5},
    {.lr = 0.05, .alpha = 0.99, .eps = 1e-8, .momentum = 0.9, .centered = true},
    {.lr = 0.05, .betas = {0.9, 0.99}, .weight_decay = 0.1},
};

static void
setups_set(struct spec_optim *o, enum spec_optimizer kind, const char **match)
{
    *o = (struct spec_optim){.kind = kind,
                             .group = &setups_group[kind],
                             .n_group = 1,
                             .match = match,
                             .n_match = match != NULL};
}

static SETUPS_UNUSED void
setups_use(struct spec *spec, int number)
{
    static const char *head[] = {"head.*"}, *biases[] = {"*.bias"};

    spec->n_optim = 1;
    if (number < 6) {
        setups_set(&spec->optim[0], (enum spec_optimizer)number, NULL);
    } else if (number == 6) {
        setups_set(&spec->optim[0], SPEC_OPTIMIZER_ADAM, NULL);
        setups_set(&spec->optim[1], SPEC_OPTIMIZER_SGD, head);
        spec->n_optim = 2;
    } else {
        setups_set(&spec->optim[0], SPEC_OPTIMIZER_ADAGRAD, biases);
        setups_set(&spec->optim[1], SPEC_OPTIMIZER_RMSPROP, head);
        setups_set(&spec->optim[2], SPEC_OPTIMIZER_LION, NULL);
        spec->n_optim = 3;
    }
}

#endif
