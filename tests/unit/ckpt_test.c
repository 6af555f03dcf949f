/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "engine/data/safetensors.h"
#include "engine/run/ckpt.h"
#include "engine/run/ckpt_manifest.h"
#include "tests/support/place.h"

/* ---- writing and reading ------------------------------------------------ */

static void
test_ckpt_round_trip(void **state)
{
    struct place *p = *state;
    struct ckpt_info written, info;
    struct err err;
    const uint64_t version = p->other->weights_version;

    model_state_fill(p->state, 100);
    p->state->scaler.scale = 700.7000122070312f;
    p->state->scaler.growth_factor = 1.001;
    p->state->scaler.backoff_factor = 0.7;
    p->state->scaler.growth_interval = 2;
    p->state->scaler.growth_tracker = 1;
    assert_int_equal(ckpt_write(p->state, &p->args, &written, &err), 0);
    assert_string_equal(written.name, NAME_100);
    assert_true(written.n_bytes > 0);
    check_entries(p, 1, 0);

    /* Stages of an unfinished step do not survive a load. */
    p->other->scaler.opt[0].stage = SCALER_UNSCALED;
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    assert_true(model_state_equal(p->other, p->state));
    assert_int_equal(p->other->scaler.opt[0].stage, SCALER_READY);
    assert_true(p->other->weights_version != version);
    assert_string_equal(info.name, NAME_100);
    assert_memory_equal(&info.count, &p->state->count, sizeof(info.count));
    assert_int_equal(info.attempt, 1);
    assert_int_equal(info.n_bytes, written.n_bytes);
    assert_string_equal(info.digest, written.digest);
    assert_true(info.has_metric && info.metric == 0.1);
    assert_string_equal(info.policy, POLICY);
    assert_true(info.spec_hash == 0xfedcba9876543210u);
    ckpt_info_fini(&info);
}

/* Smallest scales and odd factors come back as the same bits. */
static void
test_ckpt_scaler_bits(void **state)
{
    static const float scales[] = {0x1p-149f, 0x1p-127f, 1e38f,
                                   3.0f,      0.0f,      16777217.0f};
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    for (int i = 0; i < 6; i++) {
        model_state_fill(p->state, i);
        p->state->scaler.scale = scales[i];
        p->state->scaler.growth_factor = nextafter(2.0, 3.0 + i);
        assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), 0);
        assert_int_equal(ckpt_read(p->ckpt, info.name, p->other, &info, &err),
                         0);
        assert_true(model_state_equal(p->other, p->state));
        ckpt_info_fini(&info);
    }
}

static void
test_ckpt_deterministic(void **state)
{
    static const char *const files[] = {"model.safetensors",
                                        "optimizer.safetensors", "state.json",
                                        "manifest.json"};
    struct place *p = *state;
    char other[96], a[256], b[256];
    size_t n, m;

    write_one(p, 100);
    snprintf(other, sizeof(other), "%s/other", p->dir);
    p->args.directory = other;
    write_one(p, 100);
    for (int i = 0; i < 4; i++) {
        uint8_t *x, *y;

        path_of(p, NAME_100, files[i], a);
        snprintf(b, sizeof(b), "%s/" NAME_100 "/%s", other, files[i]);
        x = bytes_read_file(a, &n);
        y = bytes_read_file(b, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n);
        free(x);
        free(y);
    }
}

/* The five values under PyTorch's names; a 64-bit seed as text. */
static void
test_ckpt_state_text(void **state)
{
    static const char want[] = "  \"scaler\": {\n"
                               "    \"enabled\": true,\n"
                               "    \"scale\": 1124.0,\n"
                               "    \"growth_factor\": 2.0,\n"
                               "    \"backoff_factor\": 0.5,\n"
                               "    \"growth_interval\": 2000,\n"
                               "    \"_growth_tracker\": 2\n"
                               "  },\n";
    struct place *p = *state;
    char path[256];
    uint8_t *text;
    size_t n;

    write_one(p, 100);
    path_of(p, NAME_100, "state.json", path);
    text = bytes_read_file(path, &n);
    assert_non_null(strstr((const char *)text, want));
    assert_non_null(
        strstr((const char *)text, "\"seed\": \"18446744073709551515\""));
    free(text);
}

