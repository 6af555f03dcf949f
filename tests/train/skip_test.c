/* SPDX-License-Identifier: Apache-2.0 */
/* What a skip may and may not change, and where the first non-finite value
 * was: cases C08, C17, C19, C22, C26, C31, C33. */
#include "tests/train/harness.h"

#include <math.h>

#define NEAR(a, b, tol) assert_true(fabs((double)(a) - (b)) <= (tol))

/* y = w x, one weight; x and t are columns of n values. */
static void
make_line(struct harness *h, int64_t n, const float *x, const float *t, float w)
{
    const int64_t dim[2] = {n, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_f32(h, "t.npy", 2, dim, t);
    harness_weights(h, "w.safetensors", &tensor, 1);
}

#define LINE_HEAD                                                              \
    "{'name': 't', 'seed': 1, 'threads': 1, 'data': {'train': {'format': "     \
    "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1, "           \
    "'shuffle': false}, 'initial_weights': 'w.safetensors', 'model': "         \
    "[{'name': 'fc', 'linear': {'out_features': 1, 'bias': false}}], "

static void
assert_counters(const struct harness *h, int64_t iteration, int64_t updates)
{
    const struct state_counters *c = &engine_state(h->engine)->count;

    assert_int_equal(c->iteration, iteration);
    assert_int_equal(c->updates, updates);
    assert_int_equal(c->skips, iteration - updates);
    assert_int_equal(c->data_position, iteration);
}

/* C17: three skips, then Adam's first step. */
static void
test_skip_c17_adam_time_stands_still(void **unused)
{
    const float x[] = {INFINITY, INFINITY, INFINITY, 0.5f};
    const float t[] = {-10, -10, -10, -10};
    struct harness h;

    (void)unused;
    make_line(&h, 4, x, t, 0);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'l1', 'optimizer': {'adam': {'lr': 0.01}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_counters(&h, 4, 1);
    NEAR(harness_param(&h, "fc.weight")[0], -0.00999999980000001, 1e-8);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 3);
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 3);
    const struct event *e = harness_event(&h, EVENT_INCIDENT, 1);
    assert_true(e->u.incident.located);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_INPUT);
    assert_string_equal(e->u.incident.tensor, "x");
    assert_int_equal(e->u.incident.what, EVENT_POS_INF);
    assert_int_equal(e->u.incident.sample, 1);
    harness_fini(&h);
}

/* C22: the schedule counts applied updates. */
static void
test_skip_c22_schedule_stands_still(void **unused)
{
    const float x[] = {INFINITY, NAN, 1, 1, 1};
    const float t[] = {-10, -10, -10, -10, -10};
    const double lr[] = {0.1, 0.1, 0.1, 0.09, 0.08};
    struct harness h;

    (void)unused;
    make_line(&h, 5, x, t, 1);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.1}}, "
                 "'schedule': {'linear': {'total_updates': 10}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_counters(&h, 5, 3);
    NEAR(harness_param(&h, "fc.weight")[0], 0.73, 1e-6);
    for (int i = 0; i < 5; i++) {
        const struct event *e = harness_event(&h, EVENT_STEP, i);
        assert_int_equal(e->u.step.skipped, i < 2);
        NEAR(e->u.step.lr, lr[i], 1e-12);
    }
    harness_fini(&h);
}

/* C33: the mean loss leaves skipped iterations out. */
static void
test_skip_c33_mean_loss(void **unused)
{
    const float x[] = {1, NAN, 1, 1}, t[] = {2, 2, 1, 3};
    struct harness h;

    (void)unused;
    make_line(&h, 4, x, t, 0);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    NEAR(engine_mean_loss(h.engine), 2.0, 1e-6);
    assert_true(isnan(harness_event(&h, EVENT_STEP, 1)->u.step.loss));
    harness_fini(&h);
}

