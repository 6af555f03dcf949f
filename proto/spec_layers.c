/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_parts.h"

#include <stdio.h>
#include <string.h>

struct layers {
    struct spec_reader *r;
    int left; /* layers that may still come */
    bool sound;
};

static bool read_list(struct layers *l, int node, const char *prefix,
                      struct spec_layer **out, int *n);

static bool
is_number(const char *s)
{
    return s[strspn(s, "0123456789")] == '\0';
}

/* The layer's name, or NULL where it has none that can be used. */
static const char *
read_name(struct layers *l, int node)
{
    int at = spec_read_find(l->r, node, "name");
    const char *name = NULL;

    if (at < 0)
        return NULL;
    if (!spec_read_name(l->r, at, &name)) {
        l->sound = false;
        return NULL;
    }
    if (strpbrk(name, "./") == NULL && !is_number(name))
        return name;
    spec_fault_at(l->r, at, "%s",
                  is_number(name) ? "may not be a number: those are positions"
                                  : "may not hold '.' or '/'");
    l->sound = false;
    return NULL;
}

static const char *
make_path(struct layers *l, const char *prefix, const char *name, int position)
{
    char number[16];
    size_t size;
    char *path;

    snprintf(number, sizeof(number), "%d", position);
    if (name == NULL)
        name = number;
    size = strlen(prefix) + strlen(name) + 2;
    path = pool_alloc(l->r->pool, size, 1);
    if (path != NULL)
        snprintf(path, size, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                 name);
    return path;
}

/* normalized_shape: null, an integer, or a list of up to four. */
static void
read_shape(struct spec_reader *r, int node, struct spec_layer *layer)
{
    static const struct spec_range range = {1, 2147483647.0, false, false,
                                            "an integer, 1 or more"};
    int64_t *shape = layer->u.layer_norm.shape;
    int child;
    int n = 0;

    if (node < 0 || r->tree.nodes[node].type == SPEC_NODE_NULL)
        return;
    if (r->tree.nodes[node].type != SPEC_NODE_ARRAY) {
        if (spec_read_int(r, node, &range, &shape[0]))
            layer->u.layer_norm.n_shape = 1;
        return;
    }
    if (!spec_read_is_array(r, node, 4))
        return;
    if (r->tree.nodes[node].n == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return;
    }
    for (child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next)
        spec_read_int(r, child, &range, &shape[n++]);
    layer->u.layer_norm.n_shape = n;
}

static void
check_conv2d(struct spec_reader *r, int node, const struct spec_layer *layer)
{
    int64_t out = layer->u.conv2d.out_channels;
    int64_t groups = layer->u.conv2d.groups;
    int at = spec_read_find(r, node, "groups");

    if (at >= 0 && out > 0 && groups > 0 && out % groups != 0)
        spec_fault_at(r, at, "%lld groups do not divide out_channels %lld",
                      (long long)groups, (long long)out);
}

static void
finish_pool2d(struct spec_reader *r, int node, struct spec_layer *layer)
{
    int at = spec_read_find(r, node, "padding");

    for (int i = 0; i < 2; i++) {
        int64_t kernel = layer->u.pool2d.kernel_size[i];

        if (layer->u.pool2d.stride[i] == 0)
            layer->u.pool2d.stride[i] = kernel;
        if (at >= 0 && kernel > 0 && layer->u.pool2d.padding[i] > kernel / 2) {
            spec_fault_at(r, at, "must be at most half of kernel_size");
            return;
        }
    }
}

/* The settings of a layer: node is its object, -1 for a bare name. */
static void
read_settings(struct layers *l, int node, struct spec_layer *layer)
{
    struct spec_reader *r = l->r;
    enum spec_object object = spec_keys_layer_object(layer->kind);

    if (node >= 0 && !spec_read_is_object(r, node)) {
        spec_read_object(r, -1, object, layer);
        return;
    }
    spec_read_object(r, node, object, layer);
    if (layer->kind == SPEC_LAYER_CONV2D)
        check_conv2d(r, node, layer);
    else if (layer->kind == SPEC_LAYER_MAX_POOL2D ||
             layer->kind == SPEC_LAYER_AVG_POOL2D)
        finish_pool2d(r, node, layer);
    else if (layer->kind == SPEC_LAYER_LAYER_NORM)
        read_shape(r, spec_read_find(r, node, "normalized_shape"), layer);
}

