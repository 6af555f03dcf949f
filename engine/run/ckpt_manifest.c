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

#define PRINT_FLAGS (JSON_INDENT(2) | JSON_PRESERVE_ORDER)

static const char *const file_names[CKPT_MANIFEST_N_FILES] = {
    [CKPT_MANIFEST_MODEL] = "model.safetensors",
    [CKPT_MANIFEST_OPTIMIZER] = "optimizer.safetensors",
    [CKPT_MANIFEST_STATE] = "state.json",
};

const char *
ckpt_manifest_file_name(enum ckpt_manifest_file file)
{
    assert((int)file >= 0 && file < CKPT_MANIFEST_N_FILES);
    return file_names[file];
}

/* With a newline; value is consumed. */
static char *
dump_take(json_t *value)
{
    char *text = value != NULL ? json_dumps(value, PRINT_FLAGS) : NULL;
    char *out = NULL;

    if (text != NULL && asprintf(&out, "%s\n", text) < 0)
        out = NULL;
    free(text);
    json_decref(value);
    return out;
}

static json_t *
load(const char *text, size_t len, const char *file, struct err *err)
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
    if (format == CKPT_FORMAT_VERSION)
        return value;
    if (format < 0)
        err_set(err, ERR_CKPT, "%s: format version is missing", file);
    else
        err_set(err, ERR_CKPT,
                "%s: format version %" PRId64 ", this program reads %d", file,
                format, CKPT_FORMAT_VERSION);
    json_decref(value);
    return NULL;
}

/* ---- manifest.json ------------------------------------------------------ */

char *
ckpt_manifest_print(const struct ckpt_manifest *m)
{
    json_t *files = json_object();

    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++) {
        json_t *one =
            json_pack("{s:I, s:s}", "bytes", (json_int_t)m->file[i].n_bytes,
                      "xxh3_128", m->file[i].digest);

        if (one == NULL || json_object_set_new(files, file_names[i], one) < 0) {
            json_decref(files);
            return NULL;
        }
    }
    return dump_take(json_pack(
        "{s:i, s:s, s:I, s:I, s:I, s:I, s:o}", "format", CKPT_FORMAT_VERSION,
        "name", m->name, "attempt", (json_int_t)m->attempt, "iteration",
        (json_int_t)m->iteration, "updates", (json_int_t)m->updates, "skips",
        (json_int_t)m->skips, "files", files));
}

static int
read_files(json_t *files, struct ckpt_manifest *out, struct err *err)
{
    if (json_object_size(files) != CKPT_MANIFEST_N_FILES)
        return err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": %zu files, not %d",
                       json_object_size(files), CKPT_MANIFEST_N_FILES);
    for (int i = 0; i < CKPT_MANIFEST_N_FILES; i++) {
        json_t *one = json_object_get(files, file_names[i]);
        json_int_t n;
        const char *digest;

        if (one == NULL)
            return err_set(err, ERR_CKPT, CKPT_MANIFEST_NAME ": no %s",
                           file_names[i]);
        if (json_unpack_ex(one, NULL, JSON_STRICT, "{s:I, s:s}", "bytes", &n,
                           "xxh3_128", &digest) < 0 ||
            n < 0 || strlen(digest) != DIGEST_TEXT_BYTES - 1)
            return err_set(err, ERR_CKPT,
                           CKPT_MANIFEST_NAME ": %s: not {bytes, xxh3_128}",
                           file_names[i]);
        out->file[i].n_bytes = n;
        memcpy(out->file[i].digest, digest, DIGEST_TEXT_BYTES);
    }
    return 0;
}

/* What was read must be what would be written: no byte is without meaning. */
static int
check_canonical(const char *text, size_t len, char *again, const char *file,
                struct err *err)
{
    const bool same =
        again != NULL && strlen(again) == len && memcmp(text, again, len) == 0;
    int rc = 0;

    if (again == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: no memory", file);
    else if (!same)
        rc = err_set(err, ERR_CKPT, "%s: not as it was written", file);
    free(again);
    return rc;
}

int
ckpt_manifest_parse(const char *text, size_t len, struct ckpt_manifest *out,
                    struct err *err)
{
    json_t *value = load(text, len, CKPT_MANIFEST_NAME, err), *files;
    json_int_t attempt, iteration, updates, skips;
    json_error_t error;
    const char *name;
    int format, rc;

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
    snprintf(out->name, sizeof(out->name), "%s", name);
    out->attempt = attempt;
    out->iteration = iteration;
    out->updates = updates;
    out->skips = skips;
    rc = read_files(files, out, err);
    if (rc == 0)
        rc = check_canonical(text, len, ckpt_manifest_print(out),
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

char *
ckpt_manifest_print_record(const struct ckpt_record *r)
{
    char seed[24], hash[24];

    snprintf(seed, sizeof(seed), "%" PRIu64, r->seed);
    snprintf(hash, sizeof(hash), "%016" PRIx64, r->spec_hash);
    return dump_take(json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o, s:s, s:s?}",
        "format", CKPT_FORMAT_VERSION, "attempt", (json_int_t)r->attempt,
        "iteration", (json_int_t)r->count.iteration, "updates",
        (json_int_t)r->count.updates, "skips", (json_int_t)r->count.skips,
        "data_position", (json_int_t)r->count.data_position, "seed", seed,
        "batches_tracked", (json_int_t)r->batches_tracked, "scaler",
        print_scaler(&r->scaler), "metric",
        r->has_metric ? json_real(r->metric) : json_null(), "spec_hash", hash,
        "policy", r->policy));
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
    json_t *scaler, *metric, *policy;
};

static int
read_pieces(const struct pieces *p, struct ckpt_record *out, struct err *err)
{
    int rc = read_scaler(p->scaler, &out->scaler, err);

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
    json_t *value = load(text, len, "state.json", err);
    json_int_t attempt, iteration, updates, skips, position, tracked;
    struct pieces p = {0};
    json_error_t error;
    int format, rc;

    memset(out, 0, sizeof(*out));
    if (value == NULL)
        return ERR_CKPT;
    if (json_unpack_ex(
            value, &error, JSON_STRICT,
            "{s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o, s:s, s:o}",
            "format", &format, "attempt", &attempt, "iteration", &iteration,
            "updates", &updates, "skips", &skips, "data_position", &position,
            "seed", &p.seed, "batches_tracked", &tracked, "scaler", &p.scaler,
            "metric", &p.metric, "spec_hash", &p.hash, "policy",
            &p.policy) < 0) {
        rc = err_set(err, ERR_CKPT, "state.json: %s", error.text);
        goto out;
    }
    out->attempt = attempt;
    out->count.iteration = iteration;
    out->count.updates = updates;
    out->count.skips = skips;
    out->count.data_position = position;
    out->batches_tracked = tracked;
    rc = read_pieces(&p, out, err);
    if (rc == 0)
        rc = check_canonical(text, len, ckpt_manifest_print_record(out),
                             "state.json", err);
out:
    json_decref(value);
    if (rc < 0) {
        free(out->policy);
        out->policy = NULL;
    }
    return rc;
}
