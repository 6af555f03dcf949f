/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop: iteration after iteration until the run is done or told to end.
 *
 * Owns the order of what happens around a step: events of one iteration come
 * as STEP, SCALE, INCIDENT, GUARD, EVALUATION, GUARD, CHECKPOINT (an incident
 * of an evaluation before it); orders are looked at between two steps and
 * between two batches of an evaluation. Decides when to evaluate and to
 * checkpoint, and ends when a guard says so; does none of it itself. Used by
 * engine.c on the thread that owns the state. All that it is given is borrowed.
 */
#ifndef ENGINE_RUN_LOOP_H
#define ENGINE_RUN_LOOP_H

#include "engine/diagnose/flush.h"
#include "engine/run/incidents.h"
#include "engine/run/keeper.h"
#include "engine/run/step.h"
#include "engine/run/watch.h"

struct loop {
    const struct spec *spec;
    struct state *state;
    struct step *step;
    struct prefetch *prefetch;
    struct evaluate *evaluate; /* NULL: no validation set */
    struct keeper *keeper;
    struct incidents incidents;
    struct watch watch;
    bool measures_flush;
    const struct report *report;
    int64_t total_iterations;
    bool owes_evaluation; /* resumed from where one should have been made and
                             was cut off */

    /* The loop's own; zero at the start. */
    struct {
        unsigned orders; /* seen and not served */
        bool has_metric; /* of the weights after metric_updates */
        double metric;
        int64_t metric_updates;
        bool flush_known;      /* measured in this attempt */
        int64_t flush_updates; /* when it was */
        double loss_sum;       /* of applied updates, for loop_mean_loss() */
        int64_t n_losses;
    } at;
};

/* Runs to the end. *outcome completed, stopped, paused or go_back, or a negative
 * code; of what a guard ended, watch.firing has the reason. When it stopped or
 * paused without a checkpoint that it should have made, the sentence is in err
 * all the same. */
int loop_run(struct loop *loop, enum event_outcome *outcome, struct err *err);

/* Mean loss of this attempt's applied updates; NaN before the first. Skipped
 * iterations are not in it. */
double loop_mean_loss(const struct loop *loop);

#endif
