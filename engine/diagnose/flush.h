/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush: which share of the gradients half precision makes zero.
 *
 * Without a loss scale small gradients underflow in float16 in silence. This
 * runs a window's batches again in float32, and counts elements that are zero
 * in the gradients of the step and not there. Called by the loop between
 * step_compute() and step_commit().
 */
#ifndef ENGINE_DIAGNOSE_FLUSH_H
#define ENGINE_DIAGNOSE_FLUSH_H

#include "engine/diagnose/rerun.h"

/* How often the loop asks: at the first iteration that has gradients, then
 * every so many updates. */
#define FLUSH_EVERY_UPDATES 1000

struct flush_result {
    int64_t n_flushed; /* zero here, not in float32 */
    int64_t n_nonzero; /* not zero in float32 */
};

/* Does this spec have gradients to worry about: float16 and no scaler? */
bool flush_is_wanted(const struct spec *spec);

/* state->grads are those of the iteration under way. ERR_NOMEM, or what
 * compiling says. */
int flush_measure(struct rerun *rerun, const struct state *state,
                  const struct prefetch_window *window,
                  struct flush_result *result, struct err *err);

#endif
