/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/csv.h"
#include "engine/data/idx.h"
#include "engine/data/npy.h"
#include "engine/data/safetensors.h"

static int
no_memory(const char *name, struct err *err)
{
    return err_set(err, ERR_NOMEM, "%s: no memory", name);
}

/* "FILE (y)" in place of *name. */
static int
rename_part(char **name, const char *path, const char *part, struct err *err)
{
    char *text;

    if (asprintf(&text, "%s (%s)", path, part) < 0)
        return no_memory(path, err);
    free(*name);
    *name = text;
    return 0;
}

/* ---- safetensors ---------------------------------------------------------*/

static int
copy_tensor(const struct safetensors *file, const char *path, const char *name,
            struct array *out, struct err *err)
{
    const struct safetensors_entry *e = safetensors_find(file, name);
    size_t n_bytes;
    void *memory;

    if (e == NULL) {
        const int n = safetensors_n_entries(file);

        return err_set(
            err, ERR_DATA, "%s: there is no tensor \"%s\"; it has %d%s%s%s",
            path, name, n, n > 0 ? ", the first is \"" : "",
            n > 0 ? safetensors_at(file, 0)->name : "", n > 0 ? "\"" : "");
    }
    n_bytes = tensor_n_bytes(&e->desc);
    memory = malloc(n_bytes > 0 ? n_bytes : 1);
    if (memory == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", path,
                       n_bytes);
    if (n_bytes > 0)
        memcpy(memory, e->data, n_bytes);
    array_init_take(out, &e->desc, memory, 0, false);
    return 0;
}

static int
read_tensors(struct dataset *d, const struct spec_source *source,
             struct err *err)
{
    const bool both = source->target == NULL;
    struct safetensors *file;
    int rc = safetensors_open(source->input, &file, err);

    if (rc < 0)
        return rc;
    rc = copy_tensor(file, source->input, source->input_name, &d->input, err);
    if (rc == 0 && both)
        rc = copy_tensor(file, source->input, source->target_name, &d->target,
                         err);
    safetensors_close(&file);
    if (rc == 0)
        rc =
            rename_part(&d->input_path, source->input, source->input_name, err);
    if (rc == 0 && both)
        rc = rename_part(&d->target_path, source->input, source->target_name,
                         err);
    d->has_target = rc == 0 && both;
    return rc;
}

static int
read_target_tensor(struct dataset *d, const struct spec_source *source,
                   struct err *err)
{
    struct safetensors *file;
    int rc = safetensors_open(source->target, &file, err);

    if (rc < 0)
        return rc;
    rc =
        copy_tensor(file, source->target, source->target_name, &d->target, err);
    safetensors_close(&file);
    return rc < 0 ? rc
                  : rename_part(&d->target_path, source->target,
                                source->target_name, err);
}

/* ---- csv -----------------------------------------------------------------*/

static int
read_csv(struct dataset *d, const struct spec_source *source,
         const struct dataset_options *options, struct err *err)
{
    const struct csv_options o = {
        .target_columns = source->target_columns,
        .n_target_columns = source->n_target_columns,
        .target_is_class = options->target_is_class,
        .to_half = options->to_half,
    };
    char text[400];
    struct csv csv;
    int rc = csv_open(source->input, &o, &csv, err);

    if (rc < 0)
        return rc;
    d->input = csv.input;
    d->target = csv.target;
    d->has_target = true;
    if (csv.warnings.n > 0) {
        csv_format_faults(&csv.warnings, text, sizeof(text));
        if (asprintf(&d->warning, "%s: %s", source->input, text) < 0) {
            d->warning = NULL;
            return no_memory(source->input, err);
        }
    }
    if (source->n_target_columns > 1)
        return 0;
    return rename_part(&d->target_path, source->input,
                       source->target_columns[0], err);
}

/* ---- any -----------------------------------------------------------------*/

int
dataset_read_check(const struct spec_source *source, struct err *err)
{
    const char *missing = NULL;

    if (!source->present || source->input == NULL)
        return err_set(err, ERR_SPEC, "data: input is missing");
    switch (source->format) {
    case SPEC_FORMAT_IDX:
    case SPEC_FORMAT_NPY:
        missing = source->target == NULL ? "target" : NULL;
        break;
    case SPEC_FORMAT_SAFETENSORS:
        missing = source->input_name == NULL    ? "input_name"
                  : source->target_name == NULL ? "target_name"
                                                : NULL;
        break;
    case SPEC_FORMAT_CSV:
        missing = source->n_target_columns < 1 ? "target_columns" : NULL;
        break;
    case SPEC_FORMAT_TOKENS:
    case SPEC_FORMAT_TEXT: break;
    }
    if (missing != NULL)
        return err_set(err, ERR_SPEC, "data: %s is missing", missing);
    return 0;
}

int
dataset_read_input(struct dataset *d, const struct spec_source *source,
                   const struct dataset_options *options, struct err *err)
{
    switch (source->format) {
    case SPEC_FORMAT_IDX: return idx_open(source->input, &d->input, err);
    case SPEC_FORMAT_NPY: return npy_open(source->input, &d->input, err);
    case SPEC_FORMAT_SAFETENSORS: return read_tensors(d, source, err);
    case SPEC_FORMAT_CSV: return read_csv(d, source, options, err);
    case SPEC_FORMAT_TOKENS:
    case SPEC_FORMAT_TEXT: break;
    }
    return err_set(err, ERR_INTERNAL, "%s: tokens are no arrays",
                   source->input);
}

int
dataset_read_target(struct dataset *d, const struct spec_source *source,
                    struct err *err)
{
    if (d->has_target)
        return 0;
    switch (source->format) {
    case SPEC_FORMAT_IDX: return idx_open(source->target, &d->target, err);
    case SPEC_FORMAT_NPY: return npy_open(source->target, &d->target, err);
    case SPEC_FORMAT_SAFETENSORS: return read_target_tensor(d, source, err);
    case SPEC_FORMAT_CSV:
    case SPEC_FORMAT_TOKENS:
    case SPEC_FORMAT_TEXT: break;
    }
    return err_set(err, ERR_INTERNAL, "%s: has no target of its own",
                   source->input);
}
