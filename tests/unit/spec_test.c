/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/spec_samples.h"

static struct spec *
parse_sample(const char *sample)
{
    char *text = spec_sample_text(sample);
    struct spec *spec = spec_sample_parse(text);

    free(text);
    return spec;
}

/* Printing what was parsed, parsing what was printed: nothing is lost. */
static void
test_spec_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < spec_samples_n; i++) {
        struct spec *spec = parse_sample(spec_samples[i]), *again;
        char *first = spec_print(spec), *second;

        again = spec_sample_parse(first);
        second = spec_print(again);
        assert_string_equal(first, second);
        free(first);
        free(second);
        spec_destroy(&spec);
        spec_destroy(&again);
        assert_null(again);
    }
}

static void
test_spec_values(void **state)
{
    struct spec *s = parse_sample(spec_samples[4]);
    const struct spec_layer *l = s->model;

    (void)state;
    assert_string_equal(s->name, "Gr\xc3\xb6\xc3\x9f"
                                 "e \xe2\x82\xac \"\\/");
    assert_true(s->seed == INT64_MAX);
    assert_string_equal(s->device, "cpu");
    assert_int_equal(s->threads, 3);
    assert_string_equal(s->initial_weights, "w.safetensors");
    assert_true(s->data.train.present && s->data.validation.present);
    assert_int_equal(s->data.validation.format, SPEC_FORMAT_NPY);
    assert_int_equal(s->data.n_normalize, 2);
    assert_true(s->data.mean[1] == 0.25);
    assert_true(s->data.std[0] == 2 && s->data.std[1] == 2);
    assert_false(s->data.shuffle);
    assert_true(s->data.drop_last);
    assert_int_equal(s->n_model, 11);
    assert_int_equal(l[0].u.conv2d.kernel_size[1], 5);
    assert_int_equal(l[0].u.conv2d.stride[1], 2);
    assert_int_equal(l[0].u.conv2d.padding[0], 1);
    assert_int_equal(l[0].u.conv2d.padding[1], 0);
    assert_int_equal(l[0].u.conv2d.dilation[0], 2);
    assert_int_equal(l[0].u.conv2d.groups, 4);
    assert_false(l[0].u.conv2d.bias);
    assert_true(l[1].u.batch_norm.momentum == 0.01);
    assert_int_equal(l[2].u.gelu.approximate, SPEC_GELU_TANH);
    assert_int_equal(l[4].u.pool2d.stride[0], 1);
    assert_false(l[5].u.pool2d.count_include_pad);
    assert_true(l[6].u.dropout.p == 1);
    assert_int_equal(l[8].u.layer_norm.n_shape, 1);
    assert_int_equal(l[8].u.layer_norm.shape[0], 7);
    assert_true(s->loss.has_ignore_index);
    assert_int_equal(s->loss.ignore_index, -100);
    assert_int_equal(s->schedule.total_updates, 5000);
    assert_int_equal(s->amp.dtype, DTYPE_BF16);
    assert_true(s->amp.scaler.enabled);
    assert_true(s->amp.scaler.max_scale == 0);
    assert_int_equal(s->amp.wgrad_rounding, SPEC_WGRAD_PYTORCH);
    assert_int_equal(s->amp.n_fp32_regions, 2);
    assert_string_equal(s->amp.fp32_regions[0], "block.inner");
    assert_true(s->evaluate.metric[SPEC_METRIC_ACCURACY]);
    assert_true(s->checkpoint.has_best);
    assert_int_equal(s->checkpoint.best, SPEC_METRIC_ACCURACY);
    spec_destroy(&s);
}

static void
test_spec_layer_paths(void **state)
{
    struct spec *s = parse_sample(spec_samples[4]);
    const struct spec_layer *block = &s->model[3];

    (void)state;
    assert_string_equal(s->model[0].path, "stem");
    assert_string_equal(s->model[1].path, "1");
    assert_string_equal(block->path, "block");
    assert_int_equal(block->n_body, 2);
    assert_string_equal(block->body[0].path, "block.inner");
    assert_string_equal(block->body[0].body[0].path, "block.inner.0");
    assert_string_equal(block->body[0].body[1].path, "block.inner.1");
    assert_string_equal(block->body[1].path, "block.last");
    assert_string_equal(s->model[10].path, "head");
    assert_null(s->model[0].body);
    spec_destroy(&s);

    s = parse_sample(spec_samples[0]);
    assert_string_equal(s->model[15].body[0].path, "15.0");
    spec_destroy(&s);
}

