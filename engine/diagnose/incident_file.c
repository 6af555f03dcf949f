/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/incident_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/failpoint.h"
#include "engine/diagnose/step_digest.h"
#include "engine/run/ckpt_dir.h"
#include "engine/run/ckpt_tensors.h"

_Static_assert(INCIDENT_RECORD_NAME_MAX == CKPT_DIR_NAME_MAX,
               "one length of a name");

#define HEADER_BYTES     1024 /* of a safetensors file, at least */
#define HEADER_PER_ENTRY 256
#define TEXT_BYTES       (16 * 1024) /* of the two records */

struct writer {
    const struct incident_file_args *args;
    int parent, dir; /* -1: not open */
    struct ckpt_tensors weights;
    struct safetensors_entry *batch; /* owned */
    char (*batch_name)[32];          /* owned */
    int n_batch;
    struct incident_manifest manifest;
    struct err *err;
};

void
incident_file_format_name(char name[INCIDENT_RECORD_NAME_MAX],
                          const struct state *state, int64_t attempt)
{
    ckpt_dir_format_name(name, state->count.iteration + 1, attempt);
}

static int64_t
sample_elems(const struct build_data *d)
{
    int64_t n = 1;

    for (int i = 0; i < d->rank; i++)
        n *= d->dim[i];
    return n;
}

int64_t
incident_file_estimate(const struct incident_file_args *args,
                       int64_t *weights_bytes)
{
    const struct state *s = args->state;
    const struct order_window *at = &args->window->at;
    const int64_t elems = sample_elems(args->data) + args->data->target_elems;

    *weights_bytes =
        (s->param_elems + s->buffer_elems) * (int64_t)sizeof(float) +
        HEADER_BYTES +
        (int64_t)(s->n_params + 2 * s->n_buffers) * HEADER_PER_ENTRY;
    return at->n_samples * (elems * 4 + 8) + HEADER_BYTES +
           3 * at->n_batches * HEADER_PER_ENTRY + TEXT_BYTES;
}

/* ---- lists of tensors -----------------------------------------------------*/

static void
add_batch(struct writer *w, const char *what, int64_t b, enum dtype dtype,
          int64_t n, int64_t elems, const void *data)
{
    const int64_t dim[2] = {n, elems};
    const int i = w->n_batch++;

    snprintf(w->batch_name[i], sizeof(w->batch_name[i]), "%s.%" PRId64, what,
             b);
    w->batch[i] = (struct safetensors_entry){
        w->batch_name[i], tensor_make(dtype, elems > 0 ? 2 : 1, dim), data};
}

static int
list_batch(struct writer *w)
{
    const struct prefetch_window *window = w->args->window;
    const struct build_data *d = w->args->data;
    const size_t n = (size_t)window->at.n_batches * 3;

    w->batch = calloc(n, sizeof(*w->batch));
    w->batch_name = calloc(n, sizeof(*w->batch_name));
    if (w->batch == NULL || w->batch_name == NULL)
        return err_set(w->err, ERR_NOMEM, "no memory");
    for (int64_t b = 0; b < window->at.n_batches; b++) {
        const struct prefetch_batch *one = &window->batch[b];

        add_batch(w, "input", b, d->input_is_tokens ? DTYPE_I32 : DTYPE_F32,
                  one->n, sample_elems(d), one->input);
        add_batch(w, "target", b, d->target_is_class ? DTYPE_I32 : DTYPE_F32,
                  one->n, d->target_elems, one->target);
        add_batch(w, "ids", b, DTYPE_I64, one->n, 0, one->ids);
    }
    return 0;
}

/* ---- files ----------------------------------------------------------------*/

static int
pass(const struct writer *w, const char *failpoint, const char *file)
{
    const int errnum = failpoint_hit(failpoint);

    return errnum == 0
               ? 0
               : err_set_errno(w->err, errnum == ENOSPC ? ERR_NOSPACE : ERR_IO,
                               errnum, "%s", file);
}

static int
write_tensors(struct writer *w, enum incident_record_file which,
              const struct safetensors_entry *entry, int n)
{
    static const struct safetensors_pair metadata[] = {{"format", "pt"}};
    const char *file = incident_record_file_name(which);
    const int fd = ckpt_dir_create_file(w->dir, file, 0, w->err);
    int rc;

    if (fd < 0)
        return fd;
    rc = safetensors_write(fd, entry, n, metadata, 1,
                           w->manifest.file[which].digest,
                           &w->manifest.file[which].n_bytes, w->err);
    if (rc < 0) {
        close(fd);
        return err_prefix(w->err, "%s", file);
    }
    return ckpt_dir_finish_file(fd, file, w->err);
}