/* A bare name of a layer that cannot do without settings. */
static void
require_settings(struct spec_reader *r, int node, enum spec_layer_kind kind)
{
    enum spec_object object = spec_keys_layer_object(kind);

    for (int i = 0; i < spec_keys_n; i++)
        if (spec_keys_table[i].object == object && spec_keys_table[i].required)
            spec_fault_add(
                r, r->tree.nodes[node].start, node, spec_keys_table[i].name,
                "missing; must be %s: write {\"%s\": {...}}",
                spec_keys_table[i].range.words, spec_layer_name(kind));
}

static void
read_layer(struct layers *l, int node, const char *prefix, int position,
           struct spec_layer *layer)
{
    struct spec_reader *r = l->r;
    const char *name = read_name(l, node);
    int kind = 0, value = -1;

    spec_locate_place(&r->tree, r->tree.nodes[node].start, &layer->line,
                      &layer->col);
    layer->path = make_path(l, prefix, name, position);
    if (!spec_read_variant(r, node, &spec_words_layer, "name", &kind, &value)) {
        layer->kind = SPEC_LAYER_RELU;
        l->sound = false;
        return;
    }
    layer->kind = (enum spec_layer_kind)kind;
    if (layer->kind != SPEC_LAYER_RESIDUAL) {
        if (value < 0)
            require_settings(r, node, layer->kind);
        read_settings(l, value, layer);
    } else if (value < 0) {
        spec_fault_at(r, node,
                      "residual needs layers: write "
                      "{\"residual\": [...]}");
        l->sound = false;
    } else if (layer->path != NULL) {
        read_list(l, value, layer->path, &layer->body, &layer->n_body);
    }
}

/* Two siblings with one name would have one path. */
static void
check_siblings(struct layers *l, int node, const struct spec_layer *list, int n)
{
    int child = l->r->tree.nodes[node].first;

    for (int i = 0; i < n; i++, child = l->r->tree.nodes[child].next) {
        int name = spec_read_find(l->r, child, "name");

        for (int j = 0; j < i && name >= 0; j++) {
            if (list[i].path == NULL || list[j].path == NULL ||
                strcmp(list[i].path, list[j].path) != 0)
                continue;
            spec_fault_at(l->r, name, "layer %d has this name already", j);
            l->sound = false;
            break;
        }
    }
}

static bool
read_list(struct layers *l, int node, const char *prefix,
          struct spec_layer **out, int *n)
{
    struct spec_reader *r = l->r;
    int count = r->tree.nodes[node].n;
    int i = 0;

    if (!spec_read_is_array(r, node, SPEC_MAX_LAYERS) || count == 0) {
        if (r->tree.nodes[node].type == SPEC_NODE_ARRAY && count == 0)
            spec_fault_at(r, node, "must have at least one layer");
        l->sound = false;
        return false;
    }
    if (count > l->left) {
        spec_fault_at(r, node, "more than %d layers in all", SPEC_MAX_LAYERS);
        l->sound = false;
        return false;
    }
    l->left -= count;
    *out = pool_alloc(r->pool, (size_t)count, sizeof(**out));
    if (*out == NULL)
        return false;
    *n = count;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next, i++)
        read_layer(l, child, prefix, i, &(*out)[i]);
    check_siblings(l, node, *out, count);
    return true;
}

bool
spec_layers_read(struct spec_reader *r, int node, struct spec *spec)
{
    struct layers l = {.r = r, .left = SPEC_MAX_LAYERS, .sound = true};

    return read_list(&l, node, "", &spec->model, &spec->n_model) && l.sound;
}
