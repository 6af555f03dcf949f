/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of every layer, alone and in models of the usual kinds. */
#include "tests/support/slopes.h"

#define MODEL_LABELS(t)                                                        \
    .target_is_class = true, .target_rank = 1, .target_dim = {t}

static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(4, 6), MODEL_CLASSES};
static const struct build_data tokens = {
    .rank = 1, .dim = {5}, .input_is_tokens = true, MODEL_LABELS(5)};
static const struct build_data sequences = {
    .rank = 2, .dim = {5, 6}, MODEL_LABELS(5)};

/* ---- each layer between weights -------------------------------------------- */

/* `layers` get 6 features (in `a`), sequences of 5 x 6, images of 4 x 6 x 6,
 * that depend on weights in front of them and are multiplied by some behind. */
struct example {
    const char *layers;
    const char *end; /* NULL: of its kind */
};

static void
check_examples(const struct example *list, size_t n, const char *front,
               const char *end, const struct build_data *data)
{
    char model[2048];

    for (size_t i = 0; i < n; i++) {
        snprintf(model, sizeof(model), "[%s, %s, %s]", front, list[i].layers,
                 list[i].end != NULL ? list[i].end : end);
        slopes_check_model(model, "cross_entropy", data);
    }
}

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define LINEAR(name, n)                                                        \
    "{\"name\": \"" name "\", \"linear\": {\"out_features\": " n "}}"

static void
test_autodiff_operands_of_rows(void **state)
{
    /* Broadcasting both ways, one value twice, a number, masks. */
    static const struct example list[] = {
        {"{\"add\": {\"value\": 0.5}}", NULL},
        {"{\"name\": \"b\", \"input\": [\"a\", \"a\"], \"add\": {}}", NULL},
        {LINEAR("b", "6") ", {\"input\": [\"a\", \"b\"], \"sub\": {}}", NULL},
        {LINEAR("b", "1") ", {\"input\": [\"a\", \"b\"], \"sub\": {}}", NULL},
        {LINEAR("b", "1") ", {\"input\": [\"b\", \"a\"], \"sub\": {}}", NULL},
        {LINEAR("b", "1") ", {\"input\": [\"b\", \"a\"], \"mul\": {}}", NULL},
        {"{\"input\": [\"a\", \"a\"], \"mul\": {}}", NULL},
        {"{\"mul\": {\"value\": -2}}", NULL},
        {LINEAR("b", "1") ", {\"name\": \"s\", \"sigmoid\": {}}, {\"name\": "
                          "\"t\", \"add\": {\"value\": 1}}, {\"input\": "
                          "[\"a\", \"t\"], \"div\": {}}",
         NULL},
        {"{\"div\": {\"value\": 3}}", NULL},
        {LINEAR("b", "1") ", {\"name\": \"m\", \"input\": \"a\", \"gt\": "
                          "{\"value\": 0}}, {\"input\": [\"m\", \"a\", \"b\"],"
                          " \"where\": {}}",
         NULL},
        {"{\"name\": \"m\", \"le\": {\"value\": 0.1}}, {\"input\": [\"m\", "
         "\"a\"], \"where\": {\"value\": 0.25}}",
         NULL},
        {LINEAR("b", "3") ", {\"input\": [\"a\", \"b\", \"a\"], \"cat\": "
                          "{\"dim\": 1}}",
         NULL},
        {LINEAR("b", "6") ", {\"input\": [\"a\", \"b\", \"b\"], \"stack\": "
                          "{\"dim\": 2}}, \"flatten\"",
         NULL},
        {"{\"narrow\": {\"dim\": 1, \"start\": 1, \"length\": 4}}", NULL},
        {"{\"unflatten\": {\"dim\": 1, \"unflattened_size\": [2, 3]}}, "
         "{\"transpose\": {\"dim0\": 1, \"dim1\": 2}}, \"flatten\"",
         NULL},
    };

    (void)state;
    check_examples(list, COUNT(list), LINEAR("a", "6"), LINEAR("z", "3"),
                   &rows);
}

