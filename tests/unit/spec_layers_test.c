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

#define SPEC(model)                                                            \
    "{'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},"       \
    " 'batch_size': 8}, 'loss': 'mse', 'optimizer': 'adam', 'model': " model   \
    "}"

/* The samples of every kind: by default, and with nothing by default. */
#define SAMPLE_DEFAULT 6
#define SAMPLE_OTHER   7

static struct spec *
parse(const char *sample)
{
    char *text = spec_sample_text(sample);
    struct spec *spec = spec_sample_parse(text);

    free(text);
    return spec;
}

static const struct spec_layer *
find_kind(const struct spec_layer *list, int n, enum spec_layer_kind kind)
{
    for (int i = 0; i < n; i++) {
        const struct spec_layer *in;

        if (list[i].kind == kind)
            return &list[i];
        in = find_kind(list[i].body, list[i].n_body, kind);
        if (in != NULL)
            return in;
    }
    return NULL;
}

static const struct spec_layer *
need_kind(const struct spec *spec, enum spec_layer_kind kind)
{
    const struct spec_layer *layer =
        find_kind(spec->model, spec->n_model, kind);

    if (layer == NULL)
        fail_msg("no %s", spec_layer_name(kind));
    return layer;
}

/* No kind is left out of the samples that go round by print and parse. */
static void
test_spec_layers_all_kinds(void **state)
{
    (void)state;
    for (int kind = 0; kind < SPEC_LAYER_COUNT; kind++) {
        bool found = false;

        for (int i = 0; i < spec_samples_n && !found; i++) {
            struct spec *s = parse(spec_samples[i]);

            found = find_kind(s->model, s->n_model,
                              (enum spec_layer_kind)kind) != NULL;
            spec_destroy(&s);
        }
        if (!found)
            fail_msg("no sample has %s",
                     spec_layer_name((enum spec_layer_kind)kind));
    }
}

/* PyTorch's defaults, by hand and not from the table. */
static void
test_spec_layers_defaults(void **state)
{
    struct spec *s = parse(spec_samples[SAMPLE_DEFAULT]);
    const struct spec_layer *l;

    (void)state;
    l = need_kind(s, SPEC_LAYER_EMBEDDING);
    assert_false(l->u.embedding.has_padding);
    assert_int_equal(l->weight_init.kind, SPEC_INIT_DEFAULT);
    assert_null(l->weight_from);
    assert_int_equal(l->n_input, 0);
    l = need_kind(s, SPEC_LAYER_MULTIHEAD_ATTENTION);
    assert_true(l->u.attention.bias && !l->u.attention.is_causal &&
                l->u.attention.dropout == 0 && !l->u.attention.has_mask);
    l = need_kind(s, SPEC_LAYER_SCALED_DOT_PRODUCT_ATTENTION);
    assert_true(l->u.attention.scale == 0 && l->u.attention.dropout == 0 &&
                !l->u.attention.is_causal && !l->u.attention.has_mask);
    l = need_kind(s, SPEC_LAYER_CONV1D);
    assert_true(l->u.conv2d.kernel_size[0] == 1 &&
                l->u.conv2d.kernel_size[1] == 3);
    assert_true(l->u.conv2d.stride[0] == 1 && l->u.conv2d.stride[1] == 1);
    assert_true(l->u.conv2d.padding[0] == 0 && l->u.conv2d.padding[1] == 0);
    assert_true(l->u.conv2d.dilation[0] == 1 && l->u.conv2d.dilation[1] == 1);
    assert_true(l->u.conv2d.groups == 1 && l->u.conv2d.bias);
    l = need_kind(s, SPEC_LAYER_CONV_TRANSPOSE2D);
    assert_true(l->u.conv2d.output_padding[0] == 0 &&
                l->u.conv2d.dilation[1] == 1 && l->u.conv2d.bias);
    l = need_kind(s, SPEC_LAYER_GROUP_NORM);
    assert_true(l->u.group_norm.eps == 1e-5 && l->u.group_norm.affine);
    l = need_kind(s, SPEC_LAYER_RMS_NORM);
    assert_true(l->u.layer_norm.eps == 0 && l->u.layer_norm.affine &&
                l->u.layer_norm.n_shape == 0);
    l = need_kind(s, SPEC_LAYER_PRELU);
    assert_true(l->u.prelu.num_parameters == 1 && l->u.prelu.init == 0.25);
    l = need_kind(s, SPEC_LAYER_SOFTPLUS);
    assert_true(l->u.softplus.beta == 1 && l->u.softplus.threshold == 20);
    l = need_kind(s, SPEC_LAYER_COSINE_SIMILARITY);
    assert_true(l->u.axis.dim == 1 && l->u.axis.eps == 1e-8);
    l = need_kind(s, SPEC_LAYER_SUM);
    assert_true(l->u.reduce.n_dim == 0 && !l->u.reduce.keepdim);
    l = need_kind(s, SPEC_LAYER_NORM);
    assert_true(l->u.reduce.p == 2 && l->u.reduce.n_dim == 0);
    l = need_kind(s, SPEC_LAYER_UPSAMPLE);
    assert_true(l->u.upsample.mode == SPEC_UPSAMPLE_NEAREST &&
                !l->u.upsample.align_corners && l->u.upsample.size[0] == 0 &&
                l->u.upsample.scale_factor[1] == 2);
    l = need_kind(s, SPEC_LAYER_FLATTEN);
    assert_true(l->u.flatten.start_dim == 1 && l->u.flatten.end_dim == -1);
    l = need_kind(s, SPEC_LAYER_SOFTMAX);
    assert_int_equal(l->u.axis.dim, -1);
    spec_destroy(&s);
    s = parse(spec_samples[0]);
    assert_true(need_kind(s, SPEC_LAYER_LAYER_NORM)->u.layer_norm.bias);
    spec_destroy(&s);
}

