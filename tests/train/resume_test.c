/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping and going on gives the bits that never stopping gives: C23, C42,
 * and every iteration of runs that use everything a checkpoint holds. */
#include "tests/train/harness.h"
#include "tests/train/setups.h"

#include "engine/run/ckpt.h"

#include <math.h>

#define N 26

/* Two classes, a few features; NaN in one sample to force skips when asked. */
static void
make_blobs(struct harness *h, bool bad_sample)
{
    float x[N * 4];
    int64_t y[N];
    const int64_t dim[2] = {N, 4};

    for (int i = 0; i < N; i++) {
        y[i] = i % 3;
        for (int k = 0; k < 4; k++)
            x[i * 4 + k] = sinf((float)(i * 7 + k * 3)) + (float)(y[i] * k);
    }
    if (bad_sample)
        x[5 * 4 + 2] = NAN;
    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_i64(h, "y.npy", N, y);
}

#define HEAD                                                                   \
    "{'name': 't', 'seed': 11, 'threads': 1, 'data': {'train': {'format': "    \
    "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'validation': {'format': "   \
    "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': 4, "           \
    "'shuffle': true}, 'model': [{'linear': {'out_features': 6}}, "            \
    "{'batch_norm1d': {}}, 'relu', {'dropout': {'p': 0.3}}, "                  \
    "{'name': 'head', 'linear': {'out_features': 3}}], "                       \
    "'loss': 'cross_entropy', 'evaluate': {'every_updates': 2}, "

/* windows of 3 x 4 with short ends, skips by overflow, everything moving */
static const char *const spec_adamw =
    HEAD "'optimizer': {'adamw': {'lr': 0.01, 'weight_decay': 0.1}}, "
         "'schedule': {'cosine': {'warmup_updates': 3}}, "
         "'amp': {'dtype': 'float16', 'scaler': {'init_scale': 4194304, "
         "'growth_interval': 2}}, 'train': {'epochs': 6, 'accumulate': 3, "
         "'clip_grad_norm': 0.5}, 'checkpoint': {'keep': 100}}";

static const char *const spec_sgd =
    HEAD "'optimizer': {'sgd': {'lr': 0.05, 'momentum': 0.9, 'nesterov': "
         "true}}, 'schedule': {'step': {'step_size': 4, 'gamma': 0.5}}, "
         "'amp': {'dtype': 'bfloat16'}, 'train': {'epochs': 2}, "
         "'checkpoint': {'keep': 100, 'best': 'accuracy'}}";

static void
assert_same(const struct harness_snapshot *a, const struct harness_snapshot *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->bytes, b->bytes, a->n);
}

/* The name of the newest checkpoint that an event told of. */
static const char *
last_checkpoint(const struct harness *h)
{
    const int n = harness_count(h, EVENT_CHECKPOINT);

    assert_true(n > 0);
    return harness_event(h, EVENT_CHECKPOINT, n - 1)->u.checkpoint.name;
}

static struct harness_snapshot
run_whole(struct harness *h)
{
    harness_reset(h);
    assert_int_equal(harness_run(h, NULL), 0);
    assert_int_equal(h->outcome, EVENT_OUTCOME_COMPLETED);
    return harness_snapshot(h);
}

/* Stops after `at` iterations, goes on, compares. */
static void
run_stopped(struct harness *h, int64_t at, const struct harness_snapshot *whole)
{
    char name[CKPT_NAME_MAX];

    harness_reset(h);
    harness_order(h, at, REPORT_STOP);
    assert_int_equal(harness_run(h, NULL), 0);
    assert_int_equal(h->outcome, EVENT_OUTCOME_STOPPED);
    assert_int_equal(engine_state(h->engine)->count.iteration, at);
    snprintf(name, sizeof(name), "%s", last_checkpoint(h));
    h->n_orders = 0;
    assert_int_equal(harness_run(h, name), 0);
    assert_int_equal(h->outcome, EVENT_OUTCOME_COMPLETED);
    struct harness_snapshot resumed = harness_snapshot(h);
    assert_same(whole, &resumed);
    free(resumed.bytes);
}

