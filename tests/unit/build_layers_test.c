/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer: what it makes, how its parameters start, what it refuses.
 * lines: tables of examples, one for each layer and sentence. */
#include "tests/support/model.h"

#include <math.h>

#define MODEL_SEQUENCES(t, c) .rank = 2, .dim = {t, c}
#define MODEL_TOKENS(t)       .rank = 1, .dim = {t}, .input_is_tokens = true
#define MODEL_LABELS(t)                                                        \
    .target_is_class = true, .target_rank = 1, .target_dim = {t}

static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
static const struct build_data sequences = {MODEL_SEQUENCES(5, 6),
                                            MODEL_LABELS(5)};
static const struct build_data images = {MODEL_IMAGES(4, 6), MODEL_CLASSES};
static const struct build_data tokens = {MODEL_TOKENS(5), MODEL_LABELS(5)};

static void
check_desc(const struct graph *g, const char *value, const char *want)
{
    char text[96];

    assert_string_equal(
        tensor_format(&graph_value_at(g, model_value(g, value))->desc, text,
                      sizeof(text)),
        want);
}

/* ---- shapes --------------------------------------------------------------- */

struct example {
    const struct build_data *data;
    const char *layer; /* called "it", of the data */
    enum op op;        /* the node that makes it.out */
    const char *out;
};

static const struct example examples[] = {
    {&sequences, "\"conv1d\": {\"out_channels\": 8, \"kernel_size\": 3}",
     OP_CONV1D, "f32[4,8,4]nlc"},
    {&images,
     "\"conv_transpose2d\": {\"out_channels\": 8, \"kernel_size\": 3, "
     "\"stride\": 2, \"padding\": 1, \"output_padding\": 1, \"groups\": 2}",
     OP_CONV_TRANSPOSE2D, "f32[4,8,12,12]nhwc"},
    {&tokens, "\"embedding\": {\"num_embeddings\": 9, \"embedding_dim\": 3}",
     OP_EMBEDDING, "f32[4,5,3]"},
    {&sequences, "\"positional_embedding\": {\"num_embeddings\": 7}", OP_ADD,
     "f32[4,5,6]"},
    {&sequences, "\"multihead_attention\": {\"num_heads\": 3}", OP_LINEAR,
     "f32[4,5,6]"},
    {&sequences, "\"scaled_dot_product_attention\": {\"num_heads\": 2}",
     OP_ATTENTION, "f32[4,5,2]"},
    {&sequences, "\"batch_norm1d\": {}", OP_BATCH_NORM, "f32[4,5,6]nlc"},
    {&images, "\"layer_norm\": {\"normalized_shape\": [4, 6, 6]}",
     OP_LAYER_NORM, "f32[4,4,6,6]"},
    {&images, "\"group_norm\": {\"num_groups\": 2}", OP_GROUP_NORM,
     "f32[4,4,6,6]nhwc"},
    {&sequences, "\"group_norm\": {\"num_groups\": 5}", OP_GROUP_NORM,
     "f32[4,5,6]nlc"},
    {&sequences, "\"rms_norm\": {}", OP_RMS_NORM, "f32[4,5,6]"},
    {&images, "\"prelu\": {\"num_parameters\": 4}", OP_PRELU,
     "f32[4,4,6,6]nhwc"},
    {&rows, "\"softplus\": {}", OP_SOFTPLUS, "f32[4,6]"},
    {&rows, "\"exp\": {}", OP_EXP, "f32[4,6]"},
    {&rows, "\"log\": {}", OP_LOG, "f32[4,6]"},
    {&rows, "\"pow\": {\"exponent\": 2}", OP_POW, "f32[4,6]"},
    {&rows, "\"reciprocal\": {}", OP_RECIPROCAL, "f32[4,6]"},
    {&rows, "\"rsqrt\": {}", OP_RSQRT, "f32[4,6]"},
    {&rows, "\"add\": {\"value\": 1}", OP_ADD, "f32[4,6]"},
    {&rows, "\"input\": [\"input\", \"input\"], \"sub\": {}", OP_SUB,
     "f32[4,6]"},
    {&rows, "\"mul\": {\"value\": 2}", OP_MUL, "f32[4,6]"},
    {&rows, "\"div\": {\"value\": 2}", OP_DIV, "f32[4,6]"},
    {&rows, "\"input\": [\"input\", \"input\"], \"cosine_similarity\": {}",
     OP_COSINE_SIMILARITY, "f32[4]"},
    {&sequences,
     "\"input\": [\"input\", \"input\"], \"matmul\": "
     "{\"transpose_b\": true}",
     OP_MATMUL, "f32[4,5,5]"},
    {&sequences, "\"softmax\": {\"dim\": 1}", OP_SOFTMAX, "f32[4,5,6]"},
    {&rows, "\"log_softmax\": {}", OP_LOG_SOFTMAX, "f32[4,6]"},
    {&sequences, "\"sum\": {\"dim\": -1}", OP_SUM, "f32[4,5]"},
    {&images, "\"mean\": {}", OP_MEAN, "f32[4]"},
    {&images, "\"mean\": {\"dim\": [2, 3], \"keepdim\": true}", OP_MEAN,
     "f32[4,4,1,1]nhwc"},
    {&rows, "\"prod\": {\"dim\": 1}", OP_PROD, "f32[4]"},
    {&rows, "\"cumsum\": {\"dim\": 1}", OP_CUMSUM, "f32[4,6]"},
    {&rows, "\"norm\": {\"p\": 3}", OP_NORM, "f32[4]"},
    {&sequences, "\"logsumexp\": {\"dim\": 1, \"keepdim\": true}", OP_LOGSUMEXP,
     "f32[4,1,6]"},
    {&images, "\"upsample\": {\"scale_factor\": [2, 0.5]}", OP_UPSAMPLE,
     "f32[4,4,12,3]nhwc"},
    {&images, "\"upsample\": {\"size\": [7, 9], \"mode\": \"bilinear\"}",
     OP_UPSAMPLE, "f32[4,4,7,9]nhwc"},
    {&images, "\"flatten\": {}", OP_FLATTEN, "f32[4,144]"},
    {&images, "\"flatten\": {\"start_dim\": 2}", OP_RESHAPE, "f32[4,4,36]"},
    {&rows, "\"unflatten\": {\"dim\": 1, \"unflattened_size\": [-1, 3]}",
     OP_RESHAPE, "f32[4,2,3]"},
    {&images, "\"reshape\": {\"shape\": [2, -1]}", OP_RESHAPE, "f32[4,2,72]"},
    {&images, "\"transpose\": {\"dim0\": 1, \"dim1\": -1}", OP_TRANSPOSE,
     "f32[4,6,6,4]"},
    {&images, "\"narrow\": {\"dim\": 1, \"start\": 2, \"length\": 2}",
     OP_NARROW, "f32[4,2,6,6]nhwc"},
    {&images,
     "\"input\": [\"input\", \"input\", \"input\"], \"cat\": "
     "{\"dim\": 1}",
     OP_CAT, "f32[4,12,6,6]nhwc"},
    {&rows, "\"input\": [\"input\", \"input\"], \"stack\": {\"dim\": 1}",
     OP_STACK, "f32[4,2,6]"},
};

