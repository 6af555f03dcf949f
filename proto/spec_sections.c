/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_parts.h"

#define MAX_CHANNELS 65536
#define MAX_REGIONS  1024
#define MAX_METRICS  16 /* repeated ones get a better message */

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

/* ---- data ---------------------------------------------------------------- */

/* A number, or a list of them; *n is 0 when nothing could be read. */
static double *
read_numbers(struct spec_reader *r, int node, const struct spec_range *range,
             double fallback, int *n)
{
    bool list = node >= 0 && r->tree.nodes[node].type == SPEC_NODE_ARRAY;
    int count = list ? r->tree.nodes[node].n : 1;
    double *v;
    int child, i = 0;

    *n = 0;
    if (list && !spec_read_is_array(r, node, MAX_CHANNELS))
        return NULL;
    if (count == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return NULL;
    }
    v = pool_alloc(r->pool, (size_t)count, sizeof(*v));
    if (v == NULL)
        return NULL;
    *n = count;
    v[0] = fallback;
    if (list)
        for (child = r->tree.nodes[node].first; child >= 0;
             child = r->tree.nodes[child].next)
            spec_read_real(r, child, range, &v[i++]);
    else if (node >= 0)
        spec_read_real(r, node, range, &v[0]);
    return v;
}

/* One number for all channels becomes one for each. */
static double *
spread(struct spec_reader *r, double *v, int n, int wanted)
{
    double *all;

    if (n == wanted)
        return v;
    all = pool_alloc(r->pool, (size_t)wanted, sizeof(*all));
    for (int i = 0; all != NULL && i < wanted; i++)
        all[i] = v[0];
    return all;
}

static void
read_normalize(struct spec_reader *r, int node, struct spec *spec)
{
    static const struct spec_range any = {-3.4e38, 3.4e38, false, false,
                                          "a number"};
    static const struct spec_range positive = {0, 3.4e38, true, false,
                                               "a number above 0"};
    int n_mean, n_std, n;

    if (is_null(r, node) || !spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_NORMALIZE, spec);
    spec->data.mean = read_numbers(r, find(r, node, "mean"), &any, 0, &n_mean);
    spec->data.std =
        read_numbers(r, find(r, node, "std"), &positive, 1, &n_std);
    if (n_mean == 0 || n_std == 0)
        return;
    if (n_mean != n_std && n_mean != 1 && n_std != 1) {
        spec_fault_at(r, find(r, node, "std"),
                      "has %d elements where mean has %d", n_std, n_mean);
        return;
    }
    n = n_mean > n_std ? n_mean : n_std;
    spec->data.mean = spread(r, spec->data.mean, n_mean, n);
    spec->data.std = spread(r, spec->data.std, n_std, n);
    spec->data.n_normalize = n;
}

static void
read_source(struct spec_reader *r, int node, struct spec_source *source)
{
    if (is_null(r, node) || !spec_read_is_object(r, node))
        return;
    source->present = true;
    spec_read_object(r, node, SPEC_OBJECT_SOURCE, source);
}

static void
read_data(struct spec_reader *r, int node, struct spec *spec)
{
    int train;

    if (node < 0)
        return;
    spec_read_object(r, node, SPEC_OBJECT_DATA, spec);
    train = find(r, node, "train");
    if (train >= 0 && is_null(r, train))
        spec_read_is_object(r, train);
    read_source(r, train, &spec->data.train);
    read_source(r, find(r, node, "validation"), &spec->data.validation);
    read_normalize(r, find(r, node, "normalize"), spec);
}

/* ---- loss and schedule --------------------------------------------------- */

static bool
read_loss(struct spec_reader *r, int node, struct spec *spec)
{
    static const struct spec_range any = {-9.2e18, 9.2e18, false, false,
                                          "an integer or null"};
    enum spec_object object;
    int kind = 0, value = -1, ignore;

    if (node < 0 ||
        !spec_read_variant(r, node, &spec_words_loss, NULL, &kind, &value))
        return false;
    spec->loss.kind = (enum spec_loss)kind;
    if (value >= 0 && !spec_read_is_object(r, value))
        return false;
    object = kind == SPEC_LOSS_CROSS_ENTROPY ? SPEC_OBJECT_CROSS_ENTROPY
                                             : SPEC_OBJECT_EMPTY;
    spec_read_object(r, value, object, spec);
    ignore = find(r, value, "ignore_index");
    if (kind == SPEC_LOSS_CROSS_ENTROPY && !is_null(r, ignore))
        spec->loss.has_ignore_index =
            spec_read_int(r, ignore, &any, &spec->loss.ignore_index);
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

static void
read_regions(struct spec_reader *r, int node, struct spec *spec)
{
    int n = 0;

    if (node < 0 || !spec_read_is_array(r, node, MAX_REGIONS))
        return;
    spec->amp.fp32_regions = pool_alloc(r->pool, (size_t)r->tree.nodes[node].n,
                                        sizeof(*spec->amp.fp32_regions));
    if (spec->amp.fp32_regions == NULL)
        return;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        const struct spec_node *at = &r->tree.nodes[child];
        const char *path = "";

        if (at->type != SPEC_NODE_STRING)
            spec_fault_at(r, child, "must be a layer's path, a string");
        else
            path = spec_locate_decode(&r->tree, at->start, at->end, r->pool);
        spec->amp.fp32_regions[n++] = path;
    }
    spec->amp.n_fp32_regions = n;
}

static void
read_amp(struct spec_reader *r, int node, struct spec *spec)
{
    spec_read_object(r, node, SPEC_OBJECT_AMP, spec);
    read_scaler(r, find(r, node, "scaler"), spec);
    read_regions(r, find(r, node, "fp32_regions"), spec);
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
            loss_ok && spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY &&
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
    read_data(r, find_object(r, 0, "data"), spec);
    sound.model = model >= 0 && spec_layers_read(r, model, spec);
    sound.loss = read_loss(r, find(r, 0, "loss"), spec);
    sound.optimizer = optimizer >= 0 && spec_optimizer_read(r, optimizer, spec);
    read_schedule(r, find(r, 0, "schedule"), spec);
    read_amp(r, find_object(r, 0, "amp"), spec);
    spec_read_object(r, find_object(r, 0, "train"), SPEC_OBJECT_TRAIN, spec);
    read_evaluate(r, find_object(r, 0, "evaluate"), spec, sound.loss);
    read_checkpoint(r, find_object(r, 0, "checkpoint"), spec);
    if (pool_failed(r->pool))
        return ERR_NOMEM;
    return spec_check_all(r, spec, &sound);
}
