/* SPDX-License-Identifier: Apache-2.0 */
/* Case C40: evaluated in float16, three samples lose one right answer, and that
 * one is a tie of rounded scores: the lower class wins a tie. */
#include "tests/train/harness.h"

#include <math.h>

#define N_SAMPLES 3
#define N_CLASSES 3

static const float logits[N_SAMPLES * N_CLASSES] = {
    10.001f, 10.002f, 9.5f, 2.0f, 1.0f, 0.5f, 10.03f, 10.02f, 0.0f};
static const int64_t labels[N_SAMPLES] = {1, 0, 0};

/* Accuracy of a model that gives its inputs back. */
static double
accuracy_in(const char *dtype)
{
    static const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const int64_t dim[2] = {N_SAMPLES, N_CLASSES};
    const struct harness_tensor w = {"fc.weight", 2, {3, 3}, identity};
    struct harness h;
    char text[1024];
    double accuracy;

    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, logits);
    harness_npy_i64(&h, "y.npy", N_SAMPLES, labels);
    harness_weights(&h, "w.safetensors", &w, 1);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 'y.npy'}, 'validation': {'format': "
             "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': 3}, "
             "'initial_weights': 'w.safetensors', 'model': [{'name': 'fc', "
             "'linear': {'out_features': 3, 'bias': false}}], 'loss': "
             "'cross_entropy', 'optimizer': {'sgd': {'lr': 0}}, 'amp': "
             "{'dtype': '%s'}, 'train': {'epochs': 1}}",
             dtype);
    harness_spec(&h, text);
    assert_int_equal(harness_run(&h, NULL), 0);
    accuracy =
        (double)harness_event(&h, EVENT_EVALUATION, 0)->u.evaluation.accuracy;
    harness_fini(&h);
    return accuracy;
}

/* The first of the largest, after rounding to steps of that size. */
static int
argmax(const float *row, double step, bool *tie)
{
    int best = 0;

    *tie = false;
    for (int k = 1; k < N_CLASSES; k++) {
        const double a = nearbyint((double)row[k] / step),
                     b = nearbyint((double)row[best] / step);

        if (a > b)
            best = k;
        *tie = a > b ? false : *tie || a == b;
    }
    return best;
}

static void
test_ties_c40_flips_are_ties(void **unused)
{
    int flips = 0, ties = 0;

    (void)unused;
    for (int i = 0; i < N_SAMPLES; i++) {
        bool tie, none;
        /* 2^-7 is float16's step from 8 to 16. */
        const int half = argmax(logits + i * N_CLASSES, 0x1p-7, &tie);
        const int full = argmax(logits + i * N_CLASSES, 0x1p-20, &none);

        assert_int_equal(full, i == 0);
        assert_int_equal(half, 0);
        assert_false(none);
        flips += half != full;
        ties += half != full && tie;
    }
    assert_int_equal(flips, 1);
    assert_int_equal(ties, 1);
}

static void
test_ties_c40_accuracy(void **unused)
{
    (void)unused;
    assert_true(accuracy_in("float32") == 1.0);
    assert_true(fabs(accuracy_in("float16") - 2.0 / 3) < 1e-12);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties_c40_flips_are_ties),
        cmocka_unit_test(test_ties_c40_accuracy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