static void
test_spec_layers_values(void **state)
{
    struct spec *s = parse(spec_samples[SAMPLE_OTHER]);
    const struct spec_layer *l = s->model;

    (void)state;
    assert_true(l[0].u.embedding.has_padding);
    assert_int_equal(l[0].u.embedding.padding_idx, 8);
    assert_int_equal(l[0].weight_init.kind, SPEC_INIT_NORMAL);
    assert_true(l[0].weight_init.value == 0.02);
    assert_int_equal(l[1].weight_init.kind, SPEC_INIT_UNIFORM);
    assert_true(l[1].weight_init.value == 0.5);
    assert_true(l[2].u.attention.has_mask && l[3].u.attention.has_mask);
    assert_int_equal(l[2].n_input, 4);
    assert_int_equal(l[2].bias_init.kind, SPEC_INIT_ONES);
    assert_true(l[3].u.attention.scale == 0.25 &&
                l[3].u.attention.dropout == 0.5);
    assert_true(l[4].u.conv2d.stride[1] == 2 && l[4].u.conv2d.stride[0] == 1);
    assert_true(l[4].u.conv2d.dilation[1] == 3 && l[4].u.conv2d.groups == 2);
    assert_true(l[5].u.conv2d.output_padding[0] == 1);
    assert_true(l[7].u.layer_norm.n_shape == 2 &&
                l[7].u.layer_norm.eps == 1e-3);
    assert_false(l[8].u.layer_norm.bias);
    assert_true(l[13].u.matmul.transpose_a && l[13].u.matmul.transpose_b);
    assert_true(l[17].u.binary.has_value && l[17].u.binary.value == 0);
    assert_true(l[25].u.where.has_value && l[25].u.where.value == 1);
    assert_true(l[31].u.reduce.n_dim == 2 && l[31].u.reduce.dim[1] == -2);
    assert_true(l[32].u.reduce.p == 1 && l[32].u.reduce.keepdim);
    assert_true(l[36].u.upsample.size[1] == 9 &&
                l[36].u.upsample.mode == SPEC_UPSAMPLE_BILINEAR &&
                l[36].u.upsample.align_corners);
    assert_true(l[37].u.upsample.scale_factor[1] == 1.5);
    assert_true(l[39].u.shape.n_size == 6 && l[40].u.shape.size[1] == -1);
    assert_true(l[41].u.transpose.dim1 == -2);
    assert_true(l[42].u.axis.start == 5 && l[42].u.axis.length == 2);
    spec_destroy(&s);
}

