/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/ckpt.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/failpoint.h"
#include "engine/run/ckpt_dir.h"
#include "engine/run/ckpt_manifest.h"
#include "engine/run/ckpt_tensors.h"

_Static_assert(CKPT_NAME_MAX == CKPT_DIR_NAME_MAX, "one length of a name");

/* Room for headers, state.json and manifest.json in the space check. */
#define OVERHEAD_BYTES (256 * 1024)

void
ckpt_info_fini(struct ckpt_info *info)
{
    free(info->policy);
    info->policy = NULL;
}

/* ---- writing ------------------------------------------------------------ */

struct writer {
    const struct state *state;
    const struct ckpt_write_args *args;
    struct ckpt_tensors list[CKPT_MANIFEST_STATE]; /* by file */
    int parent, dir;                               /* -1: not open */
    struct ckpt_manifest manifest;
    struct err *err;
};

static int
check_state(const struct writer *w)
{
    const struct state_counters *c = &w->state->count;
    const float scale = w->state->scaler.scale;
    int rc = scaler_may_save(&w->state->scaler, w->err);

    if (rc < 0)
        return rc;
    if (c->iteration != c->updates + c->skips)
        return err_set(w->err, ERR_MISUSE,
                       "%" PRId64 " iterations are not %" PRId64
                       " updates and %" PRId64 " skips",
                       c->iteration, c->updates, c->skips);
    if (!isfinite(scale))
        return err_set(w->err, ERR_NUMERICS, "scaler.scale is %g",
                       (double)scale);
    for (int f = 0; f < CKPT_MANIFEST_STATE && rc == 0; f++) {
        for (int i = 0; i < w->list[f].n && rc == 0; i++)
            rc = ckpt_tensors_check_finite(&w->list[f].entry[i], w->err);
        if (rc < 0 && f == CKPT_MANIFEST_EMA)
            rc = err_prefix(w->err, "average of weights");
    }
    return rc;
}

/* The optimizer's list may be empty, and its file is there all the same. */
static int
list_tensors(struct writer *w)
{
    const struct state *s = w->state;
    int rc = ckpt_tensors_list_model(s, s->weights,
                                     &w->list[CKPT_MANIFEST_MODEL], w->err);

    if (rc == 0 && s->ema != NULL)
        rc = ckpt_tensors_list_model(s, s->ema, &w->list[CKPT_MANIFEST_EMA],
                                     w->err);
    if (rc == 0)
        rc = ckpt_tensors_list_optimizer(s, &w->list[CKPT_MANIFEST_OPTIMIZER],
                                         w->err);
    for (int f = 0; f < CKPT_MANIFEST_N_FILES; f++)
        w->manifest.file[f].here = f != CKPT_MANIFEST_EMA || s->ema != NULL;
    return rc;
}

static int
write_tensors(struct writer *w, enum ckpt_manifest_file which)
{
    const struct ckpt_tensors *tensors = &w->list[which];
    const char *history = w->args->policy_history;
    const bool changed = history != NULL && history[0] != '\0';
    const struct safetensors_pair metadata[] = {
        {"format", "pt"}, /* what PyTorch's tools look for */
        {"policy", w->args->policy != NULL ? w->args->policy : ""},
        /* The flag goes wherever the weights go. */
        {"policy_changed", "true"},
        {"policy_history", changed ? history : ""},
    };
    const char *file = ckpt_manifest_file_name(which);
    const int fd = ckpt_dir_create_file(w->dir, file, tensors->n_bytes, w->err);
    int rc;

    if (fd < 0)
        return fd;
    rc = safetensors_write(fd, tensors->entry, tensors->n, metadata,
                           changed ? 4 : 2, w->manifest.file[which].digest,
                           &w->manifest.file[which].n_bytes, w->err);
    if (rc < 0) {
        close(fd);
        return err_prefix(w->err, "%s", file);
    }
    return ckpt_dir_finish_file(fd, file, w->err);
}

static int
write_record(struct writer *w)
{
    const struct state *s = w->state;
    const char *file = ckpt_manifest_file_name(CKPT_MANIFEST_STATE);
    struct ckpt_record record = {
        .format = CKPT_FORMAT_VERSION,
        .attempt = w->args->attempt,
        .count = s->count,
        .n_optim = s->n_optim,
        .seed = s->seed,
        .batches_tracked = s->batches_tracked,
        .scaler = s->scaler,
        .has_metric = w->args->has_metric && isfinite(w->args->metric),
        .metric = w->args->metric,
        .spec_hash = w->args->spec_hash,
        /* printing only reads it */
        .policy = (char *)(uintptr_t)w->args->policy,
    };
    char *text;
    int rc;

    memcpy(record.optim_steps, s->optim_steps, sizeof(record.optim_steps));
    text = ckpt_manifest_print_record(&record);
    if (text == NULL)
        return err_set(w->err, ERR_NOMEM, "%s: no memory", file);
    digest_of(text, strlen(text), w->manifest.file[CKPT_MANIFEST_STATE].digest);
    w->manifest.file[CKPT_MANIFEST_STATE].n_bytes = (int64_t)strlen(text);
    rc = ckpt_dir_write_file(w->dir, file, text, w->err);
    free(text);
    return rc;
}

