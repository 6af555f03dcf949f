/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/ckpt_manifest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/canonical.h"

static const char *const file_names[CKPT_MANIFEST_N_FILES] = {
    [CKPT_MANIFEST_MODEL] = "model.safetensors",
    [CKPT_MANIFEST_EMA] = "ema.safetensors",
    [CKPT_MANIFEST_OPTIMIZER] = "optimizer.safetensors",
    [CKPT_MANIFEST_STATE] = "state.json",
};

const char *
ckpt_manifest_file_name(enum ckpt_manifest_file file)
{
    assert((int)file >= 0 && file < CKPT_MANIFEST_N_FILES);
    return file_names[file];
}

static json_t *
load(const char *text, size_t len, const char *file, int *out, struct err *err)
{
    json_error_t error;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    int64_t format = -1;

    if (value == NULL) {
        err_set(err, ERR_CKPT, "%s:%d:%d: %s", file, error.line, error.column,
                error.text);
        return NULL;
    }
    if (json_is_integer(json_object_get(value, "format")))
        format = json_integer_value(json_object_get(value, "format"));
    if (format >= CKPT_FORMAT_OLDEST && format <= CKPT_FORMAT_VERSION) {
        *out = (int)format;
        return value;
    }
    if (format < 0)
        err_set(err, ERR_CKPT, "%s: format version is missing", file);
    else
        err_set(err, ERR_CKPT,
                "%s: format version %" PRId64 ", this program reads %d to %d",
                file, format, CKPT_FORMAT_OLDEST, CKPT_FORMAT_VERSION);
    json_decref(value);
    return NULL;
}

/* ---- manifest.json ------------------------------------------------------ */

char *
ckpt_manifest_print(const struct ckpt_manifest *m)
{
    json_t *files = json_object();

    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++) {
        if (!m->file[i].here)
            continue;
        json_t *one =
            json_pack("{s:I, s:s}", "bytes", (json_int_t)m->file[i].n_bytes,
                      "xxh3_128", m->file[i].digest);

        if (one == NULL || json_object_set_new(files, file_names[i], one) < 0) {
            json_decref(files);
            return NULL;
        }
    }
    return canonical_print_take(json_pack(
        "{s:i, s:s, s:I, s:I, s:I, s:I, s:o}", "format", m->format, "name",
        m->name, "attempt", (json_int_t)m->attempt, "iteration",
        (json_int_t)m->iteration, "updates", (json_int_t)m->updates, "skips",
        (json_int_t)m->skips, "files", files));
}

static int
read_file(json_t *one, int i, struct ckpt_manifest *out, struct err *err)
{
    json_int_t n;
    const char *digest;

    if (json_unpack_ex(one, NULL, JSON_STRICT, "{s:I, s:s}", "bytes", &n,
                       "xxh3_128", &digest) < 0 ||
        n < 0 || strlen(digest) != DIGEST_TEXT_BYTES - 1)
        return err_set(err, ERR_CKPT,
                       CKPT_MANIFEST_NAME ": %s: not {bytes, xxh3_128}",
                       file_names[i]);
    out->file[i].here = true;
    out->file[i].n_bytes = n;
    memcpy(out->file[i].digest, digest, DIGEST_TEXT_BYTES);
    return 0;
}

static int
read_files(json_t *files, struct ckpt_manifest *out, struct err *err)
{
    size_t n_here = 0;
    int rc = 0;

    for (int i = 0; i < CKPT_MANIFEST_N_FILES && rc == 0; i++) {
        json_t *one = json_object_get(files, file_names[i]);

        if (one == NULL && i == CKPT_MANIFEST_EMA)
            continue;
        if (one == NULL)
            return err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": no %s",
                           file_names[i]);
        rc = read_file(one, i, out, err);
        n_here++;
    }
    if (rc == 0 && json_object_size(files) != n_here)
        rc = err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": %zu files, not %zu",
                     json_object_size(files), n_here);
    return rc;
}

