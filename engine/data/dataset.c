/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/dataset_labels.h"
#include "engine/data/dataset_private.h"
#include "engine/data/dataset_read.h"
#include "engine/data/mask.h"

#define N_PIXEL_VALUES 256

/* What a sample is; see dataset.h. */
static int
set_shape(struct dataset *d, enum spec_format format, struct err *err)
{
    const struct tensor_desc *t = &d->input.desc;
    const bool one_channel = format == SPEC_FORMAT_IDX && t->rank == 3;
    int64_t sample = 1;

    if (t->rank < 1 || t->rank > 4)
        return err_set(err, ERR_DATA, "%s: %d dimensions, allowed 1..4",
                       d->input_path, t->rank);
    if (d->input.n_elems == 0)
        return err_set(err, ERR_DATA, "%s: no elements", d->input_path);
    d->n_samples = t->dim[0];
    if (one_channel || t->rank == 1)
        d->dim[d->rank++] = 1;
    for (int i = 1; i < t->rank; i++)
        d->dim[d->rank++] = t->dim[i];
    for (int i = 0; i < d->rank; i++)
        sample *= d->dim[i];
    d->sample_elems = sample;
    d->n_channels = d->rank == 3 ? d->dim[0] : d->dim[d->rank - 1];
    d->channel_elems = d->rank == 3 ? d->dim[1] * d->dim[2] : 1;
    d->channels_last = d->rank != 3 || d->n_channels == 1;
    d->is_pixel = format == SPEC_FORMAT_IDX && t->dtype == DTYPE_U8;
    return 0;
}

static int
set_normalize(struct dataset *d, const struct dataset_options *options,
              struct err *err)
{
    const int n = options->n_normalize;

