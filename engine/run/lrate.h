/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lrate: the learning rate as a function of a count.
 *
 * Pure arithmetic in double, so the schedule has no state to save. The count is
 * of the optimizer's applied steps, so that a skip leaves the rate where it
 * was, or of iterations where the spec says so. Called by
 * engine/run/optimizer once per group and update.
 */
#ifndef ENGINE_RUN_LRATE_H
#define ENGINE_RUN_LRATE_H

#include "proto/spec.h"

#include <stdint.h>

struct lrate {
    enum spec_schedule kind;
    int64_t warmup_updates;
    int64_t step_size;
    double gamma, min_lr;
    int64_t total_updates; /* >= 1 */
};

/* planned_updates: what schedule.total_updates 0 stands for. */
void lrate_init(struct lrate *l, const struct spec *spec,
                int64_t planned_updates);

/* The rate of update number u (0-based) for a group whose rate is base.
 *   u < warmup         base x (u + 1) / warmup
 *   constant           base
 *   step               base x gamma^floor(u / step_size)
 *   cosine, linear     from base to min_lr as p goes from 0 to 1:
 *                      p = (u - warmup) / (total - warmup), at most 1 */
double lrate_at(const struct lrate *l, double base, int64_t u);

#endif
