/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions read what was written for them: nothing overwrites a value
 * that is still wanted, over many nets; and compiling fails cleanly. */
#include "tests/support/runner.h"
#include "tests/support/shadow.h"

static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(3, 8), MODEL_CLASSES};

/* ---- random nets --------------------------------------------------------- */

static const char *const row_layers[] = {
    "{\"linear\": {\"out_features\": 6}}",
    "{\"linear\": {\"out_features\": 6, \"bias\": false}}",
    "\"relu\"",
    "\"gelu\"",
    "\"tanh\"",
    "\"silu\"",
    "\"sigmoid\"",
    "\"layer_norm\"",
    "\"batch_norm1d\"",
    "{\"dropout\": {\"p\": 0.5}}",
    "{\"residual\": [\"relu\"]}",
    "{\"residual\": [\"flatten\"]}", /* x + x */
    "{\"residual\": [{\"linear\": {\"out_features\": 6}}, \"relu\"]}",
    "{\"residual\": [\"layer_norm\", {\"residual\": [\"tanh\", "
    "{\"linear\": {\"out_features\": 6}}]}]}",
};
static const char *const image_layers[] = {
    "{\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 3, \"padding\": 1}}",
    "{\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 1, \"groups\": 3}}",
    "\"relu\"",
    "\"silu\"",
    "\"sigmoid\"",
    "\"batch_norm2d\"",
    "{\"dropout\": {\"p\": 0.5}}",
    "{\"max_pool2d\": {\"kernel_size\": 3, \"stride\": 1, \"padding\": 1}}",
    "{\"avg_pool2d\": {\"kernel_size\": 3, \"stride\": 1, \"padding\": 1}}",
    "{\"residual\": [\"batch_norm2d\", \"relu\"]}",
    "{\"residual\": [{\"conv2d\": {\"out_channels\": 3, \"kernel_size\": 3, "
    "\"padding\": 1}}, \"batch_norm2d\"]}",
};

#define N(list) (sizeof(list) / sizeof((list)[0]))

/* A random sequence of layers that keep their shape. */
static void
random_model(uint64_t *seed, bool image, char *model, size_t size)
{
    const int n = 1 + (int)(runner_random(seed) % 10);
    size_t at = (size_t)snprintf(model, size, "[");

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(
            model + at, size - at, "%s, ",
            image ? image_layers[runner_random(seed) % N(image_layers)]
                  : row_layers[runner_random(seed) % N(row_layers)]);
    snprintf(model + at, size - at,
             "\"flatten\", {\"linear\": {\"out_features\": 3}}]");
}

static void
check_random(uint64_t *seed)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const bool image = runner_random(seed) % 2, train = runner_random(seed) % 4;
    const bool keep_all = runner_random(seed) % 4 == 0;
    struct graph *g;
    struct program *p;
    char model[2048];

    random_model(seed, image, model, sizeof(model));
    g = model_autocast(
        model_graph(model, "cross_entropy", image ? &images : &rows,
                    train ? BUILD_TRAIN : BUILD_EVAL, 4),
        dtypes[runner_random(seed) % 3], runner_random(seed) % 2 ? "1" : NULL);
    if (train)
        g = model_autodiff(g, runner_random(seed) % 2, runner_random(seed) % 2);
    p = model_program(g, keep_all);
    shadow_check(p, keep_all);
    program_destroy(&p);
}

static void
test_program_never_overwrites_what_is_wanted(void **state)
{
    uint64_t seed = 0xD1B54A32D192ED03u;

    (void)state;
    for (int i = 0; i < 400; i++)
        check_random(&seed);
}

/* ---- places -------------------------------------------------------------- */

static bool
same_place(const struct program *p, const char *a, const char *b)
{
    const struct graph *g = program_graph(p);
    const struct program_ref ra = program_value_ref(p, model_value(g, a));
    const struct program_ref rb = program_value_ref(p, model_value(g, b));

    return ra.space == rb.space && ra.offset == rb.offset;
}

