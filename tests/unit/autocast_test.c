/* SPDX-License-Identifier: Apache-2.0 */
/* numerics, section 3, as a table: who computes in what. */
#include "tests/support/model.h"

static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(6, 8), MODEL_CLASSES};

/* ---- the table ------------------------------------------------------------
 * L the region's dtype, F float32; for an input in float32 and one in L. */
struct expectation {
    const char *layer;
    enum op op;
    bool image;
    const char *f32; /* "dtype of input 0, dtype of output 0" */
    const char *half;
};

static const struct expectation table[] = {
    {"\"linear\": {\"out_features\": 6}", OP_LINEAR, false, "LL", "LL"},
    {"\"conv2d\": {\"out_channels\": 6, \"kernel_size\": 1}", OP_CONV2D, true,
     "LL", "LL"},
    {"\"batch_norm1d\": {}", OP_BATCH_NORM, false, "FF", "LL"},
    {"\"batch_norm2d\": {}", OP_BATCH_NORM, true, "FF", "LL"},
    {"\"layer_norm\": {}", OP_LAYER_NORM, false, "FF", "FF"},
    {"\"relu\": {}", OP_RELU, false, "FF", "LL"},
    {"\"gelu\": {}", OP_GELU, false, "FF", "LL"},
    {"\"tanh\": {}", OP_TANH, false, "FF", "LL"},
    {"\"sigmoid\": {}", OP_SIGMOID, false, "FF", "LL"},
    {"\"silu\": {}", OP_SILU, false, "FF", "LL"},
    {"\"dropout\": {\"p\": 0.5}", OP_DROPOUT, false, "FF", "LL"},
    {"\"max_pool2d\": {\"kernel_size\": 2}", OP_MAX_POOL2D, true, "FF", "LL"},
    {"\"avg_pool2d\": {\"kernel_size\": 2}", OP_AVG_POOL2D, true, "FF", "LL"},
    {"\"adaptive_avg_pool2d\": {\"output_size\": 1}", OP_ADAPTIVE_AVG_POOL2D,
     true, "FF", "LL"},
    {"\"flatten\": {}", OP_FLATTEN, true, "FF", "LL"},
    {"\"residual\": [\"relu\"]", OP_ADD, false, "FF", "LL"},
};

static enum dtype
dtype_of(const struct graph *g, int value)
{
    return graph_value_at(g, value)->desc.dtype;
}

/* Parameters of a norm stay float32 whatever is normalized. */
static void
check_params(const struct graph *g, const struct graph_node *node)
{
    for (int i = 1; i < node->n_in; i++)
        if (node->op == OP_BATCH_NORM || node->op == OP_LAYER_NORM)
            assert_int_equal(dtype_of(g, node->in[i]), DTYPE_F32);
        else if (node->op == OP_LINEAR || node->op == OP_CONV2D)
            assert_int_equal(dtype_of(g, node->in[i]),
                             dtype_of(g, node->in[0]));
}

static void
check_row(const struct expectation *row, enum dtype low, bool half)
{
    /* A product in front makes its input half. */
    const char *front =
        row->image ? "{\"conv2d\": {\"out_channels\": 6, \"kernel_size\": 1}}"
                   : "{\"linear\": {\"out_features\": 6}}";
    const char *tail = "\"flatten\", {\"linear\": {\"out_features\": 3}}";
    const char *want = half ? row->half : row->f32;
    const struct graph_node *node = NULL;
    char model[512];
    struct graph *g;

    snprintf(model, sizeof(model), "[%s, {\"name\": \"it\", %s}, %s]",
             half ? front : "\"tanh\"", row->layer, tail);
    g = model_autocast(model_graph(model, "cross_entropy",
                                   row->image ? &images : &rows, BUILD_TRAIN,
                                   4),
                       low, NULL);
    node = model_node(g, row->op, "it");
    assert_non_null(node);
    if (dtype_of(g, node->in[0]) != (want[0] == 'L' ? low : DTYPE_F32) ||
        dtype_of(g, node->out[0]) != (want[1] == 'L' ? low : DTYPE_F32))
        fail_msg("%s with a %s input runs %s -> %s, wanted %s",
                 op_info(row->op)->name, half ? "half" : "float32",
                 dtype_name(dtype_of(g, node->in[0])),
                 dtype_name(dtype_of(g, node->out[0])), want);
    check_params(g, node);
    graph_destroy(&g);
}

static void
test_autocast_runs_ops_as_the_list_says(void **state)
{
    static const enum dtype lows[] = {DTYPE_F16, DTYPE_BF16};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        for (int k = 0; k < 2; k++) {
            check_row(&table[i], lows[k], false);
            check_row(&table[i], lows[k], true);
        }
}

