/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/spec_parts.h"

#define MAX_REGIONS 1024
#define MAX_METRICS 16 /* repeated ones get a better message */

static int
find(const struct spec_reader *r, int node, const char *key)
{
    return spec_read_find(r, node, key);
}

static bool
is_null(const struct spec_reader *r, int node)
{
    return node < 0 || r->tree.nodes[node].type == SPEC_NODE_NULL;
}

/* The object under a key, -1 when it is absent or something else. */
static int
find_object(struct spec_reader *r, int node, const char *key)
{
    int at = find(r, node, key);

    return at >= 0 && spec_read_is_object(r, at) ? at : -1;
}

/* ---- loss and schedule --------------------------------------------------- */

static bool
read_loss(struct spec_reader *r, int node, struct spec *spec)
{
    int kind = 0, value = -1;
    char section[64];

    if (node < 0 ||
        !spec_read_variant(r, node, &spec_words_loss, NULL, &kind, &value))
        return false;
    spec->loss.kind = (enum spec_loss)kind;
    if (value >= 0 && !spec_read_is_object(r, value))
        return false;
    snprintf(section, sizeof(section), "loss.%s",
             spec_loss_name(spec->loss.kind));
    spec_read_object(r, value, spec_keys_find_object(section), spec);
    return true;
}

static enum spec_object
schedule_object(int kind)
{
    switch ((enum spec_schedule)kind) {
    case SPEC_SCHEDULE_CONSTANT: return SPEC_OBJECT_CONSTANT;
    case SPEC_SCHEDULE_STEP: return SPEC_OBJECT_STEP;
    case SPEC_SCHEDULE_COSINE:
    case SPEC_SCHEDULE_LINEAR: return SPEC_OBJECT_DECAY;
    }
    return SPEC_OBJECT_EMPTY;
}

static void
read_schedule(struct spec_reader *r, int node, struct spec *spec)
{
    int kind = SPEC_SCHEDULE_CONSTANT, value = -1;
    int total;

    if (node >= 0 &&
        !spec_read_variant(r, node, &spec_words_schedule, NULL, &kind, &value))
        return;
    spec->schedule.kind = (enum spec_schedule)kind;
    if (value >= 0 && !spec_read_is_object(r, value))
        return;
    spec_read_object(r, value, schedule_object(kind), spec);
    if (kind == SPEC_SCHEDULE_STEP && value < 0)
        spec_fault_add(r, r->tree.nodes[node].start, node, "step_size",
                       "missing; must be an integer, 1 or more: write "
                       "{\"step\": {\"step_size\": ...}}");
    total = find(r, value, "total_updates");
    if (spec->schedule.total_updates > 0 &&
        spec->schedule.total_updates <= spec->schedule.warmup_updates)
        spec_fault_at(r, total,
                      "must be above warmup_updates, or 0 for the whole "
                      "run");
}

/* ---- mixed precision ----------------------------------------------------- */

/* The scale must start within its bounds, and the bounds in order. */
static void
check_scaler(struct spec_reader *r, int node, const struct spec_scaler *s)
{
    int init = find(r, node, "init_scale");
    int low = find(r, node, "min_scale");
    int high = find(r, node, "max_scale");

    if (s->max_scale > 0 && s->min_scale > s->max_scale)
        spec_fault_at(r, low >= 0 ? low : high,
                      "min_scale %.9g is above max_scale %.9g", s->min_scale,
                      s->max_scale);
    else if (s->init_scale < s->min_scale)
        spec_fault_at(r, init >= 0 ? init : low,
                      "init_scale %.9g is below min_scale %.9g", s->init_scale,
                      s->min_scale);
    else if (s->max_scale > 0 && s->init_scale > s->max_scale)
        spec_fault_at(r, init >= 0 ? init : high,
                      "init_scale %.9g is above max_scale %.9g", s->init_scale,
                      s->max_scale);
}

static void
read_scaler(struct spec_reader *r, int node, struct spec *spec)
{
    bool object = node >= 0 && r->tree.nodes[node].type == SPEC_NODE_OBJECT;

    spec->amp.scaler.enabled = spec->amp.dtype == DTYPE_F16;
    spec->amp.scaler.dynamic = true;
    spec_read_object(r, object ? node : -1, SPEC_OBJECT_SCALER, spec);
    if (object)
        check_scaler(r, node, &spec->amp.scaler);
    else if (node >= 0 && r->tree.nodes[node].type == SPEC_NODE_TRUE)
        spec->amp.scaler.enabled = true;
    else if (node >= 0 && r->tree.nodes[node].type == SPEC_NODE_FALSE)
        spec->amp.scaler.enabled = false;
    else if (node >= 0)
        spec_fault_at(r, node, "must be true, false or an object");
}