/* C26: one bad micro-batch spoils its own window only. */
static void
test_skip_c26_window(void **unused)
{
    const float x[] = {1, NAN, 3, 5, 1, 1, 1, 1};
    const float t[] = {-10, -10, -10, -10, -10, -10, -10, -10};
    struct harness h;

    (void)unused;
    make_line(&h, 8, x, t, 1);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.1}}, "
                 "'amp': {'dtype': 'float16', 'scaler': {'init_scale': 1024, "
                 "'growth_interval': 2000}}, "
                 "'train': {'epochs': 1, 'accumulate': 4}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_counters(&h, 2, 1);
    NEAR(harness_param(&h, "fc.weight")[0], 0.9, 1e-6);
    NEAR(engine_state(h.engine)->scaler.scale, 512, 0);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 1);
    const struct event *e = harness_event(&h, EVENT_SCALE, 0);
    assert_int_equal(e->u.scale.n_samples, 4);
    assert_int_equal(e->u.scale.samples[3], 3);
    e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_int_equal(e->u.incident.micro_batch, 1);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_INPUT);
    assert_int_equal(e->u.incident.sample, 1);
    harness_fini(&h);
}

static void
make_c08(struct harness *h, const char *amp)
{
    const float x[] = {256, 256}, t[] = {0};
    const float w1[] = {128, 131, 0.5f, 0.25f}, b1[] = {0, 0};
    const float w2[] = {0.01f, 0.01f}, b2[] = {0};
    const int64_t xdim[] = {1, 2}, tdim[] = {1, 1};
    const struct harness_tensor tensors[] = {{"fc1.weight", 2, {2, 2}, w1},
                                             {"fc1.bias", 1, {2}, b1},
                                             {"fc2.weight", 2, {1, 2}, w2},
                                             {"fc2.bias", 1, {1}, b2}};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, xdim, x);
    harness_npy_f32(h, "t.npy", 2, tdim, t);
    harness_weights(h, "w.safetensors", tensors, 4);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1}, "
             "'initial_weights': 'w.safetensors', 'model': "
             "[{'name': 'fc1', 'linear': {'out_features': 2}}, 'relu', "
             "{'name': 'fc2', 'linear': {'out_features': 1}}], "
             "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0}}, "
             "'amp': {'dtype': '%s'}, 'train': {'epochs': 4}}",
             amp);
    harness_spec(h, text);
    assert_int_equal(harness_run(h, NULL), 0);
}

/* C08: no loss scale can help. */
static void
test_skip_c08_activation_overflow(void **unused)
{
    struct harness h;

    (void)unused;
    make_c08(&h, "float16");
    assert_counters(&h, 4, 0);
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 4);
    for (int i = 0; i < 4; i++) {
        const struct event *e = harness_event(&h, EVENT_INCIDENT, i);
        assert_true(e->u.incident.replayed && e->u.incident.located);
        assert_int_equal(e->u.incident.pass, EVENT_PASS_FORWARD);
        assert_string_equal(e->u.incident.layer, "fc1");
        assert_string_equal(e->u.incident.op, "linear");
        assert_string_equal(e->u.incident.tensor, "fc1.out");
        assert_int_equal(e->u.incident.dtype, DTYPE_F16);
        assert_int_equal(e->u.incident.rank, 2);
        assert_int_equal(e->u.incident.index[0], 0);
        assert_int_equal(e->u.incident.index[1], 0);
        assert_int_equal(e->u.incident.what, EVENT_POS_INF);
        assert_int_equal(e->u.incident.sample, 0);
        NEAR(e->u.incident.scale, ldexp(65536, -i), 0);
    }
    NEAR(harness_param(&h, "fc1.weight")[1], 131, 0);
    harness_fini(&h);
}

static void
test_skip_c08_bf16_and_fp32_do_not_skip(void **unused)
{
    const char *const dtypes[] = {"bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct harness h;
        make_c08(&h, dtypes[i]);
        assert_counters(&h, 4, 4);
        assert_int_equal(harness_count(&h, EVENT_INCIDENT), 0);
        assert_int_equal(harness_count(&h, EVENT_SCALE), 0);
        harness_fini(&h);
    }
}

/* C19: a permanent overflow. The scale stops at its floor, and the twentieth
 * skip in a row ends the run. */
static void
run_c19(struct harness *h, const char *amp)
{
    const float x[] = {3e38f}, t[] = {0};
    char text[1024];

    make_line(h, 1, x, t, 10);
    snprintf(text, sizeof(text),
             "%s'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.1}}, "
             "'amp': {'dtype': '%s'}, 'train': {'epochs': 100}}",
             LINE_HEAD, amp);
    harness_spec(h, text);
    assert_int_equal(harness_run(h, NULL), ERR_NUMERICS);
    assert_int_equal(h->outcome, EVENT_OUTCOME_FAILED);
    assert_non_null(strstr(h->err.msg, "guard 0 (consecutive_skips): 20 "
                                       "updates in a row were skipped"));
    assert_int_equal(harness_count(h, EVENT_GUARD), 1);
    assert_int_equal(harness_event(h, EVENT_GUARD, 0)->u.guard.action,
                     EVENT_ACTION_FAIL);
    assert_int_equal(harness_count(h, EVENT_CHECKPOINT), 0);
    assert_counters(h, 20, 0);
    NEAR(harness_param(h, "fc.weight")[0], 10, 0);
    assert_int_equal(harness_count(h, EVENT_SCALE), 20);
}