static void
test_ckpt_model_names(void **state)
{
    static const char *const names[] = {
        "0.bias",         "0.weight",      "1.num_batches_tracked",
        "1.running_mean", "1.running_var", "1.weight"};
    struct place *p = *state;
    const struct safetensors_entry *e;
    struct safetensors *f;
    struct err err;
    char path[256];
    int64_t tracked;

    write_one(p, 100);
    path_of(p, NAME_100, "model.safetensors", path);
    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 6);
    for (int i = 0; i < 6; i++)
        assert_non_null(safetensors_find(f, names[i]));
    e = safetensors_find(f, "1.num_batches_tracked");
    assert_int_equal(e->desc.dtype, DTYPE_I64);
    assert_int_equal(e->desc.rank, 0);
    memcpy(&tracked, e->data, sizeof(tracked));
    assert_int_equal(tracked, 98);
    assert_string_equal(safetensors_metadata(f, "policy"), POLICY);
    safetensors_close(&f);
    path_of(p, NAME_100, "optimizer.safetensors", path);
    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 6);
    assert_non_null(safetensors_find(f, "m.0.weight"));
    assert_non_null(safetensors_find(f, "v.0.bias"));
    safetensors_close(&f);
}

static void
test_ckpt_no_moments_no_metric(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    for (int i = 0; i < 3; i++)
        p->state->param[i].n_moments = p->other->param[i].n_moments = 0;
    p->args.policy = NULL;
    p->args.metric = (double)NAN;
    write_one(p, 100);
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    assert_false(info.has_metric);
    assert_null(info.policy);
}

static void
test_ckpt_exists(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    write_one(p, 100);
    p->state->weights[0] += 1.0f;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_EXISTS);
    assert_string_equal(err.msg, "checkpoint " NAME_100 ": exists already");
    check_entries(p, 1, 0);
    check_reads(p, NAME_100, 100);
    p->args.attempt = 2; /* of another attempt it is another checkpoint */
    write_one(p, 100);
    check_entries(p, 2, 0);
}

static void
test_ckpt_misuse(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    model_state_fill(p->state, 100);
    p->state->scaler.opt[0].stage = SCALER_UNSCALED;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_MISUSE);
    p->state->scaler.opt[0].stage = SCALER_READY;
    p->state->count.skips++;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_MISUSE);
    check_entries(p, 0, 0);
}

/* ---- another model ------------------------------------------------------ */

static void
check_mismatch(struct place *p, const char *sentence)
{
    struct ckpt_info info;
    struct err err;

    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err),
                     ERR_CKPT);
    assert_string_equal(err.msg, sentence);
    assert_true(p->other->weights[0] == 7.0f);
    assert_int_equal(p->other->count.iteration, 7);
}

static void
test_ckpt_other_model(void **state)
{
    struct place *p = *state;
    struct state_tensor *t = p->other->param;
    char *name;

    write_one(p, 100);
    t[0].desc.dim[0] = 4;
    t[0].desc.dim[1] = 3;
    check_mismatch(p, NAME_100 ": model.safetensors: 0.weight is f32[3,4], "
                               "the model has f32[4,3]");
    t[0].desc.dim[0] = 3;
    t[0].desc.dim[1] = 4;
    name = strdup("2.bias");
    free((void *)(uintptr_t)t[1].name);
    t[1].name = name;
    check_mismatch(p, NAME_100 ": model.safetensors: 2.bias is missing");
    p->other->n_params = 1;
    check_mismatch(p, NAME_100 ": model.safetensors: 0.bias is not in the "
                               "model");
    p->other->n_params = 3;
    free(name);
    t[1].name = strdup("0.bias");
    for (int i = 0; i < 3; i++) {
        t[i].moment_name[0] = "momentum";
        t[i].n_moments = 1;
    }
    check_mismatch(p, NAME_100 ": optimizer.safetensors: momentum.0.weight "
                               "is missing");
}

/* From fp32 to fp16: a scale of 1 that nothing ever moved is no start. */
static void
test_ckpt_scaler_switched_on(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    model_state_fill(p->state, 100);
    p->state->scaler.enabled = false;
    p->state->scaler.scale = 1.0f;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), 0);
    p->other->scaler.scale = 65536.0f;
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    ckpt_info_fini(&info);
    assert_true(p->other->scaler.scale == 65536.0f);
}

/* ---- several optimizers, averages, older formats ------------------------ */

static void
give_ema(struct state *s)
{
    struct err err;

    assert_int_equal(state_start_ema(s, &err), 0);
}

