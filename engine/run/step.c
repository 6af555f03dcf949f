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

int
step_compute(struct step *step, const struct prefetch_window *window,
             struct step_result *result, struct err *err)
{
    struct state *s = step->state;
    struct kernel_unscale unscaled;

    memset(result, 0, sizeof(*result));
    result->scale = (double)s->scaler.scale;
    result->lr = optimizer_lr(step->optimizer, s);
    result->loss = (double)run_window(step, window);
    step->flat.unscale(s->grads, s->param_elems, scaler_inverse(&s->scaler),
                       step->threads, &unscaled);
    result->found_inf = unscaled.found_inf;
    result->grad_norm = sqrt(unscaled.sum_squares);
    return scaler_unscaled(&s->scaler, 0, unscaled.found_inf, err);
}

static void
apply_update(struct step *step, const struct prefetch_window *window,
             double norm)
{
    struct state *s = step->state;
    float clip = 1.0f;

    if (step->clip_grad_norm > 0)
        clip = step_clip_coefficient(step->clip_grad_norm, norm);
    optimizer_step(step->optimizer, s, clip);
    s->weights_version++;
    copy_buffers(s->buffers, s->buffers_pending, s->buffer_elems);
    s->batches_tracked += window->at.n_batches;
    s->count.updates++;
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
    bool apply = false;
    int rc = scaler_step(&s->scaler, 0, &apply, err);

    if (rc != 0)
        return rc;
    if (apply) {
        apply_update(step, window, result->grad_norm);
    } else {
        clear_gaps(s);
        s->count.skips++;
    }
    s->count.iteration++;
    s->count.data_position++;
    assert(s->count.iteration == s->count.updates + s->count.skips);
    rc = scaler_update(&s->scaler, &result->change, err);
    result->skipped = !apply;
    result->scale_after = (double)s->scaler.scale;
    result->growth_tracker = s->scaler.growth_tracker;
    return rc;
}
