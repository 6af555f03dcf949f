/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/source.h"

#include "engine/run/evaluate.h"

#include <string.h>

static int
open_split(const struct spec *spec, const struct spec_source *from,
           struct dataset **out, struct err *err)
{
    struct dataset_options options = {
        .sequence_length = spec->data.sequence_length,
        .to_half = spec->amp.dtype == DTYPE_F16,
        .target_is_class = spec->loss.kind == SPEC_LOSS_CROSS_ENTROPY ||
                           spec->loss.kind == SPEC_LOSS_NLL,
        .has_ignore_index = spec->loss.has_ignore_index,
        .ignore_index = spec->loss.ignore_index,
        .mean = spec->data.mean,
        .std = spec->data.std,
        .n_normalize = spec->data.n_normalize,
    };

    if (from == &spec->data.train)
        options.augment = (struct augment_options){
            .crop_padding = spec->data.augment.crop_padding,
            .flip_p = spec->data.augment.flip_p,
        };
    return dataset_open(from, &options, out, err);
}

/* A file of both splits does not tell which of them is meant. */
static int
open_validation(const struct spec *spec, struct dataset **out, struct err *err)
{
    const struct spec_source *from = &spec->data.validation;
    const int rc = open_split(spec, from, out, err);

    if (rc < 0 && strcmp(from->input, spec->data.train.input) == 0)
        return err_prefix(err, "data.validation");
    return rc;
}

static bool
same_shape(const struct build_data *a, const struct build_data *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof(a->dim[0])) == 0 &&
           a->target_elems == b->target_elems &&
           a->target_rank == b->target_rank &&
           memcmp(a->target_dim, b->target_dim,
                  (size_t)a->target_rank * sizeof(a->target_dim[0])) == 0;
}

/* What one batch size per split, and a smaller one at the end, come to. */
static int
measure(const struct spec *spec, struct source *s, struct err *err)
{
    const int64_t n = dataset_n_samples(s->train);

    s->order = (struct order){
        .seed = spec->seed,
        .n_samples = n,
        .batch_size = spec->data.batch_size,
        .accumulate = spec->train.accumulate,
        .shuffle = spec->data.shuffle,
        .drop_last = spec->data.drop_last,
        .id_step = dataset_id_step(s->train),
        .n_starts = dataset_n_starts(s->train),
    };
    s->windows_per_epoch = order_windows_per_epoch(&s->order);
    if (s->windows_per_epoch < 1)
        return err_set(err, ERR_DATA,
                       "data.train: %lld samples make no batch of %lld%s",
                       (long long)n, (long long)spec->data.batch_size,
                       spec->data.drop_last ? " (drop_last is set)" : "");
    if (spec->train.epochs > INT64_MAX / s->windows_per_epoch)
        return err_set(err, ERR_SPEC, "train.epochs: too many iterations");
    s->total_iterations = spec->train.epochs * s->windows_per_epoch;
    if (spec->train.max_iterations > 0 &&
        spec->train.max_iterations < s->total_iterations)
        s->total_iterations = spec->train.max_iterations;
    evaluate_batch_sizes(n, spec->data.batch_size, &s->train_full,
                         &s->train_last);
    if (spec->data.drop_last)
        s->train_last = 0;
    if (s->validation != NULL)
        evaluate_batch_sizes(dataset_n_samples(s->validation),
                             spec->data.batch_size, &s->eval_full,
                             &s->eval_last);
    return 0;
}

int
source_open(const struct spec *spec, struct source *source, struct err *err)
{
    struct build_data validation;
    int rc;

    memset(source, 0, sizeof(*source));
    rc = open_split(spec, &spec->data.train, &source->train, err);
    if (rc != 0)
        goto out;
    dataset_describe(source->train, &source->data);
    if (spec->data.validation.present) {
        rc = open_validation(spec, &source->validation, err);
        if (rc != 0)
            goto out;
        dataset_describe(source->validation, &validation);
        if (!same_shape(&source->data, &validation)) {
            rc = err_set(err, ERR_DATA,
                         "%s: samples have another shape than those of %s",
                         spec->data.validation.input, spec->data.train.input);
            goto out;
        }
        if (!source->data.has_ignore_index) { /* one of them may have a mask */
            source->data.has_ignore_index = validation.has_ignore_index;
            source->data.ignore_index = validation.ignore_index;
        }
    }
    rc = measure(spec, source, err);
out:
    if (rc != 0)
        source_close(source);
    return rc;
}

void
source_close(struct source *source)
{
    dataset_destroy(&source->train);
    dataset_destroy(&source->validation);
}

int
source_compile(const struct source *source,
               const struct variants_options *options, struct variants **out,
               struct err *err)
{
    const struct {
        enum build_mode mode;
        int64_t batch_size;
    } wanted[] = {{BUILD_TRAIN, source->train_full},
                  {BUILD_TRAIN, source->train_last},
                  {BUILD_EVAL, source->eval_full},
                  {BUILD_EVAL, source->eval_last}};
    int rc = 0;

    *out = variants_create();
    if (*out == NULL)
        return err_set(err, ERR_NOMEM, "programs: no memory");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && rc == 0; i++)
        if (wanted[i].batch_size > 0)
            rc = variants_add(*out, options, wanted[i].mode,
                              wanted[i].batch_size, err);
    if (rc != 0)
        variants_destroy(out);
    return rc;
}

static int
check_split(const struct dataset *d, const struct graph *g, struct err *err)
{
    const int64_t limit = build_token_limit(g);
    struct build_data data;
    int rc = 0;

    if (d == NULL)
        return 0;
    dataset_describe(d, &data);
    if (data.input_is_tokens && limit > 0)
        rc = dataset_check_tokens(d, limit, err);
    if (rc == 0 && data.target_is_class)
        rc = dataset_check_classes(d, build_class_limit(g), err);
    return rc;
}

int
source_check_model(const struct source *source, const struct graph *graph,
                   struct err *err)
{
    int rc = check_split(source->train, graph, err);

    return rc != 0 ? rc : check_split(source->validation, graph, err);
}