int
ckpt_manifest_parse(const char *text, size_t len, struct ckpt_manifest *out,
                    struct err *err)
{
    int format = 0;
    json_t *value = load(text, len, CKPT_MANIFEST_NAME, &format, err), *files;
    json_int_t attempt, iteration, updates, skips;
    json_error_t error;
    const char *name;
    int rc;

    if (value == NULL)
        return ERR_CKPT;
    memset(out, 0, sizeof(*out));
    if (json_unpack_ex(value, &error, JSON_STRICT,
                       "{s:i, s:s, s:I, s:I, s:I, s:I, s:o}", "format", &format,
                       "name", &name, "attempt", &attempt, "iteration",
                       &iteration, "updates", &updates, "skips", &skips,
                       "files", &files) < 0) {
        rc = err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": %s", error.text);
        goto out;
    }
    out->format = format;
    snprintf(out->name, sizeof(out->name), "%s", name);
    out->attempt = attempt;
    out->iteration = iteration;
    out->updates = updates;
    out->skips = skips;
    rc = read_files(files, out, err);
    if (rc == 0)
        rc = canonical_check_take(text, len, ckpt_manifest_print(out),
                                  CKPT_MANIFEST_NAME, err);
out:
    json_decref(value);
    return rc;
}

/* ---- state.json --------------------------------------------------------- */

/* Reals of JSON need a point; jansson prints 17 digits, which read back as the
 * same bits. */
static json_t *
print_scaler(const struct scaler *s)
{
    return json_pack("{s:b, s:f, s:f, s:f, s:I, s:I}", "enabled", s->enabled,
                     "scale", (double)s->scale, "growth_factor",
                     s->growth_factor, "backoff_factor", s->backoff_factor,
                     "growth_interval", (json_int_t)s->growth_interval,
                     "_growth_tracker", (json_int_t)s->growth_tracker);
}

static json_t *
print_steps(const struct ckpt_record *r)
{
    json_t *list = json_array();

    for (int i = 0; i < r->n_optim; i++)
        json_array_append_new(list, json_integer(r->optim_steps[i]));
    return list;
}

char *
ckpt_manifest_print_record(const struct ckpt_record *r)
{
    char seed[24], hash[24];

    snprintf(seed, sizeof(seed), "%" PRIu64, r->seed);
    snprintf(hash, sizeof(hash), "%016" PRIx64, r->spec_hash);
    /* Format 1 has no steps: NULL leaves the key out. */
    return canonical_print_take(json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:o*, s:I, s:s, s:I, s:o, s:o, s:s, s:s?}",
        "format", r->format, "attempt", (json_int_t)r->attempt, "iteration",
        (json_int_t)r->count.iteration, "updates", (json_int_t)r->count.updates,
        "skips", (json_int_t)r->count.skips, "optimizer_steps",
        r->format > 1 ? print_steps(r) : NULL, "data_position",
        (json_int_t)r->count.data_position, "seed", seed, "batches_tracked",
        (json_int_t)r->batches_tracked, "scaler", print_scaler(&r->scaler),
        "metric", r->has_metric ? json_real(r->metric) : json_null(),
        "spec_hash", hash, "policy", r->policy));
}

static int
read_u64(const char *text, int base, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, base);
    return errno != 0 || end == text || *end != '\0' ? -1 : 0;
}

static int
read_scaler(json_t *value, struct scaler *out, struct err *err)
{
    json_error_t error;
    json_int_t interval, tracker;
    double scale;
    int enabled;

    if (json_unpack_ex(
            value, &error, JSON_STRICT, "{s:b, s:F, s:F, s:F, s:I, s:I}",
            "enabled", &enabled, "scale", &scale, "growth_factor",
            &out->growth_factor, "backoff_factor", &out->backoff_factor,
            "growth_interval", &interval, "_growth_tracker", &tracker) < 0)
        return err_set(err, ERR_CKPT, "state.json: scaler: %s", error.text);
    out->enabled = enabled;
    out->scale = (float)scale;
    out->growth_interval = interval;
    out->growth_tracker = tracker;
    return 0;
}

