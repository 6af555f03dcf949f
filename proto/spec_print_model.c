/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "proto/spec_parts.h"
#include "proto/spec_scope.h"
#include "proto/spec_words.h"
#include "proto/spec_write.h"

/* Where a list stands. */
struct place {
    struct spec_scope_map *map;  /* borrowed */
    const struct spec_scope *up; /* NULL for the model */
    const char *path;            /* of the container */
    int depth;
};

static void put_layers(struct text *t, const struct spec_layer *list, int n,
                       const struct place *place);

/* The last part of the path when a person gave it, else NULL. */
static const char *
given_name(const struct spec_layer *layer)
{
    const char *dot = strrchr(layer->path, '.');
    const char *last = dot != NULL ? dot + 1 : layer->path;

    return last[strspn(last, "0123456789")] == '\0' ? NULL : last;
}

/* A residual with a shortcut, or a plain list. */
static void
put_container(struct text *t, const struct spec_layer *layer,
              const struct place *around, const struct spec_scope *scope)
{
    char path[SPEC_MAX_DEPTH * (SPEC_NAME_MAX + 1) + 16];
    struct place place = {around->map, scope, layer->path, around->depth + 1};
    struct spec_writer o;

    if (layer->n_shortcut == 0) {
        put_layers(t, layer->body, layer->n_body, &place);
        return;
    }
    o = spec_write_begin(t, place.depth);
    place.depth++;
    spec_write_member(&o, "body");
    put_layers(t, layer->body, layer->n_body, &place);
    snprintf(path, sizeof(path), "%s.shortcut", layer->path);
    place.path = path;
    spec_write_member(&o, "shortcut");
    put_layers(t, layer->shortcut, layer->n_shortcut, &place);
    spec_write_end(&o);
}

static void
put_settings(struct text *t, const struct spec_layer *layer,
             const struct place *place, const struct spec_scope *scope)
{
    struct spec_writer o;

    if (layer->kind == SPEC_LAYER_RESIDUAL ||
        layer->kind == SPEC_LAYER_SEQUENTIAL) {
        put_container(t, layer, place, scope);
        return;
    }
    o = spec_write_begin(t, -1);
    spec_write_keys(&o, spec_keys_find_object(spec_layer_name(layer->kind)),
                    layer);
    spec_write_end(&o);
}

static void
put_input(struct spec_writer *o, const struct spec_layer *layer,
          const struct spec_scope *scope)
{
    const char *names[SPEC_MAX_INPUTS];

    if (layer->n_input == 0)
        return;
    for (int i = 0; i < layer->n_input; i++)
        names[i] = spec_scope_name(scope, layer->input[i]);
    spec_write_member(o, "input");
    spec_write_strings(o->t, names, layer->n_input);
}

static void
put_init(struct spec_writer *o, const char *key, const struct spec_init *init)
{
    struct spec_writer in, value;

    if (init->kind == SPEC_INIT_DEFAULT)
        return;
    spec_write_member(o, key);
    if (init->kind != SPEC_INIT_NORMAL && init->kind != SPEC_INIT_UNIFORM) {
        text_json_string(o->t,
                         spec_words_name(&spec_words_init, (int)init->kind));
        return;
    }
    in = spec_write_begin(o->t, -1);
    spec_write_member(&in, spec_words_name(&spec_words_init, (int)init->kind));
    value = spec_write_begin(o->t, -1);
    spec_write_keys(&value,
                    init->kind == SPEC_INIT_NORMAL ? SPEC_OBJECT_INIT_NORMAL
                                                   : SPEC_OBJECT_INIT_UNIFORM,
                    init);
    spec_write_end(&value);
    spec_write_end(&in);
}

/* What stands beside a kind is written only where it says something. */
static void
put_layer(struct text *t, const struct spec_layer *layer,
          const struct place *place, const struct spec_scope *scope)
{
    const char *name = given_name(layer);
    struct spec_writer o = spec_write_begin(t, -1);

    if (name != NULL) {
        spec_write_member(&o, "name");
        text_json_string(t, name);
    }
    put_input(&o, layer, scope);
    spec_write_member(&o, spec_layer_name(layer->kind));
    put_settings(t, layer, place, scope);
    put_init(&o, "weight_init", &layer->weight_init);
    put_init(&o, "bias_init", &layer->bias_init);
    if (layer->weight_from != NULL) {
        spec_write_member(&o, "weight_from");
        text_json_string(t, spec_scope_name(scope, layer->weight_from));
    }
    spec_write_end(&o);
}

/* One layer to a line; the lists of containers further in. */
static void
put_layers(struct text *t, const struct spec_layer *list, int n,
           const struct place *place)
{
    struct spec_scope scope = {place->map, place->up, place->path, list, 0, -1};

    text_putc(t, '[');
    for (; scope.n < n; scope.n++) {
        text_puts(t, scope.n > 0 ? ",\n" : "\n");
        text_fill(t, ' ', 2 * (place->depth + 1));
        put_layer(t, &list[scope.n], place, &scope);
        spec_scope_add(place->map, &list[scope.n]);
    }
    text_putc(t, '\n');
    text_fill(t, ' ', 2 * place->depth);
    text_putc(t, ']');
}

void
spec_print_model(struct text *t, const struct spec *spec)
{
    struct spec_scope_map map;
    struct place place = {&map, NULL, "", 1};

    if (!spec_scope_init(&map)) {
        t->failed = true;
        return;
    }
    put_layers(t, spec->model, spec->n_model, &place);
    spec_scope_fini(&map);
}
