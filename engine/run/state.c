/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/state.h"

#include "kernels/philox.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ALIGN_BYTES 64
#define BLOCK_ALIGN_ELEMS (BLOCK_ALIGN_BYTES / (int64_t)sizeof(float))

static int64_t
round_elems(int64_t n)
{
    return (n + BLOCK_ALIGN_ELEMS - 1) / BLOCK_ALIGN_ELEMS * BLOCK_ALIGN_ELEMS;
}

/* Zeroed and aligned, of what state_n_bytes() counts; not NULL for 0 elements
 * either. */
static float *
alloc_block(int64_t n_elems)
{
    const size_t n_bytes = (size_t)n_elems * sizeof(float);
    float *block = aligned_alloc(BLOCK_ALIGN_BYTES, n_bytes);

    if (block != NULL)
        memset(block, 0, n_bytes);
    return block;
}

static int
fill_tensor(struct state_tensor *t, const char *name,
            const struct tensor_desc *desc, int64_t *end)
{
    t->name = strdup(name);
    if (t->name == NULL)
        return ERR_NOMEM;
    t->desc = *desc;
    t->offset = *end;
    t->n_elems = tensor_n_elems(desc);
    *end += round_elems(t->n_elems);
    return 0;
}

static int
lay_out(struct state *s, const struct graph *g)
{
    s->n_params = graph_n_params(g);
    s->n_buffers = graph_n_buffers(g);
    s->param = calloc((size_t)s->n_params + 1, sizeof(*s->param));
    s->buffer = calloc((size_t)s->n_buffers + 1, sizeof(*s->buffer));
    if (s->param == NULL || s->buffer == NULL)
        return ERR_NOMEM;
    for (int i = 0; i < s->n_params; i++) {
        const struct graph_param *p = graph_param_at(g, i);
        if (fill_tensor(&s->param[i], p->name, &p->desc, &s->param_elems) != 0)
            return ERR_NOMEM;
    }
    for (int i = 0; i < s->n_buffers; i++) {
        const struct graph_buffer *b = graph_buffer_at(g, i);
        if (fill_tensor(&s->buffer[i], b->name, &b->desc, &s->buffer_elems) !=
            0)
            return ERR_NOMEM;
    }
    return 0;
}

static int
alloc_blocks(struct state *s, int n_moments)
{
    s->weights = alloc_block(s->param_elems);
    s->grads = alloc_block(s->param_elems);
    s->buffers = alloc_block(s->buffer_elems);
    s->buffers_pending = alloc_block(s->buffer_elems);
    if (s->weights == NULL || s->grads == NULL || s->buffers == NULL ||
        s->buffers_pending == NULL)
        return ERR_NOMEM;
    for (int i = 0; i < n_moments; i++) {
        s->moment[i] = alloc_block(s->param_elems);
        if (s->moment[i] == NULL)
            return ERR_NOMEM;
    }
    return 0;
}

int
state_create(const struct graph *graph, int n_moments, struct state **out,
             struct err *err)
{
    struct state *s = calloc(1, sizeof(*s));

    assert(n_moments >= 0 && n_moments <= STATE_MAX_MOMENTS);
    *out = NULL;
    if (s == NULL || lay_out(s, graph) != 0 ||
        alloc_blocks(s, n_moments) != 0) {
        err_set(err, ERR_NOMEM, "state: no memory for %lld parameters",
                s == NULL ? 0 : (long long)s->param_elems);
        state_destroy(&s);
        return ERR_NOMEM;
    }
    s->weights_version = 1;
    s->n_optim = 1;
    *out = s;
    return 0;
}

static void
free_tensors(struct state_tensor *t, int n)
{
    for (int i = 0; t != NULL && i < n; i++)
        free((void *)(uintptr_t)t[i].name);
    free(t);
}

void
state_destroy(struct state **state)
{
    struct state *s = *state;

    *state = NULL;
    if (s == NULL)
        return;
    free_tensors(s->param, s->n_params);
    free_tensors(s->buffer, s->n_buffers);
    free(s->weights);
    free(s->grads);
    for (int i = 0; i < STATE_MAX_MOMENTS; i++)
        free(s->moment[i]);
    free(s->ema);
    free(s->buffers);
    free(s->buffers_pending);
    free(s);
}

