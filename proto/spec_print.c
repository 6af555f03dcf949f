/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec.h"

#include <string.h>

#include "proto/spec_keys.h"
#include "proto/spec_words.h"
#include "proto/text.h"

/*
 * A writer of one object: either a member to a line at some depth, or all in
 * one line (depth < 0).
 */
struct object {
    struct text *t;
    int depth;
    int n; /* members written */
};

static struct object
begin(struct text *t, int depth)
{
    text_putc(t, '{');
    return (struct object){t, depth, 0};
}

static void
member(struct object *o, const char *key)
{
    if (o->n++ > 0)
        text_puts(o->t, o->depth < 0 ? ", " : ",");
    if (o->depth >= 0) {
        text_putc(o->t, '\n');
        text_fill(o->t, ' ', 2 * (o->depth + 1));
    }
    text_json_string(o->t, key);
    text_puts(o->t, ": ");
}

static void
end(struct object *o)
{
    if (o->depth >= 0 && o->n > 0) {
        text_putc(o->t, '\n');
        text_fill(o->t, ' ', 2 * o->depth);
    }
    text_putc(o->t, '}');
}

static void
put_bool(struct text *t, bool v)
{
    text_puts(t, v ? "true" : "false");
}

static void
put_reals(struct text *t, const double *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_real(t, v[i]);
    }
    text_putc(t, ']');
}

static void
put_ints(struct text *t, const int64_t *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_int(t, v[i]);
    }
    text_putc(t, ']');
}

static void
put_strings(struct text *t, const char *const *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_string(t, v[i]);
    }
    text_putc(t, ']');
}

static void
put_value(struct text *t, const struct spec_key *key, const void *at)
{
    const char *s;

    switch (key->type) {
    case SPEC_TYPE_INT: text_json_int(t, *(const int64_t *)at); return;
    case SPEC_TYPE_INT32: text_json_int(t, *(const int *)at); return;
    case SPEC_TYPE_SEED:
        text_json_int(t, (int64_t) * (const uint64_t *)at);
        return;
    case SPEC_TYPE_REAL: text_json_real(t, *(const double *)at); return;
    case SPEC_TYPE_BOOL: put_bool(t, *(const bool *)at); return;
    case SPEC_TYPE_PAIR: put_ints(t, at, 2); return;
    case SPEC_TYPE_BETAS: put_reals(t, at, 2); return;
    case SPEC_TYPE_NAME:
    case SPEC_TYPE_PATH:
    case SPEC_TYPE_OPTIONAL_PATH:
    case SPEC_TYPE_DEVICE:
        s = *(const char *const *)at;
        if (s != NULL)
            text_json_string(t, s);
        else
            text_puts(t, "null");
        return;
    case SPEC_TYPE_FORMAT:
    case SPEC_TYPE_GELU:
    case SPEC_TYPE_DTYPE:
    case SPEC_TYPE_WGRAD:
        text_json_string(
            t, spec_words_name(spec_words_of(key->type), *(const int *)at));
        return;
    case SPEC_TYPE_CUSTOM: return;
    }
}

/* All keys of an object but the custom ones, in the order of the table. */
static void
put_keys(struct object *o, enum spec_object object, const void *base)
{
    for (int i = 0; i < spec_keys_n; i++) {
        const struct spec_key *key = &spec_keys_table[i];

        if (key->object != object || key->type == SPEC_TYPE_CUSTOM)
            continue;
        member(o, key->name);
        put_value(o->t, key, (const char *)base + key->offset);
    }
}

/* ---- data and model ------------------------------------------------------ */

static void
put_source(struct object *parent, const char *key,
           const struct spec_source *source)
{
    struct object o;

    member(parent, key);
    if (!source->present) {
        text_puts(parent->t, "null");
        return;
    }
    o = begin(parent->t, parent->depth + 1);
    put_keys(&o, SPEC_OBJECT_SOURCE, source);
    end(&o);
}

