/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients: what the graph looks like, and that the numbers are right. */
#include "tests/support/slopes.h"

#include <math.h>

#include "kernels/cpu/convert.h"

static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
static const struct build_data images = {MODEL_IMAGES(2, 6), MODEL_CLASSES};

static const char mlp[] = "[{\"linear\": {\"out_features\": 8}}, \"tanh\", "
                          "{\"linear\": {\"out_features\": 5}}, \"sigmoid\", "
                          "{\"linear\": {\"out_features\": 3}}]";
static const char cnn[] =
    "[{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 3, \"padding\": 1}}, "
    "\"relu\", {\"max_pool2d\": {\"kernel_size\": 2}}, "
    "{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 2, \"groups\": 2, "
    "\"bias\": false}}, \"gelu\", {\"avg_pool2d\": {\"kernel_size\": 2, "
    "\"stride\": 1}}, \"flatten\", {\"linear\": {\"out_features\": 3}}]";
static const char resnet[] =
    "[{\"conv2d\": {\"out_channels\": 4, \"kernel_size\": 3}}, "
    "\"batch_norm2d\", \"silu\", {\"residual\": [{\"conv2d\": "
    "{\"out_channels\": 4, \"kernel_size\": 3, \"padding\": 1}}, "
    "\"batch_norm2d\", \"tanh\"]}, {\"adaptive_avg_pool2d\": "
    "{\"output_size\": 2}}, \"flatten\", \"batch_norm1d\", "
    "{\"linear\": {\"out_features\": 3}}]";
static const char normed[] =
    "[\"layer_norm\", {\"linear\": {\"out_features\": 6}}, "
    "{\"gelu\": {\"approximate\": \"tanh\"}}, {\"residual\": [\"layer_norm\", "
    "{\"linear\": {\"out_features\": 6}}, {\"dropout\": {\"p\": 0.3}}]}, "
    "{\"linear\": {\"out_features\": 3}}]";

static void
test_autodiff_gradients_of_mlp(void **state)
{
    const struct build_data numbers = {MODEL_ROWS(6), MODEL_NUMBERS(3)};

    (void)state;
    slopes_check_model(mlp, "cross_entropy", &rows);
    slopes_check_model(mlp, "mse", &numbers);
    slopes_check_model(mlp, "l1", &numbers);
    slopes_check_model(mlp, "bce_with_logits", &numbers);
}

static void
test_autodiff_gradients_of_cnn(void **state)
{
    (void)state;
    slopes_check_model(cnn, "cross_entropy", &images);
}

static void
test_autodiff_gradients_of_resnet(void **state)
{
    (void)state;
    slopes_check_model(resnet, "cross_entropy", &images);
}

static void
test_autodiff_gradients_of_layer_norm_and_dropout(void **state)
{
    (void)state;
    slopes_check_model(normed, "cross_entropy", &rows);
}

static void
test_autodiff_gradients_of_sequences(void **state)
{
    const struct build_data data = {.rank = 2, .dim = {3, 6}, MODEL_CLASSES};

    (void)state;
    slopes_check_model(
        "[{\"linear\": {\"out_features\": 4}}, {\"layer_norm\": "
        "{\"normalized_shape\": [3, 4]}}, \"tanh\", \"flatten\", "
        "{\"linear\": {\"out_features\": 3}}]",
        "cross_entropy", &data);
}

/* ---- a parameter that is used twice -------------------------------------- */

