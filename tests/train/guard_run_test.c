/* SPDX-License-Identifier: Apache-2.0 */
/* What guards make of a run: pause, failure, rollback, and what the attempt
 * after a rollback begins with. */
#include "tests/train/harness.h"

#include <math.h>

#define N 24

/* A healthy job of three windows an epoch. */
static void
make_job(struct harness *h, const char *rest)
{
    float x[N * 4];
    int64_t y[N];
    const int64_t dim[2] = {N, 4};
    char text[2048];

    for (int i = 0; i < N; i++) {
        y[i] = i % 3;
        for (int k = 0; k < 4; k++)
            x[i * 4 + k] = sinf((float)(i * 7 + k * 3)) + (float)(y[i] * k);
    }
    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_i64(h, "y.npy", N, y);
    snprintf(text, sizeof(text),
             "{'name': 't', 'seed': 3, 'threads': 1, 'data': {'train': "
             "{'format': 'npy', 'input': 'x.npy', 'target': 'y.npy'}, "
             "'validation': {'format': 'npy', 'input': 'x.npy', 'target': "
             "'y.npy'}, 'batch_size': 8, 'shuffle': false}, 'model': "
             "[{'name': 'fc', 'linear': {'out_features': 3}}], 'loss': "
             "'cross_entropy', %s}",
             rest);
    harness_spec(h, text);
}

/* One weight of 1, n samples of one number each. */
static void
make_line(struct harness *h, int64_t n, const float *x, const char *rest)
{
    const int64_t dim[2] = {n, 1};
    const float w = 1, t[64] = {0};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};
    char text[2048];

    assert_true(n <= 64);
    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_f32(h, "t.npy", 2, dim, t);
    harness_weights(h, "w.safetensors", &tensor, 1);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1, "
             "'shuffle': false}, 'initial_weights': 'w.safetensors', 'model': "
             "[{'name': 'fc', 'linear': {'out_features': 1, 'bias': false}}], "
             "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0}}, %s}",
             rest);
    harness_spec(h, text);
}

/* ---- actions --------------------------------------------------------------*/

static void
test_guard_run_healthy(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'amp': {'dtype': "
                 "'float16'}, 'train': {'epochs': 50}, 'guard': 'auto'");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_GUARD), 0);
    assert_null(engine_fired(h.engine));
    harness_fini(&h);
}

/* A pause keeps what there is, and who resumes it goes on from there. */
static void
test_guard_run_pause(void **unused)
{
    const float x[] = {1, NAN, NAN, 1, NAN, 1};
    const struct event *e;
    struct harness h;

    (void)unused;
    make_line(&h, 6, x,
              "'train': {'epochs': 1}, 'guard': [{'when': "
              "{'consecutive_skips': 2}, 'do': 'pause'}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_PAUSED);
    assert_int_equal(h.err.code, 0);
    assert_int_equal(harness_count(&h, EVENT_STEP), 3);
    assert_int_equal(harness_count(&h, EVENT_GUARD), 1);
    e = harness_event(&h, EVENT_GUARD, 0);
    assert_int_equal(e->iteration, 3);
    assert_int_equal(e->u.guard.rule, 0);
    assert_int_equal(e->u.guard.action, EVENT_ACTION_PAUSE);
    assert_string_equal(e->u.guard.condition, "consecutive_skips");
    assert_string_equal(e->u.guard.change, "");
    assert_string_equal(e->u.guard.text,
                        "2 updates in a row were skipped; of 2 that were "
                        "diagnosed the last 2 had verdict bad_input");
    assert_true(e->u.guard.value == 2 && e->u.guard.bound == 2);
    e = harness_event(&h, EVENT_CHECKPOINT, 0);
    assert_non_null(e);
    assert_int_equal(e->u.checkpoint.cause, EVENT_CHECKPOINT_STOP);
    assert_string_equal(e->u.checkpoint.name, "it000000003-a1");
    assert_int_equal(engine_fired(h.engine)->action, EVENT_ACTION_PAUSE);
    /* One more skip makes three in a row, but one of this attempt. */
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_GUARD), 1);
    assert_int_equal(engine_state(h.engine)->count.skips, 3);
    harness_fini(&h);
}

