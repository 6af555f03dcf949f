/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/incident_record.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/canonical.h"
#include "engine/run/ckpt_dir.h"

/* No sample, and no window, is larger: products of these do not overflow. */
#define MAX_ELEMS   (INT64_C(1) << 40)
#define MAX_BATCHES 1000000
#define MAX_THREADS 4096

static const char *const file_names[INCIDENT_RECORD_N_FILES] = {
    [INCIDENT_RECORD_SPEC] = "spec.json",
    [INCIDENT_RECORD_SELF] = "incident.json",
    [INCIDENT_RECORD_WEIGHTS] = "weights.safetensors",
    [INCIDENT_RECORD_BATCH] = "batch.safetensors",
};

const char *
incident_record_file_name(enum incident_record_file file)
{
    assert((int)file >= 0 && file < INCIDENT_RECORD_N_FILES);
    return file_names[file];
}

static json_t *
load(const char *text, size_t len, const char *file, struct err *err)
{
    json_error_t error;
    json_t *value, *format;

    if (len > INCIDENT_RECORD_MAX_BYTES) {
        err_set(err, ERR_CKPT, "%s: more than 1 MiB", file);
        return NULL;
    }
    value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        err_set(err, ERR_CKPT, "%s:%d:%d: %s", file, error.line, error.column,
                error.text);
        return NULL;
    }
    format = json_object_get(value, "format");
    if (json_is_integer(format) &&
        json_integer_value(format) == INCIDENT_RECORD_FORMAT)
        return value;
    err_set(err, ERR_CKPT, "%s: not of format version %d", file,
            INCIDENT_RECORD_FORMAT);
    json_decref(value);
    return NULL;
}

static int
check_name(const char *name, const char *file, struct err *err)
{
    int64_t iteration, attempt;

    if (ckpt_dir_parse_name(name, &iteration, &attempt))
        return 0;
    return err_set(err, ERR_CKPT, "%s: %.80s: not the name of an incident",
                   file, name);
}

/* ---- manifest.json --------------------------------------------------------*/

char *
incident_record_print_manifest(const struct incident_manifest *m)
{
    json_t *files = json_object();

    for (int i = 0; i < INCIDENT_RECORD_N_FILES; i++)
        json_object_set_new(files, file_names[i],
                            json_pack("{s:I, s:s}", "bytes",
                                      (json_int_t)m->file[i].n_bytes,
                                      "xxh3_128", m->file[i].digest));
    return canonical_print_take(json_pack("{s:i, s:s, s:o}", "format",
                                          INCIDENT_RECORD_FORMAT, "name",
                                          m->name, "files", files));
}

static int
read_file(json_t *files, int i, struct incident_manifest *out, struct err *err)
{
    json_int_t n;
    const char *digest;

    if (json_unpack_ex(json_object_get(files, file_names[i]), NULL, JSON_STRICT,
                       "{s:I, s:s}", "bytes", &n, "xxh3_128", &digest) < 0 ||
        n < 0 || strlen(digest) != DIGEST_TEXT_BYTES - 1)
        return err_set(err, ERR_CKPT,
                       INCIDENT_RECORD_MANIFEST ": %s: not {bytes, xxh3_128}",
                       file_names[i]);
    out->file[i].n_bytes = n;
    memcpy(out->file[i].digest, digest, DIGEST_TEXT_BYTES);
    return 0;
}

int
incident_record_parse_manifest(const char *text, size_t len,
                               struct incident_manifest *out, struct err *err)
{
    json_t *value = load(text, len, INCIDENT_RECORD_MANIFEST, err), *files;
    json_error_t error;
    const char *name;
    int rc = 0, format;