/* y = tanh(x w) w, against numbers; w [6,6]. n_uses 3: another tanh and w. */
static struct graph *
shared_weight(int n_uses, enum dtype dtype)
{
    const struct tensor_desc square =
        tensor_make(DTYPE_F32, 2, (int64_t[]){6, 6});
    const struct tensor_desc one = tensor_make(DTYPE_F32, 0, NULL);
    const struct tensor_desc x = tensor_make(DTYPE_F32, 2, (int64_t[]){5, 6});
    struct graph *g = graph_create();
    struct graph_roles roles = {-1, -1, -1, -1, -1, -1};
    struct err err;
    int at, w, target, count, scale, id;

    assert_non_null(g);
    at = graph_add_input(g, GRAPH_INPUT_X, &x, "x");
    target = graph_add_input(g, GRAPH_INPUT_TARGET, &x, "target");
    count = graph_add_input(g, GRAPH_INPUT_INV_COUNT, &one, "inv_count");
    scale = graph_add_input(g, GRAPH_INPUT_SCALE, &one, "scale");
    w = graph_add_param(
        g, &(struct graph_param){
               .name = "w", .desc = square, .bound = 0.5, .autocast = true});
    for (int i = 0; i < 2 * n_uses - 1; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d.out", i);
        id = graph_add_node(
            g,
            &(struct graph_node_args){.op = i % 2 ? OP_TANH : OP_LINEAR,
                                      .in = (int[]){at, w, -1},
                                      .layer = "shared",
                                      .out_name = name,
                                      .out_value = GRAPH_NEW},
            &err);
        assert_true(id >= 0);
        at = graph_node_at(g, id)->out[0];
    }
    roles.output = at;
    id = graph_add_node(
        g,
        &(struct graph_node_args){.op = OP_MSE,
                                  .in = (int[]){at, target, count},
                                  .phase = GRAPH_LOSS,
                                  .layer = "",
                                  .out_name = "loss",
                                  .out_value = GRAPH_NEW},
        &err);
    assert_true(id >= 0);
    roles.loss = graph_node_at(g, id)->out[0];
    id = graph_add_node(
        g,
        &(struct graph_node_args){.op = OP_SCALE_LOSS,
                                  .in = (int[]){roles.loss, scale},
                                  .phase = GRAPH_LOSS,
                                  .layer = "",
                                  .out_name = "scaled_loss",
                                  .out_value = GRAPH_NEW},
        &err);
    assert_true(id >= 0);
    roles.scaled_loss = graph_node_at(g, id)->out[0];
    graph_set_roles(g, &roles);
    assert_int_equal(graph_freeze(g, &err), 0);
    return model_autocast(g, dtype, NULL);
}

static void
test_autodiff_shared_weight_sums_into_its_gradient(void **state)
{
    struct graph *g = model_autodiff(shared_weight(2, DTYPE_F32), false, false);
    const struct graph_value *grad =
        graph_value_at(g, model_value(g, "w.grad"));

    (void)state;
    assert_int_equal(grad->kind, GRAPH_GRAD);
    assert_int_equal(graph_node_at(g, grad->producer)->op, OP_ADD);
    assert_int_equal(model_count(g, OP_LINEAR_DW), 2);
    graph_destroy(&g);
    for (int accumulate = 0; accumulate < 2; accumulate++)
        for (int uses = 2; uses < 4; uses++)
            slopes_check_take(model_autodiff(shared_weight(uses, DTYPE_F32),
                                             false, accumulate),
                              21);
}

/* Two readers of one half copy: two float32 products, one sum. */
static void
test_autodiff_shared_half_copy(void **state)
{
    struct graph *g = model_autodiff(shared_weight(2, DTYPE_F16), false, false);
    const struct graph_value *grad =
        graph_value_at(g, model_value(g, "w.grad"));

    (void)state;
    assert_int_equal(graph_node_at(g, grad->producer)->op, OP_ADD);
    assert_int_equal(graph_value_at(g, model_value(g, "w.grad.0"))->desc.dtype,
                     DTYPE_F32);
    graph_destroy(&g);

    /* PyTorch: summed in half, then one cast. */
    g = model_autodiff(shared_weight(2, DTYPE_F16), true, false);
    grad = graph_value_at(g, model_value(g, "w.grad"));
    assert_int_equal(graph_node_at(g, grad->producer)->op, OP_CAST);
    assert_int_equal(
        graph_value_at(g, model_value(g, "w.to_f16.grad.0"))->desc.dtype,
        DTYPE_F16);
    assert_int_equal(
        graph_value_at(g, model_value(g, "w.to_f16.grad"))->desc.dtype,
        DTYPE_F16);
    graph_destroy(&g);
}

/* ---- scale, windows, rounding -------------------------------------------- */

static float *
copy_grads(const struct runner *r)
{
    float *grad = calloc((size_t)r->state->param_elems + 1, sizeof(*grad));

    assert_non_null(grad);
    memcpy(grad, r->state->grads,
           (size_t)r->state->param_elems * sizeof(*grad));
    return grad;
}