static void
test_autodiff_functions_of_rows(void **state)
{
    static const struct example list[] = {
        {"\"softplus\"", NULL},
        {"{\"softplus\": {\"beta\": 2, \"threshold\": 1}}", NULL},
        {"\"exp\"", NULL},
        {"\"sigmoid\", {\"add\": {\"value\": 0.5}}, \"log\"", NULL},
        {"\"sigmoid\", {\"add\": {\"value\": 0.5}}, {\"pow\": {\"exponent\": "
         "1.7}}",
         NULL},
        {"{\"pow\": {\"exponent\": 2}}", NULL},
        {"{\"pow\": {\"exponent\": 0}}, {\"input\": \"a\", \"identity\": {}}",
         NULL},
        {"\"sigmoid\", {\"add\": {\"value\": 0.5}}, \"reciprocal\"", NULL},
        {"\"sigmoid\", {\"add\": {\"value\": 0.5}}, \"rsqrt\"", NULL},
        {"\"softmax\"", NULL},
        {"{\"log_softmax\": {\"dim\": 1}}", NULL},
        {"{\"cumsum\": {\"dim\": 1}}", NULL},
        {"{\"prod\": {\"dim\": 1, \"keepdim\": true}}", NULL},
        {"{\"norm\": {\"keepdim\": true}}", NULL},
        {"{\"norm\": {\"p\": 3, \"keepdim\": true}}", NULL},
        {"{\"norm\": {\"p\": 1, \"keepdim\": true}}", NULL},
        {"{\"logsumexp\": {\"keepdim\": true}}", NULL},
        {"{\"name\": \"b\", \"linear\": {\"out_features\": 6}}, {\"input\": "
         "[\"a\", \"b\"], \"cosine_similarity\": {}}, {\"reshape\": "
         "{\"shape\": [1]}}",
         NULL},
    };

    (void)state;
    check_examples(list, COUNT(list), LINEAR("a", "6"), LINEAR("z", "3"),
                   &rows);
}

static void
test_autodiff_layers_of_images(void **state)
{
    static const struct example list[] = {
        {"{\"conv_transpose2d\": {\"out_channels\": 4, \"kernel_size\": 3, "
         "\"stride\": 2, \"padding\": 1, \"output_padding\": 1, \"groups\": "
         "2}}",
         NULL},
        {"{\"group_norm\": {\"num_groups\": 2}}", NULL},
        {"{\"softmax\": {\"dim\": 1}}", NULL},
        {"{\"log_softmax\": {\"dim\": 3}}", NULL},
        {"{\"name\": \"m\", \"mean\": {\"dim\": [2, 3], \"keepdim\": true}}, "
         "{\"input\": [\"a\", \"m\"], \"mul\": {}}",
         NULL},
        {"{\"norm\": {\"p\": 3, \"dim\": [1], \"keepdim\": true}}", NULL},
        {"{\"logsumexp\": {\"dim\": [3], \"keepdim\": true}}", NULL},
        {"{\"sum\": {\"dim\": [3]}}", NULL},
        {"{\"mean\": {\"dim\": [1]}}", NULL},
        {"{\"cumsum\": {\"dim\": 2}}", NULL},
        {"{\"prod\": {\"dim\": 1}}", NULL},
        {"{\"prelu\": {\"num_parameters\": 4}}", NULL},
        {"\"prelu\"", NULL},
        {"{\"upsample\": {\"scale_factor\": [2, 0.5]}}", NULL},
        {"{\"upsample\": {\"size\": [5, 9], \"mode\": \"bilinear\"}}", NULL},
        {"{\"upsample\": {\"size\": 8, \"mode\": \"bilinear\", "
         "\"align_corners\": true}}",
         NULL},
        {"{\"layer_norm\": {\"normalized_shape\": [6, 6]}}", NULL},
        {"{\"name\": \"p\", \"avg_pool2d\": {\"kernel_size\": 6}}, {\"input\": "
         "[\"a\", \"p\"], \"mul\": {}}",
         NULL},
        {"{\"name\": \"p\", \"reshape\": {\"shape\": [4, 36]}}, {\"conv1d\": "
         "{\"out_channels\": 2, \"kernel_size\": 5, \"stride\": 2, "
         "\"dilation\": 2, \"padding\": 3}}, \"batch_norm1d\"",
         NULL},
        {"{\"name\": \"t\", \"transpose\": {\"dim0\": 2, \"dim1\": 3}}, "
         "{\"input\": [\"a\", \"t\"], \"cat\": {\"dim\": 1}}, {\"narrow\": "
         "{\"dim\": 2, \"start\": 2, \"length\": 3}}",
         NULL},
        {"{\"residual\": {\"body\": [{\"conv2d\": {\"out_channels\": 3, "
         "\"kernel_size\": 3, \"stride\": 2, \"padding\": 1}}], \"shortcut\": "
         "[{\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 1, \"stride\": "
         "2}}]}}",
         NULL},
    };

    (void)state;
    check_examples(list, COUNT(list),
                   "{\"name\": \"a\", \"conv2d\": {\"out_channels\": 4, "
                   "\"kernel_size\": 1}}",
                   "\"flatten\", " LINEAR("z", "3"), &images);
}