static void
test_ckpt_average(void **state)
{
    struct place *p = *state;
    const struct safetensors_entry *e;
    struct safetensors *f;
    struct err err;
    char path[256];
    float first;

    give_ema(p->state);
    give_ema(p->other);
    write_one(p, 100);
    check_reads(p, NAME_100, 100);
    /* Under the weights' own names, so that it is a model like the other. */
    path_of(p, NAME_100, "ema.safetensors", path);
    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 6);
    e = safetensors_find(f, "0.weight");
    memcpy(&first, e->data, sizeof(first));
    assert_true(first == p->state->ema[0] && first != p->state->weights[0]);
    safetensors_close(&f);
    /* Not finite: not kept. */
    model_state_fill(p->state, 200);
    p->state->ema[1] = (float)NAN;
    struct ckpt_info info;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_NUMERICS);
    assert_string_equal(err.msg, "checkpoint " NAME_200 ": average of weights: "
                                 "0.weight[0,1] is nan");
}

static void
test_ckpt_average_comes_and_goes(void **state)
{
    struct place *p = *state;

    write_one(p, 100);
    give_ema(p->other);
    check_mismatch(p, NAME_100 ": ema.safetensors: the spec asks for an "
                               "average of weights, and it is not there");
    give_ema(p->state);
    write_one(p, 200);
    free(p->other->ema);
    p->other->ema = NULL;
    struct ckpt_info info;
    struct err err;
    assert_int_equal(ckpt_read(p->ckpt, NAME_200, p->other, &info, &err),
                     ERR_CKPT);
    assert_string_equal(err.msg,
                        NAME_200 ": ema.safetensors: the spec asks for "
                                 "no average of weights");
}

static void
test_ckpt_two_optimizers(void **state)
{
    struct place *p = *state;
    struct safetensors *f;
    struct err err;
    char path[256];

    p->state->n_optim = p->other->n_optim = 2;
    /* The last parameter has a momentum where the others have m and v. */
    p->state->param[2].n_moments = p->other->param[2].n_moments = 1;
    p->state->param[2].moment_name[0] = "momentum";
    p->other->param[2].moment_name[0] = "momentum";
    write_one(p, 100);
    memset(p->other->moment[1], 0,
           (size_t)p->other->param_elems * sizeof(float));
    struct ckpt_info info;
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    ckpt_info_fini(&info);
    assert_int_equal(p->other->optim_steps[0], 98);
    assert_int_equal(p->other->optim_steps[1], 49);
    path_of(p, NAME_100, "optimizer.safetensors", path);
    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 5);
    assert_non_null(safetensors_find(f, "momentum.1.weight"));
    assert_null(safetensors_find(f, "v.1.weight"));
    safetensors_close(&f);
    p->other->n_optim = 1;
    model_state_fill(p->other, 7);
    check_mismatch(p, NAME_100 ": state.json: 2 optimizers, the spec has 1");
}

/* As version 1 wrote them: without the steps, which were the updates. */
static void
make_format_1(struct place *p)
{
    char path[256], *text, *from, *to;
    struct ckpt_manifest m;
    struct err err;
    size_t n;

    path_of(p, NAME_100, "manifest.json", path);
    text = (char *)bytes_read_file(path, &n);
    assert_int_equal(ckpt_manifest_parse(text, n, &m, &err), 0);
    free(text);
    path_of(p, NAME_100, "state.json", path);
    text = (char *)bytes_read_file(path, &n);
    from = strstr(text, "\"optimizer_steps\"");
    to = strstr(text, "\"data_position\"");
    assert_true(from != NULL && to > from);
    memmove(from, to, n - (size_t)(to - text) + 1);
    n -= (size_t)(to - from);
    memcpy(strstr(text, "\"format\": 2"), "\"format\": 1", 11);
    bytes_write_file(path, text, n);
    m.format = 1;
    m.file[CKPT_MANIFEST_STATE].n_bytes = (int64_t)n;
    digest_of(text, n, m.file[CKPT_MANIFEST_STATE].digest);
    free(text);
    text = ckpt_manifest_print(&m);
    path_of(p, NAME_100, "manifest.json", path);
    bytes_write_file(path, text, strlen(text));
    free(text);
}

static void
test_ckpt_reads_format_1(void **state)
{
    struct place *p = *state;

    write_one(p, 100);
    make_format_1(p);
    check_reads(p, NAME_100, 100);
    p->other->n_optim = 2;
    model_state_fill(p->other, 7);
    check_mismatch(p, NAME_100 ": state.json: 1 optimizer, the spec has 2");
}