/* A scale that is a power of two changes exponents and nothing else. */
static void
test_autodiff_scale_multiplies_gradients(void **state)
{
    struct runner r;
    float *grad;
    double loss;

    (void)state;
    runner_init_take(
        &r,
        model_autodiff(model_graph(mlp, "cross_entropy", &rows, BUILD_TRAIN, 5),
                       false, false),
        31);
    loss = runner_run(&r);
    grad = copy_grads(&r);
    r.scale = 1024;
    assert_true(runner_run(&r) == loss);
    for (int64_t i = 0; i < r.state->param_elems; i++)
        assert_true(r.state->grads[i] == 1024 * grad[i]);
    assert_true(
        *(const float *)exec_value(
            r.exec, graph_roles(program_graph(r.program))->scaled_loss) ==
        1024 * (float)loss);
    free(grad);
    runner_fini(&r);
}

/* Two halves of a batch give what the whole gives. */
static void
test_autodiff_window_equals_one_batch(void **state)
{
    struct runner whole, half;
    float *second = NULL;
    double norm = 0, error = 0;

    (void)state;
    runner_init_take(
        &whole,
        model_autodiff(model_graph(mlp, "cross_entropy", &rows, BUILD_TRAIN, 8),
                       false, false),
        41);
    runner_init_take(
        &half,
        model_autodiff(model_graph(mlp, "cross_entropy", &rows, BUILD_TRAIN, 4),
                       false, true),
        41);
    runner_run(&whole);
    half.inv_count = whole.inv_count;
    second = runner_alloc(4 * 6 * sizeof(float));
    memcpy(second, whole.x + 4 * 6, 4 * 6 * sizeof(float));
    memcpy(half.x, whole.x, 4 * 6 * sizeof(float));
    memcpy(half.target, whole.target, 4 * sizeof(int32_t));
    runner_run(&half);
    half.step.micro_batch = 1;
    exec_set_input(half.exec, GRAPH_INPUT_X, second);
    memcpy(half.target, (int32_t *)whole.target + 4, 4 * sizeof(int32_t));
    runner_run(&half);
    for (int64_t i = 0; i < whole.state->param_elems; i++) {
        const double g = (double)whole.state->grads[i];

        norm += g * g;
        error += (g - (double)half.state->grads[i]) *
                 (g - (double)half.state->grads[i]);
    }
    assert_true(norm > 0);
    assert_true(sqrt(error) <= 16 * 0x1p-24 * sqrt(norm));
    free(second);
    runner_fini(&whole);
    runner_fini(&half);
}

/* "pytorch" rounds once more, to half, what "fp32" writes as it is. */
static void
test_autodiff_wgrad_rounding(void **state)
{
    struct runner direct, rounded;
    int differ = 0;

    (void)state;
    for (int i = 0; i < 2; i++)
        runner_init_take(
            i ? &rounded : &direct,
            model_autodiff(model_autocast(model_graph(mlp, "cross_entropy",
                                                      &rows, BUILD_TRAIN, 5),
                                          DTYPE_F16, NULL),
                           i == 1, false),
            51);
    direct.scale = rounded.scale = 256;
    runner_run(&direct);
    runner_run(&rounded);
    for (int64_t i = 0; i < direct.state->param_elems; i++) {
        const float g = direct.state->grads[i];

        assert_true(rounded.state->grads[i] ==
                    convert_f32_of_f16(convert_f16_of_f32(g)));
        differ += rounded.state->grads[i] != g;
    }
    assert_true(differ > 0);
    runner_fini(&direct);
    runner_fini(&rounded);
}