/* The floor is told once; nothing else happens. */
static void
test_guard_run_continue(void **unused)
{
    float x[40];
    struct harness h;

    (void)unused;
    for (int i = 0; i < 40; i++)
        x[i] = NAN;
    make_line(&h, 40, x,
              "'amp': {'dtype': 'float16', 'scaler': {'init_scale': 4}}, "
              "'train': {'epochs': 1}, 'guard': [{'when': "
              "{'consecutive_skips': 41}, 'do': 'fail'}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_GUARD), 1);
    const struct event *e = harness_event(&h, EVENT_GUARD, 0);
    assert_int_equal(e->iteration, 7); /* 4, 2, then five at 1 */
    assert_string_equal(e->u.guard.condition, "scale_at_floor");
    assert_int_equal(e->u.guard.action, EVENT_ACTION_CONTINUE);
    harness_fini(&h);
}

/* Weights that an update blew up: no checkpoint is made of them. */
static void
test_guard_run_weights(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 1, 'weight_decay': 1}}, "
                 "'schedule': {'step': {'step_size': 63, 'gamma': 3e38}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 50}, "
                 "'checkpoint': {'every_updates': 1}");
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    assert_int_equal(h.outcome, EVENT_OUTCOME_FAILED);
    assert_int_equal(harness_count(&h, EVENT_STEP), 64);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 63);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_FAILED), 0);
    assert_int_equal(harness_count(&h, EVENT_GUARD), 1);
    assert_string_equal(h.err.msg, "guard 3 (non_finite): fc.weight is not "
                                   "finite any more");
    harness_fini(&h);
}

static void
test_guard_run_metric(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 4}, 'evaluate': "
                 "{'every_updates': 2}, 'checkpoint': {'every_updates': 2}, "
                 "'guard': [{'when': {'metric': 'loss', 'above': 0, "
                 "'after_updates': 4}, 'do': 'fail'}]");
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    assert_int_equal(harness_count(&h, EVENT_EVALUATION), 2);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 1);
    assert_non_null(strstr(h.err.msg, "guard 0 (metric): loss was "));
    harness_fini(&h);

    /* At the end too. */
    make_job(&h, "'optimizer': {'sgd': {'lr': 0}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 1}, 'guard': [{'when': "
                 "{'metric': 'loss', 'above': 0}, 'do': 'fail'}]");
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    assert_int_equal(h.outcome, EVENT_OUTCOME_FAILED);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 0);
    harness_fini(&h);

    /* But a run that is at its end is not paused for ever. */
    make_job(&h, "'optimizer': {'sgd': {'lr': 0}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 1}, 'guard': [{'when': "
                 "{'metric': 'loss', 'above': 0}, 'do': 'pause'}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_event(&h, EVENT_GUARD, 0)->u.guard.action,
                     EVENT_ACTION_CONTINUE);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 1);
    harness_fini(&h);

    /* A pause half way keeps the best one as such. */
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 2}, 'evaluate': "
                 "{'every_updates': 2}, 'checkpoint': {'best': 'loss'}, "
                 "'guard': [{'when': {'metric': 'loss', 'above': 0}, 'do': "
                 "'pause'}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_PAUSED);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 1);
    assert_true(harness_event(&h, EVENT_CHECKPOINT, 0)->u.checkpoint.best);
    harness_fini(&h);
}

/* ---- rollbacks ------------------------------------------------------------*/

/* C08: what fc1 makes is no float16, and fc2 would read it as one. */
static void
make_c08(struct harness *h, const char *amp, const char *guard)
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

    if (h->dir[0] == '\0') {
        harness_init(h);
        harness_npy_f32(h, "x.npy", 2, xdim, x);
        harness_npy_f32(h, "t.npy", 2, tdim, t);
        harness_weights(h, "w.safetensors", tensors, 4);
    }
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1}, "
             "'initial_weights': 'w.safetensors', 'model': "
             "[{'name': 'fc1', 'linear': {'out_features': 2}}, 'relu', "
             "{'name': 'fc2', 'linear': {'out_features': 1}}], "
             "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0}}, "
             "'amp': {%s}, 'train': {'epochs': 25}, 'guard': %s}",
             amp, guard);
    harness_spec(h, text);
}

