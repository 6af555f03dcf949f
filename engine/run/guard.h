/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard: the rules of spec->guard, held against what a run does.
 *
 * A state machine over numbers: the loop says what happened, and is told the
 * one thing to do, if any, with a sentence. It reads no clock and no weights,
 * emits nothing, and allocates at the start only. What fires: of the rules
 * whose condition holds the first one that can act. A `continue` comes last,
 * and once for each time that its condition begins to hold. A rollback whose
 * change is in effect already, or unknown, leaves it to the next rule; when
 * none is left, and when max_rollbacks are used up, it is a failure. All
 * counts begin with the attempt. Used by the loop on its thread.
 */
#ifndef ENGINE_RUN_GUARD_H
#define ENGINE_RUN_GUARD_H

#include "proto/err.h"
#include "proto/spec.h"

#define GUARD_TEXT_MAX    400 /* fits an event with its rule before it */
#define GUARD_MAX_WINDOWS 64  /* of a skip that are remembered, the last ones */

struct guard;

struct guard_options {
    const struct spec *spec; /* borrowed: the effective one */
    int64_t rollbacks;       /* by guards, before this attempt */
    double scale;            /* of the checkpoint that it begins with */
};

/* Without a run: a rollback whose change is in effect in this spec, and why, as
 * in "fc1 runs in float32 already". Such a rule leaves it to the next one. */
bool guard_is_in_effect(const struct spec *spec, const struct spec_guard *rule,
                        char *why, size_t size);

int guard_create(const struct guard_options *options, struct guard **out,
                 struct err *err);
void guard_destroy(struct guard **guard);

/* An incident, before what it happened in is observed. Copied. */
struct guard_incident {
    bool diagnosed; /* false: counts for no verdict */
    enum event_verdict verdict;
    const char *layer;          /* "" unknown */
    const char *const *regions; /* that cure it */
    int n_regions;
    int64_t data_position; /* -1: none */
};
void guard_note_incident(struct guard *guard,
                         const struct guard_incident *incident);

/* A checkpoint was made, with this loss scale in it. */
void guard_note_checkpoint(struct guard *guard, double scale);

/* What is to be done. Strings and lists live until the next observation. */
struct guard_firing {
    int rule; /* number in spec->guard.rule */
    enum spec_condition condition;
    enum event_action action;
    double value, bound; /* seen, and allowed; NaN: no number */
    char text[GUARD_TEXT_MAX];
    /* Of a rollback. */
    const char *to;              /* "last" or "best" */
    const char *change;          /* JSON: a spec fragment to merge, or "" */
    double scale;                /* to begin with; NaN: the checkpoint's */
    const int64_t *skip_windows; /* pairs: data position, how many */
    int n_skip_windows;          /* numbers in it */
};

/* After the iteration; counters are those behind it. True: *firing. */
struct guard_iteration {
    int64_t updates;
    int64_t data_position; /* of its window */
    bool skipped, found_inf;
    double loss, scale; /* used */
};
bool guard_observe_iteration(struct guard *guard,
                             const struct guard_iteration *iteration,
                             struct guard_firing *firing);

/* After a whole evaluation; NaN for a metric that was not asked for. A run
 * that is at its end cannot pause any more, and is told instead. */
struct guard_evaluation {
    int64_t updates;
    double value[SPEC_METRIC_COUNT]; /* that of CONFUSION is not looked at */
    bool at_end;
};
bool guard_observe_evaluation(struct guard *guard,
                              const struct guard_evaluation *evaluation,
                              struct guard_firing *firing);

/* After a look at the weights: the first one that is not finite, NULL when all
 * are. */
bool guard_observe_weights(struct guard *guard, int64_t updates,
                           const char *tensor, struct guard_firing *firing);

#endif
