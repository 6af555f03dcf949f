/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incidents: which iterations are diagnosed, and that each is told.
 *
 * An iteration whose update was skipped, or whose loss is not finite, an
 * evaluation whose loss is not, weights that are not: each is one event, with
 * the diagnosis where the budget has room for one (spec: diagnose). The first
 * max_replays of an attempt always have; later ones when they begin a streak,
 * and what was spent plus what the last one took stays within a share of the
 * time. Nothing is computed while all is finite. Used by the loop, on its
 * thread; all it is given is borrowed.
 */
#ifndef ENGINE_RUN_INCIDENTS_H
#define ENGINE_RUN_INCIDENTS_H

#include "engine/diagnose/diagnosis.h"
#include "engine/run/evaluate.h"
#include "engine/run/report.h"
#include "engine/run/step.h"

/* Weights are looked at after every so many updates. */
#define INCIDENTS_WEIGHT_CHECK_UPDATES 64

/* Of the last one. */
struct incidents_last {
    int64_t iteration; /* 0: none yet in this attempt */
    int64_t data_position;
    enum event_trigger trigger;
    bool replayed;
    enum event_verdict verdict; /* of the last that was replayed */
    int64_t in_row; /* iterations one after another that were incidents and,
                       as far as replayed, of this verdict */
};

struct incidents {
    const struct spec *spec;
    const struct state *state;
    struct rerun *rerun;
    const struct report *report;

    /* Its own; zero at the start. */
    struct {
        int64_t start_us, spent_us, last_cost_us;
        int64_t n;        /* of this attempt */
        bool in_streak;   /* the iteration before was one too */
        bool loss_warned; /* this streak of non-finite losses was told */
        bool weights_bad; /* and this one of weights */
    } at;
    struct {
        bool here, replayed;
        enum event_trigger trigger;
        int64_t data_position, cost_us;
        struct err failure; /* why there could be no replay */
    } now;
    struct diagnosis diagnosis; /* the last one made */
    struct incidents_last last;
};

void incidents_begin(struct incidents *i);

/* Between step_compute() and step_commit(): the weights are still those of the
 * forward pass. Returns what it took, in microseconds. */
int64_t incidents_look(struct incidents *i,
                       const struct prefetch_window *window,
                       const struct step_result *r);
/* After step_commit() and the events of the step. */
int incidents_tell(struct incidents *i, const struct step_result *r,
                   struct err *err);

/* After an evaluation, with the weights that it was made with. */
int incidents_evaluated(struct incidents *i, struct evaluate *evaluate,
                        const struct evaluate_result *result, struct err *err);

const struct incidents_last *incidents_last(const struct incidents *i);
/* Of the last that was replayed. */
const struct diagnosis *incidents_diagnosis(const struct incidents *i);

#endif
