/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper: which checkpoints are written, kept, called best, and removed.
 *
 * Writes through run/ckpt and says so by events. Retention counts committed
 * checkpoints of the live line only: the newest `keep`, the best, and the one
 * resumed from until two newer ones exist stay; the rest is removed. A
 * checkpoint that cannot be written is an event, not an end. Used by the loop
 * between two steps.
 */
#ifndef ENGINE_RUN_KEEPER_H
#define ENGINE_RUN_KEEPER_H

#include "engine/run/ckpt.h"
#include "engine/run/report.h"

struct keeper_options {
    const struct spec *spec; /* borrowed, outlives the keeper */
    const char *directory;   /* ".../checkpoints" */
    int64_t attempt;
    const char *policy;         /* borrowed, outlives the keeper; so the next */
    const char *policy_history; /* see ckpt_write_args */
    uint64_t spec_hash;
    const char *const *keep; /* of the live line, oldest first */
    int n_keep;
    const char *best; /* name, or "" */
    double best_metric;
    const char *resumed_from; /* name, or "" */
};

struct keeper;

/* Copies the names; sweeps what dead writers left. */
int keeper_create(const struct keeper_options *options, struct keeper **out,
                  struct err *err);
void keeper_destroy(struct keeper **keeper);

/* Would this value be a new best? Never for NaN, or without such a rule. */
bool keeper_is_better(const struct keeper *k, double metric);

struct keeper_request {
    enum event_checkpoint_cause cause;
    bool has_metric, best; /* best: becomes the best when it is written */
    double metric;
};

/* Syncs events, writes, prunes; an event for each. Negative only when an event
 * could not be recorded; a checkpoint that did not come to be is told by
 * *failure (code 0: it was written). */
int keeper_save(struct keeper *k, const struct report *report,
                const struct state *state, const struct keeper_request *q,
                struct err *failure, struct err *err);

/* Iteration of the newest checkpoint written or resumed from; 0 = none, when
 * there is nothing worth saving either. */
int64_t keeper_saved_iteration(const struct keeper *k);
void keeper_set_saved_iteration(struct keeper *k, int64_t iteration);

#endif