/* False: they must be written after all. The other incident may be gone, or
 * the file system have no links. */
static bool
link_weights(struct writer *w)
{
    const struct incident_file_weights *linked = w->args->linked;
    const char *file = incident_record_file_name(INCIDENT_RECORD_WEIGHTS);
    char from[2 * INCIDENT_RECORD_NAME_MAX];
    struct stat st;

    if (linked == NULL)
        return false;
    snprintf(from, sizeof(from), "%s/%s", linked->name, file);
    if (linkat(w->parent, from, w->dir, file, 0) < 0)
        return false;
    if (fstatat(w->dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode) || st.st_size != linked->n_bytes) {
        unlinkat(w->dir, file, 0); /* somebody was at it */
        return false;
    }
    w->manifest.file[INCIDENT_RECORD_WEIGHTS].n_bytes = linked->n_bytes;
    memcpy(w->manifest.file[INCIDENT_RECORD_WEIGHTS].digest, linked->digest,
           DIGEST_TEXT_BYTES);
    return true;
}

/* text is malloc'd and consumed. */
static int
write_text_take(struct writer *w, enum incident_record_file which, char *text)
{
    const char *file = incident_record_file_name(which);
    int rc;

    if (text == NULL)
        return err_set(w->err, ERR_NOMEM, "%s: no memory", file);
    digest_of(text, strlen(text), w->manifest.file[which].digest);
    w->manifest.file[which].n_bytes = (int64_t)strlen(text);
    rc = ckpt_dir_write_file(w->dir, file, text, w->err);
    free(text);
    return rc;
}

static int
write_record(struct writer *w)
{
    const struct incident_file_args *a = w->args;
    struct incident_record r = {
        .attempt = a->attempt,
        .count = a->state->count,
        .batches_tracked = a->state->batches_tracked,
        .seed = a->state->seed,
        .scale = a->state->scaler.scale,
        .growth_tracker = a->state->scaler.growth_tracker,
        .backend = a->backend,
        .policy = a->policy,
        .threads = a->threads,
        .data = *a->data,
        .n_batches = a->window->at.n_batches,
        .n_count = a->window->n_count,
        .loss = a->loss,
        .diagnosis = *a->diagnosis,
    };
    const int rc = step_digest(a->loss, a->state, r.digest, w->err);

    if (rc != 0)
        return rc;
    memcpy(r.name, w->manifest.name, sizeof(r.name));
    r.diagnosis.u.incident.name = r.name;
    return write_text_take(w, INCIDENT_RECORD_SELF, incident_record_print(&r));
}

static int
write_manifest(struct writer *w, struct incident_file_info *info)
{
    char *text;
    int rc = pass(w, "incident.before_manifest", INCIDENT_RECORD_MANIFEST);

    if (rc < 0)
        return rc;
    text = incident_record_print_manifest(&w->manifest);
    if (text == NULL)
        return err_set(w->err, ERR_NOMEM,
                       INCIDENT_RECORD_MANIFEST ": no memory");
    info->n_bytes = (int64_t)strlen(text);
    for (int i = 0; i < INCIDENT_RECORD_N_FILES; i++)
        if (i != INCIDENT_RECORD_WEIGHTS)
            info->n_bytes += w->manifest.file[i].n_bytes;
    rc = ckpt_dir_write_file(w->dir, INCIDENT_RECORD_MANIFEST, text, w->err);
    free(text);
    return rc;
}

static int
write_files(struct writer *w, struct incident_file_info *info)
{
    int rc = pass(w, "incident.before_weights", "weights.safetensors");

    if (rc == 0 && !link_weights(w))
        rc = write_tensors(w, INCIDENT_RECORD_WEIGHTS, w->weights.entry,
                           w->weights.n);
    if (rc == 0)
        rc = write_tensors(w, INCIDENT_RECORD_BATCH, w->batch, w->n_batch);
    if (rc == 0)
        rc =
            write_text_take(w, INCIDENT_RECORD_SPEC, spec_print(w->args->spec));
    if (rc == 0)
        rc = write_record(w);
    return rc != 0 ? rc : write_manifest(w, info);
}

static uint64_t
find_inode(int dir)
{
    struct stat st;

    return fstatat(dir, incident_record_file_name(INCIDENT_RECORD_WEIGHTS), &st,
                   AT_SYMLINK_NOFOLLOW) == 0
               ? (uint64_t)st.st_ino
               : 0;
}

