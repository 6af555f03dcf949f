/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half of ckpt.h; files are read once, and what was verified is
 * what is loaded. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/run/ckpt.h"
#include "engine/run/ckpt_dir.h"
#include "engine/run/ckpt_manifest.h"
#include "engine/run/ckpt_tensors.h"

struct opened {
    int dir; /* -1: not open */
    struct ckpt_manifest manifest;
    char digest[DIGEST_TEXT_BYTES]; /* of the manifest */
    int64_t n_manifest;
    char *bytes[CKPT_MANIFEST_N_FILES]; /* owned */
    /* By file; NULL for one that is not there. Borrow bytes. */
    struct safetensors *tensors[CKPT_MANIFEST_STATE];
    struct ckpt_record record; /* owns its policy */
};

static void
opened_fini(struct opened *o)
{
    for (int i = 0; i < CKPT_MANIFEST_STATE; i++)
        safetensors_close(&o->tensors[i]);
    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++)
        free(o->bytes[i]);
    free(o->record.policy);
    if (o->dir >= 0)
        close(o->dir);
}

static int
read_manifest(struct opened *o, const char *name, struct err *err)
{
    char *text;
    size_t len;
    int rc = ckpt_dir_read_file(o->dir, CKPT_MANIFEST_NAME, &text, &len, err);

    if (rc < 0)
        return rc;
    rc = ckpt_manifest_parse(text, len, &o->manifest, err);
    digest_of(text, len, o->digest);
    o->n_manifest = (int64_t)len;
    free(text);
    if (rc == 0 && strcmp(o->manifest.name, name) != 0)
        rc = err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": belongs to %s",
                     o->manifest.name);
    return rc;
}

/* Size and checksum as the manifest says. */
static int
read_file(struct opened *o, enum ckpt_manifest_file which, size_t *len,
          struct err *err)
{
    const char *file = ckpt_manifest_file_name(which);
    char digest[DIGEST_TEXT_BYTES];
    int rc = ckpt_dir_read_file(o->dir, file, &o->bytes[which], len, err);

    if (rc < 0)
        return rc;
    if ((int64_t)*len != o->manifest.file[which].n_bytes)
        return err_set(err, ERR_CKPT,
                       "%s: %zu bytes, the manifest says %" PRId64, file, *len,
                       o->manifest.file[which].n_bytes);
    digest_of(o->bytes[which], *len, digest);
    if (strcmp(digest, o->manifest.file[which].digest) != 0)
        return err_set(err, ERR_CKPT, "%s: checksum %s, the manifest says %s",
                       file, digest, o->manifest.file[which].digest);
    return 0;
}

static int
read_tensors(struct opened *o, enum ckpt_manifest_file which, struct err *err)
{
    const char *file = ckpt_manifest_file_name(which);
    size_t len;
    int rc = read_file(o, which, &len, err);

    if (rc < 0)
        return rc;
    rc = safetensors_parse(o->bytes[which], len, file, &o->tensors[which], err);
    if (rc == ERR_DATA)
        err->code = rc = ERR_CKPT;
    if (rc == 0 && ckpt_tensors_check_file_finite(o->tensors[which], err) < 0)
        rc = err_prefix(err, "%s", file);
    return rc;
}

static int
read_record(struct opened *o, struct err *err)
{
    const struct ckpt_manifest *m = &o->manifest;
    const struct state_counters *c = &o->record.count;
    size_t len;
    int rc = read_file(o, CKPT_MANIFEST_STATE, &len, err);

    if (rc == 0)
        rc = ckpt_manifest_parse_record(o->bytes[CKPT_MANIFEST_STATE], len,
                                        &o->record, err);
    if (rc < 0)
        return rc;
    if (c->iteration != m->iteration || c->updates != m->updates ||
        c->skips != m->skips || o->record.attempt != m->attempt)
        return err_set(err, ERR_CKPT,
                       "state.json: iteration %" PRId64
                       ", the manifest says %" PRId64,
                       c->iteration, m->iteration);
    if (c->updates < 0 || c->skips < 0 || c->data_position < 0 ||
        o->record.batches_tracked < 0 || c->iteration != c->updates + c->skips)
        return err_set(err, ERR_CKPT, "state.json: counters contradict");
    return 0;
}

static int
check_name(const struct opened *o, const char *name, struct err *err)
{
    int64_t iteration = -1, attempt = -1;

    ckpt_dir_parse_name(name, &iteration, &attempt);
    if (iteration == o->manifest.iteration && attempt == o->manifest.attempt)
        return 0;
    return err_set(err, ERR_CKPT,
                   CKPT_MANIFEST_NAME ": iteration %" PRId64
                                      " and attempt %" PRId64,
                   o->manifest.iteration, o->manifest.attempt);
}

static int
open_all(struct opened *o, const char *directory, const char *name,
         struct err *err)
{
    const int parent = ckpt_dir_open(directory, false, err);
    int rc;

    if (parent < 0)
        return parent;
    o->dir = ckpt_dir_open_one(parent, name, err);
    close(parent);
    if (o->dir < 0)
        return o->dir;
    rc = read_manifest(o, name, err);
    if (rc == 0)
        rc = check_name(o, name, err);
    if (rc == 0)
        rc = read_record(o, err);
    for (int f = 0; f < CKPT_MANIFEST_STATE && rc == 0; f++)
        if (o->manifest.file[f].here)
            rc = read_tensors(o, (enum ckpt_manifest_file)f, err);
    return rc < 0 ? err_prefix(err, "%s", name) : 0;
}