/* relu's gradient reads y, so x may go; gelu's reads x, so it may not. */
static void
test_program_shares_places_where_it_may(void **state)
{
    struct program *p = model_program(
        model_autodiff(model_graph("[{\"linear\": {\"out_features\": 6}}, "
                                   "\"relu\", {\"linear\": "
                                   "{\"out_features\": 6}}, \"gelu\", "
                                   "{\"linear\": {\"out_features\": 3}}]",
                                   "cross_entropy", &rows, BUILD_TRAIN, 4),
                       false, false),
        false);

    (void)state;
    assert_true(same_place(p, "0.out", "1.out"));
    assert_false(same_place(p, "2.out", "3.out"));
    assert_true(same_place(p, "1.out.grad", "0.out.grad"));
    program_destroy(&p);
}

/* A sum may lie where its first operand did only when it is as large: [4,1] and
 * [4,6] make [4,6]. */
static void
test_program_does_not_share_what_broadcasts(void **state)
{
    static const char *const name[] = {"s", "t"};
    struct program *p = model_program(
        model_graph(
            "[{\"name\": \"a\", \"linear\": {\"out_features\": 1}}, {\"name\": "
            "\"b\", \"input\": \"input\", \"linear\": {\"out_features\": 6}}, "
            "{\"name\": \"s\", \"input\": [\"a\", \"b\"], \"add\": {}}, "
            "{\"name\": \"c\", \"linear\": {\"out_features\": 6}}, {\"name\": "
            "\"d\", \"input\": \"s\", \"linear\": {\"out_features\": 1}}, "
            "{\"name\": \"t\", \"input\": [\"c\", \"d\"], \"add\": {}}]",
            "cross_entropy", &rows, BUILD_EVAL, 4),
        false);

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_non_null(model_node(program_graph(p), OP_ADD, name[i]));
    assert_false(same_place(p, "a.out", "s.out"));
    assert_true(same_place(p, "c.out", "t.out"));
    program_destroy(&p);
}

static void
test_program_keeps_all_when_asked(void **state)
{
    struct program *p = model_program(
        model_graph("[{\"linear\": {\"out_features\": 6}}, \"relu\"]",
                    "cross_entropy", &rows, BUILD_TRAIN, 4),
        true);

    (void)state;
    assert_false(same_place(p, "0.out", "1.out"));
    program_destroy(&p);
}

static void
test_program_prologue_is_what_depends_on_weights(void **state)
{
    struct program *p = model_program(
        model_autodiff(
            model_autocast(model_graph("[\"relu\", {\"linear\": "
                                       "{\"out_features\": 3}}]",
                                       "cross_entropy", &rows, BUILD_TRAIN, 4),
                           DTYPE_F16, NULL),
            false, false),
        false);

    (void)state;
    assert_int_equal(program_n_prologue(p), 2);
    assert_int_equal(program_instr_at(p, 0)->in[0].space, PROGRAM_PARAM);
    assert_int_equal(program_instr_at(p, 0)->in[0].index, 0);
    assert_int_equal(program_instr_at(p, 1)->in[0].index, 1);
    assert_int_equal(program_instr_at(p, 2)->in[0].space, PROGRAM_INPUT);
    assert_int_equal(program_instr_at(p, 2)->in[0].index, GRAPH_INPUT_X);
    program_destroy(&p);
}

