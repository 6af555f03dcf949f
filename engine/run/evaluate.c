/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/evaluate.h"

#include "proto/event.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct evaluate {
    struct prefetch *prefetch; /* owned */
    struct variants *variants; /* borrowed */
    const struct state *state; /* borrowed */
    int64_t n_windows;
    bool counts_labels; /* many to a sample */
    int n_classes;      /* 0: no confusion table */
    int64_t *confusion; /* owned */
    int64_t bad;        /* first window with a loss that is not finite, or -1 */
};

void
evaluate_batch_sizes(int64_t n_samples, int64_t batch_size, int64_t *full,
                     int64_t *last)
{
    *full = n_samples >= batch_size ? batch_size : 0;
    *last = n_samples % batch_size;
}

/* As large as the evaluation programs' own tables. */
static int
make_table(struct evaluate *e, struct err *err)
{
    int64_t n = 0;

    for (int i = 0; i < variants_n(e->variants); i++) {
        const struct graph *g =
            program_graph(variants_program_at(e->variants, i));
        if (graph_roles(g)->confusion >= 0)
            n = graph_value_at(g, graph_roles(g)->confusion)->desc.dim[0];
    }
    if (n == 0)
        return 0;
    assert(n <= EVENT_MAX_CLASSES); /* build_graph() refuses more */
    e->n_classes = (int)n;
    e->confusion = calloc((size_t)(n * n), sizeof(*e->confusion));
    return e->confusion != NULL
               ? 0
               : err_set(err, ERR_NOMEM, "evaluation: no memory");
}

int
evaluate_create(const struct dataset *dataset, int64_t batch_size,
                bool threaded, struct variants *variants,
                const struct state *state, struct evaluate **out,
                struct err *err)
{
    const struct order order = {
        .n_samples = dataset_n_samples(dataset),
        .batch_size = batch_size,
        .accumulate = 1,
        .id_step = dataset_id_step(dataset),
    };
    struct evaluate *e = calloc(1, sizeof(*e));
    struct build_data data;

    *out = NULL;
    if (e == NULL)
        return err_set(err, ERR_NOMEM, "evaluation: no memory");
    e->variants = variants;
    e->state = state;
    e->n_windows = order_windows_per_epoch(&order);
    dataset_describe(dataset, &data);
    e->counts_labels = data.target_is_class && data.target_elems > 1;
    int rc = make_table(e, err);
    if (rc == 0)
        rc = prefetch_create(dataset, &order, threaded, &e->prefetch, err);
    if (rc != 0) {
        evaluate_destroy(&e);
        return rc;
    }
    *out = e;
    return 0;
}

void
evaluate_destroy(struct evaluate **evaluate)
{
    struct evaluate *e = *evaluate;

    *evaluate = NULL;
    if (e == NULL)
        return;
    prefetch_destroy(&e->prefetch);
    free(e->confusion);
    free(e);
}

struct sums {
    double loss, correct, top_k;
    int64_t n_count;
    bool has_correct, has_top_k;
};

/* Counts of a batch fit a float exactly, those of a set need not. */
static void
add_table(struct evaluate *e, const float *counts)
{
    for (int i = 0; i < e->n_classes * e->n_classes; i++)
        e->confusion[i] += (int64_t)counts[i];
}

/* *sum += the value, if the graph has it. */
static bool
add_count(const struct exec *exec, int value, double *sum)
{
    if (value >= 0) {
        const float *count = exec_value(exec, value);
        *sum += (double)*count;
    }
    return value >= 0;
}

/* false: the loss of the batch is not finite. */
static bool
run_batch(struct evaluate *e, const struct prefetch_window *w,
          struct sums *sums)
{
    /* Sums are divided at the end, by what counts in the whole set. */
    static const float one = 1.0f;
    const struct prefetch_batch *batch = &w->batch[0];
    const struct kernel_step numbers = {
        .seed = e->state->seed,
        .iteration = (uint64_t)e->state->count.iteration,
    };
    struct exec *exec = variants_use(e->variants, BUILD_EVAL, batch->n);
    const struct graph_roles *roles =
        graph_roles(program_graph(exec_program(exec)));
    double loss = 0;

    exec_set_input(exec, GRAPH_INPUT_X, batch->input);
    exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &one);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &one);
    exec_run(exec, &numbers);
    sums->n_count += w->n_count;
    add_count(exec, roles->loss, &loss);
    sums->loss += loss;
    sums->has_correct = add_count(exec, roles->correct, &sums->correct);
    sums->has_top_k = add_count(exec, roles->top_k, &sums->top_k);
    if (roles->confusion >= 0)
        add_table(e, exec_value(exec, roles->confusion));
    return isfinite(loss);
}

void
evaluate_run(struct evaluate *evaluate, bool (*stop)(void *ctx), void *ctx,
             struct evaluate_result *result)
{
    struct sums sums = {0};

    *result = (struct evaluate_result){
        .loss = NAN,
        .perplexity = NAN,
        .accuracy = NAN,
        .top_k = NAN,
        .n_classes = evaluate->n_classes,
        .confusion = evaluate->confusion,
    };
    if (evaluate->n_classes > 0)
        memset(evaluate->confusion, 0,
               (size_t)(evaluate->n_classes * evaluate->n_classes) *
                   sizeof(*evaluate->confusion));
    evaluate->bad = -1;
    for (int64_t i = 0; i < evaluate->n_windows; i++) {
        if (stop(ctx)) {
            result->incomplete = true;
            break;
        }
        const struct prefetch_window *w =
            prefetch_window_at(evaluate->prefetch, i);
        if (!run_batch(evaluate, w, &sums) && evaluate->bad < 0)
            evaluate->bad = i;
        result->n += evaluate->counts_labels ? w->n_count : w->at.n_samples;
    }
    if (sums.n_count == 0)
        return;
    result->loss = sums.loss / (double)sums.n_count;
    result->perplexity = exp(result->loss);
    if (sums.has_correct)
        result->accuracy = sums.correct / (double)sums.n_count;
    if (sums.has_top_k)
        result->top_k = sums.top_k / (double)sums.n_count;
}

const struct prefetch_window *
evaluate_bad_window(struct evaluate *evaluate)
{
    if (evaluate->bad < 0)
        return NULL;
    return prefetch_window_at(evaluate->prefetch, evaluate->bad);
}

double
evaluate_metric(const struct evaluate_result *result, enum spec_metric metric)
{
    switch (metric) {
    case SPEC_METRIC_LOSS: return result->loss;
    case SPEC_METRIC_ACCURACY: return result->accuracy;
    case SPEC_METRIC_TOP_K: return result->top_k;
    case SPEC_METRIC_PERPLEXITY: return result->perplexity;
    case SPEC_METRIC_CONFUSION:
    case SPEC_METRIC_COUNT: break;
    }
    return (double)NAN;
}
