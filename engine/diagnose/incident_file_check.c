/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a kept incident against each other, and against the model:
 * each may be as it was written, and still not be of the others. */
#include "engine/diagnose/incident_file_private.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/machine.h"
#include "engine/run/ckpt_dir.h"
#include "engine/run/policy.h"

/* What is held at once: of the weights the file, the state and the gradients
 * of it and of both runs; of the batch the file and a copy. */
#define COPIES_WEIGHTS 5
#define COPIES_BATCH   2

int64_t
incident_file_check_elems(const struct build_data *data)
{
    int64_t n = 1;

    for (int i = 0; i < data->rank; i++)
        n *= data->dim[i];
    return n;
}

/* ---- each other -----------------------------------------------------------*/

int
incident_file_check_memory(const struct incident_manifest *manifest,
                           struct err *err)
{
    const int64_t weights = manifest->file[INCIDENT_RECORD_WEIGHTS].n_bytes;
    const int64_t batch = manifest->file[INCIDENT_RECORD_BATCH].n_bytes;
    const int64_t here = machine_memory_bytes();

    if (weights <= here / COPIES_WEIGHTS &&
        batch <= (here - weights * COPIES_WEIGHTS) / COPIES_BATCH)
        return 0;
    return err_set(err, ERR_NOMEM,
                   "%s of %" PRId64 " and %s of %" PRId64
                   " bytes are more than can be replayed with the %" PRId64
                   " bytes of memory of this machine",
                   INCIDENT_FILE_WEIGHTS, weights, INCIDENT_FILE_BATCH, batch,
                   here);
}

static int
check_names(const struct incident_file *f, struct err *err)
{
    char name[INCIDENT_RECORD_NAME_MAX];

    ckpt_dir_format_name(name, f->record.count.iteration + 1,
                         f->record.attempt);
    if (strcmp(f->record.name, name) == 0 &&
        strcmp(f->manifest.name, name) == 0 &&
        strcmp(f->record.diagnosis.u.incident.name, name) == 0)
        return 0;
    return err_set(err, ERR_CKPT, "incident.json: it is of %s", f->record.name);
}

int
incident_file_check_record(const struct incident_file *file, struct err *err)
{
    const struct build_data *d = &file->record.data;
    const struct spec *spec = file->spec;
    int rc = check_names(file, err);

    if (rc != 0)
        return rc;
    if (policy_check(file->record.policy, spec, err) != 0) {
        err->code = ERR_CKPT;
        return err_prefix(err, INCIDENT_FILE_SELF ": policy");
    }
    if (spec->loss.has_ignore_index &&
        (!d->has_ignore_index || d->ignore_index != spec->loss.ignore_index))
        return err_set(err, ERR_CKPT,
                       INCIDENT_FILE_SELF
                       ": data: ignore_index is not the %" PRId64
                       " of " INCIDENT_FILE_SPEC,
                       spec->loss.ignore_index);
    return 0;
}

/* Ids that the loss leaves out do not count. */
static int64_t
count_targets(const struct incident_file *f)
{
    const struct build_data *d = &f->record.data;
    int64_t n_count = f->window.at.n_samples * d->target_elems;

    if (!d->target_is_class || !d->has_ignore_index)
        return n_count;
    for (int64_t b = 0; b < f->record.n_batches; b++) {
        const int32_t *label = f->batch[b].target;

        for (int64_t i = 0; i < f->batch[b].n * d->target_elems; i++)
            n_count -= label[i] == d->ignore_index ? 1 : 0;
    }
    return n_count;
}

int
incident_file_check_window(const struct incident_file *file, struct err *err)
{
    const int64_t n_count = count_targets(file);

    if (file->record.n_batches > file->spec->train.accumulate)
        return err_set(err, ERR_CKPT,
                       INCIDENT_FILE_SELF
                       ": micro_batches: %" PRId64 ", but train.accumulate "
                       "of " INCIDENT_FILE_SPEC " is %" PRId64,
                       file->record.n_batches, file->spec->train.accumulate);
    if (file->record.n_count != n_count)
        return err_set(err, ERR_CKPT,
                       INCIDENT_FILE_SELF ": count: %" PRId64
                                          ", but " INCIDENT_FILE_BATCH
                                          " has %" PRId64 " targets that count",
                       file->record.n_count, n_count);
    return 0;
}

