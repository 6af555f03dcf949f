/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/spec_samples.h"

#define SPEC(model)                                                            \
    "{'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},"       \
    " 'batch_size': 8}, 'loss': 'mse', 'optimizer': 'adam',\n 'model': " model \
    "}"

static struct spec *
parse(const char *sample)
{
    char *text = spec_sample_text(sample);
    struct spec *spec = spec_sample_parse(text);

    free(text);
    return spec;
}

/* The layer with this path. */
static const struct spec_layer *
find(const struct spec_layer *list, int n, const char *path)
{
    for (int i = 0; i < n; i++) {
        const struct spec_layer *in;

        if (strcmp(list[i].path, path) == 0)
            return &list[i];
        in = find(list[i].body, list[i].n_body, path);
        if (in != NULL)
            return in;
    }
    return NULL;
}

static const struct spec_layer *
need(const struct spec *spec, const char *path)
{
    const struct spec_layer *layer = find(spec->model, spec->n_model, path);

    if (layer == NULL)
        fail_msg("no layer %s", path);
    return layer;
}

static void
expect_kinds(const struct spec_layer *list, int n,
             const enum spec_layer_kind *kinds, int n_kinds)
{
    assert_int_equal(n, n_kinds);
    for (int i = 0; i < n; i++)
        assert_int_equal(list[i].kind, kinds[i]);
}

static void
test_spec_presets_mlp(void **state)
{
    static const enum spec_layer_kind kinds[] = {
        SPEC_LAYER_FLATTEN,      SPEC_LAYER_LINEAR,  SPEC_LAYER_BATCH_NORM1D,
        SPEC_LAYER_SILU,         SPEC_LAYER_DROPOUT, SPEC_LAYER_LINEAR,
        SPEC_LAYER_BATCH_NORM1D, SPEC_LAYER_SILU,    SPEC_LAYER_DROPOUT,
        SPEC_LAYER_LINEAR};
    struct spec *s = parse(
        SPEC("{'mlp': {'hidden': [30, 20], 'out_features': 10,"
             " 'activation': 'silu', 'dropout': 0.25, 'batch_norm': true}}"));

    (void)state;
    expect_kinds(s->model, s->n_model, kinds, 10);
    assert_int_equal(s->model[1].u.linear.out_features, 30);
    assert_int_equal(s->model[5].u.linear.out_features, 20);
    assert_true(s->model[4].u.dropout.p == 0.25);
    assert_int_equal(need(s, "head")->u.linear.out_features, 10);
    /* Faults of the graph point at the preset. */
    assert_int_equal(s->model[5].line, 2);
    assert_int_equal(s->model[5].col, 11);
    spec_destroy(&s);

    s = parse(SPEC("['relu', {'name': 'm',"
                   " 'mlp': {'hidden': 4, 'num_classes': 3}}]"));
    assert_int_equal(s->model[1].kind, SPEC_LAYER_SEQUENTIAL);
    assert_int_equal(s->model[1].n_body, 4);
    assert_int_equal(need(s, "m.2")->kind, SPEC_LAYER_RELU);
    assert_int_equal(need(s, "m.head")->u.linear.out_features, 3);
    spec_destroy(&s);
}

static int
count_kind(const struct spec_layer *list, int n, enum spec_layer_kind kind)
{
    int sum = 0;

    for (int i = 0; i < n; i++)
        sum += (list[i].kind == kind) +
               count_kind(list[i].body, list[i].n_body, kind);
    return sum;
}

/* 6n + 2 layers that have weights, with the projections beside them. */
static void
test_spec_presets_resnet_depth(void **state)
{
    static const int depths[] = {8, 20, 32, 56, 110};

    (void)state;
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        char sample[500];
        struct spec *s;

        snprintf(sample, sizeof(sample),
                 SPEC("{'resnet': {'depth': %d, 'num_classes': 10}}"),
                 depths[i]);
        s = parse(sample);
        assert_int_equal(
            count_kind(s->model, s->n_model, SPEC_LAYER_CONV2D) - 2 +
                count_kind(s->model, s->n_model, SPEC_LAYER_LINEAR),
            depths[i]);
        spec_destroy(&s);
    }
}