static void
test_skip_c19_scale_stops_at_floor(void **unused)
{
    struct harness h;
    const struct event *e;

    (void)unused;
    run_c19(&h, "float16");
    for (int i = 0; i < 20; i++) {
        e = harness_event(&h, EVENT_SCALE, i);
        NEAR(e->u.scale.after, i < 16 ? ldexp(65536, -i - 1) : 1, 0);
        NEAR(e->u.scale.before, i < 17 ? ldexp(65536, -i) : 1, 0);
    }
    e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_FORWARD);
    assert_string_equal(e->u.incident.op, "cast");
    assert_string_equal(e->u.incident.tensor, "x");
    assert_int_equal(e->u.incident.dtype, DTYPE_F16);
    /* Budget: the first eight, then none of the same streak. */
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(
            harness_event(&h, EVENT_INCIDENT, i)->u.incident.replayed, i < 8);
    harness_fini(&h);
    run_c19(&h, "bfloat16");
    e = harness_event(&h, EVENT_SCALE, 19);
    NEAR(e->u.scale.before, 1, 0);
    NEAR(e->u.scale.after, 1, 0);
    e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_string_equal(e->u.incident.op, "linear");
    assert_string_equal(e->u.incident.tensor, "fc.out");
    harness_fini(&h);
}

static void
make_bn(struct harness *h, const float *x, const float *t, const char *amp)
{
    const int64_t xdim[] = {4, 2}, tdim[] = {4, 1};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, xdim, x);
    harness_npy_f32(h, "t.npy", 2, tdim, t);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'validation': {'format': "
             "'npy', 'input': 't2.npy', 'target': 't.npy'}, 'batch_size': 4, "
             "'shuffle': false}, 'model': [{'name': 'bn', 'batch_norm1d': "
             "{}}, {'name': 'fc', 'linear': {'out_features': 1}}], "
             "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.1}}, "
             "'amp': {%s}, 'train': {'epochs': 1}}",
             amp);
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    harness_npy_f32(h, "t2.npy", 2, xdim, ones);
    harness_spec(h, text);
    assert_int_equal(harness_run(h, NULL), 0);
}

static void
assert_bn_untouched(const struct harness *h)
{
    assert_counters(h, 1, 0);
    for (int i = 0; i < 2; i++) {
        NEAR(harness_buffer(h, "bn.running_mean")[i], 0, 0);
        NEAR(harness_buffer(h, "bn.running_var")[i], 1, 0);
    }
    assert_int_equal(engine_state(h->engine)->batches_tracked, 0);
}

/* C31 a: the batch is bad; b: the batch is good and the gradient is not. */
static void
test_skip_c31_batch_norm_untouched(void **unused)
{
    const float bad[] = {1, 1, 1, INFINITY, 1, 1, 1, 1};
    const float good[] = {1, 1, 2, 2, 3, 3, 4, 4};
    const float t[] = {1, 1, 1, 1}, huge[] = {3e38f, 3e38f, 3e38f, 3e38f};
    struct harness h;

    (void)unused;
    make_bn(&h, bad, t, "'dtype': 'float32'");
    assert_bn_untouched(&h);
    const struct event *e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_INPUT);
    assert_string_equal(e->u.incident.tensor, "x");
    assert_int_equal(e->u.incident.index[0], 1);
    assert_int_equal(e->u.incident.index[1], 1);
    e = harness_event(&h, EVENT_EVALUATION, 0);
    assert_true(isfinite(e->u.evaluation.loss));
    harness_fini(&h);
    make_bn(&h, good, huge, "'dtype': 'float16'");
    assert_bn_untouched(&h);
    e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_true(e->u.incident.located);
    assert_true(e->u.incident.pass != EVENT_PASS_INPUT);
    harness_fini(&h);
}

