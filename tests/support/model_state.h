/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_state: a small state without a graph, for tests of checkpoints.
 *
 * Parameters "0.weight" [3,4], "0.bias" [3], "1.weight" [], buffers of a batch
 * norm "1.running_mean" [3] and "1.running_var" [3]. Filled from a number, so
 * that two states are equal exactly when their numbers are. state_destroy()
 * frees it. Header only; includes state.h.
 */
#ifndef TESTS_SUPPORT_MODEL_STATE_H
#define TESTS_SUPPORT_MODEL_STATE_H

#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

#define MODEL_STATE_UNUSED __attribute__((unused))

static void
model_state_put(struct state_tensor *t, const char *name, int rank,
                const int64_t *dim, int64_t *end)
{
    t->name = strdup(name);
    t->desc = tensor_make(DTYPE_F32, rank, dim);
    t->offset = *end;
    t->n_elems = tensor_n_elems(&t->desc);
    *end += (t->n_elems + 15) / 16 * 16;
}

static float *
model_state_block(int64_t n)
{
    float *block = aligned_alloc(64, (size_t)n * sizeof(float));

    memset(block, 0, (size_t)n * sizeof(float));
    return block;
}

static void
model_state_fill_block(float *block, const struct state_tensor *t, int n,
                       float first)
{
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < t[i].n_elems; k++)
            block[t[i].offset + k] = first + (float)i + 0.01f * (float)k;
}

/* iteration = number; every 50th was a skip. */
static MODEL_STATE_UNUSED void
model_state_fill(struct state *s, int number)
{
    const float v = (float)number;

    model_state_fill_block(s->weights, s->param, s->n_params, v);
    for (int i = 0; i < STATE_MAX_MOMENTS; i++)
        if (s->moment[i] != NULL)
            model_state_fill_block(s->moment[i], s->param, s->n_params,
                                   v + 0.1f * (float)(i + 1));
    if (s->ema != NULL)
        model_state_fill_block(s->ema, s->param, s->n_params, v + 0.4f);
    model_state_fill_block(s->buffers, s->buffer, s->n_buffers, v + 0.3f);
    model_state_fill_block(s->buffers_pending, s->buffer, s->n_buffers,
                           v + 0.3f);
    s->count = (struct state_counters){.iteration = number,
                                       .updates = number - number / 50,
                                       .skips = number / 50,
                                       .data_position = number + 1};
    s->batches_tracked = s->count.updates;
    s->optim_steps[0] = s->count.updates;
    if (s->n_optim > 1)
        s->optim_steps[1] = s->count.updates / 2;
    s->seed = UINT64_MAX - (uint64_t)number;
    s->scaler.scale = 1024.0f + v;
    s->scaler.growth_tracker = number % 7;
}

/* As Adam has them: "m", "v"; a third is "w". */
static void
model_state_set_moments(struct state *s, int n_moments)
{
    static const char *const names[] = {"m", "v", "w"};

    for (int i = 0; i < n_moments; i++)
        s->moment[i] = model_state_block(s->param_elems);
    for (int i = 0; i < s->n_params; i++) {
        s->param[i].n_moments = n_moments;
        memcpy(s->param[i].moment_name, names, sizeof(names));
    }
}

static MODEL_STATE_UNUSED struct state *
model_state_create(int n_moments)
{
    struct state *s = calloc(1, sizeof(*s));

    s->n_params = 3;
    s->n_buffers = 2;
    s->param = calloc(4, sizeof(*s->param));
    s->buffer = calloc(3, sizeof(*s->buffer));
    model_state_put(&s->param[0], "0.weight", 2, (int64_t[]){3, 4},
                    &s->param_elems);
    model_state_put(&s->param[1], "0.bias", 1, (int64_t[]){3}, &s->param_elems);
    model_state_put(&s->param[2], "1.weight", 0, NULL, &s->param_elems);
    model_state_put(&s->buffer[0], "1.running_mean", 1, (int64_t[]){3},
                    &s->buffer_elems);
    model_state_put(&s->buffer[1], "1.running_var", 1, (int64_t[]){3},
                    &s->buffer_elems);
    s->weights = model_state_block(s->param_elems);
    s->grads = model_state_block(s->param_elems);
    s->buffers = model_state_block(s->buffer_elems);
    s->buffers_pending = model_state_block(s->buffer_elems);
    model_state_set_moments(s, n_moments);
    s->scaler = (struct scaler){.enabled = true,
                                .scale = 65536.0f,
                                .growth_factor = 2.0,
                                .backoff_factor = 0.5,
                                .growth_interval = 2000};
    s->weights_version = 1;
    s->n_optim = 1;
    return s;
}

static bool
model_state_blocks_equal(const float *a, const float *b, size_t n_bytes)
{
    return a == NULL ? b == NULL : b != NULL && memcmp(a, b, n_bytes) == 0;
}

/* All that a checkpoint holds, gaps included. */
static MODEL_STATE_UNUSED bool
model_state_equal(const struct state *a, const struct state *b)
{
    const size_t n = (size_t)a->param_elems * sizeof(float);
    const size_t m = (size_t)a->buffer_elems * sizeof(float);

    return memcmp(a->weights, b->weights, n) == 0 &&
           model_state_blocks_equal(a->moment[0], b->moment[0], n) &&
           model_state_blocks_equal(a->moment[1], b->moment[1], n) &&
           model_state_blocks_equal(a->moment[2], b->moment[2], n) &&
           model_state_blocks_equal(a->ema, b->ema, n) &&
           memcmp(a->optim_steps, b->optim_steps, sizeof(a->optim_steps)) ==
               0 &&
           memcmp(a->buffers, b->buffers, m) == 0 &&
           memcmp(a->buffers_pending, b->buffers_pending, m) == 0 &&
           a->batches_tracked == b->batches_tracked &&
           memcmp(&a->count, &b->count, sizeof(a->count)) == 0 &&
           a->seed == b->seed && a->scaler.scale == b->scaler.scale &&
           a->scaler.growth_factor == b->scaler.growth_factor &&
           a->scaler.backoff_factor == b->scaler.backoff_factor &&
           a->scaler.growth_interval == b->scaler.growth_interval &&
           a->scaler.growth_tracker == b->scaler.growth_tracker;
}

#endif
