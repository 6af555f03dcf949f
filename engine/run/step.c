/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/step.h"

#include <assert.h>
#include <math.h>
#include <string.h>

float
step_inverse_count(int64_t n)
{
    return n > 0 ? (float)(1.0 / (double)n) : 0.0f;
}

float
step_clip_coefficient(double max_norm, double norm)
{
    const double c = max_norm / (norm + 1e-6);

    return c < 1.0 ? (float)c : 1.0f;
}

static void
copy_buffers(float *to, const float *from, int64_t n_elems)
{
    memcpy(to, from, (size_t)n_elems * sizeof(*to));
}

/* Sums in float32, in order: the same bits on every way to get here. */
static float
run_window(struct step *step, const struct prefetch_window *window)
{
    struct state *s = step->state;
    const float inv_count = step_inverse_count(window->n_count);
    const float scale = s->scaler.scale;
    float loss = 0;

    copy_buffers(s->buffers_pending, s->buffers, s->buffer_elems);
    for (int64_t b = 0; b < window->at.n_batches; b++) {
        const struct prefetch_batch *batch = &window->batch[b];
        const struct kernel_step numbers = {
            .seed = s->seed,
            .iteration = (uint64_t)s->count.iteration + 1,
            .micro_batch = (uint32_t)b,
        };
        struct exec *exec = variants_use(step->variants, BUILD_TRAIN, batch->n);
        exec_set_input(exec, GRAPH_INPUT_X, batch->input);
        exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
        exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &inv_count);
        exec_set_input(exec, GRAPH_INPUT_SCALE, &scale);
        exec_run(exec, &numbers);
        const struct graph *g = program_graph(exec_program(exec));
        const float *micro = exec_value(exec, graph_roles(g)->loss);
        loss += *micro;
    }
    return loss;
}

/* Each optimizer's gradients once. */
static int
unscale(struct step *step, struct step_result *result, struct err *err)
{
    struct state *s = step->state;
    double all = 0, finite = 0;
    int rc = 0;

    for (int i = 0; i < optimizer_n(step->optimizer) && rc == 0; i++) {
        struct kernel_unscale one;
        optimizer_unscale(step->optimizer, s, i, scaler_inverse(&s->scaler),
                          &one);
        all += one.sum_squares;
        if (!one.found_inf)
            finite += one.sum_squares;
        result->found_inf |= one.found_inf;
        rc = scaler_unscaled(&s->scaler, i, one.found_inf, err);
    }
    result->grad_norm = sqrt(all);
    result->clip_norm = sqrt(finite);
    return rc;
}

int
step_compute(struct step *step, const struct prefetch_window *window,
             struct step_result *result, struct err *err)
{
    struct state *s = step->state;

    memset(result, 0, sizeof(*result));
    result->scale = (double)s->scaler.scale;
    result->lr = optimizer_lr(step->optimizer, s);
    result->loss = (double)run_window(step, window);
    return unscale(step, result, err);
}

static void
apply_update(struct step *step, int i, double norm)
{
    struct state *s = step->state;
    float clip = 1.0f;

    if (step->clip_grad_norm > 0)
        clip = step_clip_coefficient(step->clip_grad_norm, norm);
    optimizer_step(step->optimizer, s, i, clip);
    s->optim_steps[i]++;
    if (s->ema != NULL)
        optimizer_average(step->optimizer, s, i, step->ema_decay);
}

/* Steps those that may, and notes those that are held back. */
static int
apply_updates(struct step *step, struct step_result *result, struct err *err)
{
    struct state *s = step->state;
    const int n = optimizer_n(step->optimizer);

    for (int i = 0; i < n; i++) {
        bool apply = false;
        const int rc = scaler_step(&s->scaler, i, &apply, err);
        if (rc != 0)
            return rc;
        if (apply)
            apply_update(step, i, result->clip_norm);
        result->held[i] = !apply;
        result->n_held += !apply;
    }
    result->skipped = result->n_held == n;
    return 0;
}

/* A product of an infinite inverse and the zeros between tensors is NaN; it
 * must not stay there. */
static void
clear_gaps(struct state *s)
{
    for (int i = 0; i < s->n_params; i++) {
        const struct state_tensor *t = &s->param[i];
        const int64_t end = t->offset + t->n_elems;
        const int64_t next = i + 1 < s->n_params ? t[1].offset : s->param_elems;
        memset(s->grads + end, 0, (size_t)(next - end) * sizeof(float));
    }
}

int
step_commit(struct step *step, const struct prefetch_window *window,
            struct step_result *result, struct err *err)
{
    struct state *s = step->state;
    int rc = apply_updates(step, result, err);

    if (rc != 0)
        return rc;
    if (result->skipped) {
        s->count.skips++;
    } else {
        s->weights_version++;
        s->count.updates++;
    }
    if (result->n_held > 0) {
        clear_gaps(s);
    } else {
        copy_buffers(s->buffers, s->buffers_pending, s->buffer_elems);
        s->batches_tracked += window->at.n_batches;
    }
    s->count.iteration++;
    s->count.data_position++;
    assert(s->count.iteration == s->count.updates + s->count.skips);
    rc = scaler_update(&s->scaler, &result->change, err);
    result->scale_after = (double)s->scaler.scale;
    result->growth_tracker = s->scaler.growth_tracker;
    return rc;
}
