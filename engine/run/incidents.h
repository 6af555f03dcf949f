/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incidents: which iterations are diagnosed, and that each is told.
 *
 * An iteration whose update was skipped, or whose loss is not finite, an
 * evaluation whose loss is not, weights that are not: each is one event, with
 * the diagnosis where the budget has room for one (spec: diagnose). The first
 * max_replays of an attempt always have; later ones when they begin a streak,
 * and what was spent plus what the last one took stays within a share of the
 * time. What was diagnosed is kept on disk too (incident_keep), and that time
 * counts. Nothing is computed while all is finite. Used by the loop, on its
 * thread; all it is given is borrowed.
 */
#ifndef ENGINE_RUN_INCIDENTS_H
#define ENGINE_RUN_INCIDENTS_H

#include "engine/diagnose/diagnosis.h"
#include "engine/diagnose/incident_keep.h"
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
    struct incident_keep *keep; /* NULL: nothing is kept */
    struct {                    /* what a kept one says of this attempt */
        int64_t attempt;
        const struct build_data *data;
        const char *backend, *policy;
        int threads;
    } origin;
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
        struct incident_keep_result kept;
    } now;
    struct diagnosis diagnosis; /* the last one made */
    struct incidents_last last;
};

void incidents_begin(struct incidents *i);

/* Between step_compute() and step_commit(): the weights are still those of the
 * forward pass. What it took, in microseconds, goes to *cost_us. Negative when
 * an event cannot be recorded. */
int incidents_look(struct incidents *i, const struct prefetch_window *window,
                   const struct step_result *r, int64_t *cost_us,
                   struct err *err);
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