static int
write_manifest(struct writer *w, struct ckpt_info *info)
{
    const int errnum = failpoint_hit("ckpt.before_manifest");
    char *text = NULL;
    int rc;

    if (errnum != 0)
        return err_set_errno(w->err, errnum == ENOSPC ? ERR_NOSPACE : ERR_IO,
                             errnum, CKPT_MANIFEST_NAME);
    text = ckpt_manifest_print(&w->manifest);
    if (text == NULL)
        return err_set(w->err, ERR_NOMEM, CKPT_MANIFEST_NAME ": no memory");
    digest_of(text, strlen(text), info->digest);
    info->n_bytes = (int64_t)strlen(text);
    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++)
        info->n_bytes += w->manifest.file[i].n_bytes;
    rc = ckpt_dir_write_file(w->dir, CKPT_MANIFEST_NAME, text, w->err);
    free(text);
    return rc;
}

static int
write_files(struct writer *w, struct ckpt_info *info)
{
    int rc = 0;

    for (int f = 0; f < CKPT_MANIFEST_STATE && rc == 0; f++)
        if (w->manifest.file[f].here)
            rc = write_tensors(w, (enum ckpt_manifest_file)f);
    if (rc == 0)
        rc = write_record(w);
    if (rc == 0)
        rc = write_manifest(w, info);
    return rc;
}

static int
write_all(struct writer *w, struct ckpt_info *info)
{
    int64_t n_bytes = OVERHEAD_BYTES;
    int rc;

    for (int f = 0; f < CKPT_MANIFEST_STATE; f++)
        n_bytes += w->list[f].n_bytes;
    w->parent = ckpt_dir_open(w->args->directory, true, w->err);
    if (w->parent < 0)
        return w->parent;
    rc = ckpt_dir_check_space(w->parent, n_bytes, w->err);
    if (rc < 0)
        return rc;
    w->dir = ckpt_dir_begin(w->parent, info->name, w->err);
    if (w->dir < 0)
        return w->dir;
    rc = write_files(w, info);
    if (rc == 0)
        rc = ckpt_dir_commit(w->parent, w->dir, info->name, w->err);
    if (rc < 0)
        ckpt_dir_abandon(w->parent, info->name);
    return rc;
}

static void
begin_info(struct writer *w, struct ckpt_info *info)
{
    const struct state_counters *c = &w->state->count;

    memset(info, 0, sizeof(*info));
    info->count = *c;
    info->attempt = w->args->attempt;
    info->has_metric = w->args->has_metric && isfinite(w->args->metric);
    info->metric = info->has_metric ? w->args->metric : 0;
    info->spec_hash = w->args->spec_hash;
    ckpt_dir_format_name(info->name, c->iteration, w->args->attempt);
    w->manifest.format = CKPT_FORMAT_VERSION;
    memcpy(w->manifest.name, info->name, sizeof(info->name));
    w->manifest.attempt = w->args->attempt;
    w->manifest.iteration = c->iteration;
    w->manifest.updates = c->updates;
    w->manifest.skips = c->skips;
}

int
ckpt_write(const struct state *state, const struct ckpt_write_args *args,
           struct ckpt_info *info, struct err *err)
{
    struct err own;
    struct writer w = {.state = state,
                       .args = args,
                       .parent = -1,
                       .dir = -1,
                       .err = err != NULL ? err : &own};
    int rc;

    assert(args->attempt >= 0 && state->count.iteration >= 0);
    begin_info(&w, info);
    rc = list_tensors(&w);
    if (rc == 0)
        rc = check_state(&w);
    if (rc == 0)
        rc = write_all(&w, info);
    if (rc < 0)
        err_prefix(w.err, "checkpoint %s", info->name);
    if (w.dir >= 0)
        close(w.dir);
    if (w.parent >= 0)
        close(w.parent);
    for (int f = 0; f < CKPT_MANIFEST_STATE; f++)
        ckpt_tensors_fini(&w.list[f]);
    return rc;
}

/* ---- removing ----------------------------------------------------------- */

int
ckpt_remove(const char *directory, const char *name, struct err *err)
{
    int64_t iteration, attempt;
    int parent, rc;

    if (!ckpt_dir_parse_name(name, &iteration, &attempt))
        return err_set(err, ERR_NOTFOUND, "%.80s: not the name of a checkpoint",
                       name);
    parent = ckpt_dir_open(directory, false, err);
    if (parent < 0)
        return parent;
    rc = ckpt_dir_remove(parent, name, err);
    close(parent);
    return rc;
}

void
ckpt_sweep(const char *directory)
{
    const int parent = ckpt_dir_open(directory, false, NULL);

    if (parent < 0)
        return;
    ckpt_dir_sweep(parent);
    close(parent);
}
