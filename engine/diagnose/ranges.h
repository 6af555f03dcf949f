/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges: how large and how small every tensor of an iteration is.
 *
 * Runs a window's batches in float32 and in the spec's precision, at the same
 * scale, and looks at every floating output of every instruction, in order of
 * execution, beside its twin: the tensor of the same name in float32. Works on
 * programs, gradients and running statistics of its own; the training state is
 * read, never written. Over micro-batches magnitudes are joined; a gradient
 * that accumulates is what it is at the end. One thread; rows live as long as
 * the ranges.
 */
#ifndef ENGINE_DIAGNOSE_RANGES_H
#define ENGINE_DIAGNOSE_RANGES_H

#include "engine/base/digest.h"
#include "engine/data/prefetch.h"
#include "engine/run/variants.h"
#include "proto/event.h"

#define RANGES_HEADROOM_BITS 2.0  /* less is marked */
#define RANGES_FLUSHED_SHARE 0.01 /* of a gradient; more is marked */

enum ranges_mark {
    RANGES_FINE,
    RANGES_OVERFLOW, /* something is not finite */
    RANGES_HEADROOM, /* the largest is near the limit of the dtype */
    RANGES_FLUSHED   /* gradients became 0 that are not in float32 */
};

/* "", "overflow", "headroom", "flushed" */
const char *ranges_mark_name(enum ranges_mark mark);

struct ranges_row {
    enum event_pass pass;
    const char *layer, *op, *tensor;
    struct tensor_desc desc; /* of the first micro-batch */
    double largest;          /* finite magnitude; NaN: none */
    double smallest;         /* magnitude that is not 0; NaN: none */
    int64_t n_nonfinite;
    double flushed;  /* share that is 0 here and not in float32; NaN: unknown */
    double headroom; /* log2(limit / largest); NaN: nothing is but 0 */
    bool has_twin;   /* false: no such tensor there, or all is float32 */
    double fp32_largest, fp32_smallest;
    int64_t fp32_nonfinite;
    enum ranges_mark mark;
};

struct ranges_options {
    const struct spec *spec; /* borrowed, outlives the ranges */
    struct build_data data;
    const struct backend *backend;
    int threads;
};

/* What the iteration came to, in the spec's precision. */
struct ranges_outcome {
    float loss;
    bool finite;                    /* the loss and all unscaled gradients */
    char digest[DIGEST_TEXT_BYTES]; /* step_digest */
};

struct ranges;

/* The largest finite number of a dtype. */
double ranges_limit(enum dtype t);

/* Measures the iteration after state->count.iteration over `window`, with the
 * scale of state. ERR_NOMEM or what compiling says. */
int ranges_measure(const struct ranges_options *options,
                   const struct state *state,
                   const struct prefetch_window *window, struct ranges **out,
                   struct err *err);
void ranges_destroy(struct ranges **ranges);

int ranges_n(const struct ranges *ranges);
const struct ranges_row *ranges_at(const struct ranges *ranges, int i);
const struct ranges_outcome *ranges_outcome(const struct ranges *ranges);

#endif