    memset(out, 0, sizeof(*out));
    if (value == NULL)
        return ERR_CKPT;
    if (json_unpack_ex(value, &error, JSON_STRICT, "{s:i, s:s, s:o}", "format",
                       &format, "name", &name, "files", &files) < 0) {
        rc =
            err_set(err, ERR_CKPT, INCIDENT_RECORD_MANIFEST ": %s", error.text);
        goto out;
    }
    rc = check_name(name, INCIDENT_RECORD_MANIFEST, err);
    for (int i = 0; i < INCIDENT_RECORD_N_FILES && rc == 0; i++)
        rc = read_file(files, i, out, err);
    if (rc < 0)
        goto out;
    snprintf(out->name, sizeof(out->name), "%s", name);
    rc = canonical_check_take(text, len, incident_record_print_manifest(out),
                              INCIDENT_RECORD_MANIFEST, err);
out:
    json_decref(value);
    return rc;
}

/* ---- numbers --------------------------------------------------------------*/

static json_t *
print_bits(float v)
{
    char text[16];
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    snprintf(text, sizeof(text), "%08" PRIx32, bits);
    return json_string(text);
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
read_bits(const char *text, float *out)
{
    uint64_t v;
    uint32_t bits;

    if (read_u64(text, 16, &v) < 0 || v > UINT32_MAX)
        return -1;
    bits = (uint32_t)v;
    memcpy(out, &bits, sizeof(bits));
    return 0;
}

/* ---- the shape of the data ------------------------------------------------*/

static json_t *
print_dims(int rank, const int64_t *dim)
{
    json_t *list = json_array();

    for (int i = 0; i < rank; i++)
        json_array_append_new(list, json_integer(dim[i]));
    return list;
}

static json_t *
print_data(const struct build_data *d)
{
    json_t *ignore =
        d->has_ignore_index ? json_integer(d->ignore_index) : json_null();

    return json_pack(
        "{s:o, s:b, s:b, s:I, s:o, s:o}", "shape", print_dims(d->rank, d->dim),
        "tokens", d->input_is_tokens, "classes", d->target_is_class,
        "target_elements", (json_int_t)d->target_elems, "target_shape",
        print_dims(d->target_rank, d->target_dim), "ignore_index", ignore);
}

/* Elements of the shape, -1 when it is none. */
static int64_t
read_dims(const json_t *list, int *rank, int64_t *dim)
{
    const size_t n = json_array_size(list);
    int64_t product = 1;

    if (!json_is_array(list) || n > TENSOR_MAX_RANK - 1)
        return -1;
    *rank = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);

        dim[i] = json_integer_value(one);
        if (!json_is_integer(one) || dim[i] < 1 || dim[i] > MAX_ELEMS ||
            product > MAX_ELEMS / dim[i])
            return -1;
        product *= dim[i];
    }
    return product;
}

static int
read_data(json_t *value, struct build_data *out, struct err *err)
{
    json_t *shape, *target_shape, *ignore;
    json_int_t target_elems;
    json_error_t error;
    int tokens, classes;

    if (json_unpack_ex(value, &error, JSON_STRICT,
                       "{s:o, s:b, s:b, s:I, s:o, s:o}", "shape", &shape,
                       "tokens", &tokens, "classes", &classes,
                       "target_elements", &target_elems, "target_shape",
                       &target_shape, "ignore_index", &ignore) < 0)
        return err_set(err, ERR_CKPT, "incident.json: data: %s", error.text);
    out->input_is_tokens = tokens;
    out->target_is_class = classes;
    out->target_elems = target_elems;
    out->has_ignore_index = json_is_integer(ignore);
    out->ignore_index = json_integer_value(ignore);
    if (read_dims(shape, &out->rank, out->dim) < 1 || out->rank < 1 ||
        (out->input_is_tokens && out->rank > 1) ||
        read_dims(target_shape, &out->target_rank, out->target_dim) !=
            target_elems ||
        (!out->has_ignore_index && !json_is_null(ignore)))
        return err_set(err, ERR_CKPT,
                       "incident.json: data: this is no shape of a sample");
    return 0;
}

/* ---- incident.json --------------------------------------------------------*/

static json_t *
print_diagnosis(const struct event *event)
{
    size_t len;
    char *line = codec_write_event(event, &len);
    json_t *value = line != NULL ? json_loadb(line, len, 0, NULL) : NULL;

    free(line);
    return value;
}

