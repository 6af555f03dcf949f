/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evaluate: loss and metrics over the whole validation set.
 *
 * Runs the evaluation programs (autocast as in training, running statistics,
 * no dropout) over the set in its own order. Reads weights and running
 * statistics, writes nothing that training reads: the bits of a run do not
 * depend on how often it is evaluated. Owns its prefetch; the data set and
 * the programs are borrowed. Used by the loop between two steps.
 */
#ifndef ENGINE_RUN_EVALUATE_H
#define ENGINE_RUN_EVALUATE_H

#include "engine/data/prefetch.h"
#include "engine/run/variants.h"

struct evaluate;

struct evaluate_result {
    double loss;       /* mean over what counts; NaN when nothing does */
    double perplexity; /* exp of the loss */
    /* Shares of what is labelled; NaN without classes. top_k, confusion: only
     * where the spec asks for them. */
    double accuracy, top_k;
    int64_t n;       /* samples seen; with many labels to a sample, labels */
    bool incomplete; /* told to stop */
    int n_classes;   /* 0: no table */
    const int64_t *confusion; /* [target][prediction]; good until the next
                                 evaluation */
};

/* Of a result; NaN for what it does not have. */
double evaluate_metric(const struct evaluate_result *result,
                       enum spec_metric metric);

/* Batch sizes that the variants must have for a set of n samples: full and
 * last; 0 where there is none. */
void evaluate_batch_sizes(int64_t n_samples, int64_t batch_size, int64_t *full,
                          int64_t *last);

/* ERR_NOMEM, or what prefetch_create() says. */
int evaluate_create(const struct dataset *dataset, int64_t batch_size,
                    bool threaded, struct variants *variants,
                    const struct state *state, struct evaluate **out,
                    struct err *err);
void evaluate_destroy(struct evaluate **evaluate);

/* stop is asked before every batch; true ends the evaluation half way. */
void evaluate_run(struct evaluate *evaluate, bool (*stop)(void *ctx), void *ctx,
                  struct evaluate_result *result);

/* The first batch of the last evaluation whose loss was not finite, until the
 * next call; NULL: there was none. */
const struct prefetch_window *evaluate_bad_window(struct evaluate *evaluate);

#endif
