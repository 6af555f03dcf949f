/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rerun: the numbers of an iteration once more, perhaps under another policy.
 *
 * A step is a function of weights, batch, scale and iteration number; so any
 * can be run again, in another dtype, with other float32 regions, at another
 * scale, or over samples that were changed. Works on programs, gradients and
 * running statistics of its own: the training state is read, never written.
 * Programs are compiled at the first use; rerun_trim() lets go of those that
 * only one question needed. Knows no location and no verdict. One thread.
 */
#ifndef ENGINE_DIAGNOSE_RERUN_H
#define ENGINE_DIAGNOSE_RERUN_H

#include "engine/data/prefetch.h"
#include "engine/run/variants.h"
#include "kernels/kernel.h"

struct rerun_options {
    const struct spec *spec; /* borrowed, outlives the rerun */
    struct build_data data;
    const struct backend *backend;
    struct kernel_flat flat;
    int threads;
};

/* What autocast may do. */
struct rerun_policy {
    enum dtype dtype; /* F32: off */
    const char *const *regions;
    int n_regions;
};

/* What is run; all borrowed for the call. */
struct rerun_case {
    enum build_mode mode;
    const struct state *state; /* of before the update, or of the evaluation */
    const struct prefetch_batch *batch;
    int64_t n_batches;
    int64_t first;   /* number of batch[0] in its window */
    int64_t n_count; /* elements that count, in the whole window */
    float scale;     /* of the loss; evaluation: 1 */
};

struct rerun;

int rerun_create(const struct rerun_options *options, struct rerun **out,
                 struct err *err);
void rerun_destroy(struct rerun **rerun);

const struct rerun_options *rerun_options(const struct rerun *rerun);
/* Of the spec; regions are borrowed from it. */
struct rerun_policy rerun_own_policy(const struct rerun *rerun);

/* The window of an iteration as a case. */
struct rerun_case rerun_window(const struct state *state,
                               const struct prefetch_window *window);

/* Called after every instruction; false ends the run. */
typedef bool rerun_probe_fn(void *ctx, const struct exec *exec, int instr,
                            int64_t micro_batch);

struct rerun_result {
    bool ended;  /* by the probe: nothing below is known */
    bool finite; /* the loss, and in training every unscaled gradient */
    float loss;
};

/* ERR_NOMEM, or what compiling says. probe: NULL, or see above. */
int rerun_run(struct rerun *rerun, const struct rerun_case *c,
              const struct rerun_policy *policy, rerun_probe_fn *probe,
              void *ctx, struct rerun_result *result, struct err *err);

/* Gradients of the last run, unscaled unless a probe ended it, at the places
 * that they have in the state. */
const float *rerun_grads(const struct rerun *rerun);
/* The graph that runs for a batch of that size; compiled when it is not. */
int rerun_graph(struct rerun *rerun, const struct rerun_case *c,
                const struct rerun_policy *policy, int64_t batch_size,
                const struct graph **out, struct err *err);

/* Runs so far. */
int64_t rerun_count(const struct rerun *rerun);
/* Frees all programs but those of the spec's policy and of float32. */
void rerun_trim(struct rerun *rerun);

#endif
