/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec.h"

#include "proto/spec_parts.h"
#include "proto/spec_words.h"
#include "proto/spec_write.h"

/* ---- data ---------------------------------------------------------------- */

static void
put_source(struct spec_writer *parent, const char *key,
           const struct spec_source *source)
{
    struct spec_writer o;

    spec_write_member(parent, key);
    if (!source->present) {
        text_puts(parent->t, "null");
        return;
    }
    o = spec_write_begin(parent->t, parent->depth + 1);
    spec_write_keys(&o, SPEC_OBJECT_SOURCE, source);
    spec_write_end(&o);
}

static void
put_data(struct spec_writer *root, const struct spec *spec)
{
    int n = spec->data.n_normalize;
    struct spec_writer o, in;

    spec_write_member(root, "data");
    o = spec_write_begin(root->t, 1);
    put_source(&o, "train", &spec->data.train);
    put_source(&o, "validation", &spec->data.validation);
    spec_write_member(&o, "normalize");
    if (n == 0) {
        text_puts(o.t, "null");
    } else {
        in = spec_write_begin(o.t, -1);
        spec_write_member(&in, "mean");
        spec_write_reals(o.t, spec->data.mean, n);
        spec_write_member(&in, "std");
        spec_write_reals(o.t, spec->data.std, n);
        spec_write_end(&in);
    }
    spec_write_keys(&o, SPEC_OBJECT_DATA, spec);
    spec_write_end(&o);
}

/* ---- how to train -------------------------------------------------------- */

static void
put_loss(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o, in;

    spec_write_member(root, "loss");
    o = spec_write_begin(root->t, -1);
    spec_write_member(&o, spec_loss_name(spec->loss.kind));
    in = spec_write_begin(root->t, -1);
    if (spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY) {
        spec_write_keys(&in, SPEC_OBJECT_CROSS_ENTROPY, spec);
        spec_write_member(&in, "ignore_index");
        if (spec->loss.has_ignore_index)
            text_json_int(root->t, spec->loss.ignore_index);
        else
            text_puts(root->t, "null");
    }
    spec_write_end(&in);
    spec_write_end(&o);
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
put_groups(struct spec_writer *parent, const struct spec *spec)
{
    struct text *t = parent->t;

    spec_write_member(parent, "groups");
    text_putc(t, '[');
    for (int i = 1; i < spec->optim[0].n_group; i++) {
        const struct spec_group *group = &spec->optim[0].group[i];
        struct spec_writer o;

        text_puts(t, i > 1 ? ",\n" : "\n");
        text_fill(t, ' ', 8);
        o = spec_write_begin(t, -1);
        spec_write_member(&o, "match");
        spec_write_strings(t, group->match, group->n_match);
        spec_write_keys(&o, optimizer_object(spec->optim[0].kind, true), group);
        spec_write_end(&o);
    }
    if (spec->optim[0].n_group > 1) {
        text_putc(t, '\n');
        text_fill(t, ' ', 6);
    }
    text_putc(t, ']');
}

static void
put_optimizer(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o, in;

    spec_write_member(root, "optimizer");
    o = spec_write_begin(root->t, 1);
    spec_write_member(&o, spec_optimizer_name(spec->optim[0].kind));
    in = spec_write_begin(root->t, 2);
    spec_write_keys(&in, optimizer_object(spec->optim[0].kind, false),
                    &spec->optim[0].group[0]);
    put_groups(&in, spec);
    spec_write_end(&in);
    spec_write_end(&o);
}

static void
put_schedule(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o, in;

    spec_write_member(root, "schedule");
    o = spec_write_begin(root->t, -1);
    spec_write_member(&o, spec_schedule_name(spec->schedule.kind));
    in = spec_write_begin(root->t, -1);
    switch (spec->schedule.kind) {
    case SPEC_SCHEDULE_CONSTANT:
        spec_write_keys(&in, SPEC_OBJECT_CONSTANT, spec);
        break;
    case SPEC_SCHEDULE_STEP:
        spec_write_keys(&in, SPEC_OBJECT_STEP, spec);
        break;
    case SPEC_SCHEDULE_COSINE:
    case SPEC_SCHEDULE_LINEAR:
        spec_write_keys(&in, SPEC_OBJECT_DECAY, spec);
        break;
    }
    spec_write_end(&in);
    spec_write_end(&o);
}

static void
put_amp(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o, in;

    spec_write_member(root, "amp");
    o = spec_write_begin(root->t, 1);
    spec_write_keys(&o, SPEC_OBJECT_AMP, spec);
    spec_write_member(&o, "scaler");
    in = spec_write_begin(root->t, 2);
    spec_write_keys(&in, SPEC_OBJECT_SCALER, spec);
    spec_write_end(&in);
    spec_write_member(&o, "fp32_regions");
    spec_write_strings(root->t, spec->amp.fp32_regions,
                       spec->amp.n_fp32_regions);
    spec_write_end(&o);
}

static void
put_rest(struct spec_writer *root, const struct spec *spec)
{
    const char *metrics[SPEC_METRIC_COUNT];
    int n = 0;
    struct spec_writer o;

    for (int m = 0; m < SPEC_METRIC_COUNT; m++)
        if (spec->evaluate.metric[m])
            metrics[n++] = spec_metric_name((enum spec_metric)m);
    spec_write_member(root, "train");
    o = spec_write_begin(root->t, 1);
    spec_write_keys(&o, SPEC_OBJECT_TRAIN, spec);
    spec_write_end(&o);
    spec_write_member(root, "evaluate");
    o = spec_write_begin(root->t, 1);
    spec_write_keys(&o, SPEC_OBJECT_EVALUATE, spec);
    spec_write_member(&o, "metrics");
    spec_write_strings(root->t, metrics, n);
    spec_write_end(&o);
    spec_write_member(root, "checkpoint");
    o = spec_write_begin(root->t, 1);
    spec_write_keys(&o, SPEC_OBJECT_CHECKPOINT, spec);
    spec_write_member(&o, "best");
    if (spec->checkpoint.has_best)
        text_json_string(root->t, spec_metric_name(spec->checkpoint.best));
    else
        text_puts(root->t, "null");
    spec_write_end(&o);
}

char *
spec_print(const struct spec *spec)
{
    struct text t = {0};
    struct spec_writer root = spec_write_begin(&t, 0);

    spec_write_keys(&root, SPEC_OBJECT_ROOT, spec);
    put_data(&root, spec);
    spec_write_member(&root, "model");
    spec_print_model(&t, spec);
    put_loss(&root, spec);
    put_optimizer(&root, spec);
    put_schedule(&root, spec);
    put_amp(&root, spec);
    put_rest(&root, spec);
    spec_write_end(&root);
    text_putc(&t, '\n');
    return text_take(&t, NULL);
}
