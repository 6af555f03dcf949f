/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_parts.h"
#include "proto/spec_words.h"

/* What has a meaning for the format alone. */
static void
put_custom(struct spec_writer *o, const struct spec_source *source)
{
    switch (source->format) {
    case SPEC_FORMAT_SAFETENSORS:
        spec_write_member(o, "input_name");
        text_json_string(o->t, source->input_name);
        spec_write_member(o, "target_name");
        text_json_string(o->t, source->target_name);
        return;
    case SPEC_FORMAT_CSV:
        spec_write_member(o, "target_columns");
        spec_write_strings(o->t, source->target_columns,
                           source->n_target_columns);
        return;
    case SPEC_FORMAT_TOKENS:
        spec_write_member(o, "token_dtype");
        if (source->token_dtype == DTYPE_NONE)
            text_puts(o->t, "null");
        else
            text_json_string(o->t, dtype_name(source->token_dtype));
        break;
    case SPEC_FORMAT_TEXT: break;
    case SPEC_FORMAT_IDX:
    case SPEC_FORMAT_NPY: return;
    }
    spec_write_member(o, "part");
    spec_write_reals(o->t, source->part, 2);
}

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
    put_custom(&o, source);
    spec_write_end(&o);
}

static void
put_normalize(struct spec_writer *parent, const struct spec *spec)
{
    int n = spec->data.n_normalize;
    struct spec_writer o;

    spec_write_member(parent, "normalize");
    if (n == 0) {
        text_puts(parent->t, "null");
        return;
    }
    o = spec_write_begin(parent->t, -1);
    spec_write_member(&o, "mean");
    spec_write_reals(o.t, spec->data.mean, n);
    spec_write_member(&o, "std");
    spec_write_reals(o.t, spec->data.std, n);
    spec_write_end(&o);
}

static void
put_change(struct spec_writer *parent, const char *key, enum spec_object object,
           const struct spec *spec)
{
    struct spec_writer o;

    spec_write_member(parent, key);
    o = spec_write_begin(parent->t, -1);
    spec_write_keys(&o, object, spec);
    spec_write_end(&o);
}

static void
put_augment(struct spec_writer *parent, const struct spec *spec)
{
    bool crop = spec->data.augment.crop_padding > 0;
    bool flip = spec->data.augment.flip_p > 0;
    struct spec_writer o;

    spec_write_member(parent, "augment");
    if (!crop && !flip) {
        text_puts(parent->t, "null");
        return;
    }
    o = spec_write_begin(parent->t, -1);
    if (crop)
        put_change(&o, "random_crop", SPEC_OBJECT_RANDOM_CROP, spec);
    if (flip)
        put_change(&o, "horizontal_flip", SPEC_OBJECT_HORIZONTAL_FLIP, spec);
    spec_write_end(&o);
}

void
spec_print_data(struct spec_writer *root, const struct spec *spec)
{
    struct spec_writer o;

    spec_write_member(root, "data");
    o = spec_write_begin(root->t, root->depth + 1);
    put_source(&o, "train", &spec->data.train);
    put_source(&o, "validation", &spec->data.validation);
    put_normalize(&o, spec);
    spec_write_keys(&o, SPEC_OBJECT_DATA, spec);
    put_augment(&o, spec);
    spec_write_end(&o);
}