/* The loss overflows, the gradient (a sign) does not: applied as in PyTorch,
 * but told, once a streak. */
static void
test_skip_nonfinite_loss_is_told(void **unused)
{
    const float x[] = {3e38f, 1, 3e38f, 3e38f},
                t[] = {-3e38f, 0, -3e38f, -3e38f};
    struct harness h;

    (void)unused;
    make_line(&h, 4, x, t, 1);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_counters(&h, 4, 4);
    assert_int_equal(harness_count(&h, EVENT_WARNING), 2);
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 3);
    const struct event *e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_true(e->u.incident.located);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_LOSS);
    harness_fini(&h);
}

/* The very first iteration: a skip leaves every bit of the state alone. */
static void
test_skip_first_iteration_leaves_no_trace(void **unused)
{
    const float x[] = {NAN, 1}, t[] = {0, 0};
    struct harness h;

    (void)unused;
    make_line(&h, 2, x, t, 3);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.1, "
                 "'momentum': 0.9, 'weight_decay': 0.1}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 1, 'max_iterations': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_counters(&h, 1, 0);
    NEAR(harness_param(&h, "fc.weight")[0], 3, 0);
    NEAR(engine_state(h.engine)->moment[0][0], 0, 0);
    harness_fini(&h);
    /* The update after it starts the momentum as the first one would:
     * g = 2 x 3 + 0.1 x 3 = 6.3, w = 3 - 0.63. */
    make_line(&h, 2, x, t, 3);
    harness_spec(&h, LINE_HEAD
                 "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.1, "
                 "'momentum': 0.9, 'dampening': 0.5, 'weight_decay': 0.1}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    NEAR(harness_param(&h, "fc.weight")[0], 2.37, 1e-6);
    harness_fini(&h);
}

/* A head that does not fit stays as it was drawn, and the run says so; from a
 * checkpoint it says nothing. */
static void
test_skip_partial_weights_are_told(void **unused)
{
    const float x[] = {1, 2}, t[] = {0, 0}, w[] = {7, 8}, bias = 5;
    const int64_t dim[2] = {2, 1};
    const struct harness_tensor tensors[] = {{"fc.weight", 2, {1, 2}, w},
                                             {"fc.bias", 1, {1}, &bias}};
    struct harness h;

    (void)unused;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, x);
    harness_npy_f32(&h, "t.npy", 2, dim, t);
    harness_weights(&h, "w.safetensors", tensors, 2);
    harness_spec(&h,
                 "{'name': 't', 'seed': 1, 'threads': 1, 'data': {'train': "
                 "{'format': 'npy', 'input': 'x.npy', 'target': 't.npy'}, "
                 "'batch_size': 1}, 'initial_weights': {'path': "
                 "'w.safetensors', 'partial': true}, 'model': [{'name': 'fc', "
                 "'linear': {'out_features': 1}}], 'loss': 'mse', "
                 "'optimizer': {'sgd': {'lr': 0}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 1}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_true(harness_param(&h, "fc.bias")[0] == 5);
    assert_true(fabsf(harness_param(&h, "fc.weight")[0]) <= 1);
    assert_int_equal(harness_count(&h, EVENT_WARNING), 1);
    const struct event *e = harness_event(&h, EVENT_WARNING, 0);
    assert_true(e->u.warning.value == 1);
    assert_string_equal(e->u.warning.text,
                        "initial weights: 1 of 2 tensors loaded; of another "
                        "shape: fc.weight");
    harness_forget(&h);
    assert_int_equal(harness_run(&h, "it000000002-a1"), 0);
    assert_int_equal(harness_count(&h, EVENT_WARNING), 0);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip_c17_adam_time_stands_still),
        cmocka_unit_test(test_skip_c22_schedule_stands_still),
        cmocka_unit_test(test_skip_c33_mean_loss),
        cmocka_unit_test(test_skip_c26_window),
        cmocka_unit_test(test_skip_c08_activation_overflow),
        cmocka_unit_test(test_skip_c08_bf16_and_fp32_do_not_skip),
        cmocka_unit_test(test_skip_c19_scale_stops_at_floor),
        cmocka_unit_test(test_skip_c31_batch_norm_untouched),
        cmocka_unit_test(test_skip_nonfinite_loss_is_told),
        cmocka_unit_test(test_skip_first_iteration_leaves_no_trace),
        cmocka_unit_test(test_skip_partial_weights_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