static void
stop_everywhere(const char *spec, bool bad_sample, int min_skips)
{
    struct harness h;

    make_blobs(&h, bad_sample);
    harness_spec(&h, spec);
    struct harness_snapshot whole = run_whole(&h);
    const int64_t total = engine_total_iterations(h.engine);
    assert_true(engine_state(h.engine)->count.skips >= min_skips);
    assert_true(engine_state(h.engine)->count.updates > 4);
    for (int64_t at = 1; at < total; at++)
        run_stopped(&h, at, &whole);
    free(whole.bytes);
    harness_fini(&h);
}

static void
test_resume_adamw_accumulate_skips(void **unused)
{
    (void)unused;
    stop_everywhere(spec_adamw, false, 1);
}

static void
test_resume_sgd_bad_sample(void **unused)
{
    (void)unused;
    stop_everywhere(spec_sgd, true, 2);
}

/* Every optimizer, with an average of the weights; the last ones in company. */
static void
test_resume_every_optimizer(void **unused)
{
    (void)unused;
    for (int number = 0; number < SETUPS_N; number++) {
        struct harness h;
        make_blobs(&h, true);
        harness_spec(&h, spec_sgd);
        setups_use(h.spec, number);
        h.spec->train.ema_decay = 0.9;
        struct harness_snapshot whole = run_whole(&h);
        const int64_t total = engine_total_iterations(h.engine);
        assert_true(engine_state(h.engine)->count.skips == 2);
        for (int64_t at = 1; at < total; at += 2)
            run_stopped(&h, at, &whole);
        free(whole.bytes);
        harness_fini(&h);
    }
}

/* One iteration an attempt, all the way. */
static void
test_resume_every_iteration(void **unused)
{
    struct harness h;
    char name[CKPT_NAME_MAX] = "";

    (void)unused;
    make_blobs(&h, false);
    harness_spec(&h, spec_adamw);
    struct harness_snapshot whole = run_whole(&h);
    const int64_t total = engine_total_iterations(h.engine);
    harness_reset(&h);
    for (int64_t at = 1; at <= total; at++) {
        h.n_orders = 0;
        if (at < total)
            harness_order(&h, at, REPORT_STOP);
        assert_int_equal(harness_run(&h, name[0] != '\0' ? name : NULL), 0);
        snprintf(name, sizeof(name), "%s", last_checkpoint(&h));
    }
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    struct harness_snapshot resumed = harness_snapshot(&h);
    assert_same(&whole, &resumed);
    /* Each skip and each step told exactly once. */
    assert_int_equal(harness_count(&h, EVENT_STEP), total);
    int skipped = 0;
    for (int i = 0; i < total; i++) {
        const struct event *e = harness_event(&h, EVENT_STEP, i);
        assert_int_equal(e->iteration, i + 1);
        skipped += e->u.step.skipped;
    }
    assert_int_equal(skipped, engine_state(h.engine)->count.skips);
    free(whole.bytes);
    free(resumed.bytes);
    harness_fini(&h);
}

/* How often a run is evaluated or saved does not show in its bits. */
static void
test_resume_evaluation_leaves_no_trace(void **unused)
{
    const char *const often =
        HEAD "'optimizer': {'adamw': {'lr': 0.01, 'weight_decay': 0.1}}, "
             "'schedule': {'cosine': {'warmup_updates': 3}}, "
             "'amp': {'dtype': 'float16', 'scaler': {'init_scale': 4194304, "
             "'growth_interval': 2}}, 'train': {'epochs': 6, 'accumulate': 3, "
             "'clip_grad_norm': 0.5}, "
             "'checkpoint': {'every_updates': 1, 'keep': 1}}";
    struct harness h;

    (void)unused;
    make_blobs(&h, false);
    harness_spec(&h, spec_adamw);
    struct harness_snapshot whole = run_whole(&h);
    harness_spec(&h, often);
    h.spec->evaluate.every_updates = 1;
    struct harness_snapshot other = run_whole(&h);
    assert_same(&whole, &other);
    free(other.bytes);
    h.spec->data.validation.present = false;
    other = run_whole(&h);
    assert_same(&whole, &other);
    free(other.bytes);
    free(whole.bytes);
    harness_fini(&h);
}

