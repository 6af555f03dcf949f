/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_layer.h"
#include "proto/spec_parts.h"
#include "proto/spec_presets.h"
#include "proto/spec_scope.h"

/* In a list there are the layer, its settings, and lists in those: all of that
 * is printed and must fit. */
#define DEPTH_OF_LAYER 3

/* What may stand beside a layer's kind. */
static const char *const beside[] = {"name",      "input",       "weight_init",
                                     "bias_init", "weight_from", NULL};

struct layers {
    struct spec_reader *r;
    struct spec_scope_map *map; /* borrowed */
    int left;                   /* layers that may still come */
    bool sound;
    int line, col; /* of the preset that all of them come from; 0: none */
};

/* Where a list stands. */
struct place {
    const struct spec_scope *up;
    const char *path; /* of the container */
    int depth;        /* of the list, as it is printed */
    bool residual;    /* its body: "shortcut" is no name for a layer */
};

static bool read_list(struct layers *l, int node, const struct place *place,
                      struct spec_layer **out, int *n);

/* ---- names --------------------------------------------------------------- */

static bool
is_number(const char *s)
{
    return s[strspn(s, "0123456789")] == '\0';
}

/* The layer's name, or NULL where it has none that can be used. */
static const char *
read_name(struct layers *l, int node, const struct place *place)
{
    int at = spec_read_find(l->r, node, "name");
    const char *name = NULL;

    if (at < 0)
        return NULL;
    if (!spec_read_name(l->r, at, &name)) {
        l->sound = false;
        return NULL;
    }
    if (strcmp(name, SPEC_SCOPE_DATA) == 0)
        spec_fault_at(l->r, at,
                      "may not be \"input\": that is what the model reads");
    else if (place->residual && strcmp(name, "shortcut") == 0)
        spec_fault_at(l->r, at,
                      "may not be \"shortcut\" in the body of a residual");
    else if (is_number(name))
        spec_fault_at(l->r, at, "may not be a number: those are positions");
    else if (strpbrk(name, "./") != NULL)
        spec_fault_at(l->r, at, "may not hold '.' or '/'");
    else
        return name;
    l->sound = false;
    return NULL;
}

/* "prefix.name". */
static const char *
join_path(struct layers *l, const char *prefix, const char *name)
{
    size_t size = strlen(prefix) + strlen(name) + 2;
    char *path = pool_alloc(l->r->pool, size, 1);

    if (path != NULL)
        snprintf(path, size, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                 name);
    return path;
}

static const char *
make_path(struct layers *l, const char *prefix, const char *name, int position)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", position);
    return join_path(l, prefix, name != NULL ? name : number);
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

/* ---- what stands beside the kind ----------------------------------------- */

/* One name of an earlier layer: its path, NULL and a fault where there is
 * none. */
static const char *
read_reference(struct layers *l, int node, const struct spec_scope *scope,
               const struct spec_layer **layer)
{
    const char *name = NULL, *path;

    *layer = NULL;
    if (l->r->tree.nodes[node].type != SPEC_NODE_STRING) {
        spec_read_fault_type(l->r, node, "the name of an earlier layer");
        return NULL;
    }
    if (!spec_read_path(l->r, node, &name))
        return NULL;
    path = spec_scope_find(scope, name, layer);
    if (path == NULL)
        spec_scope_fault(scope, l->r, node, name);
    return path;
}

/* "input": a name, or a list of names. */
static bool
read_input(struct layers *l, int node, const struct spec_scope *scope,
           struct spec_layer *layer)
{
    const struct spec_node *nodes = l->r->tree.nodes;
    bool list = nodes[node].type == SPEC_NODE_ARRAY;
    const struct spec_layer *from;
    bool sound = true;