/* ---- the model ------------------------------------------------------------*/

static int
check_tensor(const struct incident_file *f, const char *name,
             const struct tensor_desc *want, struct err *err)
{
    const struct safetensors_entry *e = safetensors_find(f->weights, name);
    char is[128], expected[128];

    if (e == NULL)
        return err_set(err, ERR_CKPT, INCIDENT_FILE_WEIGHTS ": %s is missing",
                       name);
    if (e->desc.dtype == DTYPE_F32 && tensor_same_shape(&e->desc, want))
        return 0;
    return err_set(err, ERR_CKPT,
                   INCIDENT_FILE_WEIGHTS ": %s is %s, the model has %s", name,
                   tensor_format(&e->desc, is, sizeof(is)),
                   tensor_format(want, expected, sizeof(expected)));
}

/* ids: of a tensor of the batch, n of them. */
static int
check_ids(const char *what, int64_t b, const int32_t *ids, int64_t n,
          int64_t limit, struct err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= limit)
            return err_set(err, ERR_CKPT,
                           INCIDENT_FILE_BATCH ": %s.%" PRId64
                                               ": value %" PRId32
                                               ", allowed 0..%" PRId64,
                           what, b, ids[i], limit - 1);
    return 0;
}

static int
check_tokens(const struct incident_file *f, const struct graph *graph,
             struct err *err)
{
    const struct build_data *d = &f->record.data;
    const int64_t limit = build_token_limit(graph);
    int rc = 0;

    if (!d->input_is_tokens || limit == 0)
        return 0;
    for (int64_t b = 0; b < f->record.n_batches && rc == 0; b++)
        rc =
            check_ids("input", b, f->batch[b].input,
                      f->batch[b].n * incident_file_check_elems(d), limit, err);
    return rc;
}

static int
check_classes(const struct incident_file *f, const struct graph *graph,
              struct err *err)
{
    const struct build_data *d = &f->record.data;
    const int64_t limit = build_class_limit(graph);
    int rc = 0;

    if (!d->target_is_class)
        return 0;
    for (int64_t b = 0; b < f->record.n_batches && rc == 0; b++) {
        const int32_t *label = f->batch[b].target;

        for (int64_t i = 0; i < f->batch[b].n * d->target_elems && rc == 0; i++)
            if (!d->has_ignore_index || label[i] != d->ignore_index)
                rc = check_ids("target", b, label + i, 1, limit, err);
    }
    return rc;
}

int
incident_file_check(const struct incident_file *file, const struct graph *graph,
                    struct err *err)
{
    int rc = 0;

    for (int i = 0; i < graph_n_params(graph) && rc == 0; i++)
        rc = check_tensor(file, graph_param_at(graph, i)->name,
                          &graph_param_at(graph, i)->desc, err);
    for (int i = 0; i < graph_n_buffers(graph) && rc == 0; i++)
        rc = check_tensor(file, graph_buffer_at(graph, i)->name,
                          &graph_buffer_at(graph, i)->desc, err);
    if (rc == 0)
        rc = check_tokens(file, graph, err);
    return rc != 0 ? rc : check_classes(file, graph, err);
}

/* Whoever runs it again did not write it: the file is at fault. */
static int
blame_spec(struct err *err)
{
    if (err->code == ERR_SPEC || err->code == ERR_UNSUPPORTED)
        err->code = ERR_CKPT;
    return err_prefix(err, INCIDENT_FILE_SPEC);
}

int
incident_file_make_state(const struct incident_file *file, struct state **out,
                         struct err *err)
{
    struct graph *graph = NULL;
    int64_t full, last;
    int rc = 0;

    *out = NULL;
    incident_file_batch_sizes(file, &full, &last);
    if (build_graph(file->spec, &file->record.data, BUILD_TRAIN, full, &graph,
                    err) != 0)
        rc = blame_spec(err);
    if (rc == 0)
        rc = incident_file_check(file, graph, err);
    if (rc == 0 && state_create(graph, 0, out, err) != 0)
        rc = blame_spec(err);
    if (rc == 0)
        rc = incident_file_load(file, *out, err);
    if (rc != 0)
        state_destroy(out);
    graph_destroy(&graph);
    return rc;
}
