/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/replay.h"

#include "engine/pass/memplan.h"
#include "engine/run/step.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Full batch and last batch. */
#define MAX_PROGRAMS 2

struct replay_program {
    int64_t batch_size;
    struct program *program; /* owned */
    void *block;             /* owned */
    struct exec *exec;       /* owned; bound to the shadow */
};

struct replay {
    struct replay_options o;
    int n_programs;
    struct replay_program program[MAX_PROGRAMS];
    /* The training state, but with these gradients and statistics. */
    struct state shadow;
    float *grads, *buffers; /* owned; NULL before the first run */
};

/* What a probe needs. */
struct search {
    const struct replay *replay;
    const struct prefetch_batch *batch;
    int64_t micro_batch;
    struct replay_location *found;
};

int
replay_create(const struct replay_options *options, struct replay **out,
              struct err *err)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    (*out)->o = *options;
    return 0;
}

static void
free_program(struct replay_program *p)
{
    exec_destroy(&p->exec);
    program_destroy(&p->program);
    free(p->block);
    memset(p, 0, sizeof(*p));
}

void
replay_destroy(struct replay **replay)
{
    struct replay *r = *replay;

    *replay = NULL;
    if (r == NULL)
        return;
    for (int i = 0; i < r->n_programs; i++)
        free_program(&r->program[i]);
    free(r->grads);
    free(r->buffers);
    free(r);
}

static void
copy_text(char to[EVENT_NAME_MAX], const char *from)
{
    snprintf(to, EVENT_NAME_MAX, "%s", from);
}

/* The element at position `at`, known to be non-finite. */
static enum event_nonfinite
classify(const void *x, enum dtype dtype, int64_t at)
{
    uint32_t bits;

    if (dtype_is_half(dtype)) {
        const uint16_t h = ((const uint16_t *)x)[at];
        const uint16_t fraction = dtype == DTYPE_F16 ? 0x3ff : 0x7f;
        if ((h & fraction) != 0)
            return EVENT_NAN;
        return (h & 0x8000) != 0 ? EVENT_NEG_INF : EVENT_POS_INF;
    }
    memcpy(&bits, (const float *)x + at, sizeof(bits));
    if ((bits & 0x7fffff) != 0)
        return EVENT_NAN;
    return bits >> 31 != 0 ? EVENT_NEG_INF : EVENT_POS_INF;
}

/* Looks through one tensor; fills all of `found` but pass, layer and op. */
static bool
look_at(const struct replay *r, const struct tensor_desc *desc, const void *x,
        const char *name, struct replay_location *found)
{
    if (x == NULL || !dtype_is_float(desc->dtype))
        return false;
    const int64_t at = r->o.flat.find_nonfinite(
        x, desc->dtype, tensor_n_elems(desc), r->o.threads);
    if (at < 0)
        return false;
    found->located = true;
    found->op = "";
    found->layer[0] = '\0';
    copy_text(found->tensor, name);
    found->dtype = desc->dtype;
    found->rank = desc->rank;
    tensor_unravel(desc, at, found->index);
    found->what = classify(x, desc->dtype, at);
    found->micro_batch = 0;
    found->sample = -1;
    return true;
}

static void
name_sample(const struct search *s, int sample_axis)
{
    s->found->micro_batch = s->micro_batch;
    if (sample_axis < 0 || sample_axis >= s->found->rank)
        return;
    const int64_t row = s->found->index[sample_axis];
    if (row < s->batch->n)
        s->found->sample = s->batch->ids[row];
}

static enum event_pass
pass_of(enum graph_phase phase)
{
    switch (phase) {
    case GRAPH_FORWARD:
    case GRAPH_METRIC: return EVENT_PASS_FORWARD;
    case GRAPH_LOSS: return EVENT_PASS_LOSS;
    case GRAPH_BACKWARD: return EVENT_PASS_BACKWARD;
    }
    assert(!"phase of a node");
    return EVENT_PASS_FORWARD;
}

/* All before it was finite, so a non-finite output makes this the producer. */
static bool
probe(void *ctx, const struct exec *exec, int i)
{
    const struct search *s = ctx;
    const struct program *p = exec_program(exec);
    const struct graph *g = program_graph(p);
    const struct graph_node *node =
        graph_node_at(g, program_instr_at(p, i)->node);

    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        const struct graph_value *v = graph_value_at(g, node->out[k]);
        /* A forward cast is named by what it casts: "x" as float16. */
        const bool casts = node->op == OP_CAST && node->phase != GRAPH_BACKWARD;
        const int named = casts ? node->in[0] : node->out[k];
        if (!look_at(s->replay, &v->desc, exec_value(exec, node->out[k]),
                     graph_value_at(g, named)->name, s->found))
            continue;
        s->found->pass = pass_of(node->phase);
        s->found->op = op_info(node->op)->name;
        copy_text(s->found->layer, node->layer);
        name_sample(s, v->sample_axis);
        return false;
    }
    return true;
}

static bool
check_input(const struct search *s, const struct graph *g,
            enum graph_input which, const void *x)
{
    const int id = graph_input_value(g, which);

    if (id < 0)
        return false;
    const struct graph_value *v = graph_value_at(g, id);
    if (!look_at(s->replay, &v->desc, x, v->name, s->found))
        return false;
    s->found->pass = EVENT_PASS_INPUT;
    name_sample(s, v->sample_axis);
    return true;
}