    if (list && !spec_read_is_array(l->r, node, SPEC_MAX_INPUTS))
        return false;
    if (list && nodes[node].n == 0) {
        spec_fault_at(l->r, node, "may not be an empty list");
        return false;
    }
    layer->n_input = list ? nodes[node].n : 1;
    layer->input =
        pool_alloc(l->r->pool, (size_t)layer->n_input, sizeof(*layer->input));
    if (layer->input == NULL)
        return false;
    node = list ? nodes[node].first : node;
    for (int i = 0; i < layer->n_input; i++) {
        layer->input[i] = read_reference(l, node, scope, &from);
        sound = layer->input[i] != NULL && sound;
        node = nodes[node].next;
    }
    return sound;
}

static void
read_init(struct layers *l, int node, struct spec_init *init)
{
    int kind = SPEC_INIT_DEFAULT, value = -1;

    if (!spec_read_variant(l->r, node, &spec_words_init, NULL, &kind, &value))
        return;
    init->kind = (enum spec_init_kind)kind;
    if (value >= 0 && !spec_read_is_object(l->r, value))
        return;
    if (kind != SPEC_INIT_NORMAL && kind != SPEC_INIT_UNIFORM)
        spec_read_object(l->r, value, SPEC_OBJECT_EMPTY, init);
    else if (value < 0)
        spec_fault_at(l->r, node, "must be {\"%s\": {\"%s\": ...}}",
                      kind == SPEC_INIT_NORMAL ? "normal" : "uniform",
                      kind == SPEC_INIT_NORMAL ? "std" : "bound");
    else
        spec_read_object(l->r, value,
                         kind == SPEC_INIT_NORMAL ? SPEC_OBJECT_INIT_NORMAL
                                                  : SPEC_OBJECT_INIT_UNIFORM,
                         init);
}

/* "weight_from": the layer that owns the weight, however often it is shared. */
static void
read_weight_from(struct layers *l, int node, const struct spec_scope *scope,
                 struct spec_layer *layer)
{
    const struct spec_layer *from;
    const char *path = read_reference(l, node, scope, &from);

    if (path == NULL)
        return;
    if (from == NULL || (from->kind != SPEC_LAYER_LINEAR &&
                         from->kind != SPEC_LAYER_EMBEDDING)) {
        spec_fault_at(l->r, node,
                      "only a linear or an embedding shares its "
                      "weight");
        return;
    }
    layer->weight_from =
        from->weight_from != NULL ? from->weight_from : from->path;
}

/* All of it but the name; the settings have been read. */
static void
read_beside(struct layers *l, int node, const struct spec_scope *scope,
            struct spec_layer *layer)
{
    int input = spec_read_find(l->r, node, "input");
    int from = spec_read_find(l->r, node, "weight_from");
    int init[2] = {spec_read_find(l->r, node, "weight_init"),
                   spec_read_find(l->r, node, "bias_init")};

    if (input >= 0 && !read_input(l, input, scope, layer))
        l->sound = false;
    else
        spec_layer_check_inputs(l->r, input >= 0 ? input : node, layer);
    if (init[0] >= 0)
        read_init(l, init[0], &layer->weight_init);
    if (init[1] >= 0)
        read_init(l, init[1], &layer->bias_init);
    if (from >= 0 && l->r->tree.nodes[from].type != SPEC_NODE_NULL)
        read_weight_from(l, from, scope, layer);
    else
        from = -1;
    spec_layer_check_params(l->r, init[0], init[1], from, layer);
}

/* ---- layers -------------------------------------------------------------- */

/* The settings of the layer at `at`: node is their object, -1 for a bare
 * name. */
static void
read_settings(struct layers *l, int at, int node, struct spec_layer *layer)
{
    enum spec_object object =
        spec_keys_find_object(spec_layer_name(layer->kind));
    bool usable = node < 0 || spec_read_is_object(l->r, node);

    spec_read_object(l->r, usable ? node : -1, object, layer);
    if (usable)
        spec_layer_check_settings(l->r, at, node, layer);
}