static int
write_all(struct writer *w, struct incident_file_info *info)
{
    int64_t weights_bytes;
    int64_t n_bytes = incident_file_estimate(w->args, &weights_bytes);
    int rc;

    w->parent = ckpt_dir_open(w->args->directory, true, w->err);
    if (w->parent < 0)
        return w->parent;
    if (w->args->linked == NULL)
        n_bytes += weights_bytes;
    rc = ckpt_dir_check_space(w->parent, n_bytes, w->err);
    if (rc < 0)
        return rc;
    w->dir = ckpt_dir_begin(w->parent, info->name, w->err);
    if (w->dir < 0)
        return w->dir;
    rc = write_files(w, info);
    info->weights_bytes = w->manifest.file[INCIDENT_RECORD_WEIGHTS].n_bytes;
    info->weights_inode = find_inode(w->dir);
    if (rc == 0)
        rc = ckpt_dir_commit(w->parent, w->dir, info->name, w->err);
    if (rc < 0)
        ckpt_dir_abandon(w->parent, info->name);
    return rc;
}

int
incident_file_write(const struct incident_file_args *args,
                    struct incident_file_info *info,
                    struct incident_file_weights *weights, struct err *err)
{
    struct writer w = {.args = args, .parent = -1, .dir = -1, .err = err};
    int rc;

    assert(args->diagnosis->kind == EVENT_INCIDENT);
    memset(info, 0, sizeof(*info));
    incident_file_format_name(info->name, args->state, args->attempt);
    memcpy(w.manifest.name, info->name, sizeof(info->name));
    info->verdict = args->diagnosis->u.incident.verdict;
    rc = ckpt_tensors_list_model(args->state, args->state->weights, &w.weights,
                                 err);
    if (rc == 0)
        rc = list_batch(&w);
    if (rc == 0)
        rc = write_all(&w, info);
    if (rc == 0) {
        memcpy(weights->name, info->name, sizeof(weights->name));
        memcpy(weights->digest, w.manifest.file[INCIDENT_RECORD_WEIGHTS].digest,
               DIGEST_TEXT_BYTES);
        weights->n_bytes = info->weights_bytes;
    } else {
        err_prefix(err, "incident %s is not kept", info->name);
    }
    if (w.dir >= 0)
        close(w.dir);
    if (w.parent >= 0)
        close(w.parent);
    ckpt_tensors_fini(&w.weights);
    free(w.batch);
    free(w.batch_name);
    return rc;
}

/* ---- looking --------------------------------------------------------------*/

static int64_t
file_bytes(int dir, const char *file)
{
    struct stat st;

    return fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(st.st_mode)
               ? (int64_t)st.st_size
               : 0;
}

static enum event_verdict
find_verdict(int dir)
{
    const char *file = incident_record_file_name(INCIDENT_RECORD_SELF);
    enum event_verdict verdict = EVENT_VERDICT_NONE;
    struct incident_record record;
    struct err err;
    char *text;
    size_t len;

    if (file_bytes(dir, file) > INCIDENT_RECORD_MAX_BYTES ||
        ckpt_dir_read_file(dir, file, &text, &len, &err) < 0)
        return verdict;
    if (incident_record_parse(text, len, &record, &err) == 0) {
        verdict = record.diagnosis.u.incident.verdict;
        incident_record_fini(&record);
    }
    free(text);
    return verdict;
}

int
incident_file_look(const char *directory, const char *name,
                   struct incident_file_info *info, struct err *err)
{
    const int parent = ckpt_dir_open(directory, false, err);
    int dir;

    memset(info, 0, sizeof(*info));
    if (parent < 0)
        return parent;
    dir = ckpt_dir_open_one(parent, name, err);
    close(parent);
    if (dir < 0)
        return dir;
    snprintf(info->name, sizeof(info->name), "%s", name);
    info->n_bytes = file_bytes(dir, INCIDENT_RECORD_MANIFEST);
    for (int i = 0; i < INCIDENT_RECORD_N_FILES; i++)
        if (i != INCIDENT_RECORD_WEIGHTS)
            info->n_bytes += file_bytes(
                dir, incident_record_file_name((enum incident_record_file)i));
    info->weights_bytes =
        file_bytes(dir, incident_record_file_name(INCIDENT_RECORD_WEIGHTS));
    info->weights_inode = find_inode(dir);
    info->verdict = find_verdict(dir);
    close(dir);
    return 0;
}
