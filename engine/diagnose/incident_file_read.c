/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half of incident_file.h: each file is read once, and what was
 * verified is what is used. */
#include "engine/diagnose/incident_file_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/pass/memplan.h"
#include "engine/run/ckpt_dir.h"
#include "engine/run/ckpt_tensors.h"

void
incident_file_close(struct incident_file **file)
{
    struct incident_file *f = *file;

    *file = NULL;
    if (f == NULL)
        return;
    safetensors_close(&f->weights);
    safetensors_close(&f->tensors);
    for (int i = 0; i < INCIDENT_RECORD_N_FILES; i++)
        free(f->bytes[i]);
    incident_record_fini(&f->record);
    spec_destroy(&f->spec);
    free(f->batch);
    free(f->block);
    free(f->ids);
    free(f);
}

/* ---- files ----------------------------------------------------------------*/

/* Looked at before memory is made for it. */
static int
check_size(int dir, const char *file, int64_t at_most, int64_t exactly,
           struct err *err)
{
    struct stat st;

    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set_errno(err, ERR_CKPT, errno, "%s", file);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CKPT, "%s: not a regular file", file);
    if (exactly >= 0 && st.st_size != exactly)
        return err_set(err, ERR_CKPT,
                       "%s: %lld bytes, the manifest says %" PRId64, file,
                       (long long)st.st_size, exactly);
    if (at_most >= 0 && st.st_size > at_most)
        return err_set(err, ERR_CKPT, "%s: %lld bytes are too many", file,
                       (long long)st.st_size);
    return 0;
}

static int
read_manifest(struct incident_file *f, int dir, struct err *err)
{
    char *text;
    size_t len;
    int rc = check_size(dir, INCIDENT_RECORD_MANIFEST,
                        INCIDENT_RECORD_MAX_BYTES, -1, err);

    if (rc == 0)
        rc =
            ckpt_dir_read_file(dir, INCIDENT_RECORD_MANIFEST, &text, &len, err);
    if (rc < 0)
        return rc;
    rc = incident_record_parse_manifest(text, len, &f->manifest, err);
    free(text);
    return rc;
}

/* -1: as large as memory, which was looked at. */
static int64_t
at_most(enum incident_record_file which)
{
    switch (which) {
    case INCIDENT_RECORD_SPEC: return SPEC_MAX_BYTES;
    case INCIDENT_RECORD_SELF: return INCIDENT_RECORD_MAX_BYTES;
    case INCIDENT_RECORD_WEIGHTS:
    case INCIDENT_RECORD_BATCH:
    case INCIDENT_RECORD_N_FILES: break;
    }
    return -1;
}

static int
read_file(struct incident_file *f, int dir, enum incident_record_file which,
          struct err *err)
{
    const char *file = incident_record_file_name(which);
    const int64_t n_bytes = f->manifest.file[which].n_bytes;
    char digest[DIGEST_TEXT_BYTES];
    int rc = check_size(dir, file, at_most(which), n_bytes, err);

    if (rc == 0)
        rc = ckpt_dir_read_file(dir, file, &f->bytes[which], &f->len[which],
                                err);
    if (rc < 0)
        return rc;
    if ((int64_t)f->len[which] != n_bytes)
        return err_set(err, ERR_CKPT, "%s: changed while it was read", file);
    digest_of(f->bytes[which], f->len[which], digest);
    if (strcmp(digest, f->manifest.file[which].digest) != 0)
        return err_set(err, ERR_CKPT, "%s: checksum %s, the manifest says %s",
                       file, digest, f->manifest.file[which].digest);
    return 0;
}

static int
parse_spec(struct incident_file *f, struct err *err)
{
    struct spec_faults faults = {0};
    const int rc = spec_parse(f->bytes[INCIDENT_RECORD_SPEC],
                              f->len[INCIDENT_RECORD_SPEC], &f->spec, &faults);

    if (rc == ERR_SPEC && faults.n > 0)
        err_set(err, ERR_CKPT, INCIDENT_FILE_SPEC ":%d:%d: %s%s%s",
                faults.list[0].line, faults.list[0].col, faults.list[0].path,
                faults.list[0].path[0] != '\0' ? ": " : "",
                faults.list[0].message);
    else if (rc != 0)
        err_set(err, rc == ERR_SPEC ? ERR_CKPT : rc, INCIDENT_FILE_SPEC ": %s",
                err_line(rc));
    spec_faults_fini(&faults);
    return rc == 0 ? 0 : err->code;
}

static int
parse_tensors(struct incident_file *f, enum incident_record_file which,
              struct safetensors **out, struct err *err)
{
    const int rc =
        safetensors_parse(f->bytes[which], f->len[which],
                          incident_record_file_name(which), out, err);