/* A name means the nearest earlier layer, and is stored as a path. */
static void
test_spec_layers_scope(void **state)
{
    struct spec *s = parse(spec_samples[SAMPLE_OTHER]);
    const struct spec_layer *outer = &s->model[11];
    const struct spec_layer *residual = &outer->body[1];

    (void)state;
    assert_string_equal(s->model[1].input[0], "input");
    assert_string_equal(s->model[2].input[2], "1");
    assert_string_equal(outer->path, "outer");
    assert_string_equal(residual->body[0].path, "outer.1.b");
    assert_string_equal(residual->body[0].weight_from, "outer.in");
    assert_string_equal(residual->shortcut[0].path, "outer.1.shortcut.s");
    assert_string_equal(residual->shortcut[0].input[0], "outer.in");
    assert_string_equal(residual->shortcut[0].input[1], "ids");
    assert_string_equal(outer->body[2].input[0], "outer.1.shortcut.s");
    assert_string_equal(outer->body[2].input[1], "outer.1.b");
    assert_string_equal(s->model[12].input[0], "outer.1.shortcut.s");
    assert_string_equal(s->model[13].input[0], "outer.in");
    assert_string_equal(s->model[13].input[1], "in");
    spec_destroy(&s);

    /* Sharing a shared weight leads to its owner. */
    s = parse(SPEC("[{'name': 'a', 'linear': {'out_features': 3}},"
                   " {'name': 'b', 'linear': {'out_features': 3},"
                   "  'weight_from': 'a'}, {'linear': {'out_features': 3},"
                   "  'weight_from': 'b'}]"));
    assert_string_equal(s->model[2].weight_from, "a");
    spec_destroy(&s);
}

/* What a printed spec calls a layer means the same layer, also where a nearer
 * one has the name that would be shorter. */
static void
test_spec_layers_shadowed(void **state)
{
    struct spec *s =
        parse(SPEC("[{'name': 'a', 'relu': {}}, {'name': 'm', 'sequential': ["
                   " {'name': 'x', 'input': 'a', 'tanh': {}},"
                   " {'name': 'a', 'sequential': [{'input': 'x', 'relu': {}},"
                   "  {'input': '0', 'relu': {}}]}, {'input': 'a', 'relu': {}},"
                   " {'input': 'a.0', 'relu': {}}]}]"));
    char *text = spec_print(s);
    struct spec *again = spec_sample_parse(text);
    const struct spec_layer *m = &again->model[1];

    (void)state;
    assert_string_equal(m->body[0].input[0], "a");
    assert_string_equal(m->body[1].body[0].input[0], "m.x");
    assert_string_equal(m->body[1].body[1].input[0], "m.a.0");
    assert_string_equal(m->body[2].input[0], "m.a");
    assert_string_equal(m->body[3].input[0], "m.a.0");
    assert_non_null(strstr(text, "{\"input\": [\"a.0\"]"));
    spec_destroy(&s);
    spec_destroy(&again);
    free(text);
}