static void
test_autocast_losses_read_float32(void **state)
{
    static const struct {
        const char *name;
        enum op op;
        bool classes;
    } losses[] = {{"cross_entropy", OP_CROSS_ENTROPY, true},
                  {"mse", OP_MSE, false},
                  {"l1", OP_L1, false},
                  {"bce_with_logits", OP_BCE_WITH_LOGITS, false}};
    const struct build_data numbers = {MODEL_ROWS(6), MODEL_NUMBERS(3)};

    (void)state;
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        struct graph *g = model_autocast(
            model_graph("[{\"linear\": {\"out_features\": 3}}]", losses[i].name,
                        losses[i].classes ? &rows : &numbers, BUILD_TRAIN, 4),
            DTYPE_F16, NULL);
        const struct graph_node *node = model_node(g, losses[i].op, "");

        assert_int_equal(dtype_of(g, graph_roles(g)->output), DTYPE_F16);
        assert_string_equal(graph_value_at(g, node->in[0])->name,
                            "0.out.to_f32");
        assert_string_equal(graph_value_at(g, node->in[1])->name, "target");
        assert_int_equal(dtype_of(g, node->out[0]), DTYPE_F32);
        graph_destroy(&g);
    }
}

/* A sum of float32 and half is float32 (widest). */
static void
test_autocast_sums_in_the_widest(void **state)
{
    struct graph *g =
        model_autocast(model_graph("[{\"name\": \"res\", \"residual\": "
                                   "[{\"linear\": {\"out_features\": 6}}]}]",
                                   "cross_entropy", &rows, BUILD_TRAIN, 4),
                       DTYPE_BF16, NULL);
    const struct graph_node *add = model_node(g, OP_ADD, "res");

    (void)state;
    assert_int_equal(add->in[0], model_value(g, "res.0.out.to_f32"));
    assert_int_equal(add->in[1], model_value(g, "x"));
    assert_int_equal(dtype_of(g, add->out[0]), DTYPE_F32);
    graph_destroy(&g);
}

/* Masks and token ids are nobody's to cast; the widest of what is chosen from
 * decides, not the mask. */
static void
test_autocast_leaves_masks_and_ids(void **state)
{
    const struct build_data tokens = {.rank = 1,
                                      .dim = {5},
                                      .input_is_tokens = true,
                                      .target_is_class = true,
                                      .target_rank = 1,
                                      .target_dim = {5}};
    struct graph *g = model_autocast(
        model_graph(
            "[{\"name\": \"seen\", \"ne\": {\"value\": 0}}, {\"name\": \"e\", "
            "\"input\": \"input\", \"embedding\": {\"num_embeddings\": 9, "
            "\"embedding_dim\": 6}}, {\"name\": \"m\", \"input\": [\"e\", "
            "\"seen\"], \"multihead_attention\": {\"num_heads\": 2}}, "
            "{\"name\": \"low\", \"lt\": {\"value\": 0}}, {\"name\": \"w\", "
            "\"input\": [\"low\", \"m\"], \"where\": {\"value\": 1}}, "
            "{\"name\": \"wide\", \"input\": [\"low\", \"m\", \"e\"], "
            "\"where\": {}}]",
            "cross_entropy", &tokens, BUILD_TRAIN, 4),
        DTYPE_F16, NULL);
    const struct graph_node *a = model_node(g, OP_ATTENTION, "m");

    (void)state;
    for (int i = 0; i < graph_n_nodes(g); i++)
        if (graph_node_at(g, i)->op == OP_CAST)
            assert_true(
                dtype_is_float(dtype_of(g, graph_node_at(g, i)->in[0])));
    assert_int_equal(model_node(g, OP_COMPARE, "seen")->in[0],
                     model_value(g, "x"));
    assert_int_equal(dtype_of(g, model_value(g, "e.out")), DTYPE_F32);
    assert_int_equal(dtype_of(g, a->in[0]), DTYPE_F16);
    assert_int_equal(dtype_of(g, a->in[3]), DTYPE_BOOL);
    assert_int_equal(dtype_of(g, model_value(g, "m.heads.lse")), DTYPE_F32);
    assert_int_equal(model_node(g, OP_WHERE, "w")->in[0],
                     model_value(g, "low.out"));
    assert_int_equal(dtype_of(g, model_value(g, "w.out")), DTYPE_F16);
    assert_int_equal(dtype_of(g, model_value(g, "wide.out")), DTYPE_F32);
    graph_destroy(&g);
}

/* ---- casts --------------------------------------------------------------- */