static void
test_autodiff_layers_of_sequences(void **state)
{
    static const struct example list[] = {
        {"{\"rms_norm\": {}}", NULL},
        {"{\"softmax\": {\"dim\": 1}}", NULL},
        {"{\"sum\": {\"dim\": [2], \"keepdim\": true}}", NULL},
        {"{\"name\": \"p\", \"prod\": {\"dim\": 1, \"keepdim\": true}}, "
         "{\"input\": [\"a\", \"p\"], \"sub\": {}}",
         NULL},
        {"{\"name\": \"b\", \"linear\": {\"out_features\": 6}}, {\"name\": "
         "\"c\", \"input\": [\"a\", \"b\"], \"cosine_similarity\": {\"dim\": "
         "-1}}, {\"reshape\": {\"shape\": [5, 1]}}",
         NULL},
        {LINEAR("b", "6") ", {\"name\": \"p\", \"input\": [\"a\", \"b\"], "
                          "\"matmul\": {\"transpose_b\": true}}, {\"input\": "
                          "[\"p\", \"a\"], \"bmm\": {}}",
         NULL},
        {"{\"input\": [\"a\", \"a\"], \"matmul\": {\"transpose_a\": true}}, "
         "{\"transpose\": {\"dim0\": 1, \"dim1\": 2}}, {\"narrow\": {\"dim\": "
         "1, \"start\": 0, \"length\": 5}}",
         NULL},
        {"{\"positional_embedding\": {\"num_embeddings\": 5}}", NULL},
        {"{\"positional_embedding\": {\"num_embeddings\": 8}}", NULL},
        {"{\"multihead_attention\": {\"num_heads\": 2, \"is_causal\": true}}",
         NULL},
        {"{\"multihead_attention\": {\"num_heads\": 3, \"bias\": false, "
         "\"dropout\": 0.2}}",
         NULL},
        {LINEAR("b", "6") ", {\"name\": \"k\", \"narrow\": {\"dim\": 1, "
                          "\"start\": 1, \"length\": 3}}, {\"input\": [\"a\", "
                          "\"k\", \"k\"], \"multihead_attention\": "
                          "{\"num_heads\": 2}}",
         NULL},
        {"{\"input\": [\"a\", \"a\", \"a\"], \"scaled_dot_product_attention\": "
         "{\"num_heads\": 2}}",
         NULL},
        {"{\"name\": \"m\", \"narrow\": {\"dim\": 2, \"start\": 0, \"length\": "
         "1}}, {\"name\": \"f\", \"reshape\": {\"shape\": [5]}}, {\"name\": "
         "\"s\", \"gt\": {\"value\": 0}}, {\"input\": [\"a\", \"a\", \"a\", "
         "\"s\"], \"scaled_dot_product_attention\": {\"num_heads\": 1, "
         "\"scale\": 0.7}}",
         NULL},
    };

    (void)state;
    check_examples(list, COUNT(list), LINEAR("a", "6"), LINEAR("z", "3"),
                   &sequences);
}