static void
test_spec_layer_places(void **state)
{
    const char *sample =
        "{'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},\n"
        " 'batch_size': 8}, 'name': '\xc3\xa9\xe2\x82\xac',\n"
        "'model': ['relu',\n   'tanh', {'residual': ['relu',\n\t'silu']}],"
        "'loss': 'mse', 'optimizer': 'adam'}";
    struct spec *s = parse_sample(sample);

    (void)state;
    assert_int_equal(s->model[0].line, 3);
    assert_int_equal(s->model[0].col, 11);
    assert_int_equal(s->model[1].line, 4);
    assert_int_equal(s->model[1].col, 4);
    assert_int_equal(s->model[2].col, 12);
    assert_int_equal(s->model[2].body[1].line, 5);
    assert_int_equal(s->model[2].body[1].col, 2);
    spec_destroy(&s);
}

/* A group takes over what it does not say. */
static void
test_spec_groups(void **state)
{
    struct spec *s = parse_sample(spec_samples[4]);
    const struct spec_group *g = s->optim[0].group;

    (void)state;
    assert_int_equal(s->optim[0].n_group, 3);
    assert_int_equal(g[0].n_match, 0);
    assert_true(g[0].weight_decay == 5e-4);
    assert_int_equal(g[1].n_match, 2);
    assert_string_equal(g[1].match[1], "stem.*");
    assert_true(g[1].lr == 0.1 && g[1].momentum == 0.9 && g[1].nesterov);
    assert_true(g[1].weight_decay == 0);
    assert_true(g[2].lr == 0.01 && g[2].weight_decay == 5e-4);
    assert_true(g[2].dampening == 0.5 && !g[2].nesterov);
    spec_destroy(&s);

    s = parse_sample(spec_samples[5]);
    g = s->optim[0].group;
    assert_true(g[0].betas[0] == 0 && g[0].betas[1] == 0.5);
    assert_true(g[0].weight_decay == 0.01); /* adamw's default */
    assert_true(g[1].betas[0] == 0.25 && g[1].lr == 1 && g[1].eps == 1);
    spec_destroy(&s);
}

/* PyTorch's defaults, by hand and not from the table. */
static void
test_spec_defaults(void **state)
{
    struct spec *s = parse_sample(spec_samples[0]);
    const struct spec_layer *l = s->model;
    const struct spec_group *g = s->optim[0].group;

    (void)state;
    assert_string_equal(s->name, "job");
    assert_true(s->seed == 0 && s->threads == 0);
    assert_null(s->initial_weights);
    assert_false(s->data.validation.present);
    assert_int_equal(s->data.n_normalize, 0);
    assert_true(s->data.shuffle && !s->data.drop_last);
    assert_true(l[0].u.linear.bias && l[1].u.conv2d.bias);
    assert_true(l[1].u.conv2d.kernel_size[0] == 3 &&
                l[1].u.conv2d.kernel_size[1] == 3);
    assert_true(l[1].u.conv2d.stride[1] == 1 &&
                l[1].u.conv2d.dilation[1] == 1 && l[1].u.conv2d.groups == 1 &&
                l[1].u.conv2d.padding[1] == 0);
    assert_true(l[2].u.batch_norm.eps == 1e-5 &&
                l[2].u.batch_norm.momentum == 0.1 && l[2].u.batch_norm.affine);
    assert_true(l[4].u.layer_norm.n_shape == 0 &&
                l[4].u.layer_norm.eps == 1e-5 && l[4].u.layer_norm.affine);
    assert_int_equal(l[6].u.gelu.approximate, SPEC_GELU_NONE);
    assert_true(l[10].u.pool2d.stride[0] == 2 &&
                l[10].u.pool2d.padding[0] == 0);
    assert_true(l[11].u.pool2d.stride[0] == 3 &&
                l[11].u.pool2d.stride[1] == 2 &&
                l[11].u.pool2d.count_include_pad);
    assert_true(l[13].u.dropout.p == 0.5);
    assert_true(s->loss.label_smoothing == 0 && !s->loss.has_ignore_index);
    assert_true(g->momentum == 0 && g->dampening == 0 && g->weight_decay == 0 &&
                !g->nesterov);
    assert_int_equal(s->schedule.kind, SPEC_SCHEDULE_CONSTANT);
    assert_int_equal(s->amp.dtype, DTYPE_F32);
    assert_false(s->amp.scaler.enabled);
    assert_int_equal(s->amp.wgrad_rounding, SPEC_WGRAD_FP32);
    assert_true(s->train.epochs == 1 && s->train.accumulate == 1 &&
                s->train.max_iterations == 0 && s->train.clip_grad_norm == 0);
    assert_true(s->evaluate.metric[SPEC_METRIC_LOSS]);
    assert_false(s->evaluate.metric[SPEC_METRIC_ACCURACY]);
    assert_true(s->checkpoint.keep == 3 && !s->checkpoint.has_best);
    spec_destroy(&s);

    s = parse_sample(spec_samples[1]);
    g = s->optim[0].group;
    assert_true(g->lr == 1e-3 && g->betas[0] == 0.9 && g->betas[1] == 0.999 &&
                g->eps == 1e-8 && g->weight_decay == 0);
    assert_true(s->amp.scaler.enabled && s->amp.scaler.init_scale == 65536 &&
                s->amp.scaler.growth_factor == 2 &&
                s->amp.scaler.backoff_factor == 0.5 &&
                s->amp.scaler.growth_interval == 2000 &&
                s->amp.scaler.min_scale == 1 &&
                s->amp.scaler.max_scale == 16777216);
    spec_destroy(&s);

    s = parse_sample(spec_samples[2]);
    assert_true(s->optim[0].group->weight_decay == 0.01);
    assert_true(s->schedule.gamma == 0.1 && s->schedule.step_size == 30);
    assert_false(s->amp.scaler.enabled);
    spec_destroy(&s);
}

