/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples: which samples of a batch make it non-finite, found by halving.
 *
 * Where a tensor has no axis of samples (a weight's gradient, a sum), the
 * producer does not say whose fault it is. So parts of the batch are run again
 * with all other samples made neutral (inputs 0, token 0, class 0; everything
 * else as it was): a named sample alone makes the iteration non-finite. Where
 * only several together do, none is named.
 */
#ifndef ENGINE_DIAGNOSE_SAMPLES_H
#define ENGINE_DIAGNOSE_SAMPLES_H

#include "engine/diagnose/rerun.h"
#include "proto/event.h"

/* No more runs than this for one answer. */
#define SAMPLES_MAX_RUNS 40

struct samples {
    int64_t id[EVENT_MAX_SAMPLES]; /* the first of */
    int64_t n;                     /* so many */
    bool cut;     /* there may be more: the runs were used up */
    bool no_need; /* not finite without any sample either */
};

/* Over batch `which` of the case. ERR_NOMEM, or what running says. */
int samples_find(struct rerun *rerun, const struct rerun_case *c,
                 const struct rerun_policy *policy, int64_t which,
                 struct samples *out, struct err *err);

#endif