/* Batches of 4; a mean of everything makes a prediction of any shape. */
static void
test_build_makes_every_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const struct example *e = &examples[i];
        struct build_data data = *e->data;
        char model[512];
        struct graph *g;

        data.target_is_class = false;
        data.target_rank = 0;
        data.target_elems = 1;
        snprintf(model, sizeof(model),
                 "[{\"name\": \"it\", %s}, {\"reshape\": {\"shape\": [-1, 1]}},"
                 " \"mean\"]",
                 e->layer);
        for (int mode = 0; mode < 2; mode++) {
            g = model_graph(model, "mse", &data,
                            mode == 0 ? BUILD_TRAIN : BUILD_EVAL, 4);
            check_desc(g, "it.out", e->out);
            if (mode == 0 || e->op != OP_BATCH_NORM)
                assert_int_equal(
                    graph_node_at(
                        g,
                        graph_value_at(g, model_value(g, "it.out"))->producer)
                        ->op,
                    e->op);
            graph_destroy(&g);
        }
    }
}

/* ---- inputs, branches, layouts -------------------------------------------- */

static void
test_build_reads_named_inputs(void **state)
{
    struct graph *g = model_graph(
        "[{\"name\": \"a\", \"linear\": {\"out_features\": 6}}, "
        "{\"name\": \"s\", \"sequential\": [{\"name\": \"b\", \"relu\": {}}, "
        "{\"name\": \"c\", \"dropout\": {\"p\": 0}}]}, "
        "{\"name\": \"m\", \"input\": [\"a\", \"s\"], \"mul\": {}}, "
        "{\"name\": \"n\", \"input\": [\"s.b\", \"input\"], \"sub\": {}}, "
        "{\"name\": \"k\", \"input\": [\"m\", \"n\"], \"cat\": {\"dim\": 1}}]",
        "cross_entropy", &rows, BUILD_TRAIN, 4);
    const struct graph_node *mul = model_node(g, OP_MUL, "m");
    const struct graph_node *sub = model_node(g, OP_SUB, "n");

    (void)state;
    assert_int_equal(mul->in[0], model_value(g, "a.out"));
    assert_int_equal(mul->in[1], model_value(g, "s.b.out"));
    assert_int_equal(sub->in[0], model_value(g, "s.b.out"));
    assert_int_equal(sub->in[1], model_value(g, "x"));
    check_desc(g, "k.out", "f32[4,12]");
    graph_destroy(&g);
}

