/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush: which share of the gradients half precision makes zero.
 *
 * Without a loss scale small gradients underflow in float16 in silence. This
 * runs a window's batches again through float32 programs, and counts elements
 * that are zero in the gradients of the step and not there. Works on programs,
 * gradients and running statistics of its own, compiled at the first use; the
 * training state is read, never written. Called by the loop between
 * step_compute() and step_commit().
 */
#ifndef ENGINE_DIAGNOSE_FLUSH_H
#define ENGINE_DIAGNOSE_FLUSH_H

#include "engine/data/prefetch.h"
#include "engine/run/variants.h"

/* How often the loop asks: at the first iteration that has gradients, then
 * every so many updates. */
#define FLUSH_EVERY_UPDATES 1000

struct flush_options {
    const struct spec *spec; /* borrowed, outlives the flush */
    struct build_data data;
    const struct backend *backend;
    int threads;
    int64_t batch_full, batch_last; /* sizes that occur; 0: none */
};

struct flush_result {
    int64_t n_flushed; /* zero here, not in float32 */
    int64_t n_nonzero; /* not zero in float32 */
};

struct flush;

/* Does this spec have gradients to worry about: float16 and no scaler? */
bool flush_is_wanted(const struct spec *spec);

int flush_create(const struct flush_options *options, struct flush **out,
                 struct err *err);
void flush_destroy(struct flush **flush);

/* state->grads are those of the iteration under way. ERR_NOMEM, or what
 * compiling says. */
int flush_measure(struct flush *flush, const struct state *state,
                  const struct prefetch_window *window,
                  struct flush_result *result, struct err *err);

#endif