/* The gradients of half precision are those of float32, in half precision. */
static void
test_autodiff_half_is_near_float32(void **state)
{
    static const struct {
        const char *model;
        const struct build_data *data;
        const char *region;
    } nets[] = {
        {cnn, &images, NULL}, {resnet, &images, "3"}, {normed, &rows, NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        struct runner run[2];
        double norm = 0, error = 0;

        for (int k = 0; k < 2; k++) {
            runner_init_take(
                &run[k],
                model_autodiff(
                    model_autocast(model_graph(nets[i].model, "cross_entropy",
                                               nets[i].data, BUILD_TRAIN, 16),
                                   k ? DTYPE_F16 : DTYPE_F32, nets[i].region),
                    false, false),
                61);
            runner_run(&run[k]);
        }
        for (int64_t j = 0; j < run[0].state->param_elems; j++) {
            const double g = (double)run[0].state->grads[j];

            norm += g * g;
            error += (g - (double)run[1].state->grads[j]) *
                     (g - (double)run[1].state->grads[j]);
        }
        assert_true(norm > 0);
        assert_true(error > 0); /* it did run in half */
        /* Some tens of roundings to 11 bits in a row. */
        assert_true(sqrt(error) <= 64 * 0x1p-11 * sqrt(norm));
        runner_fini(&run[0]);
        runner_fini(&run[1]);
    }
}

/* ---- structure ----------------------------------------------------------- */

static void
test_autodiff_computes_only_what_is_needed(void **state)
{
    struct graph *g = model_autodiff(
        model_graph("[{\"max_pool2d\": {\"kernel_size\": 2}}, "
                    "\"batch_norm2d\", {\"conv2d\": {\"out_channels\": 2, "
                    "\"kernel_size\": 1}}, {\"max_pool2d\": "
                    "{\"kernel_size\": 2}}, \"flatten\", "
                    "{\"linear\": {\"out_features\": 3}}]",
                    "cross_entropy", &images, BUILD_TRAIN, 5),
        false, false);
    const struct graph_node *bwd = model_node(g, OP_BATCH_NORM_BWD, "1");

    (void)state;
    /* Nothing goes on towards the input... */
    assert_int_equal(model_count(g, OP_MAX_POOL2D_BWD), 1);
    assert_int_equal(model_node(g, OP_MAX_POOL2D, "0")->out[1], -1);
    assert_true(model_node(g, OP_MAX_POOL2D, "3")->out[1] >= 0);
    /* ... but the norm's own parameters have their gradients, in place. */
    assert_int_equal(bwd->out[0], -1);
    assert_int_equal(bwd->out[1], model_value(g, "1.weight.grad"));
    assert_int_equal(bwd->out[2], model_value(g, "1.bias.grad"));
    assert_int_equal(graph_value_at(g, bwd->out[1])->kind, GRAPH_GRAD);
    graph_destroy(&g);
}

/* Nothing reads "side"; of "gate" only a mask is made. */
static void
test_autodiff_refuses_weights_out_of_reach(void **state)
{
    static const struct {
        const char *model, *sentence;
    } cases[] = {
        {"[{\"name\": \"side\", \"linear\": {\"out_features\": 4}}, "
         "{\"name\": \"main\", \"linear\": {\"out_features\": 3}, "
         "\"input\": \"input\"}]",
         "model: side.weight: no gradient reaches it"},
        {"[{\"name\": \"main\", \"linear\": {\"out_features\": 3}}, "
         "{\"name\": \"gate\", \"linear\": {\"out_features\": 3}, "
         "\"input\": \"input\"}, {\"name\": \"k\", \"gt\": {\"value\": 0}}, "
         "{\"where\": {\"value\": 0}, \"input\": [\"k\", \"main\"]}]",
         "model: gate.weight: no gradient reaches it"},
        {"[\"relu\"]",
         "model: it has no weights, so there is nothing to train"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct graph *g =
            model_graph(cases[i].model, "cross_entropy", &rows, BUILD_TRAIN, 5);
        struct graph *out = NULL;
        struct err err;

        assert_int_equal(
            autodiff_apply(g, &(struct autodiff_options){0}, &out, &err),
            ERR_SPEC);
        assert_null(out);
        if (strncmp(err.msg, cases[i].sentence, strlen(cases[i].sentence)) != 0)
            fail_msg("%s", err.msg);
        graph_destroy(&g);
    }
}

static void
test_autodiff_norm_without_affine(void **state)
{
    struct graph *g = model_autodiff(
        model_graph("[{\"linear\": {\"out_features\": 6}}, {\"layer_norm\": "
                    "{\"elementwise_affine\": false}}]",
                    "cross_entropy", &rows, BUILD_TRAIN, 5),
        false, false);
    const struct graph_node *bwd = model_node(g, OP_LAYER_NORM_BWD, "1");

    (void)state;
    assert_true(bwd->out[0] >= 0);
    assert_int_equal(bwd->out[1], -1);
    assert_int_equal(bwd->out[2], -1);
    graph_destroy(&g);
    slopes_check_model("[{\"linear\": {\"out_features\": 6}}, {\"layer_norm\": "
                       "{\"elementwise_affine\": false}}, "
                       "{\"batch_norm1d\": {\"affine\": false}}]",
                       "cross_entropy", &rows);
}

/* Every parameter's gradient is float32 and the last node's own output; with
 * windows it goes through GRAD_ACCUMULATE. */
static void
test_autodiff_gradient_values(void **state)
{
    (void)state;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        struct graph *g =
            model_autodiff(model_autocast(model_graph(resnet, "cross_entropy",
                                                      &images, BUILD_TRAIN, 5),
                                          DTYPE_F16, NULL),
                           false, accumulate);
        int n = 0;

        for (int i = 0; i < graph_n_values(g); i++) {
            const struct graph_value *v = graph_value_at(g, i);

            if (v->kind != GRAPH_GRAD)
                continue;
            n++;
            assert_int_equal(v->desc.dtype, DTYPE_F32);
            assert_int_equal(graph_node_at(g, v->producer)->phase,
                             GRAPH_BACKWARD);
            assert_int_equal(graph_node_at(g, v->producer)->op ==
                                 OP_GRAD_ACCUMULATE,
                             accumulate);
        }
        assert_int_equal(n, graph_n_params(g));
        assert_int_equal(model_count(g, OP_GRAD_ACCUMULATE),
                         accumulate ? n : 0);
        graph_destroy(&g);
    }
}

/* The gradient of a cast is a cast, back to what it was. */
static void
test_autodiff_cast_of_activation_casts_back(void **state)
{
    struct graph *g = model_autodiff(
        model_autocast(
            model_graph("[{\"linear\": {\"out_features\": 6}}, \"layer_norm\", "
                        "{\"linear\": {\"out_features\": 3}}]",
                        "cross_entropy", &rows, BUILD_TRAIN, 5),
            DTYPE_BF16, NULL),
        false, false);
    const struct graph_value *v =
        graph_value_at(g, model_value(g, "0.out.grad"));
    const struct graph_node *cast = graph_node_at(g, v->producer);

    (void)state;
    assert_int_equal(v->desc.dtype, DTYPE_BF16);
    assert_int_equal(cast->op, OP_CAST);
    assert_string_equal(cast->layer, "1");
    assert_int_equal(cast->in[0], model_value(g, "0.out.to_f32.grad"));
    graph_destroy(&g);
}

static void
test_autodiff_regions_stay_marked(void **state)
{
    struct graph *g = model_autodiff(
        model_autocast(model_graph(mlp, "cross_entropy", &rows, BUILD_TRAIN, 5),
                       DTYPE_F16, "2"),
        false, false);

    (void)state;
    assert_true(model_node(g, OP_LINEAR_DX, "2")->fp32_region);
    assert_false(model_node(g, OP_LINEAR_DX, "4")->fp32_region);
    graph_destroy(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_autodiff_gradients_of_mlp),
        cmocka_unit_test(test_autodiff_gradients_of_cnn),
        cmocka_unit_test(test_autodiff_gradients_of_resnet),
        cmocka_unit_test(test_autodiff_gradients_of_layer_norm_and_dropout),
        cmocka_unit_test(test_autodiff_gradients_of_sequences),
        cmocka_unit_test(test_autodiff_shared_weight_sums_into_its_gradient),
        cmocka_unit_test(test_autodiff_shared_half_copy),
        cmocka_unit_test(test_autodiff_scale_multiplies_gradients),
        cmocka_unit_test(test_autodiff_window_equals_one_batch),
        cmocka_unit_test(test_autodiff_wgrad_rounding),
        cmocka_unit_test(test_autodiff_half_is_near_float32),
        cmocka_unit_test(test_autodiff_computes_only_what_is_needed),
        cmocka_unit_test(test_autodiff_refuses_weights_out_of_reach),
        cmocka_unit_test(test_autodiff_norm_without_affine),
        cmocka_unit_test(test_autodiff_gradient_values),
        cmocka_unit_test(test_autodiff_cast_of_activation_casts_back),
        cmocka_unit_test(test_autodiff_regions_stay_marked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
