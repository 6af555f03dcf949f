/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec becomes, and what is said when it cannot become anything. */
#include "tests/support/model.h"

#include <math.h>

static const struct build_data rows = {MODEL_ROWS(20), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(3, 8), MODEL_CLASSES};

static void
check_desc(const struct graph *g, const char *value, const char *want)
{
    char text[96];

    assert_string_equal(
        tensor_format(&graph_value_at(g, model_value(g, value))->desc, text,
                      sizeof(text)),
        want);
}

/* ---- what is built ------------------------------------------------------- */

static void
test_build_infers_shapes(void **state)
{
    struct graph *g = model_graph(
        "[{\"conv2d\": {\"out_channels\": 6, \"kernel_size\": [3, 2], "
        "\"stride\": [2, 1], \"padding\": [1, 0]}}, "
        "{\"avg_pool2d\": {\"kernel_size\": 2}}, "
        "{\"adaptive_avg_pool2d\": {\"output_size\": [1, 3]}}, "
        "\"flatten\", {\"name\": \"head\", \"linear\": {\"out_features\": 5}}]",
        "cross_entropy", &images, BUILD_TRAIN, 4);

    (void)state;
    check_desc(g, "x", "f32[4,3,8,8]nhwc");
    check_desc(g, "0.weight", "f32[6,3,3,2]");
    check_desc(g, "0.out", "f32[4,6,4,7]nhwc");
    check_desc(g, "1.out", "f32[4,6,2,3]nhwc");
    check_desc(g, "2.out", "f32[4,6,1,3]nhwc");
    check_desc(g, "3.out", "f32[4,18]");
    check_desc(g, "head.weight", "f32[5,18]");
    check_desc(g, "head.out", "f32[4,5]");
    check_desc(g, "target", "i32[4]");
    check_desc(g, "loss", "f32[]");
    assert_int_equal(graph_roles(g)->output, model_value(g, "head.out"));
    assert_int_equal(graph_roles(g)->scaled_loss,
                     model_value(g, "scaled_loss"));
    assert_int_equal(graph_roles(g)->correct, -1);
    graph_destroy(&g);
}

static void
test_build_linear_acts_on_last_dim(void **state)
{
    const struct build_data sequences = {
        .rank = 2, .dim = {7, 20}, MODEL_CLASSES};
    struct graph *g =
        model_graph("[{\"linear\": {\"out_features\": 5}}, \"flatten\", "
                    "{\"linear\": {\"out_features\": 2}}]",
                    "cross_entropy", &sequences, BUILD_TRAIN, 4);

    (void)state;
    check_desc(g, "0.weight", "f32[5,20]");
    check_desc(g, "0.out", "f32[4,7,5]");
    check_desc(g, "1.out", "f32[4,35]");
    graph_destroy(&g);
}

/* PyTorch's order and bounds: the state is made from this. */
static void
test_build_params_as_pytorch(void **state)
{
    static const struct {
        const char *name;
        enum graph_init init;
        double bound;
        bool autocast;
    } want[] = {
        {"conv.weight", GRAPH_INIT_UNIFORM, 1 / sqrt(2 * 3 * 3.), true},
        {"conv.bias", GRAPH_INIT_UNIFORM, 1 / sqrt(2 * 3 * 3.), true},
        {"1.weight", GRAPH_INIT_ONE, 0, false},
        {"1.bias", GRAPH_INIT_ZERO, 0, false},
        {"res.0.weight", GRAPH_INIT_UNIFORM, 1 / sqrt(16.), true},
        {"4.weight", GRAPH_INIT_ONE, 0, false},
        {"4.bias", GRAPH_INIT_ZERO, 0, false},
        {"5.weight", GRAPH_INIT_UNIFORM, 1 / sqrt(16.), true},
        {"5.bias", GRAPH_INIT_UNIFORM, 1 / sqrt(16.), true},
    };
    const struct build_data data = {.rank = 3, .dim = {4, 4, 4}, MODEL_CLASSES};
    struct graph *g = model_graph(
        "[{\"name\": \"conv\", \"conv2d\": {\"out_channels\": 16, "
        "\"kernel_size\": 3, \"stride\": 4, \"padding\": 1, \"groups\": 2}}, "
        "\"batch_norm2d\", \"flatten\", {\"name\": \"res\", \"residual\": "
        "[{\"linear\": {\"out_features\": 16, \"bias\": false}}]}, "
        "\"layer_norm\", {\"linear\": {\"out_features\": 3}}]",
        "cross_entropy", &data, BUILD_TRAIN, 4);

    (void)state;
    assert_int_equal(graph_n_params(g), sizeof(want) / sizeof(want[0]));
    for (int i = 0; i < graph_n_params(g); i++) {
        const struct graph_param *p = graph_param_at(g, i);

        assert_string_equal(p->name, want[i].name);
        assert_int_equal(p->init, want[i].init);
        assert_true(p->bound == want[i].bound);
        assert_int_equal(p->autocast, want[i].autocast);
        assert_int_equal(graph_param_value(g, i), model_value(g, p->name));
    }
    assert_int_equal(graph_n_buffers(g), 2);
    assert_string_equal(graph_buffer_at(g, 0)->name, "1.running_mean");
    assert_int_equal(graph_buffer_at(g, 0)->init, GRAPH_INIT_ZERO);
    assert_string_equal(graph_buffer_at(g, 1)->name, "1.running_var");
    assert_int_equal(graph_buffer_at(g, 1)->init, GRAPH_INIT_ONE);
    graph_destroy(&g);
}