static void
test_autocast_casts_a_value_once(void **state)
{
    struct graph *g = model_autocast(
        model_graph("[{\"residual\": [{\"linear\": {\"out_features\": 6}}]}, "
                    "{\"name\": \"b\", \"residual\": "
                    "[{\"linear\": {\"out_features\": 6}}, \"layer_norm\"]}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4),
        DTYPE_F16, NULL);
    int n = 0;

    (void)state;
    for (int i = 0; i < graph_n_nodes(g); i++)
        n += graph_node_at(g, i)->op == OP_CAST;
    /* x, two weights and biases, 0.0.out to f32, 0.out to f16, b.0.out to
     * f32: nothing twice. */
    assert_int_equal(n, 8);
    graph_destroy(&g);
}

/* A cast belongs to the layer that wants it: where an overflow is looked for
 * (case C19). */
static void
test_autocast_cast_carries_its_readers_layer(void **state)
{
    struct graph *g = model_autocast(
        model_graph("[{\"name\": \"fc\", \"linear\": {\"out_features\": 3}}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4),
        DTYPE_F16, NULL);
    const struct graph_value *v = graph_value_at(g, model_value(g, "x.to_f16"));
    const struct graph_node *cast = graph_node_at(g, v->producer);

    (void)state;
    assert_int_equal(cast->op, OP_CAST);
    assert_string_equal(cast->layer, "fc");
    assert_int_equal(cast->phase, GRAPH_FORWARD);
    assert_int_equal(v->sample_axis, 0);
    assert_int_equal(
        graph_value_at(g, model_value(g, "fc.weight.to_f16"))->sample_axis, -1);
    /* The loss is no layer: what feeds it is the last layer's. */
    v = graph_value_at(g, model_value(g, "fc.out.to_f32"));
    cast = graph_node_at(g, v->producer);
    assert_int_equal(cast->phase, GRAPH_LOSS);
    assert_string_equal(cast->layer, "fc");
    graph_destroy(&g);
}

/* ---- regions ------------------------------------------------------------- */

static void
test_autocast_region_covers_a_layer_and_its_body(void **state)
{
    struct graph *g = model_autocast(
        model_graph("[{\"name\": \"a\", \"linear\": {\"out_features\": 6}}, "
                    "{\"name\": \"r\", \"residual\": [{\"name\": \"in\", "
                    "\"linear\": {\"out_features\": 6}}, \"relu\"]}, "
                    "{\"name\": \"r2\", \"linear\": {\"out_features\": 3}}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4),
        DTYPE_F16, "r");
    static const struct {
        enum op op;
        const char *layer;
        enum dtype in;
        bool region;
    } want[] = {{OP_LINEAR, "a", DTYPE_F16, false},
                {OP_LINEAR, "r.in", DTYPE_F32, true},
                {OP_RELU, "r.1", DTYPE_F32, true},
                {OP_ADD, "r", DTYPE_F32, true},
                {OP_LINEAR, "r2", DTYPE_F16, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct graph_node *node =
            model_node(g, want[i].op, want[i].layer);

        assert_int_equal(dtype_of(g, node->in[0]), want[i].in);
        assert_int_equal(node->fp32_region, want[i].region);
    }
    graph_destroy(&g);
}

/* Also of an op that would take what it is given. */
static void
test_autocast_region_widens_a_half_input(void **state)
{
    struct graph *g =
        model_autocast(model_graph("[{\"linear\": {\"out_features\": 6}}, "
                                   "{\"name\": \"act\", \"gelu\": {}}]",
                                   "cross_entropy", &rows, BUILD_TRAIN, 4),
                       DTYPE_F16, "act");
    const struct graph_node *gelu = model_node(g, OP_GELU, "act");

    (void)state;
    assert_int_equal(gelu->in[0], model_value(g, "0.out.to_f32"));
    assert_int_equal(dtype_of(g, gelu->out[0]), DTYPE_F32);
    graph_destroy(&g);
}

static void
test_autocast_off_changes_nothing(void **state)
{
    const char *model = "[{\"linear\": {\"out_features\": 6}}, \"layer_norm\", "
                        "{\"residual\": [\"relu\"]}]";
    struct graph *plain =
        model_graph(model, "cross_entropy", &rows, BUILD_TRAIN, 4);
    struct graph *off = model_autocast(
        model_graph(model, "cross_entropy", &rows, BUILD_TRAIN, 4), DTYPE_F32,
        "0");
    char *before = graph_print(plain), *after = graph_print(off);

    (void)state;
    assert_string_equal(before, after);
    free(before);
    free(after);
    graph_destroy(&plain);
    graph_destroy(&off);
}

/* A change of a class is a new list: policies of old checkpoints must show
 * it. Then this hash and AUTOCAST_LIST_VERSION change together. */
static void
test_autocast_list_is_version_2(void **state)
{
    (void)state;
    assert_int_equal(AUTOCAST_LIST_VERSION, 2);
    assert_int_equal(autocast_list_hash(), 0x399f2aae4f5e4e2cu);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_autocast_runs_ops_as_the_list_says),
        cmocka_unit_test(test_autocast_losses_read_float32),
        cmocka_unit_test(test_autocast_sums_in_the_widest),
        cmocka_unit_test(test_autocast_leaves_masks_and_ids),
        cmocka_unit_test(test_autocast_casts_a_value_once),
        cmocka_unit_test(test_autocast_cast_carries_its_readers_layer),
        cmocka_unit_test(test_autocast_region_covers_a_layer_and_its_body),
        cmocka_unit_test(test_autocast_region_widens_a_half_input),
        cmocka_unit_test(test_autocast_off_changes_nothing),
        cmocka_unit_test(test_autocast_list_is_version_2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
