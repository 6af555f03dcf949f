/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed again has the bits of what was not kept, in less memory. */
#include "tests/support/runner.h"

#include "engine/pass/recompute.h"

static const struct build_data rows = {MODEL_ROWS(32), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(4, 8), MODEL_CLASSES};

/* Four blocks of what loses most: norms, dropout, a wide middle. */
#define BLOCK(name)                                                            \
    "{\"name\": \"" name                                                       \
    "\", \"residual\": [\"layer_norm\", {\"linear\": {\"out_features\": "      \
    "128}}, \"gelu\", {\"dropout\": {\"p\": 0.3}}, {\"linear\": "              \
    "{\"out_features\": 32}}]}"
static const char deep[] = "[" BLOCK("a") ", " BLOCK("b") ", " BLOCK(
    "c") ", " BLOCK("d") ", {\"linear\": {\"out_features\": 3}}]";
static const char *const all_four[] = {"a", "b", "c", "d"};

/* Statistics that are tracked, an index of maxima, a shortcut. */
static const char conv[] =
    "[{\"name\": \"a\", \"residual\": {\"body\": [{\"conv2d\": "
    "{\"out_channels\": 4, \"kernel_size\": 3, \"padding\": 1}}, "
    "\"batch_norm2d\", \"relu\", {\"max_pool2d\": {\"kernel_size\": 2}}], "
    "\"shortcut\": [{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 1, "
    "\"stride\": 2}}, \"batch_norm2d\"]}}, \"tanh\", \"flatten\", "
    "{\"linear\": {\"out_features\": 3}}]";

/* Attention draws numbers too; whole decoders, and their halves. */
static const struct build_data tokens = {.rank = 1,
                                         .dim = {16},
                                         .input_is_tokens = true,
                                         .target_is_class = true,
                                         .target_rank = 1,
                                         .target_dim = {16}};
static const char gpt[] =
    "{\"gpt\": {\"vocab_size\": 11, \"block_size\": 16, \"n_layer\": 4, "
    "\"n_head\": 2, \"n_embd\": 8, \"dropout\": 0.2}}";
static const char *const decoders[] = {"h.0", "h.1", "h.2", "h.3"};
static const char *const halves[] = {"h.0.attn", "h.1.mlp", "h.3.attn"};

static struct graph *
again_take(struct graph *g, const char *const *block, int n)
{
    const struct recompute_options options = {block, n};
    struct graph *out = NULL;
    struct err err;

    if (recompute_apply(g, &options, &out, &err) != 0)
        fail_msg("%s", err.msg);
    graph_destroy(&g);
    return out;
}

static struct graph *
make(const char *model, const struct build_data *data, enum dtype dtype,
     bool accumulate)
{
    return model_autodiff(model_autocast(model_graph(model, "cross_entropy",
                                                     data, BUILD_TRAIN, 16),
                                         dtype, NULL),
                          false, accumulate);
}

/* Losses, gradients and statistics after two steps are the same bits. */
static void
check_same_bits(const char *model, const struct build_data *data,
                const char *const *block, int n, enum dtype dtype)
{
    struct runner kept, again;
    const size_t size = sizeof(float);

    runner_init_take(&kept, make(model, data, dtype, true), 5);
    runner_init_take(&again,
                     again_take(make(model, data, dtype, true), block, n), 5);
    for (uint32_t step = 0; step < 2; step++) {
        kept.step.micro_batch = again.step.micro_batch = step;
        assert_true(runner_run(&kept) == runner_run(&again));
    }
    assert_memory_equal(kept.state->grads, again.state->grads,
                        (size_t)kept.state->param_elems * size);
    assert_memory_equal(kept.state->buffers_pending,
                        again.state->buffers_pending,
                        (size_t)kept.state->buffer_elems * size);
    runner_fini(&kept);
    runner_fini(&again);
}

static void
test_recompute_changes_no_bit(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

    (void)state;
    for (int i = 0; i < 3; i++) {
        check_same_bits(deep, &rows, all_four, 4, dtypes[i]);
        check_same_bits(conv, &images, all_four, 1, dtypes[i]);
        check_same_bits(gpt, &tokens, decoders, 4, dtypes[i]);
        check_same_bits(gpt, &tokens, halves, 3, dtypes[i]);
    }
}

static size_t
block_bytes_take(struct graph *g)
{
    struct program *p = model_program(g, false);
    const size_t n = program_block_bytes(p);

    program_destroy(&p);
    return n;
}

/* Of four blocks no more than one and their inputs stand at once: 5 rows of 32
 * beside one block's 3 x 128 + .., where four of them stood. */