/* U(-bound, bound) from words 0 .. n-1 of the parameter's stream. */
static void
fill_uniform(float *w, int64_t n, double bound, uint64_t seed, uint32_t stream)
{
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t word[4];
        philox_words(seed, stream, 0, 0, (uint32_t)(i / 4), word);
        for (int64_t j = i; j < n && j < i + 4; j++)
            w[j] = (float)((2.0 * (double)philox_uniform(word[j - i]) - 1.0) *
                           bound);
    }
}

/* N(0, std^2) from the same words, two numbers for two words: Box and Muller,
 * "A note on the generation of random normal deviates", 1958. */
static void
fill_normal(float *w, int64_t n, double std, uint64_t seed, uint32_t stream)
{
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t word[4];
        philox_words(seed, stream, 0, 0, (uint32_t)(i / 4), word);
        for (int64_t j = i; j < n && j < i + 4; j++) {
            const uint32_t *pair = word + (j - i) / 2 * 2;
            const double u = ((double)pair[0] + 1.0) / 4294967296.0;
            const double angle = 2.0 * M_PI * (double)pair[1] / 4294967296.0;
            const double r = std * sqrt(-2.0 * log(u));
            w[j] = (float)(r * ((j - i) % 2 == 0 ? cos(angle) : sin(angle)));
        }
    }
}

static void
fill_tensor_values(float *w, int64_t n, enum graph_init init, double bound,
                   uint64_t seed, uint32_t stream)
{
    switch (init) {
    case GRAPH_INIT_UNIFORM: fill_uniform(w, n, bound, seed, stream); break;
    case GRAPH_INIT_NORMAL: fill_normal(w, n, bound, seed, stream); break;
    case GRAPH_INIT_ZERO: memset(w, 0, (size_t)n * sizeof(*w)); break;
    case GRAPH_INIT_ONE:
        for (int64_t i = 0; i < n; i++)
            w[i] = 1.0f;
        break;
    case GRAPH_INIT_CONSTANT:
        for (int64_t i = 0; i < n; i++)
            w[i] = (float)bound;
        break;
    }
}

/* The row of an embedding that padding reads. */
static void
zero_padding(float *w, const struct graph_param *p)
{
    const int64_t width = tensor_n_elems(&p->desc) / p->desc.dim[0];

    if (p->has_zero_row)
        memset(w + p->zero_row * width, 0, (size_t)width * sizeof(*w));
}

void
state_init_weights(struct state *state, const struct graph *graph)
{
    assert(state->n_params == graph_n_params(graph));
    assert(state->n_buffers == graph_n_buffers(graph));
    for (int i = 0; i < state->n_params; i++) {
        const struct graph_param *p = graph_param_at(graph, i);
        const struct state_tensor *t = &state->param[i];
        fill_tensor_values(state->weights + t->offset, t->n_elems, p->init,
                           p->bound, state->seed,
                           PHILOX_STREAM_WEIGHTS + (uint32_t)i);
        zero_padding(state->weights + t->offset, p);
    }
    for (int i = 0; i < state->n_buffers; i++) {
        const struct state_tensor *t = &state->buffer[i];
        fill_tensor_values(state->buffers + t->offset, t->n_elems,
                           graph_buffer_at(graph, i)->init, 0, 0, 0);
    }
    state->weights_version++;
}

int
state_start_ema(struct state *state, struct err *err)
{
    assert(state->ema == NULL);
    state->ema = alloc_block(state->param_elems);
    if (state->ema == NULL)
        return err_set(err, ERR_NOMEM,
                       "state: no memory for the average of the weights");
    memcpy(state->ema, state->weights,
           (size_t)state->param_elems * sizeof(*state->ema));
    return 0;
}

void
state_swap_ema(struct state *state)
{
    assert(state->ema != NULL);
    /* Values, not pointers: programs are bound to the blocks. */
    for (int64_t i = 0; i < state->param_elems; i++) {
        const float w = state->weights[i];
        state->weights[i] = state->ema[i];
        state->ema[i] = w;
    }
    state->weights_version++;
}

size_t
state_n_bytes(const struct state *state)
{
    int64_t elems = 2 * state->param_elems + 2 * state->buffer_elems;

    for (int i = 0; i < STATE_MAX_MOMENTS; i++)
        if (state->moment[i] != NULL)
            elems += state->param_elems;
    if (state->ema != NULL)
        elems += state->param_elems;
    return (size_t)elems * sizeof(float);
}