/* ---- language models ------------------------------------------------------ */

/* Tied weights: the table's gradient comes from both of its readers. */
static void
test_autodiff_gpt(void **state)
{
    static const char *const models[] = {
        "{\"gpt\": {\"vocab_size\": 7, \"block_size\": 8, \"n_layer\": 2, "
        "\"n_head\": 2, \"n_embd\": 8, \"dropout\": 0.1}}",
        /* A post-norm encoder with a mask of padding. */
        "[{\"name\": \"seen\", \"ne\": {\"value\": 2}}, {\"name\": \"e\", "
        "\"input\": \"input\", \"embedding\": {\"num_embeddings\": 7, "
        "\"embedding_dim\": 6}}, {\"name\": \"p\", "
        "\"positional_embedding\": {\"num_embeddings\": 5}}, {\"name\": "
        "\"m\", \"input\": [\"p\", \"seen\"], \"multihead_attention\": "
        "{\"num_heads\": 2}}, {\"name\": \"s\", \"input\": [\"p\", \"m\"], "
        "\"add\": {}}, \"rms_norm\", {\"linear\": {\"out_features\": 7}}]"};

    (void)state;
    for (int i = 0; i < 2; i++)
        slopes_check_model(models[i], "cross_entropy", &tokens);
}

/* The row that padding reads starts as zeros and stays so. */
static void
test_autodiff_padding_row_stays_zero(void **state)
{
    struct runner r;
    bool any = false;

    (void)state;
    runner_init_take(
        &r,
        model_autodiff(
            model_graph("[{\"embedding\": {\"num_embeddings\": 3, "
                        "\"embedding_dim\": 4, \"padding_idx\": -2}}, "
                        "{\"linear\": {\"out_features\": 3}}]",
                        "cross_entropy", &tokens, BUILD_TRAIN, 8),
            false, false),
        9);
    runner_run(&r);
    for (int i = 4; i < 8; i++) {
        assert_true(r.state->weights[i] == 0);
        assert_true(runner_grad(&r, 0)[i] == 0);
    }
    for (int i = 0; i < 4; i++)
        any = any || (r.state->weights[i] != 0 && runner_grad(&r, 0)[i] != 0);
    assert_true(any);
    runner_fini(&r);
}

static void
test_autodiff_prelu_starts_at_its_init(void **state)
{
    struct runner r;

    (void)state;
    runner_init_take(
        &r,
        model_autodiff(model_graph("[{\"prelu\": {\"init\": 0.1}}]",
                                   "cross_entropy", &rows, BUILD_TRAIN, 4),
                       false, false),
        9);
    assert_true(r.state->weights[0] == 0.1f);
    runner_fini(&r);
}

/* In half, too, what a shared table gets is summed in float32. */
static void
test_autodiff_tied_weight_in_half(void **state)
{
    struct graph *g = model_autodiff(
        model_autocast(
            model_graph("{\"gpt\": {\"vocab_size\": 7, \"block_size\": 8, "
                        "\"n_layer\": 1, \"n_head\": 2, \"n_embd\": 8}}",
                        "cross_entropy", &tokens, BUILD_TRAIN, 4),
            DTYPE_F16, NULL),
        false, false);
    const struct graph_value *grad =
        graph_value_at(g, model_value(g, "wte.weight.grad"));
    const struct graph_node *sum = graph_node_at(g, grad->producer);

    (void)state;
    assert_int_equal(sum->op, OP_ADD);
    for (int i = 0; i < 2; i++) {
        const struct graph_value *v = graph_value_at(g, sum->in[i]);

        assert_int_equal(v->desc.dtype, DTYPE_F32);
        assert_int_equal(graph_node_at(g, v->producer)->op,
                         i == 0 ? OP_LINEAR_DW : OP_EMBEDDING_BWD);
    }
    assert_int_equal(
        graph_value_at(g, model_node(g, OP_EMBEDDING, "wte")->in[1])
            ->desc.dtype,
        DTYPE_F32);
    assert_string_equal(
        graph_value_at(g, model_node(g, OP_LINEAR, "lm_head")->in[1])->name,
        "wte.weight.to_f16");
    graph_destroy(&g);
}