/* The pieces that json_unpack() cannot take apart. */
struct pieces {
    const char *seed, *hash;
    json_t *steps; /* NULL in format 1 */
    json_t *scaler, *metric, *policy;
};

static int
read_steps(const json_t *list, struct ckpt_record *out, struct err *err)
{
    const size_t n = json_array_size(list);

    if (out->format == 1) {
        out->n_optim = 1;
        out->optim_steps[0] = out->count.updates;
        return 0;
    }
    if (n < 1 || n > SPEC_MAX_OPTIMIZERS)
        return err_set(err, ERR_CKPT,
                       "state.json: optimizer_steps is no list of 1 to %d",
                       SPEC_MAX_OPTIMIZERS);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        out->optim_steps[i] = json_integer_value(one);
        if (!json_is_integer(one) || out->optim_steps[i] < 0 ||
            out->optim_steps[i] > out->count.updates)
            return err_set(err, ERR_CKPT,
                           "state.json: optimizer_steps[%zu] is no number of "
                           "updates",
                           i);
    }
    out->n_optim = (int)n;
    return 0;
}

static int
read_pieces(const struct pieces *p, struct ckpt_record *out, struct err *err)
{
    int rc = read_scaler(p->scaler, &out->scaler, err);

    if (rc == 0)
        rc = read_steps(p->steps, out, err);
    if (rc < 0)
        return rc;
    if (read_u64(p->seed, 10, &out->seed) < 0 ||
        read_u64(p->hash, 16, &out->spec_hash) < 0)
        return err_set(err, ERR_CKPT,
                       "state.json: seed or spec_hash is no "
                       "64-bit number");
    out->has_metric = json_is_real(p->metric);
    out->metric = out->has_metric ? json_real_value(p->metric) : 0;
    if (!out->has_metric && !json_is_null(p->metric))
        return err_set(err, ERR_CKPT, "state.json: metric is no number");
    if (!json_is_null(p->policy)) {
        if (!json_is_string(p->policy))
            return err_set(err, ERR_CKPT, "state.json: policy is no text");
        out->policy = strdup(json_string_value(p->policy));
        if (out->policy == NULL)
            return err_set(err, ERR_NOMEM, "state.json: no memory");
    }
    return 0;
}

int
ckpt_manifest_parse_record(const char *text, size_t len,
                           struct ckpt_record *out, struct err *err)
{
    int format = 0;
    json_t *value = load(text, len, "state.json", &format, err);
    json_int_t attempt, iteration, updates, skips, position, tracked;
    struct pieces p = {0};
    json_error_t error;
    int rc;

    memset(out, 0, sizeof(*out));
    if (value == NULL)
        return ERR_CKPT;
    if (json_unpack_ex(
            value, &error, JSON_STRICT,
            "{s:i, s:I, s:I, s:I, s:I, s?o, s:I, s:s, s:I, s:o, s:o, s:s, "
            "s:o}",
            "format", &format, "attempt", &attempt, "iteration", &iteration,
            "updates", &updates, "skips", &skips, "optimizer_steps", &p.steps,
            "data_position", &position, "seed", &p.seed, "batches_tracked",
            &tracked, "scaler", &p.scaler, "metric", &p.metric, "spec_hash",
            &p.hash, "policy", &p.policy) < 0) {
        rc = err_set(err, ERR_CKPT, "state.json: %s", error.text);
        goto out;
    }
    out->format = format;
    out->attempt = attempt;
    out->count.iteration = iteration;
    out->count.updates = updates;
    out->count.skips = skips;
    out->count.data_position = position;
    out->batches_tracked = tracked;
    rc = read_pieces(&p, out, err);
    if (rc == 0)
        rc = canonical_check_take(text, len, ckpt_manifest_print_record(out),
                                  "state.json", err);
out:
    json_decref(value);
    if (rc < 0) {
        free(out->policy);
        out->policy = NULL;
    }
    return rc;
}