/* One model, exactly one fault. */
static const struct {
    const char *model, *path, *message;
} faults_of[] = {
    {"[{'name': 'input', 'relu': {}}]", "model[0].name",
     "may not be \"input\": that is what the model reads"},
    {"[{'residual': [{'name': 'shortcut', 'relu': {}}]}]",
     "model[0].residual[0].name",
     "may not be \"shortcut\" in the body of a residual"},
    {"['relu', {'input': 'rel', 'tanh': {}}]", "model[1].input",
     "unknown layer \"rel\"; known: 0, input"},
    {"[{'name': 'stem', 'relu': {}}, {'input': ['stm', 'stem'], 'add': {}}]",
     "model[1].input[0]", "unknown layer \"stm\"; did you mean stem?"},
    {"[{'name': 'a', 'sequential': ['relu']}, {'input': 'a.1', 'relu': {}}]",
     "model[1].input", "unknown layer \"a.1\"; known: a, input"},
    {"[{'name': 'a', 'residual': {'body': ['relu'], 'shortcut': ['relu']}},"
     " {'input': 'a.shortcut', 'relu': {}}]",
     "model[1].input", "unknown layer \"a.shortcut\"; known: a, input"},
    {"[{'name': 'a', 'sequential': ['relu']}, {'input': 'a.', 'relu': {}}]",
     "model[1].input", "unknown layer \"a.\"; known: a, input"},
    {"['relu', {'input': 'a', 'tanh': {}}, {'name': 'a', 'relu': {}}]",
     "model[1].input", "\"a\" comes later: a layer reads earlier ones"},
    {"['relu', {'input': '2', 'tanh': {}}, 'relu']", "model[1].input",
     "\"2\" comes later: a layer reads earlier ones"},
    {"['relu', {'input': '1', 'tanh': {}}]", "model[1].input",
     "a layer may not read itself"},
    {"[{'name': 'a', 'sequential': [{'input': 'a', 'relu': {}}]}]",
     "model[0].sequential[0].input",
     "\"a\" is around this layer: it is not complete yet"},
    {"['relu', {'input': [], 'tanh': {}}]", "model[1].input",
     "may not be an empty list"},
    {"['relu', {'input': 0, 'tanh': {}}]", "model[1].input",
     "must be the name of an earlier layer, not an integer"},
    {"['relu', {'input': '', 'tanh': {}}]", "model[1].input",
     "may not be empty"},
    {"['relu', {'input': ['0','0','0','0','0','0','0','0','0'],"
     " 'cat': {'dim': 1}}]",
     "model[1].input", "has 9 elements, at most 8 are allowed"},
    {"['add']", "model[0]", "add reads two inputs, or one and a value, not 1"},
    {"['relu', {'input': ['0', '0'], 'lt': {'value': 1}}]", "model[1].input",
     "lt reads one input beside a value, not 2"},
    {"['relu', {'input': ['0', '0'], 'tanh': {}}]", "model[1].input",
     "tanh reads one input, not 2"},
    {"['relu', {'input': ['0', '0'], 'sequential': ['relu']}]",
     "model[1].input", "sequential reads one input, not 2"},
    {"['relu', {'input': ['0', '0'], 'where': {}}]", "model[1].input",
     "where reads a mask and two inputs, or a mask, one and a value, not 2"},
    {"['relu', {'input': '0', 'where': {'value': 1}}]", "model[1].input",
     "where reads a mask and one input beside a value, not 1"},
    {"['matmul']", "model[0]", "matmul reads two inputs, not 1"},
    {"['relu', {'input': '0', 'stack': {'dim': 0}}]", "model[1].input",
     "stack reads 2 to 8 inputs, not 1"},
    {"['relu', {'input': ['0', '0', '0', '0', '0'],"
     " 'multihead_attention': {'num_heads': 1}}]",
     "model[1].input",
     "multihead_attention reads one input or three (q, k, v), and a mask or "
     "none, not 5"},
    {"[{'relu': {}, 'weight_init': 'ones'}]", "model[0].weight_init",
     "this relu has no weight"},
    {"[{'linear': {'out_features': 1, 'bias': false}, 'bias_init': 'ones'}]",
     "model[0].bias_init", "this linear has no bias"},
    {"[{'prelu': {}, 'weight_init': 'ones'}]", "model[0].weight_init",
     "a prelu starts at its init"},
    {"[{'linear': {'out_features': 1}, 'weight_init': 'one'}]",
     "model[0].weight_init", "unknown start \"one\"; did you mean ones?"},
    {"[{'linear': {'out_features': 1}, 'weight_init': 'normal'}]",
     "model[0].weight_init", "must be {\"normal\": {\"std\": ...}}"},
    {"[{'linear': {'out_features': 1}, 'weight_init': 'uniform'}]",
     "model[0].weight_init", "must be {\"uniform\": {\"bound\": ...}}"},
    {"[{'linear': {'out_features': 1}, 'weight_init': {'normal': {}}}]",
     "model[0].weight_init.normal.std", "missing; must be a number above 0"},
    {"[{'linear': {'out_features': 1}, 'weight_init': {'zeros': {'x': 1}}}]",
     "model[0].weight_init.zeros.x", "unknown key; none is known here"},
    {"[{'linear': {'out_features': 1}, 'weight_from': 'input'}]",
     "model[0].weight_from", "only a linear or an embedding shares its weight"},
    {"['relu', {'linear': {'out_features': 1}, 'weight_from': '0'}]",
     "model[1].weight_from", "only a linear or an embedding shares its weight"},
    {"[{'linear': {'out_features': 1}}, {'relu': {}, 'weight_from': '0'}]",
     "model[1].weight_from",
     "only a linear or an embedding takes the weight of another layer, not a "
     "relu"},
    {"[{'linear': {'out_features': 1}}, {'linear': {'out_features': 1},"
     " 'weight_from': '0', 'weight_init': 'ones'}]",
     "model[1].weight_init",
     "the weight is another layer's, as weight_from says"},
    {"[{'relu': {}, 'name': 'a', 'name': 'b'}]", "model[0].name",
     "duplicate key"},
    {"['sequential']", "model[0]",
     "sequential needs layers: write {\"sequential\": [...]}"},
    {"[{'sequential': {}}]", "model[0].sequential",
     "must be a list, not an object"},
    {"[{'residual': {'shortcut': ['relu']}}]", "model[0].residual.body",
     "missing; must be a list of layers"},
    {"[{'residual': {'body': ['relu'], 'shortcut': []}}]",
     "model[0].residual.shortcut", "must have at least one layer"},
    {"[{'residual': {'body': ['relu'], 'add': 1}}]", "model[0].residual.add",
     "unknown key; known: body, shortcut"},
    {"[{'conv_transpose2d': {'out_channels': 1, 'kernel_size': 2,"
     " 'output_padding': 1}}]",
     "model[0].conv_transpose2d.output_padding",
     "must be less than stride or dilation"},
    {"[{'embedding': {'num_embeddings': 4, 'embedding_dim': 2,"
     " 'padding_idx': 4}}]",
     "model[0].embedding.padding_idx", "is no id of 4 embeddings"},
    {"[{'embedding': {'num_embeddings': 4, 'embedding_dim': 2,"
     " 'padding_idx': -5}}]",
     "model[0].embedding.padding_idx", "is no id of 4 embeddings"},
    {"[{'reshape': {'shape': [2, 0]}}]", "model[0].reshape.shape",
     "has a size of 0"},
    {"[{'unflatten': {'dim': 1, 'unflattened_size': [-1, -1]}}]",
     "model[0].unflatten.unflattened_size", "has more than one -1"},
    {"[{'reshape': {'shape': [2, -2]}}]", "model[0].reshape.shape[1]",
     "must be an integer, 1 or more, or -1, not -2"},
    {"[{'reshape': {'shape': null}}]", "model[0].reshape.shape",
     "must be a list of at most 6 integers, each 1 or more, or one of them "
     "-1, not null"},
    {"[{'sum': {'dim': [1, 1]}}]", "model[0].sum.dim", "has axis 1 twice"},
    {"[{'sum': {'dim': [1, 6]}}]", "model[0].sum.dim[1]",
     "must be at most 5, not 6"},
    {"[{'sum': {'dim': []}}]", "model[0].sum.dim", "may not be an empty list"},
    {"['upsample']", "model[0]", "needs a size or a scale_factor"},
    {"[{'upsample': {}}]", "model[0].upsample",
     "needs a size or a scale_factor"},
    {"[{'upsample': {'size': 3, 'scale_factor': 2}}]",
     "model[0].upsample.scale_factor", "there is a size already"},
    {"[{'upsample': {'size': 3, 'align_corners': true}}]",
     "model[0].upsample.align_corners", "wants mode bilinear"},
    {"[{'upsample': {'scale_factor': [1, 2, 3]}}]",
     "model[0].upsample.scale_factor", "must have two elements, [h, w], not 3"},
    {"[{'upsample': {'size': 3, 'mode': 'bicubic'}}]", "model[0].upsample.mode",
     "unknown mode \"bicubic\"; known: nearest, bilinear"},
};

static void
test_spec_layers_faults(void **state)
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
        cmocka_unit_test(test_spec_layers_all_kinds),
        cmocka_unit_test(test_spec_layers_defaults),
        cmocka_unit_test(test_spec_layers_values),
        cmocka_unit_test(test_spec_layers_scope),
        cmocka_unit_test(test_spec_layers_shadowed),
        cmocka_unit_test(test_spec_layers_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