/* A bare name of something that cannot do without settings. */
static void
require_settings(struct spec_reader *r, int node, const char *name)
{
    enum spec_object object = spec_keys_find_object(name);

    for (int i = 0; i < spec_keys_n; i++)
        if (spec_keys_table[i].object == object && spec_keys_table[i].required)
            spec_fault_add(r, r->tree.nodes[node].start, node,
                           spec_keys_table[i].name,
                           "missing; must be %s: write {\"%s\": {...}}",
                           spec_keys_table[i].range.words, name);
}

/* The lists of a container: value is what stands under its kind. */
static void
read_container(struct layers *l, int value, const struct spec_scope *scope,
               int depth, struct spec_layer *layer)
{
    struct spec_reader *r = l->r;
    bool residual = layer->kind == SPEC_LAYER_RESIDUAL;
    struct place body = {scope, layer->path, depth + 2, residual};
    struct place shortcut = {scope, NULL, depth + 3, false};
    int at;

    if (!residual || r->tree.nodes[value].type != SPEC_NODE_OBJECT) {
        read_list(l, value, &body, &layer->body, &layer->n_body);
        return;
    }
    spec_read_object(r, value, SPEC_OBJECT_RESIDUAL, layer);
    shortcut.path = join_path(l, layer->path, "shortcut");
    body.depth++;
    at = spec_read_find(r, value, "body");
    if (at < 0)
        l->sound = false;
    else
        read_list(l, at, &body, &layer->body, &layer->n_body);
    at = spec_read_find(r, value, "shortcut");
    if (at >= 0 && r->tree.nodes[at].type != SPEC_NODE_NULL &&
        shortcut.path != NULL)
        read_list(l, at, &shortcut, &layer->shortcut, &layer->n_shortcut);
}

/* A preset's layers, from the text that it stands for. */
static void
read_preset(struct layers *l, int node, const struct spec_preset *preset,
            const struct place *place, struct spec_layer **out, int *n)
{
    struct spec_slot *slots = calloc(SPEC_MAX_FAULTS, sizeof(*slots));
    struct spec_reader r = {.pool = l->r->pool, .slots = slots};
    struct layers inner = {
        .r = &r, .map = l->map, .left = l->left, .sound = true};

    r.tree.cursor.line = r.tree.cursor.col = 1;
    spec_locate_place(&l->r->tree, l->r->tree.nodes[node].start, &inner.line,
                      &inner.col);
    if (slots == NULL ||
        spec_locate_init(&r.tree, preset->text, strlen(preset->text)) != 0)
        pool_alloc(r.pool, SIZE_MAX, 2); /* which fails, and is remembered */
    else
        read_list(&inner, 0, place, out, n);
    if (r.n_slots > 0)
        spec_fault_at(l->r, node, "%s", slots[0].fault.message);
    l->sound = l->sound && inner.sound && r.n_slots == 0;
    l->left = inner.left;
    spec_locate_fini(&r.tree);
    free(slots);
}

/* Reads the settings of a preset and its layers. node names it, value is its
 * object, -1 for none. */
static void
read_expanded(struct layers *l, int node, int value, int kind,
              const struct place *place, struct spec_layer **out, int *n)
{
    struct spec_preset preset = {NULL};

    if (value < 0)
        require_settings(l->r, node, spec_words_name(&spec_words_layer, kind));
    if (value < 0 || !spec_read_is_object(l->r, value) ||
        !spec_presets_expand(l->r, value, kind, &preset))
        l->sound = false;
    else
        read_preset(l, node, &preset, place, out, n);
    free(preset.text);
}

/* What the layer is made of. */
static void
read_kind(struct layers *l, int node, int value, int kind,
          const struct spec_scope *scope, int depth, struct spec_layer *layer)
{
    if (kind >= SPEC_LAYER_COUNT) {
        struct place place = {NULL, layer->path, depth + 2, false};

        layer->kind = SPEC_LAYER_SEQUENTIAL;
        read_expanded(l, node, value, kind, &place, &layer->body,
                      &layer->n_body);
        return;
    }
    layer->kind = (enum spec_layer_kind)kind;
    if (kind != SPEC_LAYER_RESIDUAL && kind != SPEC_LAYER_SEQUENTIAL) {
        if (value < 0)
            require_settings(l->r, node, spec_layer_name(layer->kind));
        read_settings(l, node, value, layer);
    } else if (value < 0) {
        spec_fault_at(l->r, node, "%s needs layers: write {\"%s\": [...]}",
                      spec_layer_name(layer->kind),
                      spec_layer_name(layer->kind));
        l->sound = false;
    } else {
        read_container(l, value, scope, depth, layer);
    }
}