static void
test_build_batch_norm_tracks_in_training_only(void **state)
{
    const char *model = "[\"batch_norm2d\", \"flatten\", "
                        "{\"linear\": {\"out_features\": 3}}]";
    struct graph *train =
        model_graph(model, "cross_entropy", &images, BUILD_TRAIN, 4);
    struct graph *eval =
        model_graph(model, "cross_entropy", &images, BUILD_EVAL, 4);
    const struct graph_node *track = model_node(train, OP_STATS_TRACK, "0");
    const struct graph_node *norm = model_node(train, OP_BATCH_NORM, "0");
    const struct graph_node *use = model_node(eval, OP_BATCH_NORM_EVAL, "0");

    (void)state;
    assert_non_null(track);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(track->in[i], graph_buffer_value(train, i));
        assert_int_equal(track->out[i], graph_buffer_value(train, i));
        assert_int_equal(track->in[2 + i], norm->out[1 + i]);
        assert_int_equal(use->in[3 + i], graph_buffer_value(eval, i));
    }
    assert_int_equal(track->params.batch_norm.n, 4 * 8 * 8);
    assert_int_equal(track->phase, GRAPH_FORWARD);
    assert_int_equal(model_count(eval, OP_STATS_TRACK), 0);
    graph_destroy(&train);
    graph_destroy(&eval);
}

static void
test_build_evaluation_differs(void **state)
{
    const char *model =
        "[{\"linear\": {\"out_features\": 6}}, {\"dropout\": {\"p\": 0.5}}, "
        "\"layer_norm\", {\"dropout\": {\"p\": 0.1}}]";
    struct graph *train =
        model_graph(model, "cross_entropy", &rows, BUILD_TRAIN, 4);
    struct graph *eval =
        model_graph(model, "cross_entropy", &rows, BUILD_EVAL, 4);

    (void)state;
    assert_int_equal(model_node(train, OP_DROPOUT, "1")->params.dropout.stream,
                     0);
    assert_int_equal(model_node(train, OP_DROPOUT, "3")->params.dropout.stream,
                     1);
    assert_int_equal(model_count(train, OP_CORRECT), 0);
    assert_int_equal(model_count(eval, OP_DROPOUT), 0);
    assert_int_equal(model_count(eval, OP_SCALE_LOSS), 0);
    assert_int_equal(model_count(eval, OP_CORRECT), 1);
    assert_true(graph_roles(eval)->correct >= 0);
    assert_int_equal(graph_roles(eval)->scaled_loss, -1);
    assert_int_equal(graph_input_value(eval, GRAPH_INPUT_SCALE), -1);
    /* Nobody reads the statistics of a norm that is not differentiated. */
    assert_int_equal(model_node(eval, OP_LAYER_NORM, "2")->out[1], -1);
    assert_int_equal(graph_n_params(train), graph_n_params(eval));
    graph_destroy(&train);
    graph_destroy(&eval);
}

