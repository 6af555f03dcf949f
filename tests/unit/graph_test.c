/* SPDX-License-Identifier: Apache-2.0 */
/* A graph built by hand; what verify finds before a pass believes it. */
#include "tests/support/model.h"

#include "engine/graph/verify.h"

static struct graph *
start(int *x)
{
    const struct tensor_desc desc =
        tensor_make(DTYPE_F32, 2, (int64_t[]){4, 6});
    struct graph *g = graph_create();

    assert_non_null(g);
    *x = graph_add_input(g, GRAPH_INPUT_X, &desc, "x");
    assert_true(*x >= 0);
    return g;
}

static int
add_relu(struct graph *g, int x, const char *name)
{
    const int id =
        graph_add_node(g,
                       &(struct graph_node_args){.op = OP_RELU,
                                                 .in = (int[]){x},
                                                 .layer = "act",
                                                 .out_name = name,
                                                 .out_value = GRAPH_NEW},
                       NULL);

    assert_true(id >= 0);
    return graph_node_at(g, id)->out[0];
}

static void
test_graph_names_other_outputs(void **state)
{
    struct graph *g = NULL;
    int x, id;
    struct err err;

    (void)state;
    g = start(&x);
    id = graph_add_node(g,
                        &(struct graph_node_args){.op = OP_BATCH_NORM,
                                                  .in = (int[]){x, -1, -1},
                                                  .layer = "bn",
                                                  .out_name = "bn.out",
                                                  .out_value = GRAPH_NEW},
                        &err);
    assert_true(id >= 0);
    assert_string_equal(graph_value_at(g, graph_node_at(g, id)->out[1])->name,
                        "bn.mean");
    assert_string_equal(graph_value_at(g, graph_node_at(g, id)->out[2])->name,
                        "bn.var");
    assert_int_equal(graph_freeze(g, &err), 0);
    graph_destroy(&g);
}

static void
test_graph_misfit_names_the_layer(void **state)
{
    const struct tensor_desc w = tensor_make(DTYPE_F32, 2, (int64_t[]){3, 5});
    struct graph *g = NULL;
    int x, p;
    struct err err;

    (void)state;
    g = start(&x);
    p = graph_add_param(g,
                        &(struct graph_param){.name = "fc.weight", .desc = w});
    assert_int_equal(
        graph_add_node(g,
                       &(struct graph_node_args){.op = OP_LINEAR,
                                                 .in = (int[]){x, p, -1},
                                                 .layer = "fc",
                                                 .out_name = "fc.out",
                                                 .out_value = GRAPH_NEW},
                       &err),
        ERR_SPEC);
    assert_string_equal(err.msg,
                        "fc (linear): x [4,6] and w [3,5] do not fit together");
    assert_int_equal(graph_n_nodes(g), 0);
    graph_destroy(&g);
}

static void
test_graph_mixed_dtypes_are_refused(void **state)
{
    const struct tensor_desc w = tensor_make(DTYPE_F32, 2, (int64_t[]){3, 6});
    struct graph *g = NULL;
    int x, p, cast;
    struct err err;

    (void)state;
    g = start(&x);
    p = graph_add_param(g,
                        &(struct graph_param){.name = "fc.weight", .desc = w});
    cast = graph_add_node(g,
                          &(struct graph_node_args){.op = OP_CAST,
                                                    .in = (int[]){x},
                                                    .out_dtype = DTYPE_F16,
                                                    .layer = "fc",
                                                    .out_name = "x.to_f16",
                                                    .out_value = GRAPH_NEW},
                          &err);
    assert_int_equal(
        graph_add_node(g,
                       &(struct graph_node_args){
                           .op = OP_LINEAR,
                           .in = (int[]){graph_node_at(g, cast)->out[0], p, -1},
                           .layer = "fc",
                           .out_name = "fc.out",
                           .out_value = GRAPH_NEW},
                       &err),
        ERR_SPEC);
    assert_string_equal(err.msg,
                        "fc (linear): w is float32 and must be float16");
    graph_destroy(&g);
}

static void
test_graph_verify_finds_two_of_a_name(void **state)
{
    struct graph *g = NULL;
    struct err err;
    int x;

    (void)state;
    g = start(&x);
    add_relu(g, add_relu(g, x, "a.out"), "a.out");
    assert_int_equal(graph_freeze(g, &err), ERR_INTERNAL);
    assert_string_equal(err.msg, "two values are called a.out");
    graph_destroy(&g);
}

static void
test_graph_verify_finds_a_gradient_nobody_makes(void **state)
{
    const struct tensor_desc w = tensor_make(DTYPE_F32, 1, (int64_t[]){6});
    struct graph *g = NULL;
    struct err err;
    int x;

    (void)state;
    g = start(&x);
    add_relu(g, x, "a.out");
    graph_add_param(g, &(struct graph_param){.name = "w", .desc = w});
    assert_true(graph_add_grad(g, 0) >= 0);
    assert_int_equal(verify_graph(g, &err), ERR_INTERNAL);
    assert_string_equal(err.msg, "nobody makes w.grad");
    graph_destroy(&g);
}

static void
test_graph_verify_finds_a_copy_for_an_update(void **state)
{
    const struct tensor_desc c = tensor_make(DTYPE_F32, 1, (int64_t[]){6});
    struct graph *g = NULL;
    struct err err;
    int x, buffer[3], id;

    (void)state;
    g = start(&x);
    for (int i = 0; i < 3; i++)
        buffer[i] = graph_add_buffer(
            g, &(struct graph_buffer){
                   .name = (const char *[]){"m", "v", "other"}[i], .desc = c});
    id = graph_add_node(
        g,
        &(struct graph_node_args){
            .op = OP_STATS_TRACK,
            .in = (int[]){buffer[0], buffer[1], buffer[0], buffer[1]},
            .layer = "bn",
            .out = (struct graph_out[]){{buffer[0], NULL}, {buffer[2], NULL}}},
        &err);
    assert_true(id >= 0);
    assert_int_equal(graph_freeze(g, &err), ERR_INTERNAL);
    assert_string_equal(
        err.msg, "node 0 (stats_track) must update running_var in place");
    graph_destroy(&g);
}

static void
test_graph_verify_finds_a_loss_that_is_no_number(void **state)
{
    struct graph *g = NULL;
    struct err err;
    int x, y;

    (void)state;
    g = start(&x);
    y = add_relu(g, x, "a.out");
    graph_set_roles(g, &(struct graph_roles){y, y, -1, -1, -1, -1});
    assert_int_equal(graph_freeze(g, &err), ERR_INTERNAL);
    assert_string_equal(err.msg, "a.out cannot be the loss");
    graph_destroy(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_names_other_outputs),
        cmocka_unit_test(test_graph_misfit_names_the_layer),
        cmocka_unit_test(test_graph_mixed_dtypes_are_refused),
        cmocka_unit_test(test_graph_verify_finds_two_of_a_name),
        cmocka_unit_test(test_graph_verify_finds_a_gradient_nobody_makes),
        cmocka_unit_test(test_graph_verify_finds_a_copy_for_an_update),
        cmocka_unit_test(test_graph_verify_finds_a_loss_that_is_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