static void
test_build_residual_with_a_shortcut(void **state)
{
    struct graph *g = model_graph(
        "[{\"name\": \"r\", \"residual\": {\"body\": [{\"conv2d\": "
        "{\"out_channels\": 8, \"kernel_size\": 3, \"stride\": 2, \"padding\": "
        "1}}], \"shortcut\": [{\"conv2d\": {\"out_channels\": 8, "
        "\"kernel_size\": 1, \"stride\": 2}}]}}, \"flatten\"]",
        "cross_entropy", &images, BUILD_TRAIN, 4);
    const struct graph_node *add = model_node(g, OP_ADD, "r");

    (void)state;
    assert_int_equal(add->in[0], model_value(g, "r.0.out"));
    assert_int_equal(add->in[1], model_value(g, "r.shortcut.0.out"));
    assert_int_equal(model_node(g, OP_CONV2D, "r.shortcut.0")->in[0],
                     model_value(g, "x"));
    assert_string_equal(graph_param_at(g, 0)->name, "r.0.weight");
    graph_destroy(&g);
}

/* A value is turned once, however many read it turned; and not back. */
static void
test_build_turns_a_value_once(void **state)
{
    struct graph *g = model_graph(
        "[{\"name\": \"a\", \"relu\": {}}, {\"name\": \"t\", \"layer_norm\": "
        "{}}, {\"name\": \"u\", \"input\": \"a\", \"layer_norm\": {}}, "
        "{\"name\": \"s\", \"input\": [\"t\", \"u\"], \"add\": {}}, "
        "{\"name\": \"v\", \"input\": [\"a\", \"s\"], \"add\": {}}, "
        "\"batch_norm2d\", \"flatten\"]",
        "cross_entropy", &images, BUILD_TRAIN, 4);

    (void)state;
    /* a to rows, and the sum back to images beside a. */
    assert_int_equal(model_count(g, OP_RELAYOUT), 2);
    check_desc(g, "a.out.row", "f32[4,4,6,6]");
    check_desc(g, "s.out.nhwc", "f32[4,4,6,6]nhwc");
    check_desc(g, "v.out", "f32[4,4,6,6]nhwc");
    graph_destroy(&g);
}

/* ---- parameters ----------------------------------------------------------- */

