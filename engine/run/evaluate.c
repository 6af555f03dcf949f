/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/evaluate.h"

#include <math.h>
#include <stdlib.h>

struct evaluate {
    struct prefetch *prefetch; /* owned */
    struct variants *variants; /* borrowed */
    const struct state *state; /* borrowed */
    int64_t n_windows;
};

void
evaluate_batch_sizes(int64_t n_samples, int64_t batch_size, int64_t *full,
                     int64_t *last)
{
    *full = n_samples >= batch_size ? batch_size : 0;
    *last = n_samples % batch_size;
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

    *out = NULL;
    if (e == NULL)
        return err_set(err, ERR_NOMEM, "evaluation: no memory");
    e->variants = variants;
    e->state = state;
    e->n_windows = order_windows_per_epoch(&order);
    const int rc =
        prefetch_create(dataset, &order, threaded, &e->prefetch, err);
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
    free(e);
}

struct sums {
    double loss, correct;
    int64_t n_count;
    bool has_correct;
};

static void
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

    exec_set_input(exec, GRAPH_INPUT_X, batch->input);
    exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &one);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &one);
    exec_run(exec, &numbers);
    const float *loss = exec_value(exec, roles->loss);
    sums->loss += (double)*loss;
    sums->n_count += w->n_count;
    sums->has_correct = roles->correct >= 0;
    if (sums->has_correct) {
        const float *correct = exec_value(exec, roles->correct);
        sums->correct += (double)*correct;
    }
}

void
evaluate_run(struct evaluate *evaluate, bool (*stop)(void *ctx), void *ctx,
             struct evaluate_result *result)
{
    struct sums sums = {0};

    *result = (struct evaluate_result){.loss = NAN, .accuracy = NAN};
    for (int64_t i = 0; i < evaluate->n_windows; i++) {
        if (stop(ctx)) {
            result->incomplete = true;
            break;
        }
        const struct prefetch_window *w =
            prefetch_window_at(evaluate->prefetch, i);
        run_batch(evaluate, w, &sums);
        result->n += w->at.n_samples;
    }
    if (sums.n_count == 0)
        return;
    result->loss = sums.loss / (double)sums.n_count;
    if (sums.has_correct)
        result->accuracy = sums.correct / (double)sums.n_count;
}