/* C42: 10 samples, batches of 4, 3 epochs: after 4 iterations and at the epoch
 * boundary the run goes on with the sample that comes next. Every iteration
 * is a skip, so that its sample ids are told. */
static void
test_resume_c42_sample_ids(void **unused)
{
    float x[10];
    const float t[10] = {0};
    const int64_t dim[2] = {10, 1};
    int64_t ids[9][4] = {{0}};
    int n_ids[9];
    struct harness h;

    (void)unused;
    for (int i = 0; i < 10; i++)
        x[i] = NAN;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, x);
    harness_npy_f32(&h, "t.npy", 2, dim, t);
    harness_spec(&h,
                 "{'name': 't', 'seed': 5, 'threads': 1, 'data': {'train': "
                 "{'format': 'npy', 'input': 'x.npy', 'target': 't.npy'}, "
                 "'batch_size': 4, 'shuffle': true}, 'model': [{'linear': "
                 "{'out_features': 1}}, {'dropout': {'p': 0.5}}], 'loss': "
                 "'mse', 'optimizer': {'sgd': {'lr': 0.1}}, 'amp': {'dtype': "
                 "'float32'}, 'train': {'epochs': 3}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 9);
    for (int i = 0; i < 9; i++) {
        const struct event *e = harness_event(&h, EVENT_SCALE, i);
        n_ids[i] = e->u.scale.n_samples;
        memcpy(ids[i], e->u.scale.samples, (size_t)n_ids[i] * sizeof(int64_t));
    }
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[10] = {0};
        for (int w = 0; w < 3; w++)
            for (int k = 0; k < n_ids[epoch * 3 + w]; k++)
                seen[ids[epoch * 3 + w][k]]++;
        for (int i = 0; i < 10; i++)
            assert_int_equal(seen[i], 1);
    }
    assert_memory_not_equal(ids[0], ids[3], sizeof(ids[0]));
    for (int64_t at = 3; at <= 4; at++) {
        harness_reset(&h);
        harness_order(&h, at, REPORT_STOP);
        assert_int_equal(harness_run(&h, NULL), 0);
        char name[CKPT_NAME_MAX];
        snprintf(name, sizeof(name), "%s", last_checkpoint(&h));
        h.n_orders = 0;
        assert_int_equal(harness_run(&h, name), 0);
        for (int i = 0; i < 9; i++) {
            const struct event *e = harness_event(&h, EVENT_SCALE, i);
            assert_int_equal(e->u.scale.n_samples, n_ids[i]);
            assert_memory_equal(e->u.scale.samples, ids[i],
                                (size_t)n_ids[i] * sizeof(int64_t));
        }
    }
    harness_fini(&h);
}

