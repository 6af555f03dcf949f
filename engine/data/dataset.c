/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/dataset_labels.h"
#include "engine/data/dataset_private.h"
#include "engine/data/idx.h"
#include "engine/data/npy.h"

#define N_PIXEL_VALUES 256

static int
open_array(enum spec_format format, const char *path, struct array *out,
           struct err *err)
{
    switch (format) {
    case SPEC_FORMAT_IDX: return idx_open(path, out, err);
    case SPEC_FORMAT_NPY: return npy_open(path, out, err);
    case SPEC_FORMAT_SAFETENSORS:
    case SPEC_FORMAT_CSV:
    case SPEC_FORMAT_TOKENS:
    case SPEC_FORMAT_TEXT: break;
    }
    return err_set(err, ERR_UNSUPPORTED, "%s: a format without a reader", path);
}

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
        .has_ignore_index = d->has_ignore_index,
        .ignore_index = d->ignore_index,
    };
}

static int
set_labels(struct dataset *d, struct err *err)
{
    const struct tensor_desc *t = &d->target.desc;
    const struct dataset_label_rules rules = label_rules(d);
    char shape[128];
    int rc;

    if (t->rank != 1 && !(t->rank == 2 && t->dim[1] == 1))
        return err_set(err, ERR_DATA, "%s: %s, class labels are one a sample",
                       d->target_path, tensor_format(t, shape, sizeof(shape)));
    if (d->has_ignore_index &&
        (d->ignore_index < INT32_MIN || d->ignore_index > INT32_MAX))
        return err_set(err, ERR_SPEC,
                       "loss.ignore_index: %" PRId64
                       " does not fit into 32 bits",
                       d->ignore_index);
    rc = dataset_labels_read(&d->target, &rules, &d->label, err);
    if (rc == 0)
        array_fini(&d->target);
    return rc;
}

static int
open_target(struct dataset *d, enum spec_format format, struct err *err)
{
    int rc = open_array(format, d->target_path, &d->target, err);

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
    return d->target_is_class ? set_labels(d, err) : 0;
}

static int
open_both(struct dataset *d, const struct spec_source *source,
          const struct dataset_options *options, struct err *err)
{
    int rc = open_array(source->format, d->input_path, &d->input, err);

    if (rc == 0)
        rc = set_shape(d, source->format, err);
    if (rc == 0)
        rc = set_normalize(d, options, err);
    if (rc == 0)
        rc = set_table(d, err);
    if (rc == 0)
        rc = open_target(d, source->format, err);
    return rc;
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
    if (!source->present || source->input == NULL || source->target == NULL)
        return err_set(err, ERR_SPEC, "data: input or target is missing");
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", source->input);
    d->target_is_class = options->target_is_class;
    d->has_ignore_index = options->has_ignore_index;
    d->ignore_index = options->ignore_index;
    d->input_path = strdup(source->input);
    d->target_path = strdup(source->target);
    if (d->input_path == NULL || d->target_path == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: no memory", source->input);
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
    free(d->label);
    free(d->table);
    free(d->mean);
    free(d->std);
    free(d->input_path);
    free(d->target_path);
    free(d);
}

int64_t
dataset_n_samples(const struct dataset *d)
{
    return d->n_samples;
}

void
dataset_describe(const struct dataset *d, struct build_data *out)
{
    memset(out, 0, sizeof(*out));
    out->rank = d->rank;
    memcpy(out->dim, d->dim, sizeof(out->dim));
    out->target_is_class = d->target_is_class;
    if (d->target_is_class)
        return;
    out->target_elems = d->target_elems;
    out->target_rank = d->target.desc.rank - 1;
    for (int i = 0; i < out->target_rank; i++)
        out->target_dim[i] = d->target.desc.dim[i + 1];
}

int
dataset_check_classes(const struct dataset *d, int64_t n_classes,
                      struct err *err)
{
    const struct dataset_label_rules rules = label_rules(d);

    assert(d->target_is_class);
    return dataset_labels_check(d->label, d->n_samples, n_classes, &rules, err);
}