    if (rc == ERR_DATA)
        err->code = ERR_CKPT;
    return rc == 0 ? 0 : err->code;
}

/* ---- the batch ------------------------------------------------------------*/

/* elems 0: a number a sample. */
static const struct safetensors_entry *
find_rows(const struct incident_file *f, const char *what, int64_t b,
          enum dtype dtype, int64_t elems, struct err *err)
{
    const struct safetensors_entry *e;
    char name[32];

    snprintf(name, sizeof(name), "%s.%" PRId64, what, b);
    e = safetensors_find(f->tensors, name);
    if (e == NULL) {
        err_set(err, ERR_CKPT, INCIDENT_FILE_BATCH ": %s is missing", name);
        return NULL;
    }
    if (e->desc.dtype == dtype && e->desc.rank == (elems > 0 ? 2 : 1) &&
        (elems == 0 || e->desc.dim[1] == elems))
        return e;
    err_set(err, ERR_CKPT,
            INCIDENT_FILE_BATCH ": %s is not of the data's shape", name);
    return NULL;
}

/* One of each size but the last, which may be smaller: what an epoch's windows
 * are cut to. */
static int
check_count(const struct incident_file *f, int64_t b, int64_t n,
            struct err *err)
{
    const int64_t first = b > 0 ? f->batch[0].n : n;
    const bool last = b + 1 == f->record.n_batches;

    if (n >= 1 && n <= f->spec->data.batch_size && (last || n == first) &&
        n <= first)
        return 0;
    return err_set(err, ERR_CKPT,
                   INCIDENT_FILE_BATCH ": micro-batch %" PRId64 " has %" PRId64
                                       " samples",
                   b, n);
}

static size_t
round_up(size_t n)
{
    return (n + MEMPLAN_ALIGN - 1) / MEMPLAN_ALIGN * MEMPLAN_ALIGN;
}

struct parts {
    const struct safetensors_entry *input, *target, *ids;
};

static int
find_parts(struct incident_file *f, int64_t b, struct parts *p, struct err *err)
{
    const struct build_data *d = &f->record.data;
    const int64_t elems = incident_file_check_elems(d);

    p->input = find_rows(
        f, "input", b, d->input_is_tokens ? DTYPE_I32 : DTYPE_F32, elems, err);
    if (p->input != NULL)
        p->target = find_rows(f, "target", b,
                              d->target_is_class ? DTYPE_I32 : DTYPE_F32,
                              d->target_elems, err);
    if (p->input != NULL && p->target != NULL)
        p->ids = find_rows(f, "ids", b, DTYPE_I64, 0, err);
    if (p->ids == NULL)
        return err->code;
    const int64_t n = p->ids->desc.dim[0];
    if (p->input->desc.dim[0] != n || p->target->desc.dim[0] != n)
        return err_set(err, ERR_CKPT,
                       INCIDENT_FILE_BATCH
                       ": micro-batch %" PRId64
                       " has inputs, targets and ids of different "
                       "number",
                       b);
    return check_count(f, b, n, err);
}

/* Copies it to where kernels may read it, at `at` of the block (NULL: only
 * counts). Returns where the next one goes. */
static size_t
place(struct incident_file *f, const struct safetensors_entry *e, size_t at,
      const void **out)
{
    const size_t n = tensor_n_bytes(&e->desc);

    if (f->block != NULL) {
        memcpy((char *)f->block + at, e->data, n);
        *out = (char *)f->block + at;
    }
    return at + round_up(n);
}

/* The first walk checks and counts, the second copies. */
static int
walk_batches(struct incident_file *f, size_t *n_bytes, int64_t *n_samples,
             struct err *err)
{
    size_t at = 0;

    *n_samples = 0;
    for (int64_t b = 0; b < f->record.n_batches; b++) {
        struct prefetch_batch *batch = &f->batch[b];
        struct parts p = {NULL, NULL, NULL};
        const int rc = find_parts(f, b, &p, err);

        if (rc != 0)
            return rc;
        batch->n = p.ids->desc.dim[0];
        at = place(f, p.input, at, &batch->input);
        at = place(f, p.target, at, &batch->target);
        if (f->ids != NULL) {
            memcpy(f->ids + *n_samples, p.ids->data,
                   (size_t)batch->n * sizeof(int64_t));
            batch->ids = f->ids + *n_samples;
        }
        *n_samples += batch->n;
    }
    *n_bytes = at;
    return 0;
}

