/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locate: where an iteration first became non-finite.
 *
 * Runs it again with a look at every output of every instruction. All before
 * was finite, so the first that is not is the producer, not what passes it on.
 * Order (numerics, section 4): weights, input and labels -> forward, op by op
 * -> loss -> backward, op by op -> unscaled gradients. Reads, never writes;
 * decides nothing.
 */
#ifndef ENGINE_DIAGNOSE_LOCATE_H
#define ENGINE_DIAGNOSE_LOCATE_H

#include "engine/diagnose/rerun.h"
#include "proto/event.h"

struct location {
    bool located;
    enum event_pass pass;
    char layer[EVENT_NAME_MAX], tensor[EVENT_NAME_MAX];
    const char *op; /* static, "" where there is none */
    /* Of a part of the state: "weight", "moment", "average of a weight",
     * "running statistic"; static, "" elsewhere. */
    const char *role;
    enum dtype dtype;
    int rank;
    int64_t index[EVENT_MAX_RANK]; /* logical (NCHW) */
    int64_t at;                    /* the same as a place in memory */
    enum event_nonfinite what;
    int64_t micro_batch;
    int64_t sample; /* id in the data set, -1 unknown */
    /* Samples whose part of the tensor is not finite; 0 where none has one. */
    int64_t guilty[EVENT_MAX_SAMPLES]; /* ids, the first of */
    int64_t n_guilty;                  /* so many */
    /* A target that is no class. */
    bool is_label;
    int64_t label, n_classes;
    /* The layer to put into float32: of what the value came from, when the
     * node is a cast of a gradient. */
    char region[EVENT_NAME_MAX];
};

/* ERR_NOMEM or what compiling says. located false: all is finite. */
int locate_run(struct rerun *rerun, const struct rerun_case *c,
               const struct rerun_policy *policy, struct location *out,
               struct err *err);

/* The first non-finite weight, as pass optimizer; located false: none. */
void locate_weights(const struct rerun_options *o, const struct state *state,
                    struct location *out);

/* Of all that an update writes: weights, moments, averages, statistics. */
void locate_state(const struct rerun_options *o, const struct state *state,
                  struct location *out);

/* The value at that place in float32, at the same scale. *found false: there
 * is no such tensor there. */
int locate_value(struct rerun *rerun, const struct rerun_case *c,
                 const struct location *where, bool *found, float *value,
                 struct err *err);

#endif
