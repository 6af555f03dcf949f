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
    assert_null(safetensors_metadata(f, "policy_changed"));
    assert_null(safetensors_metadata(f, "policy_history"));
    safetensors_close(&f);
    path_of(p, NAME_100, "optimizer.safetensors", path);
    assert_int_equal(safetensors_open(path, &f, &err), 0);
    assert_int_equal(safetensors_n_entries(f), 6);
    assert_non_null(safetensors_find(f, "m.0.weight"));
    assert_non_null(safetensors_find(f, "v.0.bias"));
    safetensors_close(&f);
}

/* Weights of a run whose policy was changed say so, in every file of them. */
static void
test_ckpt_policy_history(void **state)
{
    static const char history[] = "[{\"difference\":\"amp.dtype\"}]";
    static const char *const files[] = {"model.safetensors",
                                        "optimizer.safetensors"};
    struct place *p = *state;
    struct safetensors *f;
    struct ckpt_info info;
    char path[PATH_MAX];
    struct err err;

    p->args.policy_history = history;
    write_one(p, 100);
    for (int i = 0; i < 2; i++) {
        path_of(p, NAME_100, files[i], path);
        assert_int_equal(safetensors_open(path, &f, &err), 0);
        assert_string_equal(safetensors_metadata(f, "policy_changed"), "true");
        assert_string_equal(safetensors_metadata(f, "policy_history"), history);
        safetensors_close(&f);
    }
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err), 0);
    ckpt_info_fini(&info);
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
        TEST(test_ckpt_policy_history),
        TEST(test_ckpt_exists),
        TEST(test_ckpt_misuse),
        TEST(test_ckpt_other_model),
        TEST(test_ckpt_scaler_switched_on),
        TEST(test_ckpt_average),
        TEST(test_ckpt_average_comes_and_goes),
        TEST(test_ckpt_two_optimizers),
        TEST(test_ckpt_reads_format_1),
        TEST(test_ckpt_static_scale_is_the_specs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
