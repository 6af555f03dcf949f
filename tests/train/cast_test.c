/* SPDX-License-Identifier: Apache-2.0 */
/* Master weights and their half copies (C15, C36), where the loss is scaled
 * (C30), clipping after unscaling (C24), one unscale a window (C25). */
#include "tests/train/harness.h"

#include "engine/run/source.h"
#include "engine/run/step.h"
#include "kernels/cpu/convert.h"

#include <math.h>

#define NEAR(a, b, tol) assert_true(fabs((double)(a) - (b)) <= (tol))

static void
make_line(struct harness *h, int64_t n, const float *x, const float *t, float w,
          const char *rest)
{
    const int64_t dim[2] = {n, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_f32(h, "t.npy", 2, dim, t);
    harness_weights(h, "w.safetensors", &tensor, 1);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1, "
             "'shuffle': false}, 'initial_weights': 'w.safetensors', 'model': "
             "[{'name': 'fc', 'linear': {'out_features': 1, 'bias': false}}], "
             "%s}",
             rest);
    harness_spec(h, text);
}

/* C15: a hundred steps of 0.0006, each less than half a unit in the last
 * place of the half copy, all arrive in the float32 weight. */
static void
test_cast_c15_small_updates_arrive(void **unused)
{
    const char *const dtypes[] = {"bfloat16", "float16"};
    const float x[] = {1}, t[] = {-10};
    char rest[256];

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct harness h;
        snprintf(rest, sizeof(rest),
                 "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.0006}}, 'amp': "
                 "{'dtype': '%s', 'scaler': {'init_scale': 1024}}, "
                 "'train': {'epochs': 100}",
                 dtypes[i]);
        make_line(&h, 1, x, t, 1, rest);
        assert_int_equal(harness_run(&h, NULL), 0);
        const float w = harness_param(&h, "fc.weight")[0];
        NEAR(w, 0.94, 1e-5);
        if (i == 0)
            NEAR(convert_f32_of_bf16(convert_bf16_of_f32(w)), 0.94140625, 0);
        harness_fini(&h);
    }
}

/* The prediction of the training program for x = 1, from the weights that
 * the state holds now. */
struct bench {
    struct source source;
    struct variants *variants;
    struct state *state;
};

static double
predict(struct bench *b)
{
    static const float one = 1, zero = 0;
    const struct kernel_step numbers = {.iteration = 1};
    struct exec *exec = variants_use(b->variants, BUILD_TRAIN, 1);
    const struct graph *g = program_graph(exec_program(exec));

    exec_set_input(exec, GRAPH_INPUT_X, &one);
    exec_set_input(exec, GRAPH_INPUT_TARGET, &zero);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &one);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &one);
    exec_run(exec, &numbers);
    const int y = graph_roles(g)->output;
    return (double)convert_get(exec_value(exec, y),
                               graph_value_at(g, y)->desc.dtype, 0);
}

static void
set_weight(struct bench *b, float w)
{
    b->state->weights[0] = w;
    b->state->weights_version++;
}

/* C36: the half copy follows the weight, whoever changed it, and whatever
 * else used the block in between. */