static void
test_build_layer_params_as_pytorch(void **state)
{
    static const struct {
        const char *name;
        enum graph_init init;
        double bound;
        bool autocast;
    } want[] = {
        {"e.weight", GRAPH_INIT_NORMAL, 1, false},
        {"p.weight", GRAPH_INIT_NORMAL, 1, false},
        {"m.in_proj_weight", GRAPH_INIT_UNIFORM, 0, true},
        {"m.in_proj_bias", GRAPH_INIT_ZERO, 0, true},
        {"m.out_proj.weight", GRAPH_INIT_UNIFORM, 0, true},
        {"m.out_proj.bias", GRAPH_INIT_ZERO, 0, true},
        {"r.weight", GRAPH_INIT_ONE, 0, false},
        {"n.weight", GRAPH_INIT_NORMAL, 0.02, true},
        {"n.bias", GRAPH_INIT_ZERO, 0, true},
        {"l.weight", GRAPH_INIT_UNIFORM, 0.5, false},
        {"f.weight", GRAPH_INIT_CONSTANT, 0.1, true},
    };
    struct graph *g = model_graph(
        "[{\"name\": \"e\", \"embedding\": {\"num_embeddings\": 9, "
        "\"embedding_dim\": 6, \"padding_idx\": -2}}, {\"name\": \"p\", "
        "\"positional_embedding\": {\"num_embeddings\": 5}}, {\"name\": \"m\", "
        "\"multihead_attention\": {\"num_heads\": 2}}, {\"name\": \"r\", "
        "\"rms_norm\": {}}, {\"name\": \"n\", \"linear\": {\"out_features\": "
        "6}, \"weight_init\": {\"normal\": {\"std\": 0.02}}, \"bias_init\": "
        "\"zeros\"}, {\"name\": \"l\", \"layer_norm\": {\"bias\": false}, "
        "\"weight_init\": {\"uniform\": {\"bound\": 0.5}}}, {\"name\": \"f\", "
        "\"prelu\": {\"init\": 0.1}}]",
        "cross_entropy", &tokens, BUILD_TRAIN, 4);

    (void)state;
    assert_int_equal(graph_n_params(g), sizeof(want) / sizeof(want[0]));
    for (int i = 0; i < graph_n_params(g); i++) {
        const struct graph_param *p = graph_param_at(g, i);

        assert_string_equal(p->name, want[i].name);
        assert_int_equal(p->init, want[i].init);
        assert_int_equal(p->autocast, want[i].autocast);
        if (want[i].bound != 0)
            assert_true(p->bound == want[i].bound);
    }
    /* Xavier over [18,6]; kaiming_uniform with a = sqrt(5) over 6. */
    assert_true(fabs(graph_param_at(g, 2)->bound - sqrt(6. / 24)) < 1e-12);
    assert_true(fabs(graph_param_at(g, 4)->bound - 1 / sqrt(6.)) < 1e-12);
    assert_true(graph_param_at(g, 0)->has_zero_row);
    assert_int_equal(graph_param_at(g, 0)->zero_row, 7);
    assert_true(model_node(g, OP_EMBEDDING, "e")->params.embedding.has_padding);
    assert_int_equal(model_count(g, OP_NARROW), 0); /* 5 of 5 positions */
    assert_int_equal(build_token_limit(g), 9);
    graph_destroy(&g);
}

/* fan_in is dim 1 times the window, for what PyTorch calls transposed too. */
static void
test_build_transposed_fan_in(void **state)
{
    struct graph *g = model_graph(
        "[{\"conv_transpose2d\": {\"out_channels\": 6, \"kernel_size\": [3, 2],"
        " \"groups\": 2}}, \"flatten\"]",
        "cross_entropy", &images, BUILD_TRAIN, 4);

    (void)state;
    check_desc(g, "0.weight", "f32[4,3,3,2]");
    check_desc(g, "0.bias", "f32[6]");
    for (int i = 0; i < 2; i++)
        assert_true(fabs(graph_param_at(g, i)->bound - 1 / sqrt(18.)) < 1e-12);
    graph_destroy(&g);
}

#define TIED(n)                                                                \
    "[{\"name\": \"wte\", \"embedding\": {\"num_embeddings\": 9, "             \
    "\"embedding_dim\": 6}}, {\"name\": \"head\", \"linear\": "                \
    "{\"out_features\": " n ", \"bias\": false}, \"weight_from\": \"wte\"}]"

static void
test_build_shares_a_weight(void **state)
{
    struct graph *g =
        model_graph(TIED("9"), "cross_entropy", &tokens, BUILD_TRAIN, 4);
    struct err err;

    (void)state;
    assert_int_equal(graph_n_params(g), 1);
    assert_true(graph_param_at(g, 0)->autocast);
    assert_int_equal(model_node(g, OP_LINEAR, "head")->in[1],
                     model_value(g, "wte.weight"));
    assert_int_equal(model_node(g, OP_EMBEDDING, "wte")->in[1],
                     model_value(g, "wte.weight"));
    graph_destroy(&g);
    assert_string_equal(model_refusal(TIED("8"), "cross_entropy", &tokens,
                                      BUILD_TRAIN, 4, &err),
                        "model: head (linear): needs a weight [8,6] but that "
                        "of wte is [9,6]");
}

/* ---- attention ------------------------------------------------------------ */