static void
read_layer(struct layers *l, int node, const struct spec_scope *scope,
           const struct place *place, struct spec_layer *layer)
{
    struct spec_reader *r = l->r;
    const char *name = read_name(l, node, place);
    int kind = 0, value = -1;

    layer->line = l->line;
    layer->col = l->col;
    if (l->line == 0)
        spec_locate_place(&r->tree, r->tree.nodes[node].start, &layer->line,
                          &layer->col);
    layer->path = make_path(l, place->path, name, scope->n);
    layer->kind = SPEC_LAYER_IDENTITY;
    if (!spec_read_variant(r, node, &spec_words_layer, beside, &kind, &value)) {
        l->sound = false;
        return;
    }
    if (layer->path == NULL)
        return;
    read_kind(l, node, value, kind, scope, place->depth, layer);
    read_beside(l, node, scope, layer);
}

static bool
read_list(struct layers *l, int node, const struct place *place,
          struct spec_layer **out, int *n)
{
    struct spec_reader *r = l->r;
    int count = r->tree.nodes[node].n;
    struct spec_scope scope = {l->map, place->up, place->path, NULL, 0, node};
    struct spec_layer *list = NULL;

    if (!spec_read_is_array(r, node, SPEC_MAX_LAYERS)) {
        l->sound = false;
        return false;
    }
    if (count == 0)
        spec_fault_at(r, node, "must have at least one layer");
    else if (count > l->left)
        spec_fault_at(r, node, "more than %d layers in all", SPEC_MAX_LAYERS);
    else if (place->depth + DEPTH_OF_LAYER > SPEC_MAX_DEPTH)
        spec_fault_at(r, node, "its layers are nested deeper than %d",
                      SPEC_MAX_DEPTH);
    else
        list = pool_alloc(r->pool, (size_t)count, sizeof(*list));
    if (list == NULL) {
        l->sound = false;
        return false;
    }
    l->left -= count;
    scope.list = *out = list;
    *n = count;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        read_layer(l, child, &scope, place, &list[scope.n]);
        if (list[scope.n].path != NULL)
            spec_scope_add(l->map, &list[scope.n]);
        scope.n++;
    }
    check_siblings(l, node, list, count);
    return true;
}

/* The model as one preset, "model": {"gpt": {...}}. */
static bool
read_whole(struct layers *l, int node, struct spec *spec)
{
    static const struct place place = {NULL, "", 2, false};
    int kind = 0, value = -1;

    if (!spec_read_variant(l->r, node, &spec_words_preset, NULL, &kind, &value))
        return false;
    read_expanded(l, node, value, kind, &place, &spec->model, &spec->n_model);
    return l->sound;
}

bool
spec_layers_read(struct spec_reader *r, int node, struct spec *spec)
{
    static const struct place place = {NULL, "", 2, false};
    struct spec_scope_map map;
    struct layers l = {
        .r = r, .map = &map, .left = SPEC_MAX_LAYERS, .sound = true};
    enum spec_node_type type = r->tree.nodes[node].type;
    bool sound = false;

    if (!spec_scope_init(&map))
        pool_alloc(r->pool, SIZE_MAX, 2); /* fails, and is remembered */
    else if (type == SPEC_NODE_OBJECT || type == SPEC_NODE_STRING)
        sound = read_whole(&l, node, spec);
    else
        sound = read_list(&l, node, &place, &spec->model, &spec->n_model) &&
                l.sound;
    spec_scope_fini(&map);
    return sound;
}
