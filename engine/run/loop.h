/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop: iteration after iteration until the run is done or told to end.
 *
 * Owns the order of what happens around a step: events of one iteration come
 * as STEP, SCALE, INCIDENT, EVALUATION, CHECKPOINT; orders are looked at
 * between two steps and between two batches of an evaluation. Decides when to
 * evaluate, checkpoint and replay; does none of it itself. Used by engine.c on
 * the thread that owns the state. All that it is given is borrowed.
 */
#ifndef ENGINE_RUN_LOOP_H
#define ENGINE_RUN_LOOP_H

#include "engine/diagnose/flush.h"
#include "engine/diagnose/replay.h"
#include "engine/run/evaluate.h"
#include "engine/run/keeper.h"
#include "engine/run/step.h"

/* Which skips are replayed: the first of an attempt, then the first of every
 * new streak while replays took no more than a share of the time. */
#define LOOP_REPLAYS_FREE 8
#define LOOP_REPLAY_SHARE 0.01

/* Weights are looked at after every so many updates. */
#define LOOP_WEIGHT_CHECK_UPDATES 64

struct loop {
    const struct spec *spec;
    struct state *state;
    struct step *step;
    struct prefetch *prefetch;
    struct evaluate *evaluate; /* NULL: no validation set */
    struct keeper *keeper;
    struct replay *replay;
    struct flush *flush; /* NULL: not wanted */
    const struct report *report;
    int64_t total_iterations;
    bool owes_evaluation; /* resumed from where one should have been made and
                             was cut off */

    /* The loop's own; zero at the start. */
    struct {
        unsigned orders; /* seen and not served */
        int64_t start_us, replay_us;
        int64_t n_skips;  /* of this attempt */
        bool in_streak;   /* the iteration before was an incident too */
        bool loss_warned; /* this streak of non-finite losses was told */
        bool weights_bad; /* and this one of weights */
        bool has_metric;  /* of the weights after metric_updates */
        double metric;
        int64_t metric_updates;
        bool flush_known;      /* measured in this attempt */
        int64_t flush_updates; /* when it was */
        double loss_sum;       /* of applied updates, for loop_mean_loss() */
        int64_t n_losses;
    } at;
};

/* Runs to the end. *outcome completed or stopped, or a negative code. When it
 * stopped without a checkpoint that it should have made, *outcome is stopped
 * and the sentence is in err all the same. */
int loop_run(struct loop *loop, enum event_outcome *outcome, struct err *err);

/* Mean loss of this attempt's applied updates; NaN before the first. Skipped
 * iterations are not in it. */
double loop_mean_loss(const struct loop *loop);

#endif