static void
test_build_attention_of_one_tensor_is_one_product(void **state)
{
    const char *const same[] = {
        "[{\"name\": \"m\", \"multihead_attention\": {\"num_heads\": 2, "
        "\"dropout\": 0.1, \"is_causal\": true}}]",
        "[{\"name\": \"m\", \"input\": [\"input\", \"input\", \"input\"], "
        "\"multihead_attention\": {\"num_heads\": 2, \"dropout\": 0.1, "
        "\"is_causal\": true}}]"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct graph *g =
            model_graph(same[i], "cross_entropy", &sequences, BUILD_TRAIN, 4);
        const struct graph_node *a = model_node(g, OP_ATTENTION, "m");

        assert_int_equal(model_count(g, OP_LINEAR), 2);
        check_desc(g, "m.qkv", "f32[4,5,18]");
        check_desc(g, "m.heads.lse", "f32[4,2,5]");
        assert_int_equal(a->in[1], -1);
        assert_true(a->params.attention.causal);
        assert_true(a->params.attention.p == 0.1);
        assert_true(a->params.attention.scale == 1 / sqrt(3.));
        graph_destroy(&g);
        g = model_graph(same[i], "cross_entropy", &sequences, BUILD_EVAL, 4);
        a = model_node(g, OP_ATTENTION, "m");
        assert_true(a->params.attention.p == 0);
        assert_int_equal(a->out[1], -1);
        graph_destroy(&g);
    }
}

/* Other keys: thirds of the projection; a mask of keys, from the ids. */
static void
test_build_attention_of_three_tensors(void **state)
{
    struct graph *g = model_graph(
        "[{\"name\": \"seen\", \"ne\": {\"value\": 0}}, {\"name\": \"e\", "
        "\"input\": \"input\", \"embedding\": {\"num_embeddings\": 9, "
        "\"embedding_dim\": 6}}, {\"name\": \"q\", \"narrow\": {\"dim\": 1, "
        "\"start\": 0, \"length\": 2}}, {\"name\": \"m\", \"input\": [\"q\", "
        "\"e\", \"e\", \"seen\"], \"multihead_attention\": {\"num_heads\": 2}},"
        " {\"reshape\": {\"shape\": [12]}}]",
        "cross_entropy", &(struct build_data){MODEL_TOKENS(5), MODEL_CLASSES},
        BUILD_TRAIN, 4);
    const struct graph_node *a = model_node(g, OP_ATTENTION, "m");

    (void)state;
    check_desc(g, "seen.out", "bool[4,5]");
    check_desc(g, "m.k_weight", "f32[6,6]");
    check_desc(g, "m.v_bias", "f32[6]");
    check_desc(g, "m.k", "f32[4,5,6]");
    check_desc(g, "m.mask", "bool[4,1,5]");
    assert_int_equal(a->in[0], model_value(g, "m.q"));
    assert_int_equal(a->in[1], model_value(g, "m.k"));
    assert_int_equal(a->in[2], model_value(g, "m.v"));
    assert_int_equal(a->in[3], model_value(g, "m.mask"));
    assert_int_equal(graph_n_params(g), 5);
    assert_int_equal(build_token_limit(g), 9);
    graph_destroy(&g);
}

/* ---- losses and metrics --------------------------------------------------- */

static struct graph *
graph_of(const char *model, const struct build_data *data, enum build_mode mode,
         void (*change)(struct spec *))
{
    struct spec *spec = model_spec(model, "mse");
    struct graph *g = NULL;
    struct err err;

    change(spec);
    if (build_graph(spec, data, mode, 4, &g, &err) != 0)
        fail_msg("%s", err.msg);
    spec_destroy(&spec);
    return g;
}

static void
batchmean(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_KL_DIV;
    spec->loss.reduction = SPEC_REDUCTION_BATCHMEAN;
    spec->loss.log_target = true;
}

static void
huber(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_HUBER;
    spec->loss.delta = 0.5;
}

static void
smooth(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_SMOOTH_L1;
    spec->loss.beta = 0.25;
}

static void
metrics(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_NLL;
    spec->evaluate.metric[SPEC_METRIC_TOP_K] = true;
    spec->evaluate.metric[SPEC_METRIC_CONFUSION] = true;
    spec->evaluate.top_k = 3;
}

