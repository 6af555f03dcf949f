/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation: the mean is over what counts in the whole set, whatever the
 * batches; results that are not asked for are not given. */
#include "tests/train/harness.h"

#include <math.h>

#define NEAR(a, b, tol) assert_true(fabs((double)(a) - (b)) <= (tol))

/* Weights that give logits (x, 0); x decides about the answer. */
static void
make_classifier(struct harness *h, int batch_size, const char *metrics)
{
    const float x[7] = {2, -1, 3, -4, 0.5f, 1, -2};
    const int64_t y[7] = {0, 0, 0, 1, -100, 1, 1};
    const float w[2] = {1, 0}, b[2] = {0, 0};
    const int64_t dim[2] = {7, 1};
    const struct harness_tensor tensors[] = {{"fc.weight", 2, {2, 1}, w},
                                             {"fc.bias", 1, {2}, b}};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_i64(h, "y.npy", 7, y);
    harness_weights(h, "w.safetensors", tensors, 2);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 'y.npy'}, 'validation': {'format': "
             "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': %d}, "
             "'initial_weights': 'w.safetensors', 'model': [{'name': 'fc', "
             "'linear': {'out_features': 2}}], 'loss': {'cross_entropy': "
             "{'ignore_index': -100}}, 'optimizer': {'sgd': {'lr': 0}}, "
             "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}, "
             "'evaluate': {'metrics': [%s]}}",
             batch_size, metrics);
    harness_spec(h, text);
    assert_int_equal(harness_run(h, NULL), 0);
}

static double
expected_loss(void)
{
    const double x[6] = {2, -1, 3, -4, 1, -2};
    const int y[6] = {0, 0, 0, 1, 1, 1};
    double sum = 0;

    for (int i = 0; i < 6; i++)
        sum += log(exp(x[i]) + 1) - (y[i] == 0 ? x[i] : 0);
    return sum / 6;
}

static void
test_evaluate_mean_over_what_counts(void **unused)
{
    (void)unused;
    for (int batch = 1; batch <= 8; batch++) {
        struct harness h;
        make_classifier(&h, batch, "'loss', 'accuracy'");
        assert_int_equal(harness_count(&h, EVENT_EVALUATION), 1);
        const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
        NEAR(e->u.evaluation.loss, expected_loss(), 1e-6);
        NEAR(e->u.evaluation.accuracy, 4.0 / 6, 1e-12);
        assert_int_equal(e->u.evaluation.n, 7);
        assert_false(e->u.evaluation.incomplete);
        harness_fini(&h);
    }
}

static void
test_evaluate_only_what_is_asked(void **unused)
{
    struct harness h;

    (void)unused;
    make_classifier(&h, 4, "'accuracy'");
    const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
    assert_true(isnan(e->u.evaluation.loss));
    NEAR(e->u.evaluation.accuracy, 4.0 / 6, 1e-12);
    harness_fini(&h);
}

/* The training loss of the same weights and set is the same mean. */
static void
test_evaluate_agrees_with_training_loss(void **unused)
{
    struct harness h;

    (void)unused;
    make_classifier(&h, 7, "'loss'");
    NEAR(harness_event(&h, EVENT_STEP, 0)->u.step.loss,
         harness_event(&h, EVENT_EVALUATION, 0)->u.evaluation.loss, 1e-6);
    harness_fini(&h);
}

/* ---- three classes: top-k, perplexity, confusion --------------------------*/

static void
make_three(struct harness *h, int batch_size)
{
    const float x[7][3] = {{3, 2, 1}, {3, 2, 1}, {3, 2, 1}, {0, 1, 5},
                           {9, 9, 9}, {0, 4, 4}, {0, 4, 4}};
    const int64_t y[7] = {0, 1, 2, 2, -100, 1, 2};
    const float w[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, b[3] = {0, 0, 0};
    const int64_t dim[2] = {7, 3};
    const struct harness_tensor tensors[] = {{"fc.weight", 2, {3, 3}, w},
                                             {"fc.bias", 1, {3}, b}};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x[0]);
    harness_npy_i64(h, "y.npy", 7, y);
    harness_weights(h, "w.safetensors", tensors, 2);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 'y.npy'}, 'validation': {'format': "
             "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': %d}, "
             "'initial_weights': 'w.safetensors', 'model': [{'name': 'fc', "
             "'linear': {'out_features': 3}}], 'loss': {'cross_entropy': "
             "{'ignore_index': -100}}, 'optimizer': {'sgd': {'lr': 0}}, "
             "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}, "
             "'evaluate': {'metrics': ['loss', 'accuracy']}}",
             batch_size);
    harness_spec(h, text);
    h->spec->evaluate.metric[SPEC_METRIC_TOP_K] = true;
    h->spec->evaluate.metric[SPEC_METRIC_PERPLEXITY] = true;
    h->spec->evaluate.metric[SPEC_METRIC_CONFUSION] = true;
    h->spec->evaluate.top_k = 2;
}