static void
test_recompute_needs_less_memory(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const size_t kept = block_bytes_take(make(deep, &rows, dtypes[i], 0));
        const size_t again = block_bytes_take(
            again_take(make(deep, &rows, dtypes[i], 0), all_four, 4));
        const size_t half = block_bytes_take(
            again_take(make(deep, &rows, dtypes[i], 0), all_four, 2));

        assert_true(again < half && half < kept);
        if (dtypes[i] == DTYPE_F32)
            assert_true(again * 2 < kept);
        assert_true(2 * block_bytes_take(again_take(
                            make(gpt, &tokens, dtypes[i], 0), decoders, 4)) <
                    block_bytes_take(make(gpt, &tokens, dtypes[i], 0)));
    }
}

static int
count_phase(const struct graph *g, enum op op, enum graph_phase phase)
{
    int n = 0;

    for (int i = 0; i < graph_n_nodes(g); i++)
        n += graph_node_at(g, i)->op == op &&
             graph_node_at(g, i)->phase == phase;
    return n;
}

/* Running statistics move once, copies of weights are made once, and the sum
 * that leaves the block is not made again. */
static void
test_recompute_repeats_what_backward_reads(void **state)
{
    struct graph *g =
        again_take(make(conv, &images, DTYPE_F16, false), all_four, 1);
    const struct graph_node *again = NULL;

    (void)state;
    assert_int_equal(model_count(g, OP_STATS_TRACK), 2);
    assert_int_equal(count_phase(g, OP_BATCH_NORM, GRAPH_FORWARD), 2);
    assert_int_equal(count_phase(g, OP_CONV2D, GRAPH_BACKWARD), 2);
    assert_int_equal(count_phase(g, OP_MAX_POOL2D, GRAPH_BACKWARD), 1);
    assert_int_equal(count_phase(g, OP_ADD, GRAPH_BACKWARD), 0);
    for (int i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *node = graph_node_at(g, i);

        if (node->op == OP_CONV2D && node->phase == GRAPH_BACKWARD &&
            strcmp(node->layer, "a.0") == 0)
            again = node;
        for (int k = 0; node->phase == GRAPH_BACKWARD && k < node->n_in; k++)
            if (node->in[k] >= 0)
                assert_string_not_equal(graph_value_at(g, node->in[k])->name,
                                        "a.1.out");
    }
    assert_non_null(again);
    assert_string_equal(graph_value_at(g, again->in[1])->name,
                        "a.0.weight.to_f16");
    assert_string_equal(graph_value_at(g, again->out[0])->name,
                        "a.0.out.again");
    graph_destroy(&g);
}

static void
test_recompute_of_nothing_is_a_copy(void **state)
{
    struct graph *g = make(deep, &rows, DTYPE_F16, false);
    char *before = graph_print(g), *after;

    (void)state;
    g = again_take(g, NULL, 0);
    after = graph_print(g);
    assert_string_equal(before, after);
    free(before);
    free(after);
    graph_destroy(&g);
}

/* ---- which blocks --------------------------------------------------------- */

static void
test_recompute_takes_innermost_blocks(void **state)
{
    static const char *const outer[] = {"*"}, *const some[] = {"out.b*", "e"},
                             *const none[] = {"out", "oops*"};
    struct spec *spec = model_spec(
        "[{\"name\": \"out\", \"sequential\": [" BLOCK("a") ", " BLOCK(
            "b") "]}"
                 ", {\"name\": \"e\", \"residual\": [\"relu\"]}]",
        "cross_entropy");
    const char **blocks = NULL;
    struct err err;
    int n = 0;

    (void)state;
    spec->train.recompute = (const char **)(uintptr_t)outer;
    spec->train.n_recompute = 1;
    assert_int_equal(build_find_blocks(spec, &blocks, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_string_equal(blocks[0], "out.a");
    assert_string_equal(blocks[1], "out.b");
    assert_string_equal(blocks[2], "e");
    free(blocks);
    spec->train.recompute = (const char **)(uintptr_t)some;
    spec->train.n_recompute = 2;
    assert_int_equal(build_find_blocks(spec, &blocks, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_string_equal(blocks[0], "out.b");
    free(blocks);
    spec->train.recompute = (const char **)(uintptr_t)none;
    assert_int_equal(build_find_blocks(spec, &blocks, &n, &err), ERR_SPEC);
    assert_string_equal(err.msg, "train.recompute: \"oops*\" is the path of no "
                                 "sequential or residual");
    spec_destroy(&spec);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute_changes_no_bit),
        cmocka_unit_test(test_recompute_needs_less_memory),
        cmocka_unit_test(test_recompute_repeats_what_backward_reads),
        cmocka_unit_test(test_recompute_of_nothing_is_a_copy),
        cmocka_unit_test(test_recompute_takes_innermost_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