/* The float16 run that repairs itself: what the guard asks for is what cures
 * it. */
static void
test_guard_run_repairs(void **unused)
{
    const struct guard_firing *f;
    struct harness h = {0};
    const struct event *e;

    (void)unused;
    make_c08(&h, "'dtype': 'float16'", "'auto'");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_GO_BACK);
    assert_int_equal(harness_count(&h, EVENT_STEP), 2);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 0);
    e = harness_event(&h, EVENT_GUARD, 0);
    assert_string_equal(e->u.guard.condition, "verdict");
    assert_int_equal(e->u.guard.action, EVENT_ACTION_ROLLBACK);
    assert_string_equal(e->u.guard.change,
                        "{\"amp\":{\"fp32_regions\":[\"fc1\",\"fc2\"]}}");
    f = engine_fired(h.engine);
    assert_string_equal(f->change, e->u.guard.change);
    assert_string_equal(f->to, "last");
    assert_true(isnan(f->scale) && f->n_skip_windows == 0);

    make_c08(&h, "'dtype': 'float16', 'fp32_regions': ['fc1', 'fc2']",
             "'auto'");
    harness_reset(&h);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(engine_state(h.engine)->count.skips, 0);
    harness_fini(&h);
}

static void
test_guard_run_rollbacks_end(void **unused)
{
    struct harness h = {0};

    (void)unused;
    make_c08(&h, "'dtype': 'float16'", "'auto'");
    h.guard_rollbacks = 3;
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    assert_int_equal(h.outcome, EVENT_OUTCOME_FAILED);
    assert_non_null(strstr(h.err.msg, "guards went back 3 times, and "
                                      "guard.max_rollbacks allows 3"));
    harness_fini(&h);
    memset(&h, 0, sizeof(h));
    make_c08(&h, "'dtype': 'float16'", "{'mode': 'auto', 'max_rollbacks': 4}");
    h.guard_rollbacks = 3;
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_GO_BACK);
    harness_fini(&h);
}

/* The batches of a streak, and then a run without them. */
static void
test_guard_run_skip_batches(void **unused)
{
    const float x[] = {1, 2, NAN, NAN, 5, 6, 7, 8};
    static const double losses[] = {1, 4, 25, 36, 49, 64, 1, 4};
    const struct guard_firing *f;
    int64_t windows[2];
    struct harness h;

    (void)unused;
    make_line(&h, 8, x,
              "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}, "
              "'checkpoint': {'every_updates': 1}, 'guard': [{'when': "
              "{'consecutive_skips': 2}, 'do': 'rollback', 'with': "
              "{'skip_batches': true}}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_GO_BACK);
    f = engine_fired(h.engine);
    assert_int_equal(f->n_skip_windows, 2);
    memcpy(windows, f->skip_windows, sizeof(windows));
    assert_true(windows[0] == 2 && windows[1] == 2);
    h.skip_windows = windows;
    h.n_skip_windows = 2;
    harness_forget(&h);
    assert_int_equal(harness_run(&h, "it000000002-a1"), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_STEP), 6);
    assert_int_equal(engine_state(h.engine)->count.iteration, 8);
    assert_int_equal(engine_state(h.engine)->count.data_position, 10);
    for (int i = 0; i < 6; i++) {
        const struct event *e = harness_event(&h, EVENT_STEP, i);
        assert_true(e->u.step.loss == losses[i + 2]);
        assert_int_equal(e->iteration, i + 3);
    }
    harness_fini(&h);
}

/* In the second epoch, in two pieces, from the first window on. */
static void
test_guard_run_passes_over(void **unused)
{
    static const int64_t windows[] = {5, 1, 0, 1, 3, 2};
    static const double losses[] = {4, 9, 1, 4, 9, 1, 4};
    const float x[] = {1, 2, 3};
    struct harness h;

    (void)unused;
    make_line(&h, 3, x,
              "'amp': {'dtype': 'float32'}, 'train': {'epochs': 10, "
              "'max_iterations': 7}");
    h.skip_windows = windows;
    h.n_skip_windows = 6;
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_STEP), 7);
    /* Positions 1 2 6 7 8 9 10. */
    for (int i = 0; i < 7; i++)
        assert_true(harness_event(&h, EVENT_STEP, i)->u.step.loss == losses[i]);
    assert_int_equal(engine_state(h.engine)->count.data_position, 11);
    /* What makes no sense is refused. */
    h.n_skip_windows = 5;
    assert_int_equal(harness_run(&h, NULL), ERR_PROTO);
    harness_fini(&h);
}

