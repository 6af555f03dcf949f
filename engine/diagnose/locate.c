/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/locate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
copy_text(char to[EVENT_NAME_MAX], const char *from)
{
    snprintf(to, EVENT_NAME_MAX, "%s", from);
}

static void
clear(struct location *l)
{
    memset(l, 0, sizeof(*l));
    l->op = l->role = "";
    l->sample = -1;
}

/* ---- one tensor -----------------------------------------------------------*/

static bool
is_nonfinite(const void *x, enum dtype dtype, int64_t at)
{
    uint32_t bits;

    if (dtype_is_half(dtype)) {
        const uint16_t exponent = dtype == DTYPE_F16 ? 0x7c00 : 0x7f80;
        return (((const uint16_t *)x)[at] & exponent) == exponent;
    }
    memcpy(&bits, (const float *)x + at, sizeof(bits));
    return (bits & 0x7f800000) == 0x7f800000;
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

/* Looks through one tensor; fills where in it and what. */
static bool
look_at(const struct rerun_options *o, const struct tensor_desc *desc,
        const void *x, const char *name, struct location *found)
{
    if (x == NULL || !dtype_is_float(desc->dtype))
        return false;
    const int64_t at = o->flat.find_nonfinite(x, desc->dtype,
                                              tensor_n_elems(desc), o->threads);
    if (at < 0)
        return false;
    clear(found);
    found->located = true;
    copy_text(found->tensor, name);
    found->dtype = desc->dtype;
    found->rank = desc->rank;
    found->at = at;
    tensor_unravel(desc, at, found->index);
    found->what = classify(x, desc->dtype, at);
    return true;
}

/* Samples lie outermost in every layout. */
static void
name_samples(const struct prefetch_batch *batch, const struct tensor_desc *desc,
             const void *x, struct location *found)
{
    const int64_t row_elems = tensor_n_elems(desc) / batch->n;

    for (int64_t row = 0; row < batch->n; row++) {
        int64_t k = 0;
        while (k < row_elems &&
               !is_nonfinite(x, desc->dtype, row * row_elems + k))
            k++;
        if (k == row_elems)
            continue;
        if (found->n_guilty == 0)
            found->sample = batch->ids[row];
        if (found->n_guilty < EVENT_MAX_SAMPLES)
            found->guilty[found->n_guilty] = batch->ids[row];
        found->n_guilty++;
    }
}

static bool
has_samples(const struct graph_value *v, const struct prefetch_batch *batch)
{
    return v->sample_axis == 0 && v->desc.rank > 0 &&
           v->desc.dim[0] == batch->n;
}

/* ---- instructions ---------------------------------------------------------*/

struct search {
    struct rerun *rerun;
    const struct rerun_case *c;
    struct location *found;
};

static enum event_pass
pass_of(const struct graph_node *node)
{
    switch (node->phase) {
    case GRAPH_FORWARD:
    case GRAPH_METRIC: return EVENT_PASS_FORWARD;
    case GRAPH_LOSS: return EVENT_PASS_LOSS;
    case GRAPH_BACKWARD: return EVENT_PASS_BACKWARD;
    }
    assert(!"phase of a node");
    return EVENT_PASS_FORWARD;
}

/* The layer of the node that made the value called `name`; "" for none. */
static const char *
producer_layer(const struct graph *g, const char *name, size_t len)
{
    for (int i = 0; i < graph_n_values(g); i++) {
        const struct graph_value *v = graph_value_at(g, i);
        if (strncmp(v->name, name, len) == 0 && v->name[len] == '\0' &&
            v->producer >= 0)
            return graph_node_at(g, v->producer)->layer;
    }
    return "";
}

/* A half gradient is half because the value was: turning autocast off where
 * the cast stands would not change that, where the value was made does. */
static void
name_region(const struct graph *g, const struct graph_node *node,
            const char *tensor, struct location *found)
{
    static const char suffix[] = ".grad";
    const char *end = strstr(tensor, suffix);

    copy_text(found->region, node->layer);
    if (node->phase == GRAPH_BACKWARD && node->op == OP_CAST && end != NULL) {
        const char *maker = producer_layer(g, tensor, (size_t)(end - tensor));
        if (maker[0] != '\0')
            copy_text(found->region, maker);
    }
}

/* All before it was finite, so a non-finite output makes this the producer. */
static bool
probe(void *ctx, const struct exec *exec, int instr, int64_t micro_batch)
{
    const struct search *s = ctx;
    const struct program *p = exec_program(exec);
    const struct graph *g = program_graph(p);
    const struct graph_node *node =
        graph_node_at(g, program_instr_at(p, instr)->node);
    const struct prefetch_batch *batch = &s->c->batch[micro_batch];

    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        const struct graph_value *v = graph_value_at(g, node->out[k]);
        const void *x = exec_value(exec, node->out[k]);
        /* A forward cast is named by what it casts: "x" as float16. */
        const bool casts = node->op == OP_CAST && node->phase != GRAPH_BACKWARD;
        const int named = casts ? node->in[0] : node->out[k];
        if (!look_at(rerun_options(s->rerun), &v->desc, x,
                     graph_value_at(g, named)->name, s->found))
            continue;
        s->found->pass = pass_of(node);
        s->found->op = op_info(node->op)->name;
        s->found->micro_batch = s->c->first + micro_batch;
        copy_text(s->found->layer, node->layer);
        name_region(g, node, v->name, s->found);
        if (has_samples(v, batch))
            name_samples(batch, &v->desc, x, s->found);
        return false;
    }
    return true;
}