static void
test_spec_presets_resnet(void **state)
{
    struct spec *s =
        parse(SPEC("{'resnet': {'depth': 14, 'num_classes': 10, 'width': 4}}"));
    const struct spec_layer *l;

    (void)state;
    l = need(s, "conv1");
    assert_true(l->u.conv2d.out_channels == 4 && !l->u.conv2d.bias &&
                l->u.conv2d.kernel_size[0] == 3 && l->u.conv2d.padding[1] == 1);
    assert_int_equal(need(s, "layer1.1.conv2")->u.conv2d.out_channels, 4);
    l = need(s, "layer2.0.conv1");
    assert_true(l->u.conv2d.out_channels == 8 && l->u.conv2d.stride[0] == 2);
    assert_int_equal(need(s, "layer2.0.conv2")->u.conv2d.stride[0], 1);
    assert_int_equal(need(s, "layer2.1.conv1")->u.conv2d.stride[0], 1);
    l = need(s, "layer3.0.downsample.0");
    assert_true(l->u.conv2d.out_channels == 16 && l->u.conv2d.stride[1] == 2 &&
                l->u.conv2d.kernel_size[0] == 1 && l->u.conv2d.padding[0] == 0);
    assert_int_equal(need(s, "layer3.0.downsample.1")->kind,
                     SPEC_LAYER_BATCH_NORM2D);
    assert_string_equal(need(s, "layer3.0.downsample")->input[0], "layer2");
    assert_null(find(s->model, s->n_model, "layer1.0.downsample"));
    l = need(s, "layer1.0.add");
    assert_string_equal(l->input[0], "layer1.0.bn2");
    assert_string_equal(l->input[1], "relu");
    assert_string_equal(need(s, "layer1.1.add")->input[1], "layer1.0");
    assert_string_equal(need(s, "layer2.0.add")->input[1],
                        "layer2.0.downsample");
    assert_string_equal(need(s, "layer2.1.add")->input[1], "layer2.0");
    assert_int_equal(need(s, "fc")->u.linear.out_features, 10);
    spec_destroy(&s);
}

static void
expect_init(const struct spec *spec, const char *path, double std)
{
    const struct spec_layer *l = need(spec, path);

    assert_int_equal(l->weight_init.kind, SPEC_INIT_NORMAL);
    assert_true(l->weight_init.value == std);
    if (l->kind == SPEC_LAYER_LINEAR && l->u.linear.bias)
        assert_int_equal(l->bias_init.kind, SPEC_INIT_ZEROS);
}

static void
test_spec_presets_gpt(void **state)
{
    struct spec *s =
        parse(SPEC("{'gpt': {'vocab_size': 65, 'block_size': 32, 'n_layer': 3,"
                   " 'n_head': 4, 'n_embd': 16}}"));
    const struct spec_layer *l;

    (void)state;
    assert_int_equal(need(s, "wte")->u.embedding.embedding_dim, 16);
    assert_int_equal(need(s, "wte")->u.embedding.num_embeddings, 65);
    assert_int_equal(need(s, "wpe")->u.embedding.num_embeddings, 32);
    l = need(s, "h.0.attn.heads");
    assert_true(l->u.attention.is_causal && l->u.attention.num_heads == 4 &&
                l->u.attention.dropout == 0 && !l->u.attention.has_mask);
    assert_int_equal(need(s, "h.2.attn.c_attn")->u.linear.out_features, 48);
    assert_int_equal(need(s, "h.2.mlp.c_fc")->u.linear.out_features, 64);
    assert_int_equal(need(s, "h.2.mlp.c_proj")->u.linear.out_features, 16);
    assert_int_equal(need(s, "h.1.mlp.act")->u.gelu.approximate,
                     SPEC_GELU_TANH);
    assert_string_equal(need(s, "h.0.add_1")->input[0], "wpe");
    assert_string_equal(need(s, "h.2.add_1")->input[0], "h.1");
    assert_string_equal(need(s, "h.2.add_1")->input[1], "h.2.attn");
    assert_string_equal(need(s, "h.2.add_2")->input[0], "h.2.add_1");
    assert_string_equal(need(s, "h.2.add_2")->input[1], "h.2.mlp");
    assert_true(need(s, "h.0.ln_1")->u.layer_norm.bias);
    assert_true(need(s, "ln_f")->u.layer_norm.bias);
    l = need(s, "lm_head");
    assert_string_equal(l->weight_from, "wte");
    assert_true(l->u.linear.out_features == 65 && !l->u.linear.bias);
    expect_init(s, "wte", 0.02);
    expect_init(s, "wpe", 0.02);
    expect_init(s, "h.0.attn.c_attn", 0.02);
    expect_init(s, "h.0.mlp.c_fc", 0.02);
    expect_init(s, "h.0.attn.c_proj", 0.02 / sqrt(6));
    expect_init(s, "h.2.mlp.c_proj", 0.02 / sqrt(6));
    assert_int_equal(count_kind(s->model, s->n_model, SPEC_LAYER_DROPOUT), 0);
    spec_destroy(&s);
}

