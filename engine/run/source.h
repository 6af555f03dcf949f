/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source: the data of a job, opened and measured.
 *
 * Opens both splits of a spec with what its loss asks of the targets, and says
 * what follows from them: shapes for the graph, the order of the run, its
 * length, the batch sizes that will occur, the programs. Used once by whoever
 * compiles or explains a job.
 */
#ifndef ENGINE_RUN_SOURCE_H
#define ENGINE_RUN_SOURCE_H

#include "engine/data/dataset.h"
#include "engine/data/order.h"
#include "engine/run/variants.h"

struct source {
    struct dataset *train;      /* owned */
    struct dataset *validation; /* owned, NULL when there is none */
    struct build_data data;
    struct order order;
    int64_t windows_per_epoch;
    int64_t total_iterations; /* epochs, capped by max_iterations */
    /* Batch sizes; 0 where there is none. */
    int64_t train_full, train_last, eval_full, eval_last;
};

int source_open(const struct spec *spec, struct source *source,
                struct err *err);
void source_close(struct source *source);

/* All programs of the job, that of a full training batch first. */
int source_compile(const struct source *source,
                   const struct variants_options *options,
                   struct variants **out, struct err *err);

/* Labels of both splits against the classes that the model tells apart, and
 * tokens against the rows of the embeddings that they go into. */
int source_check_model(const struct source *source, const struct graph *graph,
                       struct err *err);

#endif