/* A list of strings; *n of them in *out. */
static void
read_strings(struct spec_reader *r, int node, const char *what,
             const char ***out, int *n)
{
    if (node < 0 || !spec_read_is_array(r, node, MAX_REGIONS))
        return;
    *out = pool_alloc(r->pool, (size_t)r->tree.nodes[node].n, sizeof(**out));
    if (*out == NULL)
        return;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        const struct spec_node *at = &r->tree.nodes[child];
        const char *s = "";

        if (at->type != SPEC_NODE_STRING)
            spec_fault_at(r, child, "must be %s, a string", what);
        else
            s = spec_locate_decode(&r->tree, at->start, at->end, r->pool);
        (*out)[(*n)++] = s;
    }
}

static void
read_amp(struct spec_reader *r, int node, struct spec *spec)
{
    spec_read_object(r, node, SPEC_OBJECT_AMP, spec);
    read_scaler(r, find(r, node, "scaler"), spec);
    read_strings(r, find(r, node, "fp32_regions"), "a layer's path",
                 &spec->amp.fp32_regions, &spec->amp.n_fp32_regions);
}

/* ---- training ------------------------------------------------------------ */

static void
read_train(struct spec_reader *r, int node, struct spec *spec)
{
    int ema = find(r, node, "ema");

    spec_read_object(r, node, SPEC_OBJECT_TRAIN, spec);
    if (!is_null(r, ema) && spec_read_is_object(r, ema))
        spec_read_object(r, ema, SPEC_OBJECT_EMA, spec);
    read_strings(r, find(r, node, "recompute"), "a pattern of containers",
                 &spec->train.recompute, &spec->train.n_recompute);
}

/* A path, null, or an object that says more. */
static void
read_weights(struct spec_reader *r, int node, struct spec *spec)
{
    if (is_null(r, node))
        return;
    if (r->tree.nodes[node].type == SPEC_NODE_OBJECT)
        spec_read_object(r, node, SPEC_OBJECT_WEIGHTS, spec);
    else
        spec_read_path(r, node, &spec->initial_weights);
}

/* ---- evaluation and checkpoints ------------------------------------------ */

static void
read_evaluate(struct spec_reader *r, int node, struct spec *spec, bool loss_ok)
{
    int list = find(r, node, "metrics");

    spec_read_object(r, node, SPEC_OBJECT_EVALUATE, spec);
    if (list < 0) {
        spec->evaluate.metric[SPEC_METRIC_LOSS] = true;
        spec->evaluate.metric[SPEC_METRIC_ACCURACY] =
            loss_ok && spec_check_has_classes(spec->loss.kind) &&
            spec->data.validation.present;
        return;
    }
    if (!spec_read_is_array(r, list, MAX_METRICS))
        return;
    for (int child = r->tree.nodes[list].first; child >= 0;
         child = r->tree.nodes[child].next) {
        int metric;

        if (!spec_read_word(r, child, &spec_words_metric, &metric))
            continue;
        if (spec->evaluate.metric[metric])
            spec_fault_at(r, child, "stands here twice");
        spec->evaluate.metric[metric] = true;
    }
}

static void
read_checkpoint(struct spec_reader *r, int node, struct spec *spec)
{
    int best = find(r, node, "best");
    int metric = 0;

    spec_read_object(r, node, SPEC_OBJECT_CHECKPOINT, spec);
    if (is_null(r, best) ||
        !spec_read_word(r, best, &spec_words_metric, &metric))
        return;
    if (metric == SPEC_METRIC_CONFUSION) {
        spec_fault_at(r, best, "confusion is a table and cannot choose");
        return;
    }
    spec->checkpoint.has_best = true;
    spec->checkpoint.best = (enum spec_metric)metric;
}

int
spec_sections_read(struct spec_reader *r, struct spec *spec)
{
    struct spec_sound sound = {false, false, false};
    int model, optimizer;

    spec_read_object(r, 0, SPEC_OBJECT_ROOT, spec);
    model = find(r, 0, "model");
    optimizer = find(r, 0, "optimizer");
    read_weights(r, find(r, 0, "initial_weights"), spec);
    spec_data_read(r, find_object(r, 0, "data"), spec);
    sound.model = model >= 0 && spec_layers_read(r, model, spec);
    sound.loss = read_loss(r, find(r, 0, "loss"), spec);
    sound.optimizer = optimizer >= 0 && spec_optimizer_read(r, optimizer, spec);
    read_schedule(r, find(r, 0, "schedule"), spec);
    read_amp(r, find_object(r, 0, "amp"), spec);
    read_train(r, find_object(r, 0, "train"), spec);
    read_evaluate(r, find_object(r, 0, "evaluate"), spec, sound.loss);
    read_checkpoint(r, find_object(r, 0, "checkpoint"), spec);
    spec_rules_read(r, find(r, 0, "guard"), spec);
    spec_read_object(r, find_object(r, 0, "diagnose"), SPEC_OBJECT_DIAGNOSE,
                     spec);
    if (pool_failed(r->pool))
        return ERR_NOMEM;
    return spec_check_all(r, spec, &sound);
}