static void
test_spec_presets_gpt_settings(void **state)
{
    struct spec *s = parse(
        SPEC("[{'name': 'net', 'gpt': {'vocab_size': 65, 'block_size': 32,"
             " 'n_layer': 1, 'n_head': 4, 'n_embd': 16, 'dropout': 0.25,"
             " 'bias': false, 'tie_weights': false}}]"));

    (void)state;
    assert_true(need(s, "net.drop")->u.dropout.p == 0.25);
    assert_true(need(s, "net.h.0.attn.heads")->u.attention.dropout == 0.25);
    assert_true(need(s, "net.h.0.attn.resid_dropout")->u.dropout.p == 0.25);
    assert_true(need(s, "net.h.0.mlp.dropout")->u.dropout.p == 0.25);
    assert_string_equal(need(s, "net.h.0.add_1")->input[0], "net.drop");
    assert_false(need(s, "net.h.0.attn.c_attn")->u.linear.bias);
    assert_false(need(s, "net.h.0.ln_2")->u.layer_norm.bias);
    assert_false(need(s, "net.ln_f")->u.layer_norm.bias);
    assert_null(need(s, "net.lm_head")->weight_from);
    expect_init(s, "net.lm_head", 0.02);
    spec_destroy(&s);
}

/* One model, exactly one fault. */
static const struct {
    const char *model, *path, *message;
} faults_of[] = {
    {"['mlp']", "model[0].hidden",
     "missing; must be a list of at most 64 integers, each 1 or more: write "
     "{\"mlp\": {...}}"},
    {"{'mlp': {'hidden': [1]}}", "model.mlp",
     "needs num_classes or out_features, one of them"},
    {"{'mlp': {'hidden': [1], 'num_classes': 2, 'out_features': 2}}",
     "model.mlp", "needs num_classes or out_features, one of them"},
    {"{'mlp': {'hidden': [1], 'num_classes': 2, 'activation': 'elu'}}",
     "model.mlp.activation", "unknown activation \"elu\"; did you mean relu?"},
    {"[{'mlp': {'hidden': [1], 'num_classes': 2, 'layers': 3}}]",
     "model[0].mlp.layers",
     "unknown key; known: hidden, num_classes, out_features, activation, "
     "dropout, batch_norm"},
    {"[{'mlp': []}]", "model[0].mlp", "must be an object, not a list"},
    {"{'resnet': {'depth': 18, 'num_classes': 2}}", "model.resnet.depth",
     "must be 6n + 2, as 8, 14, 20, 32, 44, 56, 110, not 18"},
    {"{'resnet': {'depth': 2, 'num_classes': 2}}", "model.resnet.depth",
     "must be 6n + 2, as 8, 14, 20, 32, 44, 56, 110, not 2"},
    {"{'resnet': {'depth': 4802, 'num_classes': 2}}", "model",
     "more than 4096 layers in all"},
    {"{'gpt': {'vocab_size': 9, 'block_size': 9, 'n_layer': 1, 'n_head': 3,"
     " 'n_embd': 10}}",
     "model.gpt.n_embd", "must be a multiple of n_head 3, not 10"},
    {"{'gpt': {'vocab_size': 9, 'block_size': 9, 'n_layer': 1, 'n_head': 3}}",
     "model.gpt.n_embd", "missing; must be an integer from 1 to 1048576"},
    {"{'gpt': {'vocab_size': 9, 'block_size': 9, 'n_layer': 1000,"
     " 'n_head': 1, 'n_embd': 4}}",
     "model", "more than 4096 layers in all"},
    {"{'name': 'x', 'mlp': {'hidden': [1], 'num_classes': 2}}", "model.name",
     "unknown key; settings of a preset go inside its own object"},
    {"{'gpt': {'vocab_size': 9, 'block_size': 4, 'n_layer': 500,"
     " 'n_head': 1, 'n_embd': 4}}",
     "model", "more than 4096 layers in all"},
    {"{'gpt': {'vocab_size': 9, 'block_size': 4, 'n_layer': 1048576,"
     " 'n_head': 1, 'n_embd': 4}}",
     "model.gpt", "stands for more than 4096 layers"},
    {"{'resnet': {'depth': 2147483642, 'num_classes': 10}}", "model.resnet",
     "stands for more than 4096 layers"},
};

static void
test_spec_presets_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(faults_of) / sizeof(faults_of[0]); i++) {
        char sample[1000];
        struct spec_faults faults;
        struct spec *spec;
        char *text;

        snprintf(sample, sizeof(sample), SPEC("%s"), faults_of[i].model);
        text = spec_sample_text(sample);
        if (spec_parse(text, strlen(text), &spec, &faults) != ERR_SPEC)
            fail_msg("no fault in %s", text);
        assert_string_equal(faults.list[0].message, faults_of[i].message);
        assert_string_equal(faults.list[0].path, faults_of[i].path);
        if (faults.n != 1)
            fail_msg("%s: also %s", text, faults.list[1].message);
        spec_faults_fini(&faults);
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_presets_mlp),
        cmocka_unit_test(test_spec_presets_resnet_depth),
        cmocka_unit_test(test_spec_presets_resnet),
        cmocka_unit_test(test_spec_presets_gpt),
        cmocka_unit_test(test_spec_presets_gpt_settings),
        cmocka_unit_test(test_spec_presets_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
