/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_guard: the guards of a spec: what is watched, and what is done.
 *
 * Plain data, filled by the parser (spec_guard.c), read by engine/run/guard.
 * Numerics, section 5. Part of proto/spec.h, which owns the memory.
 */
#ifndef PROTO_SPEC_GUARD_H
#define PROTO_SPEC_GUARD_H

#include "proto/dtype.h"
#include "proto/event.h"

enum spec_metric {
    SPEC_METRIC_LOSS,
    SPEC_METRIC_ACCURACY,
    SPEC_METRIC_TOP_K,      /* evaluate.top_k */
    SPEC_METRIC_PERPLEXITY, /* exp of the loss */
    SPEC_METRIC_CONFUSION,  /* a table; cannot choose a checkpoint */
    SPEC_METRIC_COUNT
};

/* What a guard watches; numerics, section 5. */
enum spec_condition {
    SPEC_CONDITION_CONSECUTIVE_SKIPS, /* in a row: >= limit */
    SPEC_CONDITION_SCALE_AT_FLOOR,    /* skips in a row with the scale at
                                         min_scale: >= limit */
    SPEC_CONDITION_SKIP_SHARE,        /* of the last `iterations`: > above */
    SPEC_CONDITION_UPDATES,    /* of the last `iterations` applied: < limit */
    SPEC_CONDITION_LOSS,       /* of an update: < below or > above */
    SPEC_CONDITION_LOSS_SPIKE, /* > median + factor x spread (1.4826 x median
                                  absolute deviation) of the last
                                  `iterations` updates' losses */
    SPEC_CONDITION_METRIC,     /* of an evaluation: < below or > above */
    SPEC_CONDITION_NON_FINITE, /* a weight, or a loss with finite gradients */
    SPEC_CONDITION_VERDICT,    /* incidents in a row with it: >= limit */
    SPEC_CONDITION_COUNT
};
/* What a rollback changes. */
enum spec_change {
    SPEC_CHANGE_NONE,
    SPEC_CHANGE_FP32_REGION,  /* `regions`, or those that the diagnosis names */
    SPEC_CHANGE_SKIP_BATCHES, /* the windows that led to it */
    SPEC_CHANGE_LOWER_SCALE,  /* x factor */
    SPEC_CHANGE_DTYPE         /* to `dtype` */
};
enum spec_guards {
    SPEC_GUARDS_DEFAULT, /* the default rules, unless the list has one of the
                            same condition */
    SPEC_GUARDS_AUTO,    /* those, and rules that repair */
    SPEC_GUARDS_OFF      /* the list alone */
};

struct spec_guard {
    enum spec_condition condition;
    int64_t limit, iterations;
    int64_t after_updates; /* quiet before so many updates */
    double above, below;   /* NaN: no such bound */
    double factor;
    enum spec_metric metric;
    enum event_verdict verdict;
    enum event_action action;
    struct {
        enum spec_change kind;
        const char **regions; /* n_regions 0: as diagnosed */
        int n_regions;
        double factor;
        enum dtype dtype;
    } with;
    bool to_best; /* rollback: to the best checkpoint, not the last */
};

#endif