static int
prepare_blocks(struct replay *r, const struct state *state, struct err *err)
{
    const size_t align = MEMPLAN_ALIGN;

    if (r->grads == NULL)
        r->grads = aligned_alloc(align, ((size_t)state->param_elems + 16) *
                                            sizeof(float));
    if (r->buffers == NULL)
        r->buffers = aligned_alloc(align, ((size_t)state->buffer_elems + 16) *
                                              sizeof(float));
    if (r->grads == NULL || r->buffers == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory for gradients");
    memset(r->grads, 0, (size_t)state->param_elems * sizeof(float));
    memcpy(r->buffers, state->buffers,
           (size_t)state->buffer_elems * sizeof(float));
    r->shadow = *state;
    r->shadow.grads = r->grads;
    r->shadow.buffers_pending = r->buffers;
    memset(r->shadow.moment, 0, sizeof(r->shadow.moment));
    r->shadow.ema = NULL;
    return 0;
}

static int
make_program(struct replay *r, int64_t batch_size, struct replay_program *p,
             struct err *err)
{
    const struct variants_options vo = {
        .spec = r->o.spec,
        .data = &r->o.data,
        .backend = r->o.backend,
        .threads = r->o.threads,
    };
    int rc =
        variants_compile(&vo, BUILD_TRAIN, batch_size, true, &p->program, err);

    if (rc != 0)
        return rc;
    const size_t n_bytes = program_block_bytes(p->program);
    p->batch_size = batch_size;
    p->block = aligned_alloc(MEMPLAN_ALIGN,
                             (n_bytes / MEMPLAN_ALIGN + 1) * MEMPLAN_ALIGN);
    if (p->block == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory for %zu bytes",
                       n_bytes);
    return exec_create(p->program, &r->shadow, p->block, true, &p->exec, err);
}

/* The program of that batch size, made now if it is not there. The shadow's
 * blocks never move, so bindings stay good. */
static int
find_program(struct replay *r, int64_t batch_size, struct exec **out,
             struct err *err)
{
    for (int i = 0; i < r->n_programs; i++)
        if (r->program[i].batch_size == batch_size) {
            *out = r->program[i].exec;
            return 0;
        }
    assert(r->n_programs < MAX_PROGRAMS);
    struct replay_program *p = &r->program[r->n_programs];
    const int rc = make_program(r, batch_size, p, err);
    if (rc != 0) {
        free_program(p);
        return rc;
    }
    r->n_programs++;
    *out = p->exec;
    return 0;
}

static void
search_params(const struct replay *r, const struct state *state,
              const float *block, enum event_pass pass, const char *suffix,
              struct replay_location *found)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        char name[EVENT_NAME_MAX];
        snprintf(name, sizeof(name), "%s%s", t->name, suffix);
        if (!look_at(r, &t->desc, block + t->offset, name, found))
            continue;
        const char *dot = strrchr(t->name, '.');
        found->pass = pass;
        if (pass == EVENT_PASS_OPTIMIZER)
            found->op = spec_optimizer_name(r->o.spec->optim[t->optim].kind);
        if (dot != NULL)
            snprintf(found->layer, sizeof(found->layer), "%.*s",
                     (int)(dot - t->name), t->name);
        return;
    }
}

void
replay_check_weights(const struct replay *replay, const struct state *state,
                     struct replay_location *location)
{
    memset(location, 0, sizeof(*location));
    location->op = "";
    location->sample = -1;
    if (replay->o.flat.find_nonfinite(state->weights, DTYPE_F32,
                                      state->param_elems,
                                      replay->o.threads) < 0)
        return;
    search_params(replay, state, state->weights, EVENT_PASS_OPTIMIZER, "",
                  location);
}

static int
search_batch(struct replay *r, const struct prefetch_window *window, int64_t b,
             struct replay_location *location, struct err *err)
{
    const struct prefetch_batch *batch = &window->batch[b];
    const float inv_count = step_inverse_count(window->n_count);
    const struct kernel_step numbers = {
        .seed = r->shadow.seed,
        .iteration = (uint64_t)r->shadow.count.iteration + 1,
        .micro_batch = (uint32_t)b,
    };
    struct search search = {
        .replay = r, .batch = batch, .micro_batch = b, .found = location};
    struct exec *exec = NULL;
    const int rc = find_program(r, batch->n, &exec, err);

    if (rc != 0)
        return rc;
    const struct graph *g = program_graph(exec_program(exec));
    if (check_input(&search, g, GRAPH_INPUT_X, batch->input) ||
        check_input(&search, g, GRAPH_INPUT_TARGET, batch->target))
        return 0;
    exec_set_input(exec, GRAPH_INPUT_X, batch->input);
    exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &inv_count);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &r->shadow.scaler.scale);
    exec_run_probed(exec, &numbers, probe, &search);
    return 0;
}

static void
search_unscaled(struct replay *r, struct replay_location *location)
{
    struct kernel_unscale result;

    for (int i = 0; i < r->shadow.n_params; i++) {
        const struct state_tensor *t = &r->shadow.param[i];
        r->o.flat.unscale(r->grads + t->offset, t->n_elems,
                          scaler_inverse(&r->shadow.scaler), r->o.threads,
                          &result);
    }
    search_params(r, &r->shadow, r->grads, EVENT_PASS_UNSCALE, ".grad",
                  location);
}

int
replay_run(struct replay *replay, const struct state *state,
           const struct prefetch_window *window,
           struct replay_location *location, struct err *err)
{
    int rc = prepare_blocks(replay, state, err);

    if (rc != 0)
        return rc;
    replay_check_weights(replay, state, location);
    for (int64_t b = 0; b < window->at.n_batches && !location->located; b++) {
        rc = search_batch(replay, window, b, location, err);
        if (rc != 0)
            return rc;
    }
    if (!location->located)
        search_unscaled(replay, location);
    return 0;
}