static void
test_build_losses_take_their_settings(void **state)
{
    const struct build_data numbers = {MODEL_SEQUENCES(5, 6), .target_rank = 2,
                                       .target_dim = {5, 6}};
    const struct build_data pictures = {MODEL_IMAGES(4, 6), .target_rank = 3,
                                        .target_dim = {4, 6, 6}};
    struct graph *g = graph_of("[\"tanh\"]", &numbers, BUILD_TRAIN, batchmean);

    (void)state;
    assert_true(model_node(g, OP_KL_DIV, "")->params.loss.factor == 30);
    assert_true(model_node(g, OP_KL_DIV, "")->params.loss.log_target);
    graph_destroy(&g);
    g = graph_of("[\"tanh\"]", &numbers, BUILD_TRAIN, huber);
    assert_true(model_node(g, OP_HUBER, "")->params.loss.delta == 0.5);
    graph_destroy(&g);
    /* Predictions of images are turned: targets are row-major. */
    g = graph_of("[\"tanh\"]", &pictures, BUILD_TRAIN, smooth);
    assert_true(model_node(g, OP_SMOOTH_L1, "")->params.loss.beta == 0.25);
    assert_int_equal(graph_roles(g)->output, model_value(g, "0.out.row"));
    graph_destroy(&g);
}

/* Rows, sequences, images: each with its classes where they lie. */
static void
test_build_counts_for_every_kind_of_scores(void **state)
{
    const struct build_data pixels = {MODEL_IMAGES(4, 6),
                                      .target_is_class = true, .target_rank = 2,
                                      .target_dim = {6, 6}};
    const struct build_data *const data[] = {&rows, &sequences, &pixels};
    const char *const target[] = {"i32[4]", "i32[4,5]", "i32[4,6,6]"};
    const char *const counts[] = {"f32[6,6]", "f32[6,6]", "f32[4,4]"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct graph *g = graph_of("[\"relu\"]", data[i], BUILD_EVAL, metrics);
        const struct graph_roles *roles = graph_roles(g);

        check_desc(g, "target", target[i]);
        check_desc(g, "confusion", counts[i]);
        assert_int_equal(roles->top_k, model_value(g, "top_k"));
        assert_int_equal(roles->confusion, model_value(g, "confusion"));
        assert_int_equal(
            graph_node_at(g, graph_value_at(g, roles->top_k)->producer)
                ->params.loss.k,
            3);
        assert_int_equal(model_node(g, OP_CORRECT, "")->params.loss.k, 1);
        graph_destroy(&g);
        g = graph_of("[\"relu\"]", data[i], BUILD_TRAIN, metrics);
        assert_int_equal(graph_roles(g)->top_k, -1);
        assert_int_equal(graph_roles(g)->confusion, -1);
        graph_destroy(&g);
    }
}

static void
of_classes(struct spec *spec)
{
    spec->loss.kind = SPEC_LOSS_CROSS_ENTROPY;
}

/* Where classes of sequences lie: the targets tell; where both lengths would
 * do, the layout that the last layer made. */
