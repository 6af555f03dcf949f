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

bool
spec_check_has_classes(enum spec_loss loss)
{
    return loss == SPEC_LOSS_CROSS_ENTROPY || loss == SPEC_LOSS_NLL;
}

/* Metrics other than the loss are of classes. */
static bool
check_metric(struct spec_reader *r, int node, enum spec_metric metric,
             const struct spec *spec)
{
    if (metric == SPEC_METRIC_LOSS || spec_check_has_classes(spec->loss.kind))
        return true;
    spec_fault_at(r, node,
                  "%s needs classes: the loss is %s, not cross_entropy or nll",
                  spec_metric_name(metric), spec_loss_name(spec->loss.kind));
    return false;
}

static void
check_metrics(struct spec_reader *r, const struct spec *spec,
              const struct spec_sound *sound)
{
    int every = find2(r, "evaluate", "every_updates");

    for (int m = 0; m < SPEC_METRIC_COUNT && sound->loss; m++) {
        int at = find_metric(r, (enum spec_metric)m);

        if (at >= 0)
            check_metric(r, at, (enum spec_metric)m, spec);
    }
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

    if (!spec->checkpoint.has_best || best < 0 ||
        (sound->loss && !check_metric(r, best, spec->checkpoint.best, spec)))
        return;
    if (!spec->data.validation.present)
        spec_fault_at(r, best, "there is no data.validation to choose by");
    else if (!spec->evaluate.metric[spec->checkpoint.best])
        spec_fault_at(r, best, "%s is not among evaluate.metrics",
                      spec_metric_name(spec->checkpoint.best));
}

/* ---- paths --------------------------------------------------------------- */

/* The paths of all layers and of all their parameters. */
struct names {
    struct pool *pool; /* owned; what the lists live in */
    const char **layers, **params, **containers;
    int n_layers, n_params, n_containers;
    int *owner; /* of each parameter: the optimizer that takes it, or -1 */
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
        if (list[i].n_body > 0)
            names->containers[names->n_containers++] = list[i].path;
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
    names->containers = pool_alloc(names->pool, n, sizeof(*names->containers));
    names->owner = pool_alloc(names->pool, SPEC_LAYER_MAX_PARAMS * n,
                              sizeof(*names->owner));
    if (!pool_failed(names->pool))
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

/* A container that no pattern means is nothing to recompute. */
static void
check_recompute(struct spec_reader *r, const struct spec *spec,
                const struct names *names)
{
    int at = find2(r, "train", "recompute");

    if (at < 0 || spec->train.n_recompute == 0)
        return;
    at = r->tree.nodes[at].first;
    for (int i = 0; i < spec->train.n_recompute; i++) {
        bool found = r->tree.nodes[at].type != SPEC_NODE_STRING;

        for (int c = 0; c < names->n_containers && !found; c++)
            found =
                fnmatch(spec->train.recompute[i], names->containers[c], 0) == 0;
        if (!found && names->n_containers == 0)
            spec_fault_at(r, at, "there is no sequential and no residual");
        else if (!found)
            spec_fault_at(r, at,
                          "matches no container; they are called %s, ...",
                          names->containers[0]);
        at = r->tree.nodes[at].next;
    }
}

/* ---- who takes which parameter ------------------------------------------- */

static bool
matches(const char *const *patterns, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

static void
find_owners(const struct spec *spec, struct names *names)
{
    for (int p = 0; p < names->n_params; p++) {
        names->owner[p] = -1;
        for (int i = 0; i < spec->n_optim && names->owner[p] < 0; i++)
            if (spec->optim[i].n_match == 0 ||
                matches(spec->optim[i].match, spec->optim[i].n_match,
                        names->params[p]))
                names->owner[p] = i;
    }
}

/* A parameter of the owner matches; owner -1: any parameter does. */
static bool
matches_any(const char *pattern, const struct names *names, int owner)
{
    for (int i = 0; i < names->n_params; i++)
        if ((owner < 0 || names->owner[i] == owner) &&
            fnmatch(pattern, names->params[i], 0) == 0)
            return true;
    return false;
}

static void
check_patterns(struct spec_reader *r, int list, const char *const *match, int n,
               const struct names *names, int owner)
{
    int at = r->tree.nodes[list].first;

    for (int i = 0; i < n && r->n_slots < SPEC_MAX_FAULTS; i++) {
        if (!matches_any(match[i], names, -1))
            spec_fault_at(r, at,
                          "matches no parameter; they are called %s, ...",
                          names->n_params > 0 ? names->params[0] : "0.weight");
        else if (!matches_any(match[i], names, owner))
            spec_fault_at(r, at,
                          "matches parameters of other optimizers alone");
        at = r->tree.nodes[at].next;
    }
}

/* Optimizer number i, whose object is at node. Group g > 0 is element g - 1 of
 * its "groups". */
static void
check_optim(struct spec_reader *r, int node, const struct spec *spec, int i,
            const struct names *names)
{
    const struct spec_optim *optim = &spec->optim[i];
    int value = spec_read_find(r, node, spec_optimizer_name(optim->kind));
    int at = spec_read_find(r, value, "groups");

    if (optim->n_match > 0)
        check_patterns(r, spec_read_find(r, node, "match"), optim->match,
                       optim->n_match, names, i);
    else if (i > 0 && !matches_any("*", names, i))
        spec_fault_at(r, node, "nothing is left for this optimizer to take");
    if (at < 0)
        return;
    at = r->tree.nodes[at].first;
    for (int g = 1; g < optim->n_group; g++) {
        check_patterns(r, spec_read_find(r, at, "match"), optim->group[g].match,
                       optim->group[g].n_match, names, i);
        at = r->tree.nodes[at].next;
    }
}

static void
check_optimizers(struct spec_reader *r, const struct spec *spec,
                 struct names *names)
{
    int node = spec_read_find(r, 0, "optimizer");
    bool list = r->tree.nodes[node].type == SPEC_NODE_ARRAY;
    int at = list ? r->tree.nodes[node].first : node;

    find_owners(spec, names);
    for (int i = 0; i < spec->n_optim; i++) {
        check_optim(r, at, spec, i, names);
        at = list ? r->tree.nodes[at].next : at;
    }
    for (int p = 0; p < names->n_params; p++)
        if (names->owner[p] < 0) {
            spec_fault_at(r, node, "no optimizer takes %s", names->params[p]);
            return;
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
    if (!sound->model) {
        spec_rules_check(r, spec, NULL, 0);
        return 0;
    }
    enough = init_names(&names, spec);
    if (enough) {
        check_regions(r, spec, &names);
        check_recompute(r, spec, &names);
        spec_rules_check(r, spec, names.layers, names.n_layers);
    }
    if (enough && sound->optimizer)
        check_optimizers(r, spec, &names);
    pool_destroy(&names.pool);
    return enough ? 0 : ERR_NOMEM;
}
