/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/base/failpoint.h"
#include "engine/diagnose/step_digest.h"
#include "tests/support/kept.h"

#define NAME_42 "it000000042-a1"

static const char *const files[] = {"spec.json", "incident.json",
                                    "weights.safetensors", "batch.safetensors",
                                    "manifest.json"};

static void
write_one(struct kept *k, struct incident_file_weights *weights)
{
    struct incident_file_info info;
    struct err err;

    err_clear(&err);
    if (incident_file_write(&k->args, &info, weights, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(info.name, NAME_42);
    assert_int_equal(info.verdict, EVENT_VERDICT_FORWARD_OVERFLOW);
}

static void
check_refused(struct kept *k, int code, const char *sentence)
{
    struct incident_file *file;
    struct err err;
    char path[256];

    kept_path(k, NAME_42, "", path);
    err_clear(&err);
    assert_int_equal(incident_file_open(path, &file, &err), code);
    assert_null(file);
    if (strstr(err.msg, sentence) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.msg, sentence);
}

static struct incident_file *
open_one(struct kept *k)
{
    struct incident_file *file;
    struct err err;
    char path[256];

    kept_path(k, NAME_42, "", path);
    err_clear(&err);
    if (incident_file_open(path, &file, &err) != 0)
        fail_msg("%s", err.msg);
    return file;
}

/* ---- what is written is read ----------------------------------------------*/

static void
check_record(const struct kept *k, const struct incident_record *r)
{
    char digest[DIGEST_TEXT_BYTES];
    struct err err;

    assert_string_equal(r->name, NAME_42);
    assert_int_equal(r->attempt, 1);
    assert_memory_equal(&r->count, &k->state->count, sizeof(r->count));
    assert_true(r->seed == k->state->seed);
    assert_memory_equal(&r->scale, &k->state->scaler.scale, sizeof(float));
    assert_string_equal(r->policy, KEPT_POLICY);
    assert_string_equal(r->backend, "reference");
    assert_int_equal(r->threads, 3);
    assert_memory_equal(&r->loss, &k->args.loss, sizeof(float));
    assert_memory_equal(r->data.dim, k->data.dim, sizeof(r->data.dim));
    assert_true(r->data.has_ignore_index && r->data.ignore_index == -100);
    assert_int_equal(step_digest(k->args.loss, k->state, digest, &err), 0);
    assert_string_equal(r->digest, digest);
    assert_string_equal(r->diagnosis.u.incident.name, NAME_42);
    assert_string_equal(r->diagnosis.u.incident.sentence, "it does not fit");
    assert_true(r->diagnosis.u.incident.fp32_value == 66304);
}

static void
check_window(const struct kept *k, const struct prefetch_window *w)
{
    assert_int_equal(w->at.n_batches, 2);
    assert_int_equal(w->at.n_samples, 5);
    assert_int_equal(w->n_count, 10);
    for (int b = 0; b < 2; b++) {
        const struct prefetch_batch *is = &w->batch[b];
        const struct prefetch_batch *was = &k->batch[b];

        assert_int_equal(is->n, was->n);
        assert_int_equal((uintptr_t)is->input % 64, 0);
        assert_int_equal((uintptr_t)is->target % 64, 0);
        assert_memory_equal(is->input, was->input, (size_t)is->n * 16);
        assert_memory_equal(is->target, was->target, (size_t)is->n * 8);
        assert_memory_equal(is->ids, was->ids, (size_t)is->n * 8);
    }
}

static void
test_incident_file_comes_back(void **state)
{
    struct kept *k = *state;
    struct state *other = model_state_create(0);
    struct incident_file_weights weights;
    const float scales[] = {65536.0f, 0.1f, INFINITY, NAN, 0};
    struct err err;

    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        char path[256];

        k->state->scaler.scale = scales[i];
        write_one(k, &weights);
        struct incident_file *file = open_one(k);
        check_record(k, incident_file_record(file));
        check_window(k, incident_file_window(file));
        assert_int_equal(incident_file_load(file, other, &err), 0);
        assert_memory_equal(other->weights, k->state->weights,
                            (size_t)other->param_elems * sizeof(float));
        assert_memory_equal(other->buffers, k->state->buffers,
                            (size_t)other->buffer_elems * sizeof(float));
        assert_memory_equal(&other->scaler.scale, &scales[i], sizeof(float));
        assert_true(other->seed == k->state->seed);
        incident_file_close(&file);
        kept_path(k, NAME_42, "", path);
        bytes_remove_dir(path);
    }
    state_destroy(&other);
}

/* Read under any name and at any place. */
static void
test_incident_file_moves(void **state)
{
    struct kept *k = *state;
    struct incident_file_weights weights;
    struct incident_file *file;
    struct err err;
    char from[256], to[256];

    write_one(k, &weights);
    kept_path(k, NAME_42, "", from);
    snprintf(to, sizeof(to), "%s/elsewhere", k->dir);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(incident_file_open(to, &file, &err), 0);
    incident_file_close(&file);
}

/* A NaN is a NaN; anything else counts. */
static void
test_incident_file_digest(void **state)
{
    struct kept *k = *state;
    char first[DIGEST_TEXT_BYTES], again[DIGEST_TEXT_BYTES];
    struct err err;
    float *g = k->state->grads;

    g[1] = NAN;
    assert_int_equal(step_digest(1.0f, k->state, first, &err), 0);
    g[1] = -NAN;
    assert_int_equal(step_digest(1.0f, k->state, again, &err), 0);
    assert_string_equal(first, again);
    g[15] = 5; /* in the gap behind 0.weight */
    assert_int_equal(step_digest(1.0f, k->state, again, &err), 0);
    assert_string_equal(first, again);
    g[1] = INFINITY;
    assert_int_equal(step_digest(1.0f, k->state, again, &err), 0);
    assert_string_not_equal(first, again);
    g[1] = NAN;
    g[0] = nextafterf(g[0], 1);
    assert_int_equal(step_digest(1.0f, k->state, again, &err), 0);
    assert_string_not_equal(first, again);
    assert_int_equal(step_digest(-0.0f, k->state, first, &err), 0);
    assert_int_equal(step_digest(0.0f, k->state, again, &err), 0);
    assert_string_not_equal(first, again);
}

/* ---- hard links -----------------------------------------------------------*/

static ino_t
inode_of(const struct kept *k, const char *name)
{
    struct stat st;
    char path[256];

    kept_path(k, name, "weights.safetensors", path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void
test_incident_file_links_weights(void **state)
{
    struct kept *k = *state;
    struct incident_file_weights first, second;
    struct incident_file_info info;
    struct incident_file *file;
    struct err err;
    char path[256];

    write_one(k, &first);
    k->state->count.iteration++;
    k->state->count.skips++;
    k->args.linked = &first;
    assert_int_equal(incident_file_write(&k->args, &info, &second, &err), 0);
    assert_true(inode_of(k, NAME_42) == inode_of(k, "it000000043-a1"));
    assert_string_equal(first.digest, second.digest);
    kept_path(k, NAME_42, "", path);
    bytes_remove_dir(path); /* the other one stands alone */
    kept_path(k, "it000000043-a1", "", path);
    assert_int_equal(incident_file_open(path, &file, &err), 0);
    incident_file_close(&file);
    /* Gone, or no longer what it was: they are written. */
    k->state->count.iteration++;
    k->state->count.skips++;
    assert_int_equal(incident_file_write(&k->args, &info, &second, &err), 0);
    k->args.linked = &second;
    kept_path(k, "it000000044-a1", "weights.safetensors", path);
    bytes_write_file(path, "short", 5);
    k->state->count.iteration++;
    k->state->count.skips++;
    assert_int_equal(incident_file_write(&k->args, &info, &second, &err), 0);
    kept_path(k, "it000000045-a1", "", path);
    assert_int_equal(incident_file_open(path, &file, &err), 0);
    incident_file_close(&file);
}

/* ---- damage ---------------------------------------------------------------*/

static void
test_incident_file_any_damage_is_named(void **state)
{
    struct kept *k = *state;
    struct incident_file_weights weights;

    write_one(k, &weights);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        uint8_t *bytes;
        char path[256];
        size_t n;

        kept_path(k, NAME_42, files[i], path);
        bytes = bytes_read_file(path, &n);
        for (size_t at = 0; at < n; at += 1 + n / 61) {
            bytes[at] ^= 0x11;
            bytes_write_file(path, bytes, n);
            /* A digit of a checksum may become another digit. */
            check_refused(k, ERR_CKPT,
                          strcmp(files[i], "manifest.json") == 0 ? "manifest"
                                                                 : files[i]);
            bytes[at] ^= 0x11;
        }
        bytes_write_file(path, bytes, n - 1);
        check_refused(k, ERR_CKPT, files[i]);
        bytes_write_file(path, bytes, 0);
        check_refused(k, ERR_CKPT, files[i]);
        assert_int_equal(unlink(path), 0);
        check_refused(k, ERR_CKPT, files[i]);
        assert_int_equal(symlink("/dev/zero", path), 0);
        check_refused(k, ERR_CKPT, files[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        check_refused(k, ERR_CKPT, files[i]);
        assert_int_equal(unlink(path), 0);
        bytes_write_file(path, bytes, n);
        free(bytes);
    }
    struct incident_file *file = open_one(k);
    incident_file_close(&file);
}

/* Puts other bytes into a file, and a right checksum into the manifest. */
static void
forge(struct kept *k, enum incident_record_file which, const char *from,
      const char *to)
{
    struct incident_manifest m;
    char path[256], manifest_path[256], *text, *at;
    uint8_t *bytes;
    struct err err;
    size_t n;

    kept_path(k, NAME_42, "manifest.json", manifest_path);
    bytes = bytes_read_file(manifest_path, &n);
    assert_int_equal(incident_record_parse_manifest((char *)bytes, n, &m, &err),
                     0);
    free(bytes);
    kept_path(k, NAME_42, incident_record_file_name(which), path);
    bytes = bytes_read_file(path, &n);
    at = memmem(bytes, n, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    digest_of(bytes, n, m.file[which].digest);
    bytes_write_file(path, bytes, n);
    free(bytes);
    text = incident_record_print_manifest(&m);
    bytes_write_file(manifest_path, text, strlen(text));
    free(text);
}

static void
test_incident_file_forged_is_refused(void **state)
{
    static const struct {
        enum incident_record_file which;
        const char *from, *to, *sentence;
    } forged[] = {
        {INCIDENT_RECORD_SELF, "\"threads\": 3", "\"threads\": 0",
         "threads is out of range"},
        {INCIDENT_RECORD_SELF, "\"micro_batches\": 2", "\"micro_batches\": 3",
         "6 tensors for 3 micro-batches"},
        {INCIDENT_RECORD_SELF, "\"iteration\": 41", "\"iteration\": 40",
         "counters contradict"},
        {INCIDENT_RECORD_SELF, "\"attempt\": 1", "\"attempt\": 2",
         "it is of it000000042-a1"},
        {INCIDENT_RECORD_SELF, "\"kind\": \"incident\"",
         "\"kind\": \"incIdent\"", "diagnosis"},
        {INCIDENT_RECORD_SELF, "\"target_elements\": 2",
         "\"target_elements\": 3", "no shape of a sample"},
        {INCIDENT_RECORD_SELF, "\"format\": 1", "\"format\": 9",
         "not of format version 1"},
        {INCIDENT_RECORD_SELF, "\"count\": 10,", "\"count\": 11,",
         "count: 11, but batch.safetensors has 10 targets that count"},
        {INCIDENT_RECORD_SELF, "\"seed\": \"", "\"sEed\": \"",
         "incident.json: seed is missing"},
        {INCIDENT_RECORD_SELF, "\"threads\": 3", "\"threads\":[]",
         "incident.json: threads is not an integer"},
        {INCIDENT_RECORD_SELF, "\"policy\": \"{", "\"policy\": \" ",
         "incident.json: policy: '[' or '{' expected"},
        {INCIDENT_RECORD_SELF, "\\\"float16\\\"}", "\\\"float64\\\"}",
         "policy: dtype is \"float64\", which is not what the spec has"},
        {INCIDENT_RECORD_SPEC, "\"accumulate\": 2", "\"accumulate\": 1",
         "micro_batches: 2, but train.accumulate of spec.json is 1"},
        {INCIDENT_RECORD_SPEC, "\"loss\"", "'loss\"",
         "spec.json:25:3: string or"},
        {INCIDENT_RECORD_SPEC, "\"mse\"", "\"msq\"", "spec.json:"},
        {INCIDENT_RECORD_BATCH, "\"input.0\"", "\"inpux.0\"",
         "input.0 is missing"},
        {INCIDENT_RECORD_BATCH, "\"dtype\":\"I64\"", "\"dtype\":\"U64\"",
         "batch.safetensors:"},
        {INCIDENT_RECORD_BATCH, "[3,4]", "[4,3]",
         "input.0 is not of the data's shape"},
        {INCIDENT_RECORD_WEIGHTS, "\"dtype\"", "\"dtypo\"",
         "weights.safetensors:"},
    };
    struct kept *k = *state;
    struct incident_file_weights weights;

    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        char path[256];

        write_one(k, &weights);
        forge(k, forged[i].which, forged[i].from, forged[i].to);
        check_refused(k, ERR_CKPT, forged[i].sentence);
        kept_path(k, NAME_42, "", path);
        bytes_remove_dir(path);
    }
}

/* Shapes that no data have: what builds a graph of them must not see them. */
static void
test_incident_file_odd_shapes(void **state)
{
    const struct build_data odd[] = {
        {.rank = 0, .target_elems = 1},
        {.rank = 3,
         .dim = {1, 2, 3},
         .input_is_tokens = true,
         .target_elems = 1},
        {.rank = 1, .dim = {0}, .target_elems = 1},
        {.rank = 1, .dim = {-4}, .target_elems = 1},
        {.rank = 2,
         .dim = {INT64_C(1) << 30, INT64_C(1) << 30},
         .target_elems = 1},
        {.rank = 1, .dim = {4}, .target_elems = 0},
        {.rank = 1,
         .dim = {4},
         .target_elems = 3,
         .target_rank = 1,
         .target_dim = {2}},
    };
    struct kept *k = *state;
    struct incident_file_weights weights;
    struct incident_record record;
    struct err err;

    write_one(k, &weights);
    struct incident_file *file = open_one(k);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct incident_record forged = *incident_file_record(file);
        forged.data = odd[i];
        char *text = incident_record_print(&forged);
        assert_non_null(text);
        err_clear(&err);
        assert_int_equal(
            incident_record_parse(text, strlen(text), &record, &err), ERR_CKPT);
        assert_string_equal(
            err.msg, "incident.json: data: this is no shape of a sample");
        free(text);
    }
    incident_file_close(&file);
}

/* Weights of another model: refused, and nothing is taken over. */
static void
test_incident_file_other_model(void **state)
{
    struct kept *k = *state;
    struct state *other = model_state_create(0);
    struct incident_file_weights weights;
    struct err err;

    write_one(k, &weights);
    struct incident_file *file = open_one(k);
    other->param[0].desc.dim[0] = 6;
    other->param[0].desc.dim[1] = 2;
    err_clear(&err);
    assert_int_equal(incident_file_load(file, other, &err), ERR_CKPT);
    assert_non_null(strstr(err.msg, "0.weight is f32[3,4], the model has"));
    assert_true(other->weights[0] == 0);
    incident_file_close(&file);
    state_destroy(&other);
}

/* ---- writing that breaks --------------------------------------------------*/

static void
test_incident_file_full_disk(void **state)
{
    static const char *const points[] = {
        "incident.before_weights=ENOSPC", "incident.before_manifest=ENOSPC",
        "ckpt.before_fsync=ENOSPC",       "ckpt.before_fsync:2=ENOSPC",
        "ckpt.before_fsync:4=ENOSPC",     "ckpt.before_rename=ENOSPC",
        "ckpt.half_data=ENOSPC"};
    struct kept *k = *state;
    struct incident_file_weights weights;
    struct incident_file_info info;
    struct err err;
    char tmp[256];

    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        assert_true(failpoint_arm(points[i]));
        err_clear(&err);
        assert_int_equal(incident_file_write(&k->args, &info, &weights, &err),
                         ERR_NOSPACE);
        failpoint_arm(NULL);
        assert_ptr_equal(strstr(err.msg, "incident " NAME_42 " is not kept: "),
                         err.msg);
        assert_false(kept_is_here(k, NAME_42));
        kept_path(k, ".tmp-" NAME_42, "", tmp);
        assert_false(bytes_exists(tmp));
    }
    write_one(k, &weights);
    assert_int_equal(incident_file_write(&k->args, &info, &weights, &err),
                     ERR_EXISTS);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, kept_setup, kept_teardown)
    const struct CMUnitTest tests[] = {
        T(test_incident_file_comes_back),
        T(test_incident_file_moves),
        T(test_incident_file_digest),
        T(test_incident_file_links_weights),
        T(test_incident_file_any_damage_is_named),
        T(test_incident_file_forged_is_refused),
        T(test_incident_file_odd_shapes),
        T(test_incident_file_other_model),
        T(test_incident_file_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