static void
test_cast_c36_half_copy_is_fresh(void **unused)
{
    const float x[] = {1}, t[] = {0};
    struct harness h;
    struct bench b = {0};

    (void)unused;
    make_line(&h, 1, x, t, 1,
              "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.1}}, 'amp': "
              "{'dtype': 'float16'}, 'train': {'epochs': 1}");
    assert_int_equal(source_open(h.spec, &b.source, &h.err), 0);
    const struct variants_options o = {.spec = h.spec,
                                       .data = &b.source.data,
                                       .backend = backend_find("cpu"),
                                       .threads = 1};
    b.variants = variants_create();
    assert_int_equal(variants_add(b.variants, &o, BUILD_TRAIN, 1, &h.err), 0);
    assert_int_equal(variants_add(b.variants, &o, BUILD_EVAL, 2, &h.err), 0);
    assert_int_equal(
        state_create(program_graph(variants_program_at(b.variants, 0)), 0,
                     &b.state, &h.err),
        0);
    assert_int_equal(variants_bind(b.variants, b.state, &h.err), 0);
    set_weight(&b, 1.0f);
    NEAR(predict(&b), 1.0, 0);
    set_weight(&b, 0.9f); /* a step */
    NEAR(predict(&b), 0.89990234375, 0);
    NEAR(predict(&b), 0.89990234375, 0);
    set_weight(&b, 1.0f); /* a rollback */
    NEAR(predict(&b), 1.0, 0);
    set_weight(&b, 0.5f); /* other weights swapped in, and out */
    NEAR(predict(&b), 0.5, 0);
    set_weight(&b, 1.0f);
    NEAR(predict(&b), 1.0, 0);
    /* An evaluation writes over the block. */
    struct exec *exec = variants_use(b.variants, BUILD_EVAL, 2);
    const float xs[16] = {7, 7}, ts[16] = {0}, one = 1;
    exec_set_input(exec, GRAPH_INPUT_X, xs);
    exec_set_input(exec, GRAPH_INPUT_TARGET, ts);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &one);
    exec_set_input(exec, GRAPH_INPUT_SCALE, &one);
    exec_run(exec, &(struct kernel_step){.iteration = 1});
    NEAR(predict(&b), 1.0, 0);
    variants_destroy(&b.variants);
    state_destroy(&b.state);
    source_close(&b.source);
    harness_fini(&h);
}

/* C30 a: loss 2 x 65536 is no half, and no overflow. */
static void
test_cast_c30_scaled_loss_is_float32(void **unused)
{
    const float x[] = {1}, t[] = {0};
    struct harness h;

    (void)unused;
    make_line(&h, 1, x, t, 2,
              "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0}}, 'amp': "
              "{'dtype': 'float16', 'scaler': {'init_scale': 32768}}, "
              "'train': {'epochs': 1}");
    assert_int_equal(harness_run(&h, NULL), 0);
    const struct event *e = harness_event(&h, EVENT_STEP, 0);
    assert_false(e->u.step.skipped);
    NEAR(e->u.step.loss, 2, 0);
    NEAR(e->u.step.grad_norm, 1, 0);
    harness_fini(&h);
}

/* C30 b: what a half gradient keeps, with the scale and without. */
static void
test_cast_c30_scale_saves_small_gradients(void **unused)
{
    const float grad[] = {0.001f, 1e-6f, 3e-8f, 2e-8f, 1e-8f};
    const double plain[] = {0.0010004043579101562, 1.0132789611816406e-06,
                            5.960464477539063e-08, 0, 0};
    const double scaled[] = {0.0010004043579101562, 1.000240445137024e-06,
                             3.000604920089245e-08, 1.9994331523776054e-08,
                             9.997165761888027e-09};
    struct scaler s = {.scale = 65536};

    (void)unused;
    for (int i = 0; i < 5; i++) {
        const float once = convert_f32_of_f16(convert_f16_of_f32(grad[i]));
        const float through =
            convert_f32_of_f16(convert_f16_of_f32(grad[i] * s.scale)) *
            scaler_inverse(&s);
        NEAR(once, plain[i], 0);
        NEAR(through, scaled[i], fabs(scaled[i]) * 1e-6);
    }
}

/* C24: the norm is of unscaled gradients. */
/* C30 b, the other half: without a scale two of five gradients are lost, and
 * the run says so; with one, or in another type, there is nothing to say. */
