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

/*
 * What a guard watches; numerics, section 5. The key that names a condition in
 * a spec is the enum's name in small letters, its value the number below;
 * `iterations`, `above`, `below` and `count` stand beside it.
 */
enum spec_condition {
    SPEC_CONDITION_CONSECUTIVE_SKIPS, /* in a row: >= limit */
    SPEC_CONDITION_SCALE_AT_FLOOR,    /* skips in a row that were made with the
                                         scale at min_scale: >= limit */
    SPEC_CONDITION_SKIP_SHARE,        /* of the last `iterations`: > above */
    SPEC_CONDITION_UPDATES_BELOW, /* of the last `iterations` applied: < limit
                                   */
    SPEC_CONDITION_LOSS_ABOVE,    /* of an update: > above, or not finite */
    SPEC_CONDITION_LOSS_BELOW,    /* of an update: < below, or not finite */
    SPEC_CONDITION_LOSS_SPIKE,    /* of an update: > median + factor x spread
                                     (1.4826 x median absolute deviation) of
                                     the finite losses of the last `iterations`
                                     updates before it */
    SPEC_CONDITION_METRIC,     /* of an evaluation: < below, > above, or NaN */
    SPEC_CONDITION_NON_FINITE, /* what `trigger` says: LOSS with finite
                                  gradients, METRIC: loss of an evaluation,
                                  WEIGHTS */
    SPEC_CONDITION_VERDICT,    /* replayed incidents in a row with it: >= limit
                                */
    SPEC_CONDITION_COUNT
};
/* What a rollback changes. */
enum spec_change {
    SPEC_CHANGE_NONE,
    SPEC_CHANGE_FP32_REGION,  /* `regions`, or those that the diagnosis names */
    SPEC_CHANGE_SKIP_BATCHES, /* the windows that the condition counted */
    SPEC_CHANGE_LOWER_SCALE,  /* x factor */
    SPEC_CHANGE_DTYPE         /* to `dtype` */
};
/* Which rules stand behind those of the list. One of the set is left out where
 * the list has a rule with the same condition (and the same verdict, or the
 * same part that is not finite). */
enum spec_guards {
    SPEC_GUARDS_DEFAULT, /* those that end a run which is lost */
    SPEC_GUARDS_AUTO,    /* rules that repair, then the default ones */
    SPEC_GUARDS_OFF      /* none: the list alone */
};

#define SPEC_GUARD_MAX_RULES  64
#define SPEC_GUARD_MAX_WINDOW 65536 /* iterations */
#define SPEC_GUARD_MAX_SPIKE  4096  /* the same of loss_spike, which sorts */

struct spec_guard {
    enum spec_condition condition;
    int64_t limit, iterations;
    int64_t after_updates; /* quiet before so many updates */
    double above, below;   /* NaN: no such bound */
    double factor;         /* of loss_spike */
    enum spec_metric metric;
    enum event_trigger trigger; /* of non_finite */
    enum event_verdict verdict;
    enum event_action action;
    struct {
        enum spec_change kind;
        const char **regions; /* n_regions 0: as diagnosed */
        int n_regions;
        double factor;
        enum dtype dtype;
    } with;       /* of a rollback; never NONE there */
    bool to_best; /* rollback: to the best checkpoint, not the last */
};

/* "consecutive_skips" */
const char *spec_guard_condition_name(enum spec_condition condition);

#endif