/* ---- losses --------------------------------------------------------------- */

static void
check_loss(void (*change)(struct spec *), const struct build_data *data,
           const char *model)
{
    struct spec *spec = model_spec(model, "mse");
    struct graph *g = NULL;
    struct err err;

    change(spec);
    if (build_graph(spec, data, BUILD_TRAIN, 5, &g, &err) != 0)
        fail_msg("%s", err.msg);
    slopes_check_take(model_autodiff(g, false, false), 3);
    spec_destroy(&spec);
}

static void
to_huber(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_HUBER;
    spec->loss.delta = 0.5;
}

static void
to_smooth_l1(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_SMOOTH_L1;
    spec->loss.beta = 0.25;
}

static void
to_kl_div(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_KL_DIV;
    spec->loss.log_target = true;
    spec->loss.reduction = SPEC_REDUCTION_BATCHMEAN;
}

static void
to_nll(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_NLL;
}

static void
test_autodiff_losses(void **state)
{
    const struct build_data numbers = {MODEL_ROWS(6), MODEL_NUMBERS(3)};
    const struct build_data pictures = {MODEL_IMAGES(4, 6), .target_rank = 3,
                                        .target_dim = {3, 6, 6}};
    const struct build_data pixels = {MODEL_IMAGES(4, 6),
                                      .target_is_class = true, .target_rank = 2,
                                      .target_dim = {6, 6}};
    const char *conv =
        "[{\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 1}}]";

    (void)state;
    check_loss(to_huber, &numbers, "[" LINEAR("z", "3") "]");
    check_loss(to_smooth_l1, &pictures, conv);
    check_loss(to_kl_div, &numbers, "[" LINEAR("z", "3") "]");
    check_loss(to_nll, &rows, "[" LINEAR("z", "3") "]");
    slopes_check_model(conv, "cross_entropy", &pixels);
}

/* ---- a product of parts of a weight keeps float32 gradients ----------------- */

static void
test_autodiff_parts_of_weights_in_half(void **state)
{
    struct graph *g = model_autodiff(
        model_autocast(
            model_graph(
                "[" LINEAR(
                    "a",
                    "6") ", {\"name\": \"m\", \"input\": "
                         "[\"input\", \"a\", \"a\"], \"multihead_attention\": "
                         "{\"num_heads\": 2}}]",
                "cross_entropy", &sequences, BUILD_TRAIN, 4),
            DTYPE_BF16, NULL),
        false, false);

    (void)state;
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);

        if (node->op == OP_LINEAR_DW || node->op == OP_BIAS_GRAD)
            assert_int_equal(graph_value_at(g, node->out[0])->desc.dtype,
                             DTYPE_F32);
    }
    assert_int_equal(model_count(g, OP_NARROW_BWD), 6);
    assert_string_equal(
        graph_value_at(g, model_value(g, "m.in_proj_weight.grad"))->name,
        "m.in_proj_weight.grad");
    graph_destroy(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_autodiff_operands_of_rows),
        cmocka_unit_test(test_autodiff_functions_of_rows),
        cmocka_unit_test(test_autodiff_layers_of_images),
        cmocka_unit_test(test_autodiff_layers_of_sequences),
        cmocka_unit_test(test_autodiff_gpt),
        cmocka_unit_test(test_autodiff_padding_row_stays_zero),
        cmocka_unit_test(test_autodiff_prelu_starts_at_its_init),
        cmocka_unit_test(test_autodiff_tied_weight_in_half),
        cmocka_unit_test(test_autodiff_losses),
        cmocka_unit_test(test_autodiff_parts_of_weights_in_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