/* C23: the scaler goes on with its tracker. */
static void
test_resume_c23_scaler(void **unused)
{
    static const struct {
        bool skip;
        double used, after;
        int64_t tracker;
    } want[15] = {
        {true, 65536, 32768, 0}, {true, 32768, 16384, 0},
        {true, 16384, 8192, 0},  {true, 8192, 4096, 0},
        {true, 4096, 2048, 0},   {true, 2048, 1024, 0},
        {true, 1024, 512, 0},    {false, 512, 512, 1},
        {false, 512, 512, 2},    {false, 512, 512, 3},
        {false, 512, 1024, 0},   {true, 1024, 512, 0},
        {false, 512, 512, 1},    {false, 512, 512, 2},
        {false, 512, 512, 3},
    };
    const float one[] = {1}, zero[] = {0}, w[] = {50};
    const int64_t dim[2] = {1, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, w};
    struct harness h;

    (void)unused;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, one);
    harness_npy_f32(&h, "t.npy", 2, dim, zero);
    harness_weights(&h, "w.safetensors", &tensor, 1);
    harness_spec(&h,
                 "{'name': 't', 'threads': 1, 'data': {'train': {'format': "
                 "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'batch_size': "
                 "1}, 'initial_weights': 'w.safetensors', 'model': [{'name': "
                 "'fc', 'linear': {'out_features': 1, 'bias': false}}], "
                 "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0}}, 'amp': "
                 "{'dtype': 'float16', 'scaler': {'init_scale': 65536, "
                 "'growth_interval': 4}}, 'train': {'epochs': 15}}");
    harness_order(&h, 9, REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(engine_state(h.engine)->scaler.growth_tracker, 2);
    h.n_orders = 0;
    assert_int_equal(harness_run(&h, "it000000009-a1"), 0);
    assert_int_equal(harness_count(&h, EVENT_STEP), 15);
    for (int i = 0, scale = 0; i < 15; i++) {
        const struct event *e = harness_event(&h, EVENT_STEP, i);
        assert_int_equal(e->u.step.skipped, want[i].skip);
        assert_true(e->u.step.scale == want[i].used);
        if (want[i].after == want[i].used)
            continue;
        e = harness_event(&h, EVENT_SCALE, scale++);
        assert_int_equal(e->iteration, i + 1);
        assert_true(e->u.scale.before == want[i].used);
        assert_true(e->u.scale.after == want[i].after);
        assert_int_equal(e->u.scale.growth_tracker, want[i].tracker);
        assert_int_equal(e->u.scale.cause,
                         want[i].skip ? EVENT_SCALE_SKIP : EVENT_SCALE_GROWTH);
    }
    harness_fini(&h);
}

/* A checkpoint that does not verify is told, and the next one taken. */
static void
test_resume_falls_back(void **unused)
{
    struct harness h;
    char path[256];

    (void)unused;
    make_blobs(&h, false);
    harness_spec(&h, spec_sgd);
    struct harness_snapshot whole = run_whole(&h);
    harness_reset(&h);
    harness_order(&h, 3, REPORT_CHECKPOINT);
    harness_order(&h, 5, REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    snprintf(path, sizeof(path), "%s/checkpoints/it000000005-a1/state.json",
             h.dir);
    bytes_write_file(path, "{}", 2);
    h.n_orders = 0;
    assert_int_equal(harness_run(&h, "it000000005-a1"), ERR_CKPT);
    assert_non_null(strstr(h.err.msg, "none of 1 checkpoints"));
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_FAILED), 1);
    assert_string_equal(
        harness_event(&h, EVENT_CHECKPOINT_FAILED, 0)->u.checkpoint_failed.name,
        "it000000005-a1");
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    struct harness_snapshot resumed = harness_snapshot(&h);
    assert_same(&whole, &resumed);
    free(whole.bytes);
    free(resumed.bytes);
    harness_fini(&h);
}

/* Going on from the last iteration finds nothing more to do. */
static void
test_resume_at_the_end(void **unused)
{
    struct harness h;

    (void)unused;
    make_blobs(&h, false);
    harness_spec(&h, spec_sgd);
    struct harness_snapshot whole = run_whole(&h);
    char name[CKPT_NAME_MAX];
    snprintf(name, sizeof(name), "%s", last_checkpoint(&h));
    harness_forget(&h);
    assert_int_equal(harness_run(&h, name), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_STEP), 0);
    assert_string_equal(
        harness_event(&h, EVENT_STARTED, 0)->u.started.checkpoint, name);
    struct harness_snapshot again = harness_snapshot(&h);
    assert_same(&whole, &again);
    free(whole.bytes);
    free(again.bytes);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume_adamw_accumulate_skips),
        cmocka_unit_test(test_resume_sgd_bad_sample),
        cmocka_unit_test(test_resume_every_optimizer),
        cmocka_unit_test(test_resume_every_iteration),
        cmocka_unit_test(test_resume_evaluation_leaves_no_trace),
        cmocka_unit_test(test_resume_c42_sample_ids),
        cmocka_unit_test(test_resume_c23_scaler),
        cmocka_unit_test(test_resume_falls_back),
        cmocka_unit_test(test_resume_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