/* ---- what comes from outside ----------------------------------------------*/

static bool
check_input(const struct search *s, const struct graph *g,
            const struct prefetch_batch *batch, enum graph_input which,
            const void *x)
{
    const int id = graph_input_value(g, which);

    if (id < 0)
        return false;
    const struct graph_value *v = graph_value_at(g, id);
    if (!look_at(rerun_options(s->rerun), &v->desc, x, v->name, s->found))
        return false;
    s->found->pass = EVENT_PASS_INPUT;
    if (has_samples(v, batch))
        name_samples(batch, &v->desc, x, s->found);
    return true;
}

static bool
counts(const struct rerun_options *o, int64_t label)
{
    if (o->data.has_ignore_index)
        return label != o->data.ignore_index;
    return !o->spec->loss.has_ignore_index ||
           label != o->spec->loss.ignore_index;
}

/* Labels were checked before the run; a file may have been changed since. */
static bool
check_labels(const struct search *s, const struct graph *g,
             const struct prefetch_batch *batch)
{
    const struct rerun_options *o = rerun_options(s->rerun);
    const int id = graph_input_value(g, GRAPH_INPUT_TARGET);
    const int64_t n_classes = build_class_limit(g);
    struct location *found = s->found;

    if (id < 0 || !o->data.target_is_class || n_classes <= 0)
        return false;
    const struct tensor_desc *desc = &graph_value_at(g, id)->desc;
    const int32_t *label = batch->target;
    const int64_t n = tensor_n_elems(desc), row = n / batch->n;
    clear(found);
    for (int64_t i = 0; i < n; i++) {
        if ((label[i] >= 0 && label[i] < n_classes) || !counts(o, label[i]))
            continue;
        if (!found->located) {
            found->located = found->is_label = true;
            found->pass = EVENT_PASS_INPUT;
            copy_text(found->tensor, graph_value_at(g, id)->name);
            found->dtype = desc->dtype;
            found->rank = desc->rank;
            found->at = i;
            tensor_unravel(desc, i, found->index);
            found->what = EVENT_NAN; /* what the loss makes of it */
            found->label = label[i];
            found->n_classes = n_classes;
            found->sample = batch->ids[i / row];
        }
        const int64_t sample = batch->ids[i / row];
        if (found->n_guilty > 0 && found->n_guilty <= EVENT_MAX_SAMPLES &&
            found->guilty[found->n_guilty - 1] == sample)
            continue;
        if (found->n_guilty < EVENT_MAX_SAMPLES)
            found->guilty[found->n_guilty] = sample;
        found->n_guilty++;
    }
    return found->located;
}