/* Metrics follow from the loss and from what there is to measure on. */
static void
test_spec_metrics(void **state)
{
    static const struct {
        const char *data, *loss;
        bool accuracy;
    } rows[] = {
        {"", "cross_entropy", false},
        {", 'validation': {'format': 'idx', 'input': 'a', 'target': 'b'}",
         "cross_entropy", true},
        {", 'validation': {'format': 'idx', 'input': 'a', 'target': 'b'}",
         "mse", false},
        {", 'validation': null", "cross_entropy", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sample[600];
        struct spec *s;

        snprintf(sample, sizeof(sample),
                 "{'data': {'train': {'format': 'idx', 'input': 'x', "
                 "'target': 'y'}, 'batch_size': 1%s}, 'model': ['relu'],"
                 "'loss': '%s', 'optimizer': 'adam'}",
                 rows[i].data, rows[i].loss);
        s = parse_sample(sample);
        assert_true(s->evaluate.metric[SPEC_METRIC_LOSS]);
        assert_int_equal(s->evaluate.metric[SPEC_METRIC_ACCURACY],
                         rows[i].accuracy);
        spec_destroy(&s);
    }
}

static void
test_spec_scaler_forms(void **state)
{
    static const struct {
        const char *amp;
        bool enabled;
    } rows[] = {
        {"{'dtype': 'float16', 'scaler': {}}", true},
        {"{'dtype': 'float16', 'scaler': false}", false},
        {"{'dtype': 'float16', 'scaler': {'enabled': false}}", false},
        {"{'dtype': 'bfloat16', 'scaler': {}}", false},
        {"{'dtype': 'bfloat16', 'scaler': true}", true},
        {"{'scaler': {'enabled': true}}", true},
        {"{}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sample[600];
        struct spec *s;

        snprintf(sample, sizeof(sample), "%.*s, 'amp': %s}",
                 (int)strlen(spec_sample_minimal) - 1, spec_sample_minimal,
                 rows[i].amp);
        s = parse_sample(sample);
        assert_int_equal(s->amp.scaler.enabled, rows[i].enabled);
        assert_true(s->amp.scaler.init_scale == 65536);
        spec_destroy(&s);
    }
}

static void
test_spec_resolve_paths(void **state)
{
    struct spec *s = parse_sample(spec_samples[4]);
    struct err err;

    (void)state;
    assert_int_equal(spec_resolve_paths(s, "here", &err), ERR_USAGE);
    assert_string_equal(err.msg, "here is no absolute path");
    assert_int_equal(spec_resolve_paths(s, "/home/me//", &err), 0);
    assert_string_equal(s->data.train.input, "/home/me/x");
    assert_string_equal(s->data.validation.input, "/a/x");
    assert_string_equal(s->data.validation.target, "/home/me/v/y");
    assert_string_equal(s->initial_weights, "/home/me/w.safetensors");
    /* Once absolute, always the same. */
    assert_int_equal(spec_resolve_paths(s, "/", &err), 0);
    assert_string_equal(s->data.train.input, "/home/me/x");
    spec_destroy(&s);

    s = parse_sample(spec_sample_minimal);
    assert_int_equal(spec_resolve_paths(s, "/", &err), 0);
    assert_string_equal(s->data.train.input, "/x");
    assert_null(s->data.validation.input);
    assert_null(s->initial_weights);
    spec_destroy(&s);
}

/* The text need not end in NUL. */
static void
test_spec_bounded_text(void **state)
{
    char *text = spec_sample_text(spec_sample_minimal);
    size_t n = strlen(text);
    char *exact = malloc(n);
    struct spec_faults faults;
    struct spec *spec;

    (void)state;
    memcpy(exact, text, n);
    assert_int_equal(spec_parse(exact, n, &spec, &faults), 0);
    spec_destroy(&spec);
    free(exact);
    free(text);
}

/* A file of examples/; it must be a spec. */
static struct spec *
parse_example(const char *file)
{
    const char *root = getenv("TRAIND_SOURCE");
    char text[16 * 1024], name[4096];
    size_t n;
    FILE *f;

    snprintf(name, sizeof(name), "%s/examples/%s", root != NULL ? root : ".",
             file);
    f = fopen(name, "r");
    if (f == NULL)
        fail_msg("%s is missing", name);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    return spec_sample_parse(text);
}

static void
test_spec_example_files(void **state)
{
    struct spec *spec = parse_example("fashion-cnn.json");

    (void)state;
    assert_string_equal(spec->name, "fashion-cnn");
    assert_int_equal(spec->amp.dtype, DTYPE_F16);
    assert_true(spec->amp.scaler.enabled);
    spec_destroy(&spec);
    spec = parse_example("resnet-fashion.json");
    assert_true(spec->data.augment.crop_padding > 0);
    assert_string_equal(spec->model[spec->n_model - 1].path, "fc");
    spec_destroy(&spec);
    spec = parse_example("gpt-text.json");
    assert_int_equal(spec->data.train.format, SPEC_FORMAT_TEXT);
    assert_string_equal(spec->model[spec->n_model - 1].weight_from, "wte");
    spec_destroy(&spec);
    spec = parse_example("mlp-first-job.json");
    spec_destroy(&spec);
}

static void
test_spec_names(void **state)
{
    (void)state;
    assert_string_equal(spec_layer_name(SPEC_LAYER_ADAPTIVE_AVG_POOL2D),
                        "adaptive_avg_pool2d");
    assert_string_equal(spec_loss_name(SPEC_LOSS_L1), "l1");
    assert_string_equal(spec_optimizer_name(SPEC_OPTIMIZER_SGD), "sgd");
    assert_string_equal(spec_schedule_name(SPEC_SCHEDULE_LINEAR), "linear");
    assert_string_equal(spec_metric_name(SPEC_METRIC_ACCURACY), "accuracy");
    assert_string_equal(spec_format_name(SPEC_FORMAT_NPY), "npy");
}

static void
test_spec_find_place(void **state)
{
    static const char text[] = "{\"data\": {\n  \"train\": {\"input\": 3}},\n"
                               " \"model\": []}";
    int line, col;

    (void)state;
    assert_true(
        spec_find_place(text, strlen(text), "data.train.input", &line, &col));
    assert_int_equal(line, 2);
    assert_int_equal(col, 22);
    assert_false(
        spec_find_place(text, strlen(text), "data.train.input.x", &line, &col));
    assert_false(spec_find_place(text, strlen(text), "model[0]", &line, &col));
    assert_false(spec_find_place("{", 1, "data", &line, &col));
    assert_int_equal(line, 0);
    assert_int_equal(col, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_round_trip),
        cmocka_unit_test(test_spec_values),
        cmocka_unit_test(test_spec_layer_paths),
        cmocka_unit_test(test_spec_layer_places),
        cmocka_unit_test(test_spec_groups),
        cmocka_unit_test(test_spec_defaults),
        cmocka_unit_test(test_spec_metrics),
        cmocka_unit_test(test_spec_scaler_forms),
        cmocka_unit_test(test_spec_resolve_paths),
        cmocka_unit_test(test_spec_bounded_text),
        cmocka_unit_test(test_spec_example_files),
        cmocka_unit_test(test_spec_find_place),
        cmocka_unit_test(test_spec_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