static void
test_build_finds_the_classes_of_sequences(void **state)
{
    static const char norm[] = "[{\"batch_norm1d\": {}}]";
    const struct build_data square = {MODEL_SEQUENCES(5, 5), MODEL_LABELS(5)};
    const struct build_data first = {MODEL_SEQUENCES(6, 5), MODEL_LABELS(5)};
    const struct {
        const char *model;
        const struct build_data *data;
        const char *output, *desc;
    } list[] = {
        {norm, &sequences, "0.out.row", "f32[4,5,6]"},
        {norm, &first, "0.out", "f32[4,6,5]nlc"},
        {norm, &square, "0.out", "f32[4,5,5]nlc"},
        {"[\"relu\"]", &sequences, "0.out", "f32[4,5,6]"},
        {"[\"relu\"]", &first, "0.out.nlc", "f32[4,6,5]nlc"},
        {"[\"relu\"]", &square, "0.out", "f32[4,5,5]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct graph *g =
            graph_of(list[i].model, list[i].data, BUILD_TRAIN, of_classes);

        assert_int_equal(graph_roles(g)->output,
                         model_value(g, list[i].output));
        check_desc(g, list[i].output, list[i].desc);
        graph_destroy(&g);
    }
}

/* ---- what is refused ------------------------------------------------------ */

static void
test_build_layers_refuse_with_a_sentence(void **state)
{
    static const struct {
        const struct build_data *data;
        const char *model, *sentence;
    } list[] = {
        {&tokens, "[\"relu\"]",
         "model: 0 (relu): reads token ids, which only an embedding or a "
         "comparison can; put an \"embedding\" layer before it"},
        {&tokens, "[{\"linear\": {\"out_features\": 3}}]",
         "model: 0 (linear): reads token ids, which only an embedding or a "
         "comparison can; put an \"embedding\" layer before it"},
        {&rows,
         "[{\"embedding\": {\"num_embeddings\": 9, \"embedding_dim\": 6}}]",
         "model: 0 (embedding): needs token ids but gets numbers [4,6]; its "
         "data are of format tokens or text"},
        {&tokens, "[{\"gt\": {\"value\": 0.5}}]",
         "model: 0 (gt): compares token ids with 0.5, which is none"},
        {&rows, "[{\"gt\": {\"value\": 0.5}}, \"relu\"]",
         "model: 1 (relu): reads a mask, which only where and attention can"},
        {&rows, "[{\"gt\": {\"value\": 0.5}}]",
         "loss: the model ends in no numbers"},
        {&rows,
         "[{\"input\": [\"input\", \"input\"], \"where\": {\"value\": 0}}]",
         "model: 0 (where): needs a mask as input 1; make one with eq, ne, lt, "
         "le, gt or ge"},
        {&sequences, "[{\"positional_embedding\": {\"num_embeddings\": 4}}]",
         "model: 0 (positional_embedding): has 4 positions but its input "
         "[4,5,6] is 5 long; raise num_embeddings"},
        {&sequences, "[{\"multihead_attention\": {\"num_heads\": 4}}]",
         "model: 0 (multihead_attention): num_heads 4 does not divide 6 "
         "features"},
        {&rows, "[{\"multihead_attention\": {\"num_heads\": 2}}]",
         "model: 0 (multihead_attention): needs sequences (samples, length, "
         "features) but gets [4,6]"},
        {&rows, "[{\"softmax\": {\"dim\": 0}}]",
         "model: 0 (softmax): axis 0 counts the samples, which must not depend "
         "on each other"},
        {&rows, "[{\"mean\": {\"dim\": [2]}}]",
         "model: 0 (mean): has no axis 2: there are 2"},
        {&rows, "[{\"sum\": {\"dim\": [1, -1]}}]",
         "model: 0 (sum): names axis 1 twice"},
        {&images, "[{\"group_norm\": {\"num_groups\": 3}}]",
         "model: 0 (group_norm): num_groups 3 does not divide 4 channels"},
        {&images, "[{\"prelu\": {\"num_parameters\": 3}}]",
         "model: 0 (prelu): num_parameters 3 is neither 1 nor the channels of "
         "its input [4,4,6,6]"},
        {&images, "[{\"upsample\": {\"scale_factor\": 1.25}}]",
         "model: 0 (upsample): scale_factor 1.25 makes 7.5 of 6 pixels; give a "
         "size"},
        {&rows, "[{\"reshape\": {\"shape\": [4, -1]}}]",
         "model: 0 (reshape): cannot part 6 elements into sizes that make 4"},
        {&rows, "[{\"narrow\": {\"dim\": 1, \"start\": 4, \"length\": 3}}]",
         "model: 0 (narrow): 3 elements from 4 are not within an axis of 6"},
        {&images, "[{\"flatten\": {\"start_dim\": 3, \"end_dim\": 2}}]",
         "model: 0 (flatten): its end_dim 2 comes before its start_dim 3"},
        {&images,
         "[{\"name\": \"m\", \"mean\": {}}, {\"input\": [\"input\", \"m\"], "
         "\"mul\": {}}]",
         "model: 1 (mul): its inputs [4,4,6,6] and [4] have different numbers "
         "of axes; give the smaller one axes of size 1 with a \"reshape\" "
         "layer, or keepdim"},
        {&sequences,
         "[{\"name\": \"m\", \"transpose\": {\"dim0\": 1, \"dim1\": 2}}, "
         "{\"input\": [\"input\", \"m\"], \"add\": {}}]",
         "model: 1 (add): a [4,5,6] and b [4,6,5] do not fit together"},
        {&sequences,
         "[{\"conv1d\": {\"out_channels\": 3, \"kernel_size\": 7}}]",
         "model: 0 (conv1d): a kernel of 7 does not fit into signals of 6 with "
         "padding 0"},
        {&rows, "[{\"conv1d\": {\"out_channels\": 3, \"kernel_size\": 1}}]",
         "model: 0 (conv1d): needs signals (samples, channels, length) but "
         "gets [4,6]"},
        {&rows,
         "[{\"name\": \"r\", \"residual\": {\"body\": [\"relu\"], "
         "\"shortcut\": [{\"linear\": {\"out_features\": 3}}]}}]",
         "model: r (residual): its shortcut ends in [4,3] but its layers end "
         "in [4,6]; the sum needs one shape"},
        {&sequences,
         "[{\"name\": \"k\", \"narrow\": {\"dim\": 1, \"start\": 0, "
         "\"length\": 2}}, {\"name\": \"s\", \"input\": \"input\", "
         "\"mean\": {\"dim\": 2}}, {\"name\": \"m\", \"gt\": "
         "{\"value\": 0}}, {\"multihead_attention\": {\"num_heads\": 2}, "
         "\"input\": [\"input\", \"k\", \"k\", \"m\"]}]",
         "model: 3 (multihead_attention): its mask [4,5] is neither (samples, "
         "keys) nor (samples, queries, keys) of 2 keys"},
        {&sequences, "[{\"reshape\": {\"shape\": [3, 10]}}]",
         "loss: cross_entropy: the model ends in [4,3,10], which takes class "
         "ids [4,3], but the targets are [4,5]"},
        {&sequences,
         "[{\"mean\": {\"dim\": 2, \"keepdim\": true}}, "
         "\"flatten\"]",
         "loss: cross_entropy: the model ends in [4,5], which takes class ids "
         "[4], but the targets are [4,5]"},
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        assert_string_equal(model_refusal(list[i].model, "cross_entropy",
                                          list[i].data, BUILD_TRAIN, 4, &err),
                            list[i].sentence);
}

/* In training too: not at the first evaluation. */
static void
test_build_refuses_more_than_all_classes(void **state)
{
    static const enum build_mode modes[] = {BUILD_TRAIN, BUILD_EVAL};
    struct spec *spec = model_spec("[\"relu\"]", "cross_entropy");
    struct graph *g;
    struct err err;

    (void)state;
    spec->evaluate.metric[SPEC_METRIC_TOP_K] = true;
    for (int i = 0; i < 2; i++) {
        spec->evaluate.top_k = 6;
        assert_int_equal(build_graph(spec, &rows, modes[i], 4, &g, &err), 0);
        graph_destroy(&g);
        spec->evaluate.top_k = 7;
        assert_int_equal(build_graph(spec, &rows, modes[i], 4, &g, &err),
                         ERR_SPEC);
        assert_string_equal(err.msg, "evaluate.top_k: 7 of 6 classes");
    }
    spec_destroy(&spec);
}

/* As large as an event can be, and no larger. */
static void
test_build_refuses_a_large_confusion_table(void **state)
{
    static const struct build_data wide[] = {{MODEL_ROWS(256), MODEL_CLASSES},
                                             {MODEL_ROWS(257), MODEL_CLASSES}};
    struct spec *spec = model_spec("[\"relu\"]", "cross_entropy");
    struct graph *g;
    struct err err;

    (void)state;
    spec->evaluate.metric[SPEC_METRIC_CONFUSION] = true;
    assert_int_equal(build_graph(spec, &wide[0], BUILD_TRAIN, 4, &g, &err), 0);
    graph_destroy(&g);
    assert_int_equal(build_graph(spec, &wide[1], BUILD_TRAIN, 4, &g, &err),
                     ERR_SPEC);
    assert_string_equal(err.msg, "evaluate.metrics: confusion: a table of 257 "
                                 "classes, where 256 fit");
    spec_destroy(&spec);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_makes_every_layer),
        cmocka_unit_test(test_build_reads_named_inputs),
        cmocka_unit_test(test_build_residual_with_a_shortcut),
        cmocka_unit_test(test_build_turns_a_value_once),
        cmocka_unit_test(test_build_layer_params_as_pytorch),
        cmocka_unit_test(test_build_transposed_fan_in),
        cmocka_unit_test(test_build_shares_a_weight),
        cmocka_unit_test(test_build_attention_of_one_tensor_is_one_product),
        cmocka_unit_test(test_build_attention_of_three_tensors),
        cmocka_unit_test(test_build_losses_take_their_settings),
        cmocka_unit_test(test_build_counts_for_every_kind_of_scores),
        cmocka_unit_test(test_build_finds_the_classes_of_sequences),
        cmocka_unit_test(test_build_refuses_more_than_all_classes),
        cmocka_unit_test(test_build_refuses_a_large_confusion_table),
        cmocka_unit_test(test_build_layers_refuse_with_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