char *
incident_record_print(const struct incident_record *r)
{
    char seed[24];

    snprintf(seed, sizeof(seed), "%" PRIu64, r->seed);
    return canonical_print_take(json_pack(
        "{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:I, s:s, s:i, "
        "s:s, s:o, s:I, s:I, s:o, s:s, s:o}",
        "format", INCIDENT_RECORD_FORMAT, "name", r->name, "attempt",
        (json_int_t)r->attempt, "iteration", (json_int_t)r->count.iteration,
        "updates", (json_int_t)r->count.updates, "skips",
        (json_int_t)r->count.skips, "data_position",
        (json_int_t)r->count.data_position, "batches_tracked",
        (json_int_t)r->batches_tracked, "seed", seed, "scale_bits",
        print_bits(r->scale), "growth_tracker", (json_int_t)r->growth_tracker,
        "backend", r->backend, "threads", r->threads, "policy", r->policy,
        "data", print_data(&r->data), "micro_batches", (json_int_t)r->n_batches,
        "count", (json_int_t)r->n_count, "loss_bits", print_bits(r->loss),
        "digest", r->digest, "diagnosis", print_diagnosis(&r->diagnosis)));
}

/* The pieces that json_unpack() cannot take apart, or would have to copy. */
struct pieces {
    const char *name, *seed, *scale, *loss, *digest, *policy, *backend;
    json_int_t attempt, iteration, updates, skips, position, tracked, tracker,
        n_batches, n_count;
    json_t *data, *diagnosis;
};

static const struct {
    const char *name;
    json_type type;
} members[] = {
    {"name", JSON_STRING},
    {"attempt", JSON_INTEGER},
    {"iteration", JSON_INTEGER},
    {"updates", JSON_INTEGER},
    {"skips", JSON_INTEGER},
    {"data_position", JSON_INTEGER},
    {"batches_tracked", JSON_INTEGER},
    {"seed", JSON_STRING},
    {"scale_bits", JSON_STRING},
    {"growth_tracker", JSON_INTEGER},
    {"backend", JSON_STRING},
    {"threads", JSON_INTEGER},
    {"policy", JSON_STRING},
    {"data", JSON_OBJECT},
    {"micro_batches", JSON_INTEGER},
    {"count", JSON_INTEGER},
    {"loss_bits", JSON_STRING},
    {"digest", JSON_STRING},
    {"diagnosis", JSON_OBJECT},
};

/* What json_unpack() says of a wrong type does not name the member. */
static int
check_members(const json_t *value, struct err *err)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const json_t *one = json_object_get(value, members[i].name);

        if (one == NULL)
            return err_set(err, ERR_CKPT, "incident.json: %s is missing",
                           members[i].name);
        if (json_typeof(one) != members[i].type)
            return err_set(err, ERR_CKPT, "incident.json: %s is not %s",
                           members[i].name,
                           members[i].type == JSON_STRING    ? "a string"
                           : members[i].type == JSON_INTEGER ? "an integer"
                                                             : "an object");
    }
    return 0;
}

static int
check_numbers(const struct incident_record *r, struct err *err)
{
    const struct state_counters *c = &r->count;

    if (r->attempt < 0 || c->updates < 0 || c->skips < 0 ||
        c->updates > INT64_MAX / 4 || c->skips > INT64_MAX / 4 ||
        c->iteration != c->updates + c->skips || c->data_position < 0 ||
        r->batches_tracked < 0 || r->growth_tracker < 0)
        return err_set(err, ERR_CKPT, "incident.json: counters contradict");
    if (r->n_batches < 1 || r->n_batches > MAX_BATCHES || r->n_count < 0 ||
        r->threads < 1 || r->threads > MAX_THREADS)
        return err_set(err, ERR_CKPT,
                       "incident.json: micro_batches, count or threads is out "
                       "of range");
    return 0;
}

static void
take_numbers(const struct pieces *p, struct incident_record *out)
{
    out->attempt = p->attempt;
    out->count.iteration = p->iteration;
    out->count.updates = p->updates;
    out->count.skips = p->skips;
    out->count.data_position = p->position;
    out->batches_tracked = p->tracked;
    out->growth_tracker = p->tracker;
    out->n_batches = p->n_batches;
    out->n_count = p->n_count;
}

