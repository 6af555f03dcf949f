/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner: a graph with weights, a batch and memory, ready to run.
 *
 * Reference kernels on one thread; weights as PyTorch would start them, input
 * and targets from a seed. For tests that look at losses and gradients.
 * Header only; fails the running CMocka test when something does not work.
 */
#ifndef TESTS_SUPPORT_RUNNER_H
#define TESTS_SUPPORT_RUNNER_H

#include "tests/support/model.h"

#include "engine/run/exec.h"
#include "engine/run/state.h"

struct runner {
    struct program *program;
    struct state *state;
    struct exec *exec;
    void *block;
    float *x;
    void *target;
    float inv_count, scale;
    struct kernel_step step;
};

static uint64_t
runner_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* [-1, 1) */
static MODEL_UNUSED float
runner_uniform(uint64_t *s)
{
    return (float)(runner_random(s) >> 40) * 0x1p-23f - 1.0f;
}

static void *
runner_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);

    assert_non_null(p);
    memset(p, 0xa5, (bytes + 64) / 64 * 64); /* NaN-like: nobody relies on 0 */
    return p;
}

/* Class ids below n, or token ids; else numbers in [-1, 1). */
static void
runner_fill_one(const struct tensor_desc *t, void *data, int64_t n,
                uint64_t *seed)
{
    for (int64_t i = 0; i < tensor_n_elems(t); i++)
        if (t->dtype == DTYPE_I32)
            ((int32_t *)data)[i] = (int32_t)(runner_random(seed) % (uint64_t)n);
        else
            ((float *)data)[i] = runner_uniform(seed);
}

static void
runner_fill(struct runner *r, const struct graph *g, uint64_t seed)
{
    const struct tensor_desc *x =
        &graph_value_at(g, graph_input_value(g, GRAPH_INPUT_X))->desc;
    const struct tensor_desc *t =
        &graph_value_at(g, graph_input_value(g, GRAPH_INPUT_TARGET))->desc;
    const struct tensor_desc *pred =
        &graph_value_at(g, graph_roles(g)->output)->desc;

    r->x = runner_alloc(tensor_n_bytes(x));
    r->target = runner_alloc(tensor_n_bytes(t));
    runner_fill_one(x, r->x, build_token_limit(g), &seed);
    runner_fill_one(t, r->target,
                    pred->dim[pred->layout == TENSOR_NHWC ? 1 : pred->rank - 1],
                    &seed);
    r->inv_count = 1.0f / (float)tensor_n_elems(t);
    r->scale = 1.0f;
}

/* Takes the graph, which has a backward part. The runner may not move. */
static MODEL_UNUSED void
runner_init_take(struct runner *r, struct graph *g, uint64_t seed)
{
    struct err err;

    *r = (struct runner){.step = {.seed = 1, .iteration = 1}};
    if (state_create(g, 0, &r->state, &err) != 0)
        fail_msg("%s", err.msg);
    r->state->seed = seed;
    state_init_weights(r->state, g);
    memcpy(r->state->buffers_pending, r->state->buffers,
           (size_t)r->state->buffer_elems * sizeof(float));
    runner_fill(r, g, seed);
    r->program = model_program(g, false);
    r->block = runner_alloc(program_block_bytes(r->program));
    if (exec_create(r->program, r->state, r->block, true, &r->exec, &err) != 0)
        fail_msg("%s", err.msg);
    exec_set_input(r->exec, GRAPH_INPUT_X, r->x);
    exec_set_input(r->exec, GRAPH_INPUT_TARGET, r->target);
    exec_set_input(r->exec, GRAPH_INPUT_INV_COUNT, &r->inv_count);
    exec_set_input(r->exec, GRAPH_INPUT_SCALE, &r->scale);
}

/* One micro-batch; the loss. */
static MODEL_UNUSED double
runner_run(struct runner *r)
{
    const int loss = graph_roles(program_graph(r->program))->loss;

    exec_run(r->exec, &r->step);
    return (double)*(const float *)exec_value(r->exec, loss);
}

static MODEL_UNUSED float *
runner_grad(struct runner *r, int param)
{
    return r->state->grads + r->state->param[param].offset;
}

static MODEL_UNUSED void
runner_fini(struct runner *r)
{
    exec_destroy(&r->exec);
    program_destroy(&r->program);
    state_destroy(&r->state);
    free(r->block);
    free(r->x);
    free(r->target);
}

#endif