/* ---- the scale of a rollback ----------------------------------------------*/

static void
test_guard_run_scale(void **unused)
{
    static const struct {
        double asked, after;
    } rows[] = {{128, 128}, {0.5, 2}, {1e30, 4096}};
    const struct event *e;
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'amp': {'dtype': "
                 "'float16', 'scaler': {'init_scale': 256, 'min_scale': 2, "
                 "'max_scale': 4096}}, 'train': {'epochs': 2}");
    for (int i = 0; i < 3; i++) {
        harness_reset(&h);
        h.scale = rows[i].asked;
        assert_int_equal(harness_run(&h, NULL), 0);
        assert_int_equal(harness_count(&h, EVENT_SCALE), 1);
        assert_int_equal(h.events[1].e.kind, EVENT_SCALE);
        e = harness_event(&h, EVENT_SCALE, 0);
        assert_int_equal(e->iteration, 0);
        assert_int_equal(e->u.scale.cause, EVENT_SCALE_SET);
        assert_true(e->u.scale.before == 256);
        assert_true(e->u.scale.after == rows[i].after);
        assert_int_equal(e->u.scale.growth_tracker, 0);
        assert_true(harness_event(&h, EVENT_STEP, 0)->u.step.scale ==
                    rows[i].after);
    }
    h.scale = NAN;
    harness_reset(&h);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 0);
    harness_fini(&h);

    /* Where there is none it is not set in silence. */
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 1}");
    h.scale = 64;
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 0);
    assert_int_equal(harness_count(&h, EVENT_WARNING), 1);
    harness_fini(&h);
}

/* A policy that was changed is followed, whatever the checkpoint has. */
static void
test_guard_run_changed_scaler(void **unused)
{
    static const char job[] =
        "'optimizer': {'sgd': {'lr': 0.01}}, 'amp': {'dtype': 'float16', "
        "'scaler': {'init_scale': 256, 'growth_interval': 1000}}, 'train': "
        "{'epochs': 4}";
    struct harness h;
    const struct event *e;

    (void)unused;
    make_job(&h, job);
    harness_order(&h, 3, REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 0);
    h.spec->amp.scaler.growth_interval = 5;
    h.spec->amp.scaler.max_scale = 512;
    harness_forget(&h);
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    e = harness_event(&h, EVENT_SCALE, 0);
    assert_non_null(e);
    assert_int_equal(e->u.scale.cause, EVENT_SCALE_GROWTH);
    assert_int_equal(e->iteration, 5);                   /* the tracker was 3 */
    assert_int_equal(harness_count(&h, EVENT_SCALE), 1); /* 512 is the limit */

    h.spec->amp.scaler.max_scale = 128;
    harness_forget(&h);
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    e = harness_event(&h, EVENT_SCALE, 0);
    assert_non_null(e);
    assert_int_equal(e->u.scale.cause, EVENT_SCALE_SET);
    assert_true(e->u.scale.before == 256 && e->u.scale.after == 128);
    assert_int_equal(e->u.scale.growth_tracker, 3);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_run_healthy),
        cmocka_unit_test(test_guard_run_pause),
        cmocka_unit_test(test_guard_run_continue),
        cmocka_unit_test(test_guard_run_weights),
        cmocka_unit_test(test_guard_run_metric),
        cmocka_unit_test(test_guard_run_repairs),
        cmocka_unit_test(test_guard_run_rollbacks_end),
        cmocka_unit_test(test_guard_run_skip_batches),
        cmocka_unit_test(test_guard_run_passes_over),
        cmocka_unit_test(test_guard_run_scale),
        cmocka_unit_test(test_guard_run_changed_scaler),
    };

    return cmocka_run_group_tests_name("guard_run", tests, NULL, NULL);
}