/* Moves the policy from o. */
static void
give_info(struct opened *o, struct ckpt_info *info)
{
    memset(info, 0, sizeof(*info));
    memcpy(info->name, o->manifest.name, sizeof(info->name));
    info->count = o->record.count;
    info->attempt = o->record.attempt;
    info->n_bytes = o->n_manifest;
    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++)
        info->n_bytes += o->manifest.file[i].n_bytes;
    memcpy(info->digest, o->digest, sizeof(info->digest));
    info->has_metric = o->record.has_metric;
    info->metric = o->record.metric;
    info->spec_hash = o->record.spec_hash;
    info->policy = o->record.policy;
    o->record.policy = NULL;
}

int
ckpt_verify(const char *directory, const char *name, struct ckpt_info *info,
            struct err *err)
{
    struct opened o = {.dir = -1};
    struct err own;
    int rc = open_all(&o, directory, name, err != NULL ? err : &own);

    memset(info, 0, sizeof(*info));
    if (rc == 0)
        give_info(&o, info);
    opened_fini(&o);
    return rc;
}

/* ---- loading ------------------------------------------------------------ */

/* What each file is to hold. */
struct wanted {
    struct ckpt_tensors list[CKPT_MANIFEST_STATE];
};

static int
list_wanted(const struct state *state, struct wanted *w, struct err *err)
{
    int rc = ckpt_tensors_list_model(state, state->weights,
                                     &w->list[CKPT_MANIFEST_MODEL], err);

    if (rc == 0 && state->ema != NULL)
        rc = ckpt_tensors_list_model(state, state->ema,
                                     &w->list[CKPT_MANIFEST_EMA], err);
    if (rc == 0)
        rc = ckpt_tensors_list_optimizer(
            state, &w->list[CKPT_MANIFEST_OPTIMIZER], err);
    return rc;
}

/* Every num_batches_tracked is the one number that state.json has. */
static int
check_batches_tracked(const struct ckpt_tensors *model, const struct opened *o,
                      struct err *err)
{
    for (int i = 0; i < model->n; i++) {
        const struct safetensors_entry *e;
        int64_t v;

        if (model->entry[i].desc.dtype != DTYPE_I64)
            continue;
        e = safetensors_find(o->tensors[CKPT_MANIFEST_MODEL],
                             model->entry[i].name);
        memcpy(&v, e->data, sizeof(v));
        if (v != o->record.batches_tracked)
            return err_set(err, ERR_CKPT,
                           "model.safetensors: %s is %" PRId64
                           ", state.json says %" PRId64,
                           e->name, v, o->record.batches_tracked);
    }
    return 0;
}

/* Precision is a policy and may have changed: a scale of 1 that nothing moved
 * is no start for a scaler that is now on, so that keeps what the spec says. */
static int
load_scaler(const struct opened *o, struct scaler *s, struct err *err)
{
    const struct scaler *from = &o->record.scaler;

    if (s->enabled && !from->enabled)
        return 0;
    if (scaler_load(s, from->scale, from->growth_factor, from->backoff_factor,
                    from->growth_interval, from->growth_tracker, err) < 0)
        return err_prefix(err, "state.json");
    return 0;
}

static int
match(const struct opened *o, const struct state *state, const struct wanted *w,
      struct err *err)
{
    if (o->record.n_optim != state->n_optim)
        return err_set(err, ERR_CKPT,
                       "state.json: %d optimizer%s, the spec has %d",
                       o->record.n_optim, o->record.n_optim == 1 ? "" : "s",
                       state->n_optim);
    if (o->manifest.file[CKPT_MANIFEST_EMA].here != (state->ema != NULL))
        return err_set(err, ERR_CKPT, "ema.safetensors: the spec asks for %s",
                       state->ema != NULL
                           ? "an average of weights, and it is not there"
                           : "no average of weights");
    for (int f = 0; f < CKPT_MANIFEST_STATE; f++)
        if (o->tensors[f] != NULL &&
            ckpt_tensors_match(&w->list[f], o->tensors[f], err) < 0)
            return err_prefix(
                err, "%s", ckpt_manifest_file_name((enum ckpt_manifest_file)f));
    return check_batches_tracked(&w->list[CKPT_MANIFEST_MODEL], o, err);
}

static int
load(struct opened *o, struct state *state, struct err *err)
{
    struct wanted w = {0};
    struct scaler scaler = state->scaler;
    int rc = list_wanted(state, &w, err);

    if (rc == 0)
        rc = match(o, state, &w, err);
    if (rc == 0)
        rc = load_scaler(o, &scaler, err);
    if (rc < 0)
        goto out;
    /* The model's last: running statistics are in both, and count there. */
    for (int f = CKPT_MANIFEST_STATE - 1; f >= 0; f--)
        if (o->tensors[f] != NULL)
            ckpt_tensors_load(&w.list[f], o->tensors[f], state);
    if (state->buffer_elems > 0)
        memcpy(state->buffers_pending, state->buffers,
               (size_t)state->buffer_elems * sizeof(float));
    state->batches_tracked = o->record.batches_tracked;
    state->count = o->record.count;
    memcpy(state->optim_steps, o->record.optim_steps,
           sizeof(state->optim_steps));
    state->seed = o->record.seed;
    state->scaler = scaler;
    state->weights_version++;
out:
    for (int f = 0; f < CKPT_MANIFEST_STATE; f++)
        ckpt_tensors_fini(&w.list[f]);
    return rc;
}

int
ckpt_read(const char *directory, const char *name, struct state *state,
          struct ckpt_info *info, struct err *err)
{
    struct opened o = {.dir = -1};
    struct err own;
    struct err *e = err != NULL ? err : &own;
    int rc = open_all(&o, directory, name, e);

    memset(info, 0, sizeof(*info));
    if (rc == 0 && load(&o, state, e) < 0)
        rc = err_prefix(e, "%s", name);
    if (rc == 0)
        give_info(&o, info);
    opened_fini(&o);
    return rc;
}