static void
test_evaluate_top_k_perplexity_confusion(void **unused)
{
    const int64_t table[9] = {1, 0, 0, 1, 1, 0, 1, 1, 1};

    (void)unused;
    for (int batch = 1; batch <= 8; batch++) {
        struct harness h;
        make_three(&h, batch);
        assert_int_equal(harness_run(&h, NULL), 0);
        const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
        NEAR(e->u.evaluation.accuracy, 3.0 / 6, 1e-12);
        NEAR(e->u.evaluation.top_k, 5.0 / 6, 1e-12);
        NEAR(e->u.evaluation.perplexity, exp(e->u.evaluation.loss), 0);
        assert_int_equal(e->u.evaluation.n_classes, 3);
        assert_memory_equal(e->u.evaluation.confusion, table, sizeof(table));
        harness_fini(&h);
    }
}

/* Larger is better for top-k, smaller for perplexity, and NaN is neither. */
static void
test_evaluate_best_by_metric(void **unused)
{
    const enum spec_metric metrics[] = {SPEC_METRIC_TOP_K,
                                        SPEC_METRIC_PERPLEXITY};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct harness h;
        make_three(&h, 7);
        h.spec->checkpoint.has_best = true;
        h.spec->checkpoint.best = metrics[i];
        assert_int_equal(harness_run(&h, NULL), 0);
        const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
        const struct event *c = harness_event(&h, EVENT_CHECKPOINT, 0);
        assert_true(e->u.evaluation.best && c->u.checkpoint.best);
        assert_true(
            c->u.checkpoint.metric ==
            (i == 0 ? e->u.evaluation.top_k : e->u.evaluation.perplexity));
        harness_fini(&h);
    }
    assert_true(spec_metric_is_larger_better(SPEC_METRIC_TOP_K));
    assert_false(spec_metric_is_larger_better(SPEC_METRIC_PERPLEXITY));
}

/* ---- C36: the averaged weights are swapped in and out ---------------------*/

/* w: 1 -> 0.9 -> 0.8 by steps of 0.1; the average of decay 1/2 after the first
 * is 0.95. In half: 0.89990234375 and 0.9501953125, exactly. */
static void
test_evaluate_c36_average(void **unused)
{
    const float x = 1, t = 0, w = 1;
    const int64_t dim[2] = {1, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};
    struct harness h;

    (void)unused;
    for (int with = 0; with < 2; with++) {
        harness_init(&h);
        harness_npy_f32(&h, "x.npy", 2, dim, &x);
        harness_npy_f32(&h, "t.npy", 2, dim, &t);
        harness_weights(&h, "w.safetensors", &tensor, 1);
        harness_spec(
            &h, "{'name': 't', 'threads': 1, 'data': {'train': {'format': "
                "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'validation': "
                "{'format': 'npy', 'input': 'x.npy', 'target': 't.npy'}, "
                "'batch_size': 1}, 'initial_weights': 'w.safetensors', "
                "'model': [{'name': 'fc', 'linear': {'out_features': 1, "
                "'bias': false}}], 'loss': 'l1', 'optimizer': {'sgd': {'lr': "
                "0.1}}, 'amp': {'dtype': 'float16', 'scaler': false}, 'train': "
                "{'epochs': 2}, "
                "'evaluate': {'every_updates': 1}}");
        h.spec->train.ema_decay = 0.5;
        h.spec->train.ema_evaluate = with == 1;
        assert_int_equal(harness_run(&h, NULL), 0);
        const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
        assert_int_equal(e->u.evaluation.ema, with);
        assert_true(e->u.evaluation.loss ==
                    (with == 1 ? 0.9501953125 : 0.89990234375));
        /* Swapped back: training goes on with its own weights. */
        assert_true(harness_event(&h, EVENT_STEP, 1)->u.step.loss ==
                    0.89990234375);
        NEAR(harness_param(&h, "fc.weight")[0], 0.8, 1e-6);
        NEAR(engine_state(h.engine)->ema[0], 0.875, 1e-6);
        harness_fini(&h);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluate_mean_over_what_counts),
        cmocka_unit_test(test_evaluate_only_what_is_asked),
        cmocka_unit_test(test_evaluate_agrees_with_training_loss),
        cmocka_unit_test(test_evaluate_top_k_perplexity_confusion),
        cmocka_unit_test(test_evaluate_best_by_metric),
        cmocka_unit_test(test_evaluate_c36_average),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