static void
test_ckpt_static_scale_is_the_specs(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    write_one(p, 100);
    p->other->scaler.fixed = true;
    p->other->scaler.scale = 128.0f;
    p->other->scaler.growth_tracker = 0;
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    ckpt_info_fini(&info);
    assert_true(p->other->scaler.scale == 128.0f);
    assert_int_equal(p->other->scaler.growth_tracker, 0);
}

/* ---- initial weights ---------------------------------------------------- */

static void
write_weights(const char *path, const struct safetensors_entry *e, int n)
{
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    struct err err;
    char digest[33];
    int64_t n_bytes;

    assert_true(fd >= 0);
    assert_int_equal(
        safetensors_write(fd, e, n, NULL, 0, digest, &n_bytes, &err), 0);
    close(fd);
}

static void
test_ckpt_weights_of_checkpoint(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[256];

    write_one(p, 100);
    path_of(p, NAME_100, "model.safetensors", path);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), 0);
    assert_memory_equal(p->other->weights, p->state->weights,
                        (size_t)p->state->param_elems * sizeof(float));
    assert_memory_equal(p->other->buffers, p->state->buffers,
                        (size_t)p->state->buffer_elems * sizeof(float));
    assert_int_equal(p->other->count.iteration, 7); /* weights alone */
    assert_true(p->other->moment[0][0] == 7.1f);
}

/* What fits is taken, the rest stays, and all of it is told. */
static void
test_ckpt_weights_partial(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {3, 4}, four[] = {4}, three[] = {3};
    float weight[12], other[4] = {0}, mean[3] = {1, 2, 3};
    int64_t tracked = 9;
    const struct safetensors_entry e[] = {
        {"0.weight", tensor_make(DTYPE_F32, 2, shape), weight},
        {"0.bias", tensor_make(DTYPE_F32, 1, four), other},
        {"1.running_mean", tensor_make(DTYPE_F32, 1, three), mean},
        {"1.num_batches_tracked", tensor_make(DTYPE_I64, 0, NULL), &tracked},
        {"head.extra", tensor_make(DTYPE_F32, 1, four), other}};
    struct ckpt_weights_report report;
    const struct state *s = p->other;
    char path[256];
    struct err err;

    for (int i = 0; i < 12; i++)
        weight[i] = (float)i;
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, 5);
    const float bias = s->weights[s->param[1].offset];
    const float var = s->buffers[s->buffer[1].offset];
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     0);
    assert_true(s->weights[s->param[0].offset + 11] == 11);
    assert_true(s->weights[s->param[1].offset] == bias);
    assert_true(s->buffers[s->buffer[0].offset + 2] == 3);
    assert_true(s->buffers_pending[s->buffer[0].offset + 2] == 3);
    assert_true(s->buffers[s->buffer[1].offset] == var);
    assert_int_equal(report.n_loaded, 2);
    assert_int_equal(report.n_missing, 2);
    assert_int_equal(report.n_differ, 1);
    assert_int_equal(report.n_unused, 1);
    assert_string_equal(report.text,
                        "initial weights: 2 of 5 tensors loaded; not in the "
                        "file: 1.weight, 1.running_var; of another shape: "
                        "0.bias; not in the model: head.extra");
    /* In full it is refused, as ever. */
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    /* Nothing at all is no partial success. */
    write_weights(path, &e[4], 1);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.msg, "nothing fits"));
    /* Nor is what is not finite. */
    weight[5] = INFINITY;
    write_weights(path, e, 5);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.msg, "0.weight[1,1] is inf"));
    assert_true(s->weights[s->param[0].offset + 11] == 11);
}

/* A thousand names are counted, not told. */
static void
test_ckpt_weights_partial_bound(void **state)
{
    enum { N = 1000 };
    struct place *p = *state;
    static char name[N][32];
    static struct safetensors_entry e[N + 1];
    const int64_t three[] = {3};
    float bias[3] = {1, 2, 3};
    struct ckpt_weights_report report;
    char path[256];
    struct err err;

    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof(name[i]), "block.%03d.attention.weight", i);
        e[i] = (struct safetensors_entry){
            name[i], tensor_make(DTYPE_F32, 1, three), bias};
    }
    e[N] = (struct safetensors_entry){"0.bias",
                                      tensor_make(DTYPE_F32, 1, three), bias};
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, N + 1);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     0);
    assert_int_equal(report.n_unused, N);
    assert_non_null(strstr(report.text, "not in the model: "
                                        "block.000.attention.weight, "));
    assert_non_null(strstr(report.text, " and 996 more"));
}