static void
put_data(struct object *root, const struct spec *spec)
{
    int n = spec->data.n_normalize;
    struct object o, in;

    member(root, "data");
    o = begin(root->t, 1);
    put_source(&o, "train", &spec->data.train);
    put_source(&o, "validation", &spec->data.validation);
    member(&o, "normalize");
    if (n == 0) {
        text_puts(o.t, "null");
    } else {
        in = begin(o.t, -1);
        member(&in, "mean");
        put_reals(o.t, spec->data.mean, n);
        member(&in, "std");
        put_reals(o.t, spec->data.std, n);
        end(&in);
    }
    put_keys(&o, SPEC_OBJECT_DATA, spec);
    end(&o);
}

/* The last part of the path when a person gave it, else NULL. */
static const char *
given_name(const struct spec_layer *layer)
{
    const char *dot = strrchr(layer->path, '.');
    const char *last = dot != NULL ? dot + 1 : layer->path;

    return last[strspn(last, "0123456789")] == '\0' ? NULL : last;
}

static void put_layers(struct text *t, const struct spec_layer *list, int n,
                       int depth);

static void
put_settings(struct text *t, const struct spec_layer *layer, int depth)
{
    struct object o;

    if (layer->kind == SPEC_LAYER_RESIDUAL) {
        put_layers(t, layer->body, layer->n_body, depth);
        return;
    }
    o = begin(t, -1);
    if (layer->kind == SPEC_LAYER_LAYER_NORM) {
        member(&o, "normalized_shape");
        if (layer->u.layer_norm.n_shape == 0)
            text_puts(t, "null");
        else
            put_ints(t, layer->u.layer_norm.shape, layer->u.layer_norm.n_shape);
    }
    put_keys(&o, spec_keys_layer_object(layer->kind), layer);
    end(&o);
}

/* One layer to a line; the bodies of residuals further in. */
static void
put_layers(struct text *t, const struct spec_layer *list, int n, int depth)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        const char *name = given_name(&list[i]);
        struct object o;

        text_puts(t, i > 0 ? ",\n" : "\n");
        text_fill(t, ' ', 2 * (depth + 1));
        o = begin(t, -1);
        if (name != NULL) {
            member(&o, "name");
            text_json_string(t, name);
        }
        member(&o, spec_layer_name(list[i].kind));
        put_settings(t, &list[i], depth + 1);
        end(&o);
    }
    text_putc(t, '\n');
    text_fill(t, ' ', 2 * depth);
    text_putc(t, ']');
}

/* ---- how to train -------------------------------------------------------- */

static void
put_loss(struct object *root, const struct spec *spec)
{
    struct object o, in;

    member(root, "loss");
    o = begin(root->t, -1);
    member(&o, spec_loss_name(spec->loss.kind));
    in = begin(root->t, -1);
    if (spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY) {
        put_keys(&in, SPEC_OBJECT_CROSS_ENTROPY, spec);
        member(&in, "ignore_index");
        if (spec->loss.has_ignore_index)
            text_json_int(root->t, spec->loss.ignore_index);
        else
            text_puts(root->t, "null");
    }
    end(&in);
    end(&o);
}

static enum spec_object
optimizer_object(enum spec_optimizer kind, bool group)
{
    switch (kind) {
    case SPEC_OPTIMIZER_SGD:
        return group ? SPEC_OBJECT_SGD_GROUP : SPEC_OBJECT_SGD;
    case SPEC_OPTIMIZER_ADAM:
        return group ? SPEC_OBJECT_ADAM_GROUP : SPEC_OBJECT_ADAM;
    case SPEC_OPTIMIZER_ADAMW:
        return group ? SPEC_OBJECT_ADAM_GROUP : SPEC_OBJECT_ADAMW;
    case SPEC_OPTIMIZER_ADAGRAD:
    case SPEC_OPTIMIZER_RMSPROP:
    case SPEC_OPTIMIZER_LION: break;
    }
    return SPEC_OBJECT_EMPTY;
}