/* Dropout with p 0 does nothing, and takes no other's random numbers. */
static void
test_build_dropout_of_nothing_is_left_out(void **state)
{
    struct graph *g =
        model_graph("[{\"dropout\": {\"p\": 0}}, {\"dropout\": {\"p\": 0.5}}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4);

    (void)state;
    assert_int_equal(model_count(g, OP_DROPOUT), 1);
    assert_int_equal(model_node(g, OP_DROPOUT, "1")->params.dropout.stream, 1);
    graph_destroy(&g);
}

static void
test_build_flatten_of_rows_is_nothing(void **state)
{
    struct graph *g =
        model_graph("[\"flatten\", {\"linear\": {\"out_features\": 3}}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4);

    (void)state;
    assert_int_equal(model_count(g, OP_FLATTEN), 0);
    graph_destroy(&g);
}

static void
test_build_residual_adds_its_input(void **state)
{
    struct graph *g =
        model_graph("[\"tanh\", {\"name\": \"res\", \"residual\": "
                    "[{\"linear\": {\"out_features\": 20}}, \"relu\"]}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4);
    const struct graph_node *add = model_node(g, OP_ADD, "res");

    (void)state;
    assert_non_null(add);
    assert_int_equal(add->in[0], model_value(g, "res.1.out"));
    assert_int_equal(add->in[1], model_value(g, "0.out"));
    assert_int_equal(add->out[0], model_value(g, "res.out"));
    graph_destroy(&g);
}

/* A single number a sample fits one column of predictions. */
static void
test_build_number_fits_one_column(void **state)
{
    const struct build_data data = {MODEL_ROWS(20), .target_elems = 1};
    struct graph *g = model_graph("[{\"linear\": {\"out_features\": 1}}]",
                                  "mse", &data, BUILD_EVAL, 4);

    (void)state;
    check_desc(g, "target", "f32[4,1]");
    assert_int_equal(graph_roles(g)->correct, -1);
    graph_destroy(&g);
}

/* A mask over the labels brings its ignore_index along. */
static void
test_build_mask_ignores(void **state)
{
    const struct build_data data = {MODEL_ROWS(20), .target_is_class = true,
                                    .has_ignore_index = true,
                                    .ignore_index = -100};
    struct graph *g = model_graph("[{\"linear\": {\"out_features\": 3}}]",
                                  "cross_entropy", &data, BUILD_EVAL, 4);
    static const enum op ops[] = {OP_CROSS_ENTROPY, OP_CORRECT};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct graph_node *node = model_node(g, ops[i], "");

        assert_non_null(node);
        assert_true(node->params.loss.has_ignore_index);
        assert_int_equal(node->params.loss.ignore_index, -100);
    }
    graph_destroy(&g);
}

static void
test_build_marks_sample_axes(void **state)
{
    struct graph *g = model_graph(
        "[\"batch_norm2d\", {\"max_pool2d\": {\"kernel_size\": 2}}, "
        "\"flatten\", {\"linear\": {\"out_features\": 3}}]",
        "cross_entropy", &images, BUILD_TRAIN, 4);
    static const struct {
        const char *name;
        int axis;
    } want[] = {{"x", 0},       {"target", 0}, {"0.out", 0},     {"0.mean", -1},
                {"1.index", 0}, {"2.out", 0},  {"3.weight", -1}, {"3.out", 0},
                {"loss", -1},   {"scale", -1}, {"inv_count", -1}};

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        assert_int_equal(
            graph_value_at(g, model_value(g, want[i].name))->sample_axis,
            want[i].axis);
    graph_destroy(&g);
}

/* ---- what is refused ----------------------------------------------------- */

struct refusal {
    const char *model, *loss;
    struct build_data data;
    const char *sentence;
};

static void
test_build_refuses_with_a_sentence(void **state)
{
    static const struct refusal list[] = {
        {"[{\"name\": \"fc\", \"linear\": {\"out_features\": 3}}]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "model: fc (linear): needs rows of features but gets images "
         "[4,3,8,8]; put a \"flatten\" layer before it"},
        {"[{\"linear\": {\"out_features\": 3}}]",
         "cross_entropy",
         {.rank = 0, MODEL_CLASSES},
         "model: 0 (linear): needs rows of features (samples, features) but "
         "gets [4]"},
        {"[\"relu\", {\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 3}}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 1 (conv2d): needs images (samples, channels, height, width) "
         "but gets [4,20]"},
        {"[{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 3, "
         "\"groups\": 2}}]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "model: 0 (conv2d): groups 2 must divide its 3 input channels and 4 "
         "out_channels"},
        {"[{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": [9, 11], "
         "\"padding\": 1}}]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "model: 0 (conv2d): a 9x11 kernel does not fit into images of 8x8 "
         "with padding 1,1"},
        {"[{\"max_pool2d\": {\"kernel_size\": 9}}]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "model: 0 (max_pool2d): a 9x9 window does not fit into images of "
         "8x8"},
        {"[{\"avg_pool2d\": {\"kernel_size\": 2}}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 0 (avg_pool2d): needs images (samples, channels, height, "
         "width) but gets [4,20]"},
        {"[\"batch_norm1d\"]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "model: 0 (batch_norm1d): needs rows (samples, channels) or signals "
         "(samples, channels, length) but gets [4,3,8,8]; use batch_norm2d"},
        {"[\"batch_norm2d\"]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 0 (batch_norm2d): needs images (samples, channels, height, "
         "width) but gets [4,20]"},
        {"[{\"layer_norm\": {\"normalized_shape\": [10]}}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 0 (layer_norm): normalized_shape [10] is not how its input "
         "[4,20] ends"},
        {"[{\"layer_norm\": {\"normalized_shape\": [4, 20]}}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 0 (layer_norm): normalized_shape [4,20] is not how its input "
         "[4,20] ends"},
        {"[{\"name\": \"res\", \"residual\": "
         "[{\"linear\": {\"out_features\": 10}}]}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: res (residual): its input is [4,20] but its layers end in "
         "[4,10]; the sum needs one shape"},
        {"[{\"name\": \"res\", \"residual\": [{\"name\": \"a\", "
         "\"residual\": [{\"conv2d\": {\"out_channels\": 10, "
         "\"kernel_size\": 1}}]}]}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: res.a.0 (conv2d): needs images (samples, channels, height, "
         "width) but gets [4,20]"},
        {"[{\"linear\": {\"out_features\": 2000000000}}, "
         "{\"linear\": {\"out_features\": 2000000000}}]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "model: 1 (linear): its weight has more than 2^40 elements"},
        {"[\"relu\"]",
         "cross_entropy",
         {MODEL_IMAGES(3, 8), MODEL_CLASSES},
         "loss: cross_entropy: needs scores (samples, classes) but the model "
         "ends in [4,3,8,8]; end it with flatten and linear"},
        {"[\"relu\"]",
         "cross_entropy",
         {MODEL_ROWS(20), MODEL_NUMBERS(20)},
         "loss: cross_entropy: needs one class id a sample, but the targets "
         "are numbers; use mse, l1 or bce_with_logits"},
        {"[\"relu\"]",
         "l1",
         {MODEL_ROWS(20), MODEL_CLASSES},
         "loss: l1: needs numbers, but the targets are class ids; use "
         "cross_entropy"},
        {"[{\"linear\": {\"out_features\": 3}}]",
         "mse",
         {MODEL_ROWS(20), MODEL_NUMBERS(5)},
         "loss: mse: the model ends in [4,3] but the targets are [4,5]; both "
         "must have the same shape"},
        {"[\"relu\"]",
         "mse",
         {MODEL_ROWS(0), MODEL_NUMBERS(0)},
         "data: a batch of shape [4,0] has nothing in it"},
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        assert_string_equal(model_refusal(list[i].model, list[i].loss,
                                          &list[i].data, BUILD_TRAIN, 4, &err),
                            list[i].sentence);
}

/* PyTorch refuses it too: the unbiased variance of one value does not exist. */
static void
test_build_refuses_batch_norm_of_one_value(void **state)
{
    struct err err;
    struct graph *g = NULL;

    (void)state;
    assert_string_equal(model_refusal("[\"batch_norm1d\"]", "cross_entropy",
                                      &rows, BUILD_TRAIN, 1, &err),
                        "model: 0 (batch_norm1d): needs more than one value a "
                        "channel in training, and a batch of 1 gives one");
    g = model_graph("[\"batch_norm1d\"]", "cross_entropy", &rows, BUILD_EVAL,
                    1);
    graph_destroy(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_infers_shapes),
        cmocka_unit_test(test_build_linear_acts_on_last_dim),
        cmocka_unit_test(test_build_params_as_pytorch),
        cmocka_unit_test(test_build_batch_norm_tracks_in_training_only),
        cmocka_unit_test(test_build_evaluation_differs),
        cmocka_unit_test(test_build_dropout_of_nothing_is_left_out),
        cmocka_unit_test(test_build_flatten_of_rows_is_nothing),
        cmocka_unit_test(test_build_residual_adds_its_input),
        cmocka_unit_test(test_build_number_fits_one_column),
        cmocka_unit_test(test_build_mask_ignores),
        cmocka_unit_test(test_build_marks_sample_axes),
        cmocka_unit_test(test_build_refuses_with_a_sentence),
        cmocka_unit_test(test_build_refuses_batch_norm_of_one_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