static int
check_batches(const struct search *s, const struct rerun_policy *policy,
              struct err *err)
{
    for (int64_t i = 0; i < s->c->n_batches; i++) {
        const struct prefetch_batch *batch = &s->c->batch[i];
        const struct graph *g = NULL;
        const int rc = rerun_graph(s->rerun, s->c, policy, batch->n, &g, err);
        if (rc != 0)
            return rc;
        if (check_input(s, g, batch, GRAPH_INPUT_X, batch->input) ||
            check_input(s, g, batch, GRAPH_INPUT_TARGET, batch->target) ||
            check_labels(s, g, batch)) {
            s->found->micro_batch = s->c->first + i;
            return 0;
        }
    }
    return 0;
}

/* ---- parameters -----------------------------------------------------------*/

/* One tensor of the state, or of its gradients, that belongs to *t. */
static bool
look_at_param(const struct rerun_options *o, const struct state_tensor *t,
              const float *block, const char *suffix, struct location *found)
{
    char name[EVENT_NAME_MAX];
    const char *dot = strrchr(t->name, '.');

    snprintf(name, sizeof(name), "%s%s", t->name, suffix);
    if (!look_at(o, &t->desc, block + t->offset, name, found))
        return false;
    if (dot != NULL)
        snprintf(found->layer, sizeof(found->layer), "%.*s",
                 (int)(dot - t->name), t->name);
    copy_text(found->region, found->layer);
    return true;
}

static void
search_grads(const struct rerun_options *o, const struct state *state,
             const float *grads, struct location *found)
{
    for (int i = 0; i < state->n_params; i++)
        if (look_at_param(o, &state->param[i], grads, ".grad", found)) {
            found->pass = EVENT_PASS_UNSCALE;
            return;
        }
}

/* A block like that of the weights. */
static bool
search_block(const struct rerun_options *o, const struct state *state,
             const float *block, const char *suffix, const char *role,
             struct location *found)
{
    if (block == NULL ||
        o->flat.find_nonfinite(block, DTYPE_F32, state->param_elems,
                               o->threads) < 0)
        return false;
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        if (!look_at_param(o, t, block, suffix, found))
            continue;
        found->pass = EVENT_PASS_OPTIMIZER;
        found->op = spec_optimizer_name(o->spec->optim[t->optim].kind);
        found->role = role;
        return true;
    }
    return false;
}

void
locate_weights(const struct rerun_options *o, const struct state *state,
               struct location *out)
{
    clear(out);
    search_block(o, state, state->weights, "", "weight", out);
}

static bool
search_moments(const struct rerun_options *o, const struct state *state,
               struct location *out)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        for (int k = 0; k < t->n_moments; k++) {
            char suffix[64];
            snprintf(suffix, sizeof(suffix), ".%s", t->moment_name[k]);
            if (!look_at_param(o, t, state->moment[k], suffix, out))
                continue;
            out->pass = EVENT_PASS_OPTIMIZER;
            out->op = spec_optimizer_name(o->spec->optim[t->optim].kind);
            out->role = "moment";
            return true;
        }
    }
    return false;
}

void
locate_state(const struct rerun_options *o, const struct state *state,
             struct location *out)
{
    locate_weights(o, state, out);
    if (out->located || search_moments(o, state, out) ||
        search_block(o, state, state->ema, ".ema", "average of a weight", out))
        return;
    for (int i = 0; i < state->n_buffers; i++)
        if (look_at_param(o, &state->buffer[i], state->buffers, "", out)) {
            out->pass = EVENT_PASS_OPTIMIZER;
            out->role = "running statistic";
            return;
        }
}