static void
test_cast_c30_flushed_share_is_told(void **unused)
{
    const float x[] = {1e-3f, 1e-6f, 3e-8f, 2e-8f, 1e-8f}, t[] = {-10};
    const float w[] = {1, 1, 1, 1, 1};
    const float want[] = {0.0010004043579101562f, 1.0132789611816406e-06f,
                          5.960464477539063e-08f, 0, 0};
    const int64_t xdim[2] = {1, 5}, tdim[2] = {1, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 5}, w};
    const char *const amps[] = {"'float16', 'scaler': false", "'float16'",
                                "'bfloat16'", "'float32'"};

    (void)unused;
    for (int i = 0; i < 4; i++) {
        struct harness h;
        char text[1024];
        harness_init(&h);
        harness_npy_f32(&h, "x.npy", 2, xdim, x);
        harness_npy_f32(&h, "t.npy", 2, tdim, t);
        harness_weights(&h, "w.safetensors", &tensor, 1);
        snprintf(
            text, sizeof(text),
            "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
            "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1}, "
            "'initial_weights': 'w.safetensors', 'model': [{'name': 'fc', "
            "'linear': {'out_features': 1, 'bias': false}}], 'loss': 'l1', "
            "'optimizer': {'sgd': {'lr': 0}}, 'amp': {'dtype': %s}, "
            "'train': {'epochs': 1002}}",
            amps[i]);
        harness_spec(&h, text);
        assert_int_equal(harness_run(&h, NULL), 0);
        if (i > 0) {
            assert_int_equal(harness_count(&h, EVENT_WARNING), 0);
            harness_fini(&h);
            continue;
        }
        for (int k = 0; k < 5; k++)
            NEAR(engine_state(h.engine)->grads[k], want[k], 0);
        /* At the first iteration, and a thousand updates later. */
        assert_int_equal(harness_count(&h, EVENT_WARNING), 2);
        for (int k = 0; k < 2; k++) {
            const struct event *e = harness_event(&h, EVENT_WARNING, k);
            assert_int_equal(e->iteration, k == 0 ? 1 : 1001);
            NEAR(e->u.warning.value, 0.4, 1e-15);
            assert_non_null(strstr(e->u.warning.text, "40 %"));
            assert_non_null(strstr(e->u.warning.text, "(2 of 5)"));
        }
        harness_fini(&h);
    }
}

static void
test_cast_c24_clip_after_unscale(void **unused)
{
    const float start[2][2] = {{3072, 4096}, {307.2f, 409.6f}};
    const double norm[] = {5, 0.5};
    const double want[2][2] = {{0.6, 0.8}, {0.3, 0.4}};
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    const struct kernel_sgd sgd = {.lr = 1};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct kernel_unscale r;
        struct scaler s = {.scale = 1024};
        _Alignas(64) float g[16] = {start[i][0], start[i][1]}, w[16] = {0};
        flat.unscale(g, 2, scaler_inverse(&s), 1, &r);
        assert_false(r.found_inf);
        NEAR(sqrt(r.sum_squares), norm[i], 1e-5);
        const float clip = step_clip_coefficient(1.0, sqrt(r.sum_squares));
        flat.sgd(w, g, NULL, 2, clip, &sgd, 1);
        NEAR(-w[0], want[i][0], 1e-5);
        NEAR(-w[1], want[i][1], 1e-5);
    }
    assert_true(step_clip_coefficient(1.0, 0) == 1.0f);
}

/* C25: two micro-batches of 2 and 4 a window: their mean, once unscaled. */
static void
test_cast_c25_window_is_unscaled_once(void **unused)
{
    const float x[] = {2, 4, 2, 4}, t[] = {-99, -99, -99, -99};
    struct harness h;

    (void)unused;
    make_line(&h, 4, x, t, 1,
              "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.1}}, 'amp': "
              "{'dtype': 'float16', 'scaler': {'init_scale': 1024}}, 'train': "
              "{'epochs': 1, 'accumulate': 2}");
    assert_int_equal(harness_run(&h, NULL), 0);
    NEAR(harness_param(&h, "fc.weight")[0], 0.4, 1e-6);
    NEAR(engine_state(h.engine)->scaler.scale, 1024, 0);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cast_c15_small_updates_arrive),
        cmocka_unit_test(test_cast_c36_half_copy_is_fresh),
        cmocka_unit_test(test_cast_c30_scaled_loss_is_float32),
        cmocka_unit_test(test_cast_c30_scale_saves_small_gradients),
        cmocka_unit_test(test_cast_c30_flushed_share_is_told),
        cmocka_unit_test(test_cast_c24_clip_after_unscale),
        cmocka_unit_test(test_cast_c25_window_is_unscaled_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