    if (n == 0)
        return 0;
    if (n != 1 && n != d->n_channels)
        return err_set(err, ERR_DATA,
                       "%s: %" PRId64 " channels, data.normalize has %d values",
                       d->input_path, d->n_channels, n);
    d->mean = malloc((size_t)n * sizeof(*d->mean));
    d->std = malloc((size_t)n * sizeof(*d->std));
    if (d->mean == NULL || d->std == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", d->input_path);
    for (int i = 0; i < n; i++) {
        d->mean[i] = (float)options->mean[i];
        d->std[i] = (float)options->std[i];
        if (!isfinite(d->mean[i]) || !isfinite(d->std[i]) || d->std[i] <= 0)
            return err_set(err, ERR_SPEC,
                           "data.normalize: mean %g and std %g; std must be "
                           "above 0 and both finite in float32",
                           options->mean[i], options->std[i]);
    }
    d->n_normalize = n;
    return 0;
}

/* torchvision: ToTensor divides by 255, Normalize subtracts and divides. */
static int
set_table(struct dataset *d, struct err *err)
{
    const int n = d->n_normalize > 1 ? d->n_normalize : 1;

    if (!d->is_pixel)
        return 0;
    d->table = malloc((size_t)n * N_PIXEL_VALUES * sizeof(*d->table));
    if (d->table == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", d->input_path);
    for (int c = 0; c < n; c++)
        for (int v = 0; v < N_PIXEL_VALUES; v++) {
            float x = (float)v / 255.0f;

            if (d->n_normalize > 0)
                x = (x - d->mean[c]) / d->std[c];
            d->table[c * N_PIXEL_VALUES + v] = x;
        }
    return 0;
}

static struct dataset_label_rules
label_rules(const struct dataset *d)
{
    return (struct dataset_label_rules){
        .name = d->target_path,
        .row_elems = d->target_elems,
        .has_ignore_index = d->has_ignore_index,
        .ignore_index = d->ignore_index,
    };
}

/* Labels from the target's file, without those that the mask leaves out. */
static int
set_labels(struct dataset *d, const char *mask_path, struct err *err)
{
    struct dataset_label_rules rules = label_rules(d);
    struct array mask = {0};
    int rc = 0;

    if (mask_path != NULL) {
        rc = mask_open(mask_path, &d->target.desc, d->target_path, &mask, err);
        if (!d->has_ignore_index)
            rules.ignore_index = d->ignore_index = MASK_IGNORE_INDEX;
        rules.mask = &mask;
    }
    if (rc == 0)
        rc = dataset_labels_read(&d->target, &rules, &d->label, err);
    d->has_ignore_index |= mask_path != NULL;
    array_fini(&mask);
    if (rc == 0)
        array_fini(&d->target);
    return rc;
}

/* Class ids (N, 1) are one a sample. */
static void
set_target_shape(struct dataset *d)
{
    const struct tensor_desc *t = &d->target.desc;

    if (d->target_is_class && t->rank == 2 && t->dim[1] == 1)
        return;
    d->target_rank = t->rank - 1;
    for (int i = 0; i < d->target_rank; i++)
        d->target_dim[i] = t->dim[i + 1];
}

static int
open_target(struct dataset *d, const struct spec_source *source,
            struct err *err)
{
    int rc = dataset_read_target(d, source, err);

    if (rc < 0)
        return rc;
    if (d->target.desc.rank < 1 || d->target.desc.rank == TENSOR_MAX_RANK)
        return err_set(err, ERR_DATA, "%s: %d dimensions, allowed 1..%d",
                       d->target_path, d->target.desc.rank,
                       TENSOR_MAX_RANK - 1);
    if (d->target.desc.dim[0] != d->n_samples)
        return err_set(
            err, ERR_DATA,
            "%s: %" PRId64 " %s, %" PRId64 " %s; the input is %s",
            d->target_path, d->n_samples, d->rank == 3 ? "images" : "samples",
            d->target.desc.dim[0], d->target_is_class ? "labels" : "targets",
            d->input_path);
    if (d->target.n_elems == 0)
        return err_set(err, ERR_DATA, "%s: no elements", d->target_path);
    d->target_elems = d->target.n_elems / d->n_samples;
    set_target_shape(d);
    if (d->target_is_class)
        return set_labels(d, source->mask, err);
    if (source->mask != NULL)
        return err_set(err, ERR_SPEC,
                       "%s: a mask needs class ids as targets; use "
                       "cross_entropy or nll",
                       source->mask);
    return 0;
}

/* Of the input alone: targets that lie beside its pixels would not follow. */
static int
set_augment(struct dataset *d, const struct dataset_options *options,
            struct err *err)
{
    d->augment = options->augment;
    if (!augment_is_on(&d->augment))
        return 0;
    if (d->rank == 3 && d->target_rank < 2)
        return 0;
    if (d->rank == 3)
        return err_set(err, ERR_SPEC,
                       "data.augment: crops and flips move images alone, and "
                       "%s has a value for each of their pixels",
                       d->target_path);
    return err_set(err, ERR_SPEC,
                   "data.augment: crops and flips are for images (C, H, W), "
                   "and %s has none",
                   d->input_path);
}

static int
open_both(struct dataset *d, const struct spec_source *source,
          const struct dataset_options *options, struct err *err)
{
    int rc = dataset_read_input(d, source, options, err);

    if (rc == 0)
        rc = set_shape(d, source->format, err);
    if (rc == 0)
        rc = set_normalize(d, options, err);
    if (rc == 0)
        rc = set_table(d, err);
    if (rc == 0)
        rc = open_target(d, source, err);
    if (rc == 0)
        rc = set_augment(d, options, err);
    return rc;
}

/* ---- tokens --------------------------------------------------------------*/

static bool
is_of_tokens(const struct spec_source *source)
{
    return source->format == SPEC_FORMAT_TOKENS ||
           source->format == SPEC_FORMAT_TEXT;
}

static int
open_tokens(struct dataset *d, const struct spec_source *source,
            const struct dataset_options *options, struct err *err)
{
    const int64_t length = options->sequence_length;
    int rc = tokens_open(source, &d->tokens, err);

    if (rc < 0)
        return rc;
    d->is_tokens = true;
    if (!options->target_is_class)
        return err_set(err, ERR_SPEC,
                       "%s: targets are the tokens that follow, which are "
                       "class ids; use cross_entropy or nll",
                       d->input_path);
    if (options->n_normalize > 0)
        return err_set(err, ERR_SPEC,
                       "data.normalize: there is nothing to normalize in "
                       "tokens");
    if (length < 1)
        return err_set(err, ERR_SPEC,
                       "data.sequence_length: %" PRId64
                       ", tokens need at least 1",
                       length);
    d->n_samples = (d->tokens.n - 1) / length;
    if (d->tokens.n <= length)
        return err_set(err, ERR_DATA,
                       "%s: %" PRId64 " tokens%s, a sample of "
                       "sequence_length %" PRId64 " needs %" PRId64,
                       d->input_path, d->tokens.n,
                       d->tokens.n < d->tokens.ids.n_elems ? " in this part"
                                                           : "",
                       length, length + 1);
    d->rank = d->target_rank = 1;
    d->dim[0] = d->target_dim[0] = length;
    d->sample_elems = d->target_elems = length;
    rc = set_augment(d, options, err);
    if (rc < 0)
        return rc;
    if (!d->has_ignore_index && d->tokens.has_ignore_index) {
        d->has_ignore_index = true;
        d->ignore_index = d->tokens.ignore_index;
    }
    d->tokens.has_ignore_index = d->has_ignore_index;
    d->tokens.ignore_index = d->ignore_index;
    return 0;
}

static int
check_ignore_index(const struct dataset_options *options, struct err *err)
{
    const int64_t v = options->ignore_index;

    if (!options->has_ignore_index || (v >= INT32_MIN && v <= INT32_MAX))
        return 0;
    return err_set(err, ERR_SPEC,
                   "loss.ignore_index: %" PRId64 " does not fit into 32 bits",
                   v);
}

int
dataset_open(const struct spec_source *source,
             const struct dataset_options *options, struct dataset **out,
             struct err *err)
{
    struct dataset *d;
    int rc;

    assert(options->n_normalize >= 0);
    *out = NULL;
    rc = dataset_read_check(source, err);
    if (rc == 0)
        rc = check_ignore_index(options, err);
    if (rc < 0)
        return rc;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", source->input);
    d->target_is_class = options->target_is_class;
    d->has_ignore_index = options->has_ignore_index;
    d->ignore_index = options->ignore_index;
    d->input_path = strdup(source->input);
    d->target_path =
        strdup(source->target != NULL ? source->target : source->input);
    if (d->input_path == NULL || d->target_path == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: no memory", source->input);
    else if (is_of_tokens(source))
        rc = open_tokens(d, source, options, err);
    else
        rc = open_both(d, source, options, err);
    if (rc < 0)
        dataset_destroy(&d);
    *out = d;
    return rc;
}

void
dataset_destroy(struct dataset **dataset)
{
    struct dataset *d = *dataset;

    *dataset = NULL;
    if (d == NULL)
        return;
    array_fini(&d->input);
    array_fini(&d->target);
    tokens_fini(&d->tokens);
    free(d->label);
    free(d->table);
    free(d->mean);
    free(d->std);
    free(d->warning);
    free(d->input_path);
    free(d->target_path);
    free(d);
}

int64_t
dataset_n_samples(const struct dataset *d)
{
    return d->n_samples;
}

const char *
dataset_warning(const struct dataset *d)
{
    return d->warning;
}

int64_t
dataset_id_step(const struct dataset *d)
{
    return d->is_tokens ? d->sample_elems : 1;
}

int64_t
dataset_n_starts(const struct dataset *d)
{
    return d->is_tokens ? d->tokens.n - d->sample_elems : 0;
}

void
dataset_describe(const struct dataset *d, struct build_data *out)
{
    memset(out, 0, sizeof(*out));
    out->rank = d->rank;
    memcpy(out->dim, d->dim, sizeof(out->dim));
    out->input_is_tokens = d->is_tokens;
    out->target_is_class = d->target_is_class;
    out->target_elems = d->target_elems;
    out->target_rank = d->target_rank;
    memcpy(out->target_dim, d->target_dim, sizeof(out->target_dim));
    out->has_ignore_index = d->has_ignore_index;
    out->ignore_index = d->ignore_index;
}

int
dataset_check_classes(const struct dataset *d, int64_t n_classes,
                      struct err *err)
{
    const struct dataset_label_rules rules = label_rules(d);

    assert(d->target_is_class);
    if (d->is_tokens)
        return tokens_check(&d->tokens, n_classes, true, err);
    return dataset_labels_check(d->label, d->n_samples * d->target_elems,
                                n_classes, &rules, err);
}

int
dataset_check_tokens(const struct dataset *d, int64_t vocabulary,
                     struct err *err)
{
    return d->is_tokens ? tokens_check(&d->tokens, vocabulary, false, err) : 0;
}
