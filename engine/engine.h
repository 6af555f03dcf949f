/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine: the front door: a spec in, a trained model and events out.
 *
 * engine_open() reads the data, compiles the programs, makes or restores the
 * state; engine_run() trains to the end or until told to stop. A library: no
 * socket, no log, no signal, no exit. It writes below options.directory
 * ("checkpoints/", "incidents/") only. One thread opens, runs and closes an engine; threads
 * of its own only fill batches. Everything it is given is copied or borrowed
 * until engine_close(), as said.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/run/guard.h"
#include "engine/run/report.h"
#include "proto/spec.h"

struct engine;

struct engine_options {
    const char *backend;   /* "cpu", "reference" */
    int threads;           /* >= 1 */
    const char *directory; /* of the job; checkpoints go below it */
    int64_t attempt;       /* >= 1 */
    bool threaded;         /* batches are filled by a thread of their own */
    struct clock clock;
    struct report_hooks hooks;
    /* Checkpoints to go on from, first choice first. None: from scratch. */
    const char *const *resume;
    int n_resume;
    bool resume_required; /* never from scratch instead */
    /* What retention knows: the live line, oldest first, and the best. */
    const char *const *keep;
    int n_keep;
    const char *best; /* "" when there is none */
    double best_metric;
    /* Of a rollback: the loss scale to begin with (NaN or 0: the checkpoint's),
     * and data that is passed over: pairs of a position and how many. */
    double scale;
    const int64_t *skip_windows;
    int n_skip_windows;         /* numbers in it */
    int64_t guard_rollbacks;    /* that guards asked for so far */
    const char *policy_history; /* JSON text for the weights' metadata: changes
                                   of policy so far; borrowed, "" for none */
};

/* The spec (paths resolved) is borrowed until engine_close(). Checkpoints that
 * do not verify are told by events; ERR_CKPT when none does and one is
 * required. */
int engine_open(const struct spec *spec, const struct engine_options *options,
                struct engine **out, struct err *err);

/* Emits STARTED, then all else but FINISHED, which is the caller's. 0 with
 * *outcome completed, go_back, or stopped or paused (err.code says why these
 * two have no checkpoint), or a negative code with *outcome failed. Once per
 * engine. */
int engine_run(struct engine *engine, enum event_outcome *outcome,
               struct err *err);

void engine_close(struct engine **engine);

/* Read-only, for reports and tests. */
const struct state *engine_state(const struct engine *engine);
int64_t engine_total_iterations(const struct engine *engine);
double engine_mean_loss(const struct engine *engine);
/* What ended the run where a guard did: paused, go_back, or failed; else NULL.
 */
const struct guard_firing *engine_fired(const struct engine *engine);

#endif