static void
test_ckpt_weights_other_dtypes(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {3, 4}, three[] = {3};
    uint16_t weight[12], bias[3] = {0x3f80, 0xc000, 0x4049};
    double scalar = 0.1;
    const struct safetensors_entry e[] = {
        {"0.weight", tensor_make(DTYPE_F16, 2, shape), weight},
        {"0.bias", tensor_make(DTYPE_BF16, 1, three), bias},
        {"1.weight", tensor_make(DTYPE_F64, 0, NULL), &scalar},
        {"head.extra", tensor_make(DTYPE_F64, 0, NULL), &scalar}};
    const struct state *s = p->other;
    char path[256], want[320];
    struct err err;

    for (int i = 0; i < 12; i++)
        weight[i] = (uint16_t)(0x3c00 + i);
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), 0);
    for (int i = 0; i < 12; i++)
        assert_true(s->weights[s->param[0].offset + i] ==
                    1.0f + (float)i / 1024.0f);
    assert_true(s->weights[s->param[1].offset] == 1.0f);
    assert_true(s->weights[s->param[1].offset + 1] == -2.0f);
    assert_true(s->weights[s->param[2].offset] == 0.1f);
    assert_true(s->buffers[0] == 7.3f); /* not in the file */

    model_state_fill(p->other, 7);
    weight[5] = 0x7c00;
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 0.weight[1,1] is inf", path);
    assert_string_equal(err.msg, want);
    weight[5] = 0;
    scalar = 1e300; /* beyond float32 */
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 1.weight is inf", path);
    assert_string_equal(err.msg, want);
    write_weights(path, e, 2);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 1.weight is missing", path);
    assert_string_equal(err.msg, want);
    /* Nothing was taken over by any of these. */
    model_state_fill(p->state, 7);
    assert_true(model_state_equal(p->other, p->state));
}

static void
test_ckpt_weights_half_the_statistics(void **state)
{
    struct place *p = *state;
    struct state *s = p->other;
    struct safetensors_entry e[16];
    char path[256], want[320];
    struct err err;
    int n = 0;

    assert_true(s->n_buffers > 1 && s->n_params < 15);
    for (int i = 0; i < s->n_params; i++)
        e[n++] = (struct safetensors_entry){s->param[i].name, s->param[i].desc,
                                            p->state->weights +
                                                p->state->param[i].offset};
    e[n++] = (struct safetensors_entry){s->buffer[1].name, s->buffer[1].desc,
                                        p->state->buffers +
                                            p->state->buffer[1].offset};
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, n);
    assert_int_equal(ckpt_read_weights(path, s, &err), ERR_DATA);
    snprintf(want, sizeof(want),
             "%s: %s is missing, where 1 other running statistics are there",
             path, s->buffer[0].name);
    assert_string_equal(err.msg, want);
    model_state_fill(p->state, 7);
    assert_true(model_state_equal(s, p->state));
}

static void
test_ckpt_weights_other_shape(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {4, 3};
    const float weight[12] = {0};
    const struct safetensors_entry e = {
        "0.weight", tensor_make(DTYPE_F32, 2, shape), weight};
    char path[256], want[320];
    struct err err;

    snprintf(path, sizeof(path), "%s/w", p->dir);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_IO);
    write_weights(path, &e, 1);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want),
             "%s: 0.weight is f32[4,3], the model has f32[3,4]", path);
    assert_string_equal(err.msg, want);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ckpt_round_trip),
        TEST(test_ckpt_scaler_bits),
        TEST(test_ckpt_deterministic),
        TEST(test_ckpt_state_text),
        TEST(test_ckpt_model_names),
        TEST(test_ckpt_no_moments_no_metric),
        TEST(test_ckpt_exists),
        TEST(test_ckpt_misuse),
        TEST(test_ckpt_other_model),
        TEST(test_ckpt_scaler_switched_on),
        TEST(test_ckpt_average),
        TEST(test_ckpt_average_comes_and_goes),
        TEST(test_ckpt_two_optimizers),
        TEST(test_ckpt_reads_format_1),
        TEST(test_ckpt_static_scale_is_the_specs),
        TEST(test_ckpt_weights_of_checkpoint),
        TEST(test_ckpt_weights_partial),
        TEST(test_ckpt_weights_partial_bound),
        TEST(test_ckpt_weights_other_dtypes),
        TEST(test_ckpt_weights_half_the_statistics),
        TEST(test_ckpt_weights_other_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