int
locate_run(struct rerun *rerun, const struct rerun_case *c,
           const struct rerun_policy *policy, struct location *out,
           struct err *err)
{
    const struct rerun_options *o = rerun_options(rerun);
    const struct search s = {.rerun = rerun, .c = c, .found = out};
    struct rerun_result result;

    locate_weights(o, c->state, out);
    if (out->located)
        return 0;
    int rc = check_batches(&s, policy, err);
    if (rc != 0 || out->located)
        return rc;
    rc =
        rerun_run(rerun, c, policy, probe, (void *)(uintptr_t)&s, &result, err);
    if (rc == 0 && !out->located && c->mode == BUILD_TRAIN)
        search_grads(o, c->state, rerun_grads(rerun), out);
    return rc;
}

/* ---- the same place in float32 --------------------------------------------*/

/* A half twin's name without its casts: "ln.out.to_bf16.grad" is
 * "ln.out.grad" where nothing is cast. */
static void
strip_casts(char *name)
{
    static const char *const casts[] = {".to_f16", ".to_bf16", ".to_f32"};

    for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
        const size_t n = strlen(casts[i]);
        char *at;
        while ((at = strstr(name, casts[i])) != NULL)
            memmove(at, at + n, strlen(at + n) + 1);
    }
}

struct reading {
    const char *name;
    int64_t micro_batch, at;
    bool found;
    float value;
};

static bool
read_probe(void *ctx, const struct exec *exec, int instr, int64_t micro_batch)
{
    struct reading *r = ctx;
    const struct program *p = exec_program(exec);
    const struct graph *g = program_graph(p);
    const struct graph_node *node =
        graph_node_at(g, program_instr_at(p, instr)->node);

    if (micro_batch != r->micro_batch)
        return true;
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        const struct graph_value *v = graph_value_at(g, node->out[k]);
        if (v->desc.dtype != DTYPE_F32 || strcmp(v->name, r->name) != 0 ||
            r->at >= tensor_n_elems(&v->desc))
            continue;
        r->value = ((const float *)exec_value(exec, node->out[k]))[r->at];
        r->found = true;
        return false;
    }
    return true;
}

/* Of the batch or of a weight, which no instruction makes. */
static void
read_outside(const struct rerun_case *c, struct reading *r)
{
    const struct state *s = c->state;

    for (int i = 0; i < s->n_params && !r->found; i++)
        if (strcmp(s->param[i].name, r->name) == 0 &&
            r->at < s->param[i].n_elems) {
            r->value = s->weights[s->param[i].offset + r->at];
            r->found = true;
        }
    if (!r->found && strcmp(r->name, "x") == 0) {
        r->value = ((const float *)c->batch[r->micro_batch].input)[r->at];
        r->found = true;
    }
}

int
locate_value(struct rerun *rerun, const struct rerun_case *c,
             const struct location *where, bool *found, float *value,
             struct err *err)
{
    const struct rerun_policy full = {.dtype = DTYPE_F32};
    char name[EVENT_NAME_MAX];
    struct reading r = {
        .name = name,
        .micro_batch = where->micro_batch - c->first,
        .at = where->at,
    };
    struct rerun_result result;
    int rc = 0;

    *found = false;
    if (where->pass == EVENT_PASS_INPUT || where->pass == EVENT_PASS_OPTIMIZER)
        return 0;
    copy_text(name, where->tensor);
    strip_casts(name);
    if (where->pass != EVENT_PASS_BACKWARD && where->pass != EVENT_PASS_UNSCALE)
        read_outside(c, &r);
    if (!r.found)
        rc = rerun_run(rerun, c, &full, read_probe, &r, &result, err);
    *found = rc == 0 && r.found;
    *value = r.value;
    return rc;
}