/* Sharing places changes no bit. */
static void
test_program_results_do_not_depend_on_places(void **state)
{
    const char *model =
        "[{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 3}}, "
        "\"batch_norm2d\", \"relu\", {\"residual\": [{\"conv2d\": "
        "{\"out_channels\": 4, \"kernel_size\": 3, \"padding\": 1}}, "
        "\"relu\"]}, {\"max_pool2d\": {\"kernel_size\": 2}}, \"flatten\", "
        "{\"dropout\": {\"p\": 0.2}}, {\"linear\": {\"out_features\": 3}}]";
    struct runner shared;
    struct exec *exec = NULL;
    struct program *apart;
    void *block;
    float *grads;
    struct err err;
    size_t bytes;

    (void)state;
    runner_init_take(
        &shared,
        model_autodiff(model_autocast(model_graph(model, "cross_entropy",
                                                  &images, BUILD_TRAIN, 4),
                                      DTYPE_BF16, NULL),
                       false, false),
        5);
    runner_run(&shared);
    bytes = (size_t)shared.state->param_elems * sizeof(float);
    grads = runner_alloc(bytes);
    memcpy(grads, shared.state->grads, bytes);
    memset(shared.state->grads, 0, bytes);
    apart = model_program(
        model_autodiff(model_autocast(model_graph(model, "cross_entropy",
                                                  &images, BUILD_TRAIN, 4),
                                      DTYPE_BF16, NULL),
                       false, false),
        true);
    block = runner_alloc(program_block_bytes(apart));
    assert_int_equal(exec_create(apart, shared.state, block, true, &exec, &err),
                     0);
    exec_set_input(exec, GRAPH_INPUT_X, shared.x);
    exec_set_input(exec, GRAPH_INPUT_TARGET, shared.target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &shared.inv_count);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &shared.scale);
    exec_run(exec, &shared.step);
    for (int i = 0; i < shared.state->n_params; i++)
        assert_memory_equal(
            grads + shared.state->param[i].offset, runner_grad(&shared, i),
            (size_t)shared.state->param[i].n_elems * sizeof(float));
    exec_destroy(&exec);
    program_destroy(&apart);
    free(block);
    free(grads);
    runner_fini(&shared);
}

/* ---- failures ------------------------------------------------------------ */

static int n_live; /* states that fakes have made and not released */

static int
fake_prepare(const struct kernel_sig *sig, void **state, struct err *err)
{
    if (sig->op == OP_CROSS_ENTROPY)
        return err_set(err, ERR_NOMEM, "no memory for a primitive");
    *state = malloc(1);
    assert_non_null(*state);
    n_live++;
    return 0;
}

static void
fake_release(void *state)
{
    free(state);
    n_live--;
}

static void
fake_run(const struct kernel_call *call)
{
    (void)call;
}

static const struct kernel fake = {
    .prepare = fake_prepare, .run = fake_run, .release = fake_release};
static const struct kernel_table fakes = {.name = "fake",
                                          .op = {[OP_LINEAR] = &fake,
                                                 [OP_RELU] = &fake,
                                                 [OP_CROSS_ENTROPY] = &fake,
                                                 [OP_SCALE_LOSS] = &fake}};
static const struct kernel_table *const fake_tables[] = {&fakes, NULL};
static const struct backend fake_backend = {"fake", fake_tables};

static void
compile_fake(const char *model, int code, const char *sentence)
{
    const struct program_options options = {.backend = &fake_backend,
                                            .threads = 2};
    struct program *p = NULL;
    struct err err;

    assert_int_equal(program_compile_take(model_graph(model, "cross_entropy",
                                                      &rows, BUILD_TRAIN, 4),
                                          &options, &p, &err),
                     code);
    assert_null(p);
    assert_string_equal(err.msg, sentence);
    assert_int_equal(n_live, 0);
}

static void
test_program_names_the_op_without_a_kernel(void **state)
{
    (void)state;
    compile_fake("[{\"name\": \"fc\", \"linear\": {\"out_features\": 3}}, "
                 "{\"name\": \"act\", \"tanh\": {}}]",
                 ERR_UNSUPPORTED,
                 "act: tanh(f32[4,3]): backend \"fake\" has no kernel for it");
}

static void
test_program_releases_kernels_when_one_fails(void **state)
{
    (void)state;
    compile_fake("[{\"linear\": {\"out_features\": 3}}, \"relu\"]", ERR_NOMEM,
                 "no memory for a primitive");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_never_overwrites_what_is_wanted),
        cmocka_unit_test(test_program_shares_places_where_it_may),
        cmocka_unit_test(test_program_does_not_share_what_broadcasts),
        cmocka_unit_test(test_program_keeps_all_when_asked),
        cmocka_unit_test(test_program_prologue_is_what_depends_on_weights),
        cmocka_unit_test(test_program_results_do_not_depend_on_places),
        cmocka_unit_test(test_program_names_the_op_without_a_kernel),
        cmocka_unit_test(test_program_releases_kernels_when_one_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