static int
read_texts(const struct pieces *p, struct incident_record *out, struct err *err)
{
    if (read_u64(p->seed, 10, &out->seed) < 0 ||
        read_bits(p->scale, &out->scale) < 0 ||
        read_bits(p->loss, &out->loss) < 0 ||
        strlen(p->digest) != DIGEST_TEXT_BYTES - 1)
        return err_set(err, ERR_CKPT,
                       "incident.json: seed, scale_bits, loss_bits or digest "
                       "is not as it was written");
    snprintf(out->name, sizeof(out->name), "%s", p->name);
    memcpy(out->digest, p->digest, DIGEST_TEXT_BYTES);
    /* One block for both; backend first. */
    if (asprintf(&out->text, "%s%c%s", p->backend, '\0', p->policy) < 0) {
        out->text = NULL;
        return err_set(err, ERR_NOMEM, "incident.json: no memory");
    }
    out->backend = out->text;
    out->policy = out->text + strlen(p->backend) + 1;
    return check_name(p->name, "incident.json", err);
}

static int
read_diagnosis(json_t *value, struct incident_record *out, struct err *err)
{
    char *line = json_dumps(value, JSON_COMPACT);
    int rc;

    if (line == NULL)
        return err_set(err, ERR_CKPT, "incident.json: diagnosis is no event");
    rc = codec_read_event(line, strlen(line), &out->diagnosis, &out->doc, err);
    free(line);
    if (rc == 0 && out->diagnosis.kind != EVENT_INCIDENT)
        rc = err_set(err, ERR_CKPT, "it is no incident");
    if (rc != 0 && rc != ERR_NOMEM)
        err->code = rc = ERR_CKPT;
    return rc == 0 ? 0 : err_prefix(err, "incident.json: diagnosis");
}

static int
read_pieces(const struct pieces *p, struct incident_record *out,
            struct err *err)
{
    int rc;

    take_numbers(p, out);
    rc = check_numbers(out, err);
    if (rc == 0)
        rc = read_texts(p, out, err);
    if (rc == 0)
        rc = read_data(p->data, &out->data, err);
    return rc != 0 ? rc : read_diagnosis(p->diagnosis, out, err);
}

int
incident_record_parse(const char *text, size_t len, struct incident_record *out,
                      struct err *err)
{
    json_t *value = load(text, len, "incident.json", err);
    struct pieces p;
    json_error_t error;
    int rc, format;

    memset(out, 0, sizeof(*out));
    if (value == NULL)
        return ERR_CKPT;
    rc = check_members(value, err);
    if (rc == 0 &&
        json_unpack_ex(
            value, &error, JSON_STRICT,
            "{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:s, s:i, "
            "s:s, s:o, s:I, s:I, s:s, s:s, s:o}",
            "format", &format, "name", &p.name, "attempt", &p.attempt,
            "iteration", &p.iteration, "updates", &p.updates, "skips", &p.skips,
            "data_position", &p.position, "batches_tracked", &p.tracked, "seed",
            &p.seed, "scale_bits", &p.scale, "growth_tracker", &p.tracker,
            "backend", &p.backend, "threads", &out->threads, "policy",
            &p.policy, "data", &p.data, "micro_batches", &p.n_batches, "count",
            &p.n_count, "loss_bits", &p.loss, "digest", &p.digest, "diagnosis",
            &p.diagnosis) < 0)
        rc = err_set(err, ERR_CKPT, "incident.json: %s", error.text);
    if (rc == 0)
        rc = read_pieces(&p, out, err);
    if (rc == 0)
        rc = canonical_check_take(text, len, incident_record_print(out),
                                  "incident.json", err);
    json_decref(value);
    if (rc != 0)
        incident_record_fini(out);
    return rc;
}

void
incident_record_fini(struct incident_record *r)
{
    codec_doc_close(&r->doc);
    free(r->text);
    memset(r, 0, sizeof(*r));
}
