/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "proto/spec_layer.h"
#include "proto/spec_parts.h"

/* Two levels of spec_read_find(). */
static int
find2(const struct spec_reader *r, const char *key, const char *key2)
{
    return spec_read_find(r, spec_read_find(r, 0, key), key2);
}

/* ---- metrics ------------------------------------------------------------- */

/* The element of evaluate.metrics that asks for a metric, or -1. */
static int
find_metric(struct spec_reader *r, enum spec_metric metric)
{
    int list = find2(r, "evaluate", "metrics");

    if (list < 0 || r->tree.nodes[list].type != SPEC_NODE_ARRAY)
        return -1;
    for (int at = r->tree.nodes[list].first; at >= 0;
         at = r->tree.nodes[at].next)
        if (r->tree.nodes[at].type == SPEC_NODE_STRING &&
            spec_locate_equals(&r->tree, r->tree.nodes[at].start,
                               r->tree.nodes[at].end, spec_metric_name(metric)))
            return at;
    return -1;
}

static void
check_metrics(struct spec_reader *r, const struct spec *spec,
              const struct spec_sound *sound)
{
    int accuracy = find_metric(r, SPEC_METRIC_ACCURACY);
    int every = find2(r, "evaluate", "every_updates");

    if (accuracy >= 0 && sound->loss &&
        spec->loss.kind != SPEC_LOSS_CROSS_ENTROPY)
        spec_fault_at(r, accuracy,
                      "accuracy needs classes: the loss is %s, not "
                      "cross_entropy",
                      spec_loss_name(spec->loss.kind));
    if (spec->evaluate.every_updates > 0 && !spec->data.validation.present &&
        every >= 0 && find2(r, "data", "validation") < 0)
        spec_fault_at(r, every,
                      "there is no data.validation to evaluate "
                      "on");
}

static void
check_best(struct spec_reader *r, const struct spec *spec,
           const struct spec_sound *sound)
{
    int best = find2(r, "checkpoint", "best");

    if (!spec->checkpoint.has_best || best < 0)
        return;
    if (spec->checkpoint.best == SPEC_METRIC_ACCURACY && sound->loss &&
        spec->loss.kind != SPEC_LOSS_CROSS_ENTROPY)
        spec_fault_at(r, best,
                      "accuracy needs classes: the loss is %s, not "
                      "cross_entropy",
                      spec_loss_name(spec->loss.kind));
    else if (!spec->data.validation.present)
        spec_fault_at(r, best, "there is no data.validation to choose by");
    else if (!spec->evaluate.metric[spec->checkpoint.best])
        spec_fault_at(r, best, "%s is not among evaluate.metrics",
                      spec_metric_name(spec->checkpoint.best));
}

/* ---- paths --------------------------------------------------------------- */

/* The paths of all layers and of all their parameters. */
struct names {
    struct pool *pool; /* owned; what the lists live in */
    const char **layers, **params;
    int n_layers, n_params;
};

static int
count_layers(const struct spec_layer *list, int n)
{
    int sum = n;

    for (int i = 0; i < n; i++)
        sum += count_layers(list[i].body, list[i].n_body) +
               count_layers(list[i].shortcut, list[i].n_shortcut);
    return sum;
}

static void
add_param(struct names *names, const char *layer, const char *param)
{
    size_t size = strlen(layer) + strlen(param) + 2;
    char *path = pool_alloc(names->pool, size, 1);

    if (path == NULL)
        return;
    snprintf(path, size, "%s.%s", layer, param);
    names->params[names->n_params++] = path;
}

static void
add_names(struct names *names, const struct spec_layer *list, int n)
{
    for (int i = 0; i < n; i++) {
        const char *params[SPEC_LAYER_MAX_PARAMS];
        int n_params = spec_layer_params(&list[i], params);

        names->layers[names->n_layers++] = list[i].path;
        for (int p = 0; p < n_params; p++)
            add_param(names, list[i].path, params[p]);
        add_names(names, list[i].body, list[i].n_body);
        add_names(names, list[i].shortcut, list[i].n_shortcut);
    }
}

static bool
init_names(struct names *names, const struct spec *spec)
{
    size_t n = (size_t)count_layers(spec->model, spec->n_model);

    *names = (struct names){.pool = pool_create()};
    if (names->pool == NULL)
        return false;
    names->layers = pool_alloc(names->pool, n, sizeof(*names->layers));
    names->params = pool_alloc(names->pool, SPEC_LAYER_MAX_PARAMS * n,
                               sizeof(*names->params));
    if (names->layers != NULL && names->params != NULL)
        add_names(names, spec->model, spec->n_model);
    return !pool_failed(names->pool);
}

static bool
is_listed(const char *const *list, int n, const char *s)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], s) == 0)
            return true;
    return false;
}

static void
check_regions(struct spec_reader *r, const struct spec *spec,
              const struct names *names)
{
    int at = find2(r, "amp", "fp32_regions");

    if (at < 0 || spec->amp.n_fp32_regions == 0)
        return;
    at = r->tree.nodes[at].first;
    for (int i = 0; i < spec->amp.n_fp32_regions; i++) {
        const char *region = spec->amp.fp32_regions[i];

        if (r->tree.nodes[at].type == SPEC_NODE_STRING &&
            !is_listed(names->layers, names->n_layers, region))
            spec_fault_unknown(r, r->tree.nodes[at].start, at, "layer", region,
                               names->layers, names->n_layers);
        at = r->tree.nodes[at].next;
    }
}

static bool
matches_any(const char *pattern, const struct names *names)
{
    for (int i = 0; i < names->n_params; i++)
        if (fnmatch(pattern, names->params[i], 0) == 0)
            return true;
    return false;
}

static void
check_patterns(struct spec_reader *r, int list, const struct spec_group *group,
               const struct names *names)
{
    int at = r->tree.nodes[list].first;

    for (int i = 0; i < group->n_match && r->n_slots < SPEC_MAX_FAULTS; i++) {
        if (!matches_any(group->match[i], names))
            spec_fault_at(r, at,
                          "matches no parameter; they are called %s, ...",
                          names->n_params > 0 ? names->params[0] : "0.weight");
        at = r->tree.nodes[at].next;
    }
}

/* Group g > 0 is element g - 1 of the optimizer's "groups". */
static void
check_groups(struct spec_reader *r, const struct spec *spec,
             const struct names *names)
{
    int value = find2(r, "optimizer", spec_optimizer_name(spec->optim[0].kind));
    int at = spec_read_find(r, value, "groups");

    if (at < 0)
        return;
    at = r->tree.nodes[at].first;
    for (int g = 1; g < spec->optim[0].n_group; g++) {
        check_patterns(r, spec_read_find(r, at, "match"),
                       &spec->optim[0].group[g], names);
        at = r->tree.nodes[at].next;
    }
}

int
spec_check_all(struct spec_reader *r, const struct spec *spec,
               const struct spec_sound *sound)
{
    struct names names;
    bool enough;

    check_metrics(r, spec, sound);
    check_best(r, spec, sound);
    if (!sound->model)
        return 0;
    enough = init_names(&names, spec);
    if (enough)
        check_regions(r, spec, &names);
    if (enough && sound->optimizer)
        check_groups(r, spec, &names);
    pool_destroy(&names.pool);
    return enough ? 0 : ERR_NOMEM;
}