static int
read_batch(struct incident_file *f, struct err *err)
{
    const int64_t n = f->record.n_batches;
    size_t n_bytes = 0;
    int64_t n_samples = 0;
    int rc;

    if (safetensors_n_entries(f->tensors) != 3 * n)
        return err_set(err, ERR_CKPT,
                       INCIDENT_FILE_BATCH ": %d tensors for %" PRId64
                                           " micro-batches",
                       safetensors_n_entries(f->tensors), n);
    f->batch = calloc((size_t)n, sizeof(*f->batch));
    if (f->batch == NULL)
        return err_set(err, ERR_NOMEM, INCIDENT_FILE_BATCH ": no memory");
    rc = walk_batches(f, &n_bytes, &n_samples, err);
    if (rc != 0)
        return rc;
    f->block = aligned_alloc(MEMPLAN_ALIGN, n_bytes + MEMPLAN_ALIGN);
    f->ids = calloc((size_t)n_samples, sizeof(*f->ids));
    if (f->block == NULL || f->ids == NULL)
        return err_set(err, ERR_NOMEM, INCIDENT_FILE_BATCH ": no memory");
    rc = walk_batches(f, &n_bytes, &n_samples, err);
    f->window = (struct prefetch_window){
        .at = {.n_batches = n, .n_samples = n_samples},
        .batch = f->batch,
        .n_count = f->record.n_count,
        .ids = f->ids,
    };
    return rc;
}

/* ---- opening --------------------------------------------------------------*/

static int
open_all(struct incident_file *f, int dir, struct err *err)
{
    int rc = read_manifest(f, dir, err);

    if (rc == 0)
        rc = incident_file_check_memory(&f->manifest, err);
    for (int i = 0; i < INCIDENT_RECORD_N_FILES && rc == 0; i++)
        rc = read_file(f, dir, (enum incident_record_file)i, err);
    if (rc == 0)
        rc = incident_record_parse(f->bytes[INCIDENT_RECORD_SELF],
                                   f->len[INCIDENT_RECORD_SELF], &f->record,
                                   err);
    if (rc == 0)
        rc = parse_spec(f, err);
    if (rc == 0)
        rc = incident_file_check_record(f, err);
    if (rc == 0)
        rc = parse_tensors(f, INCIDENT_RECORD_WEIGHTS, &f->weights, err);
    if (rc == 0)
        rc = parse_tensors(f, INCIDENT_RECORD_BATCH, &f->tensors, err);
    if (rc == 0)
        rc = read_batch(f, err);
    return rc != 0 ? rc : incident_file_check_window(f, err);
}

int
incident_file_open(const char *path, struct incident_file **out,
                   struct err *err)
{
    struct incident_file *f = calloc(1, sizeof(*f));
    int rc, dir;

    *out = NULL;
    if (f == NULL)
        return err_set(err, ERR_NOMEM, "incident: no memory");
    dir = ckpt_dir_open(path, false, err);
    rc = dir < 0 ? dir : open_all(f, dir, err);
    if (dir >= 0)
        close(dir);
    if (rc != 0) {
        incident_file_close(&f);
        return dir < 0 ? rc : err_prefix(err, "%s", path);
    }
    *out = f;
    return 0;
}

const struct incident_record *
incident_file_record(const struct incident_file *file)
{
    return &file->record;
}

struct spec *
incident_file_spec(struct incident_file *file)
{
    return file->spec;
}

const struct prefetch_window *
incident_file_window(const struct incident_file *file)
{
    return &file->window;
}

void
incident_file_batch_sizes(const struct incident_file *file, int64_t *full,
                          int64_t *last)
{
    *full = file->batch[0].n;
    *last = file->batch[file->record.n_batches - 1].n;
}

/* ---- loading --------------------------------------------------------------*/

int
incident_file_load(const struct incident_file *file, struct state *state,
                   struct err *err)
{
    const struct incident_record *r = &file->record;
    struct ckpt_tensors list;
    int rc = ckpt_tensors_list_model(state, state->weights, &list, err);

    if (rc == 0)
        rc = ckpt_tensors_match(&list, file->weights, err);
    if (rc != 0) {
        ckpt_tensors_fini(&list);
        return err_prefix(err, INCIDENT_FILE_WEIGHTS);
    }
    ckpt_tensors_load(&list, file->weights, state);
    ckpt_tensors_fini(&list);
    if (state->buffer_elems > 0)
        memcpy(state->buffers_pending, state->buffers,
               (size_t)state->buffer_elems * sizeof(float));
    state->count = r->count;
    state->batches_tracked = r->batches_tracked;
    state->seed = r->seed;
    state->scaler.scale = r->scale;
    state->scaler.growth_tracker = r->growth_tracker;
    state->weights_version++;
    return 0;
}