static void
put_groups(struct object *parent, const struct spec *spec)
{
    struct text *t = parent->t;

    member(parent, "groups");
    text_putc(t, '[');
    for (int i = 1; i < spec->optim[0].n_group; i++) {
        const struct spec_group *group = &spec->optim[0].group[i];
        struct object o;

        text_puts(t, i > 1 ? ",\n" : "\n");
        text_fill(t, ' ', 8);
        o = begin(t, -1);
        member(&o, "match");
        put_strings(t, group->match, group->n_match);
        put_keys(&o, optimizer_object(spec->optim[0].kind, true), group);
        end(&o);
    }
    if (spec->optim[0].n_group > 1) {
        text_putc(t, '\n');
        text_fill(t, ' ', 6);
    }
    text_putc(t, ']');
}

static void
put_optimizer(struct object *root, const struct spec *spec)
{
    struct object o, in;

    member(root, "optimizer");
    o = begin(root->t, 1);
    member(&o, spec_optimizer_name(spec->optim[0].kind));
    in = begin(root->t, 2);
    put_keys(&in, optimizer_object(spec->optim[0].kind, false),
             &spec->optim[0].group[0]);
    put_groups(&in, spec);
    end(&in);
    end(&o);
}

static void
put_schedule(struct object *root, const struct spec *spec)
{
    struct object o, in;

    member(root, "schedule");
    o = begin(root->t, -1);
    member(&o, spec_schedule_name(spec->schedule.kind));
    in = begin(root->t, -1);
    switch (spec->schedule.kind) {
    case SPEC_SCHEDULE_CONSTANT:
        put_keys(&in, SPEC_OBJECT_CONSTANT, spec);
        break;
    case SPEC_SCHEDULE_STEP: put_keys(&in, SPEC_OBJECT_STEP, spec); break;
    case SPEC_SCHEDULE_COSINE:
    case SPEC_SCHEDULE_LINEAR: put_keys(&in, SPEC_OBJECT_DECAY, spec); break;
    }
    end(&in);
    end(&o);
}

static void
put_amp(struct object *root, const struct spec *spec)
{
    struct object o, in;

    member(root, "amp");
    o = begin(root->t, 1);
    put_keys(&o, SPEC_OBJECT_AMP, spec);
    member(&o, "scaler");
    in = begin(root->t, 2);
    put_keys(&in, SPEC_OBJECT_SCALER, spec);
    end(&in);
    member(&o, "fp32_regions");
    put_strings(root->t, spec->amp.fp32_regions, spec->amp.n_fp32_regions);
    end(&o);
}

static void
put_rest(struct object *root, const struct spec *spec)
{
    const char *metrics[SPEC_METRIC_COUNT];
    int n = 0;
    struct object o;

    for (int m = 0; m < SPEC_METRIC_COUNT; m++)
        if (spec->evaluate.metric[m])
            metrics[n++] = spec_metric_name((enum spec_metric)m);
    member(root, "train");
    o = begin(root->t, 1);
    put_keys(&o, SPEC_OBJECT_TRAIN, spec);
    end(&o);
    member(root, "evaluate");
    o = begin(root->t, 1);
    put_keys(&o, SPEC_OBJECT_EVALUATE, spec);
    member(&o, "metrics");
    put_strings(root->t, metrics, n);
    end(&o);
    member(root, "checkpoint");
    o = begin(root->t, 1);
    put_keys(&o, SPEC_OBJECT_CHECKPOINT, spec);
    member(&o, "best");
    if (spec->checkpoint.has_best)
        text_json_string(root->t, spec_metric_name(spec->checkpoint.best));
    else
        text_puts(root->t, "null");
    end(&o);
}

char *
spec_print(const struct spec *spec)
{
    struct text t = {0};
    struct object root = begin(&t, 0);

    put_keys(&root, SPEC_OBJECT_ROOT, spec);
    put_data(&root, spec);
    member(&root, "model");
    put_layers(&t, spec->model, spec->n_model, 1);
    put_loss(&root, spec);
    put_optimizer(&root, spec);
    put_schedule(&root, spec);
    put_amp(&root, spec);
    put_rest(&root, spec);
    end(&root);
    text_putc(&t, '\n');
    return text_take(&t, NULL);
}
