/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec.h"

#include <stdio.h>

#include "proto/spec_parts.h"
#include "proto/spec_words.h"
#include "proto/spec_write.h"

static void
put_weights(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o;

    spec_write_member(root, "initial_weights");
    if (spec->initial_weights == NULL) {
        text_puts(root->t, "null");
        return;
    }
    o = spec_write_begin(root->t, -1);
    spec_write_keys(&o, SPEC_OBJECT_WEIGHTS, spec);
    spec_write_end(&o);
}

/* ---- how to train -------------------------------------------------------- */

static void
put_loss(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o, in;
    char section[64];

    snprintf(section, sizeof(section), "loss.%s",
             spec_loss_name(spec->loss.kind));
    spec_write_member(root, "loss");
    o = spec_write_begin(root->t, -1);
    spec_write_member(&o, spec_loss_name(spec->loss.kind));
    in = spec_write_begin(root->t, -1);
    spec_write_keys(&in, spec_keys_find_object(section), spec);
    spec_write_end(&in);
    spec_write_end(&o);
}

static void
put_groups(struct spec_writer *parent, const struct spec_optim *optim)
{
    struct text *t = parent->t;

    spec_write_member(parent, "groups");
    text_putc(t, '[');
    for (int i = 1; i < optim->n_group; i++) {
        const struct spec_group *group = &optim->group[i];
        struct spec_writer o;

        text_puts(t, i > 1 ? ",\n" : "\n");
        text_fill(t, ' ', 2 * parent->depth + 4);
        o = spec_write_begin(t, -1);
        spec_write_member(&o, "match");
        spec_write_strings(t, group->match, group->n_match);
        spec_write_keys(&o, spec_optimizer_object(optim->kind, true), group);
        spec_write_end(&o);
    }
    if (optim->n_group > 1) {
        text_putc(t, '\n');
        text_fill(t, ' ', 2 * parent->depth + 2);
    }
    text_putc(t, ']');
}

static void
put_optim(struct text *t, const struct spec_optim *optim, int depth)
{
    struct spec_writer o = spec_write_begin(t, depth), in;

    if (optim->n_match > 0) {
        spec_write_member(&o, "match");
        spec_write_strings(t, optim->match, optim->n_match);
    }
    spec_write_member(&o, spec_optimizer_name(optim->kind));
    in = spec_write_begin(t, depth + 1);
    spec_write_keys(&in, spec_optimizer_object(optim->kind, false),
                    &optim->group[0]);
    put_groups(&in, optim);
    spec_write_end(&in);
    spec_write_end(&o);
}

/* One that takes all is no list. */
static void
put_optimizer(struct spec_writer *root, const struct spec *spec)
{
    spec_write_member(root, "optimizer");
    if (spec->n_optim == 1 && spec->optim[0].n_match == 0) {
        put_optim(root->t, &spec->optim[0], 1);
        return;
    }
    text_putc(root->t, '[');
    for (int i = 0; i < spec->n_optim; i++) {
        text_puts(root->t, i > 0 ? ",\n    " : "\n    ");
        put_optim(root->t, &spec->optim[i], 2);
    }
    text_puts(root->t, "\n  ]");
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
put_ema(struct spec_writer *train, const struct spec *spec)
{
    struct spec_writer o;

    spec_write_member(train, "ema");
    if (spec->train.ema_decay == 0) {
        text_puts(train->t, "null");
        return;
    }
    o = spec_write_begin(train->t, -1);
    spec_write_keys(&o, SPEC_OBJECT_EMA, spec);
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
    put_ema(&o, spec);
    spec_write_member(&o, "recompute");
    spec_write_strings(root->t, spec->train.recompute, spec->train.n_recompute);
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

static void
put_diagnose(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o;

    spec_write_member(root, "diagnose");
    o = spec_write_begin(root->t, 1);
    spec_write_keys(&o, SPEC_OBJECT_DIAGNOSE, spec);
    spec_write_end(&o);
}

char *
spec_print(const struct spec *spec)
{
    struct text t = {0};
    struct spec_writer root = spec_write_begin(&t, 0);

    spec_write_keys(&root, SPEC_OBJECT_ROOT, spec);
    put_weights(&root, spec);
    spec_print_data(&root, spec);
    spec_write_member(&root, "model");
    spec_print_model(&t, spec);
    put_loss(&root, spec);
    put_optimizer(&root, spec);
    put_schedule(&root, spec);
    put_amp(&root, spec);
    put_rest(&root, spec);
    spec_print_rules(&root, spec);
    put_diagnose(&root, spec);
    spec_write_end(&root);
    text_putc(&t, '\n');
    return text_take(&t, NULL);
}
