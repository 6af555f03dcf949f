/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnoses of single windows, made by hand: what cures and what does not,
 * labels that slipped past the check, samples found by halving. Cases C08 and
 * C26. */
#include "engine/diagnose/diagnosis.h"

#include "engine/diagnose/step_digest.h"
#include "engine/graph/build.h"
#include "engine/run/step.h"
#include "kernels/backend.h"
#include "tests/train/harness.h"

#include <math.h>

/* A model, one window of data for it, and the diagnosis of both. */
struct bench {
    struct spec *spec;
    struct build_data data;
    struct state *state;
    struct prefetch_batch batch[4];
    struct prefetch_window window;
    struct rerun *rerun;
    struct diagnosis d;
    struct err err;
};

static void
parse(struct bench *b, const char *text)
{
    struct spec_faults faults = {0};
    char *json = strdup(text);

    for (char *c = json; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    if (spec_parse(json, strlen(json), &b->spec, &faults) != 0)
        fail_msg("spec: %s: %s", faults.list[0].path, faults.list[0].message);
    spec_faults_fini(&faults);
    free(json);
}

static void
must(const struct bench *b, int rc)
{
    if (rc != 0)
        fail_msg("%s", b->err.msg);
}

/* n rows of width numbers in n_batches; t: n floats or n int32 classes. The
 * sample of row i has the id 100 + i. */
static void
start(struct bench *b, const char *backend, const char *spec, int64_t n,
      int64_t width, const float *x, const void *t, bool classes,
      int64_t n_batches)
{
    static const int64_t ids[] = {100, 101, 102, 103, 104, 105, 106, 107};
    const int64_t each = n / n_batches;
    struct graph *graph;

    memset(b, 0, sizeof(*b));
    parse(b, spec);
    b->data = (struct build_data){.rank = 1,
                                  .dim = {width},
                                  .target_is_class = classes,
                                  .target_elems = 1,
                                  .target_rank = classes ? 0 : 1,
                                  .target_dim = {1}};
    must(b, build_graph(b->spec, &b->data, BUILD_TRAIN, each, &graph, &b->err));
    must(b, state_create(graph, 0, &b->state, &b->err));
    b->state->seed = 1;
    state_init_weights(b->state, graph);
    scaler_init(&b->state->scaler, &b->spec->amp.scaler);
    graph_destroy(&graph);
    for (int64_t i = 0; i < n_batches; i++)
        b->batch[i] = (struct prefetch_batch){x + i * each * width,
                                              (const uint8_t *)t + i * each * 4,
                                              ids + i * each, each};
    b->window = (struct prefetch_window){
        .at = {.n_batches = n_batches, .n_samples = n},
        .batch = b->batch,
        .n_count = n,
        .ids = ids,
    };
    const struct rerun_options o = {
        .spec = b->spec,
        .data = b->data,
        .backend = backend_find(backend),
        .flat = backend_flat(backend_find(backend)),
        .threads = 1,
    };
    must(b, rerun_create(&o, &b->rerun, &b->err));
}

static void
stop(struct bench *b)
{
    rerun_destroy(&b->rerun);
    state_destroy(&b->state);
    spec_destroy(&b->spec);
}

static void
set(struct bench *b, const char *name, int64_t n, const float *values)
{
    for (int i = 0; i < b->state->n_params; i++) {
        const struct state_tensor *t = &b->state->param[i];
        if (strcmp(t->name, name) != 0)
            continue;
        assert_int_equal(t->n_elems, n);
        memcpy(b->state->weights + t->offset, values,
               (size_t)n * sizeof(float));
        return;
    }
    fail_msg("there is no %s", name);
}

static const struct evidence *
diagnose(struct bench *b)
{
    const struct rerun_case c = rerun_window(b->state, &b->window);

    must(b, diagnosis_run(b->rerun, &c, 0.1, &b->d, &b->err));
    return &b->d.evidence;
}

#define HEAD                                                                   \
    "{'threads': 1, 'data': {'train': {'format': 'npy', 'input': 'x', "        \
    "'target': 'y'}, 'batch_size': 4}, 'optimizer': {'sgd': {'lr': 0.1}}, "
#define TWO_LAYERS                                                             \
    "'model': [{'name': 'fc1', 'linear': {'out_features': 2}}, 'relu', "       \
    "{'name': 'fc2', 'linear': {'out_features': 1}}], 'loss': 'mse', "

static const char *const backends[] = {"cpu", "reference"};
#define N_BACKENDS 2

/* ---- cures ----------------------------------------------------------------*/

/* C08, with three samples that are harmless. */
static void
start_c08(struct bench *b, const char *backend, const char *amp)
{
    static const float x[] = {1, 1, 256, 256, 2, 2, 3, 3}, t[] = {0, 0, 0, 0};
    static const float w1[] = {128, 131, 0.5f, 0.25f}, zero[] = {0, 0};
    static const float w2[] = {0.01f, 0.01f};
    char spec[1024];

    snprintf(spec, sizeof(spec), HEAD TWO_LAYERS "'amp': %s}", amp);
    start(b, backend, spec, 4, 2, x, t, false, 1);
    set(b, "fc1.weight", 4, w1);
    set(b, "fc1.bias", 2, zero);
    set(b, "fc2.weight", 2, w2);
    set(b, "fc2.bias", 1, zero);
}

static bool
finite_with(struct bench *b, const char *const *regions, int n)
{
    const struct rerun_policy policy = {DTYPE_F16, regions, n};
    struct rerun_case c = rerun_window(b->state, &b->window);
    struct rerun_result r;

    c.scale = 1;
    must(b, rerun_run(b->rerun, &c, &policy, NULL, NULL, &r, &b->err));
    return r.finite;
}

static void
test_diagnosis_c08_cure_is_smallest(void **unused)
{
    static const char *const both[] = {"fc1", "fc2"};

    (void)unused;
    for (int i = 0; i < N_BACKENDS; i++) {
        struct bench b;
        start_c08(&b, backends[i], "{'dtype': 'float16'}");
        const struct evidence *e = diagnose(&b);
        assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_FORWARD_OVERFLOW);
        assert_string_equal(e->where.tensor, "fc1.out");
        assert_int_equal(e->where.index[0], 1);
        assert_int_equal(e->where.index[1], 0);
        assert_true(e->has_fp32_value && e->fp32_value == 66304.0f);
        assert_int_equal(e->n_guilty, 1);
        assert_int_equal(e->samples[0], 101);
        assert_int_equal(e->alone_finite, EVENT_NO);
        assert_int_equal(e->bf16_finite, EVENT_YES);
        assert_int_equal(e->fp32_finite, EVENT_YES);
        assert_string_equal(b.d.verdict.cure,
                            "{\"amp\":{\"fp32_regions\":[\"fc1\",\"fc2\"]}}");
        assert_string_equal(b.d.verdict.regions, "fc1, fc2");
        assert_non_null(strstr(b.d.verdict.sentence, "66304"));
        assert_non_null(strstr(b.d.verdict.sentence, "65504"));
        assert_non_null(strstr(b.d.verdict.sentence, "Sample 101"));
        /* As the evidence says, each way. */
        assert_true(finite_with(&b, both, 2));
        assert_false(finite_with(&b, both, 1));
        assert_false(finite_with(&b, both + 1, 1));
        assert_false(finite_with(&b, both, 0));
        stop(&b);
    }
}

/* A region of the spec stays in the cure, and is not told as found. */
static void
test_diagnosis_cure_has_the_spec_regions(void **unused)
{
    struct bench b;

    (void)unused;
    start_c08(&b, "cpu", "{'dtype': 'float16', 'fp32_regions': ['fc1']}");
    const struct evidence *e = diagnose(&b);
    assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(e->where.layer, "fc2");
    assert_int_equal(e->alone_finite, EVENT_YES);
    assert_string_equal(b.d.verdict.regions, "fc2");
    assert_string_equal(b.d.verdict.cure,
                        "{\"amp\":{\"fp32_regions\":[\"fc1\",\"fc2\"]}}");
    stop(&b);
}

/* What is as it should be is given no verdict, in any dtype. */
static void
test_diagnosis_of_sound_numbers(void **unused)
{
    static const char *const dtypes[] = {"{'dtype': 'bfloat16'}",
                                         "{'dtype': 'float32'}"};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct bench b;
        start_c08(&b, "cpu", dtypes[i]);
        const struct evidence *e = diagnose(&b);
        assert_false(e->where.located);
        assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_NONE);
        assert_string_equal(b.d.verdict.cure, "");
        assert_non_null(strstr(b.d.verdict.sentence, "everything is finite"));
        stop(&b);
    }
}

/* ---- the scale ------------------------------------------------------------*/

/* The scale found is the largest power of two that is finite. */
static void
test_diagnosis_scale_is_the_largest(void **unused)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, t[] = {10, 20, 30, 40};
    static const struct rerun_policy own = {.dtype = DTYPE_F16};
    struct rerun_result r;
    struct bench b;

    (void)unused;
    start(&b, "cpu",
          HEAD TWO_LAYERS "'amp': {'dtype': 'float16', 'scaler': "
                          "{'init_scale': 16777216}}}",
          4, 2, x, t, false, 1);
    const struct evidence *e = diagnose(&b);
    assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_SCALE_OVERFLOW);
    assert_int_equal(e->where.pass, EVENT_PASS_BACKWARD);
    assert_true(e->finite_scale >= 1 && e->finite_scale < 16777216);
    assert_string_equal(b.d.verdict.cure, "");
    assert_int_equal(e->n_regions, 0);
    assert_int_equal(e->n_guilty, 0);
    struct rerun_case c = rerun_window(b.state, &b.window);
    c.scale = (float)e->finite_scale;
    must(&b, rerun_run(b.rerun, &c, &own, NULL, NULL, &r, &b.err));
    assert_true(r.finite);
    c.scale = (float)e->finite_scale * 2;
    must(&b, rerun_run(b.rerun, &c, &own, NULL, NULL, &r, &b.err));
    assert_false(r.finite);
    stop(&b);
}

/* ---- labels ---------------------------------------------------------------*/

#define CLASSES                                                                \
    HEAD "'model': [{'name': 'fc', 'linear': {'out_features': 3}}], 'amp': "   \
         "{'dtype': '%s'}, 'loss': %s}"

static void
test_diagnosis_label_past_the_check(void **unused)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t t[] = {0, 2, 3, -1};
    static const char *const dtypes[] = {"float16", "bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 3; i++) {
        char spec[1024];
        struct bench b;
        snprintf(spec, sizeof(spec), CLASSES, dtypes[i], "'cross_entropy'");
        start(&b, backends[i % N_BACKENDS], spec, 4, 2, x, t, true, 2);
        const struct evidence *e = diagnose(&b);
        assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_BAD_INPUT);
        assert_int_equal(e->where.pass, EVENT_PASS_INPUT);
        assert_string_equal(e->where.tensor, "target");
        assert_int_equal(e->where.micro_batch, 1);
        assert_int_equal(e->where.index[0], 0);
        assert_int_equal(e->where.sample, 102);
        assert_int_equal(e->n_guilty, 2);
        assert_int_equal(e->samples[0], 102);
        assert_int_equal(e->samples[1], 103);
        assert_non_null(strstr(b.d.verdict.sentence,
                               "sample 102 has the label 3, and the model "
                               "tells 3 classes apart: 0 to 2"));
        stop(&b);
    }
}

/* The ignored one is no class, and no fault. */
static void
test_diagnosis_ignored_label(void **unused)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t t[] = {0, -100, 2, -100};
    char spec[1024];
    struct bench b;

    (void)unused;
    snprintf(spec, sizeof(spec), CLASSES, "float16",
             "{'cross_entropy': {'ignore_index': -100}}");
    start(&b, "cpu", spec, 4, 2, x, t, true, 1);
    b.window.n_count = 2;
    assert_false(diagnose(&b)->where.located);
    stop(&b);
}

/* C26: the micro-batch and the sample in it. */
static void
test_diagnosis_c26_micro_batch(void **unused)
{
    static const float x[] = {1, NAN, 3, 5}, t[] = {0, 0, 0, 0};
    struct bench b;

    (void)unused;
    start(&b, "cpu",
          HEAD TWO_LAYERS "'amp': {'dtype': 'float16'}, "
                          "'train': {'accumulate': 4}}",
          4, 1, x, t, false, 4);
    const struct evidence *e = diagnose(&b);
    assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_BAD_INPUT);
    assert_int_equal(e->where.micro_batch, 1);
    assert_int_equal(e->where.sample, 101);
    assert_int_equal(e->n_guilty, 1);
    stop(&b);
}

/* ---- samples, by halving --------------------------------------------------*/

/* The gradient of fc1's weight sums x times fc2's weight / 4 over the batch:
 * it has no axis of samples, and the forward pass is zero throughout. */
static void
start_sum(struct bench *b, const char *backend, const char *dtype,
          const float x[4])
{
    static const float t[] = {-10, -10, -10, -10}, w1 = 0, w2 = 1e8f;
    char spec[1024];

    snprintf(spec, sizeof(spec),
             HEAD "'model': [{'name': 'fc1', 'linear': {'out_features': 1, "
                  "'bias': false}}, {'name': 'fc2', 'linear': "
                  "{'out_features': 1, 'bias': false}}], 'loss': 'l1', "
                  "'amp': {'dtype': '%s'}}",
             dtype);
    start(b, backend, spec, 4, 1, x, t, false, 1);
    set(b, "fc1.weight", 1, &w1);
    set(b, "fc2.weight", 1, &w2);
}

static void
test_diagnosis_sample_by_halving(void **unused)
{
    static const float x[] = {1, 1, 1e32f, 1};
    static const char *const dtypes[] = {"bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 2 * N_BACKENDS; i++) {
        struct bench b;
        start_sum(&b, backends[i / 2], dtypes[i % 2], x);
        const struct evidence *e = diagnose(&b);
        assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_DIVERGENCE);
        assert_string_equal(e->where.tensor, "fc1.weight.grad");
        assert_int_equal(e->where.pass, EVENT_PASS_BACKWARD);
        assert_int_equal(e->fp32_finite, EVENT_NO);
        assert_int_equal(e->n_guilty, 1);
        assert_int_equal(e->samples[0], 102);
        assert_int_equal(e->where.sample, 102);
        assert_non_null(strstr(b.d.verdict.sentence, "Sample 102 causes it."));
        assert_string_equal(b.d.verdict.cure,
                            "{\"optimizer\":{\"sgd\":{\"lr\":0.01}}}");
        assert_non_null(strstr(b.d.verdict.sentence, "not proven"));
        stop(&b);
    }
}

/* Two that overflow only together: none is blamed. */
static void
test_diagnosis_samples_together(void **unused)
{
    static const float x[] = {1, 1e31f, 1e31f, 1};
    struct bench b;

    (void)unused;
    start_sum(&b, "cpu", "float32", x);
    const struct evidence *e = diagnose(&b);
    assert_int_equal(b.d.verdict.verdict, EVENT_VERDICT_DIVERGENCE);
    assert_string_equal(e->where.tensor, "fc1.weight.grad");
    assert_int_equal(e->n_guilty, 0);
    assert_int_equal(e->where.sample, -1);
    assert_non_null(
        strstr(b.d.verdict.sentence, "No single sample causes it."));
    stop(&b);
}

/* ---- what must not change -------------------------------------------------*/

/* Neither diagnosis nor its reruns touch the state, or hang on what was run
 * before: the same case gives the same bits after all its variations. */
static void
test_diagnosis_leaves_state_and_bits(void **unused)
{
    static const char *const amp[] = {
        "{'dtype': 'float16'}",
        "{'dtype': 'bfloat16', 'scaler': {'enabled': true}}",
        "{'dtype': 'float32'}"};

    (void)unused;
    for (int i = 0; i < 3 * N_BACKENDS; i++) {
        char first[DIGEST_TEXT_BYTES], again[DIGEST_TEXT_BYTES];
        struct rerun_result r;
        struct bench b;
        start_c08(&b, backends[i / 3], amp[i % 3]);
        const struct state before = *b.state;
        const struct rerun_case c = rerun_window(b.state, &b.window);
        const struct rerun_policy own = rerun_own_policy(b.rerun);
        float *weights = malloc((size_t)before.param_elems * sizeof(float));
        assert_non_null(weights);
        memcpy(weights, before.weights,
               (size_t)before.param_elems * sizeof(float));
        must(&b, rerun_run(b.rerun, &c, &own, NULL, NULL, &r, &b.err));
        struct state seen = *b.state;
        seen.grads = (float *)(uintptr_t)rerun_grads(b.rerun);
        must(&b, step_digest(r.loss, &seen, first, &b.err));
        diagnose(&b);
        must(&b, rerun_run(b.rerun, &c, &own, NULL, NULL, &r, &b.err));
        must(&b, step_digest(r.loss, &seen, again, &b.err));
        assert_string_equal(first, again);
        assert_memory_equal(&before, b.state, sizeof(before));
        assert_memory_equal(weights, before.weights,
                            (size_t)before.param_elems * sizeof(float));
        free(weights);
        stop(&b);
    }
}

/* The training step of the same window, on programs of its own. */
static void
digest_step(struct bench *b, const char *backend, char text[DIGEST_TEXT_BYTES])
{
    const struct kernel_flat flat = backend_flat(backend_find(backend));
    const struct variants_options vo = {
        .spec = b->spec,
        .data = &b->data,
        .backend = backend_find(backend),
        .threads = 1,
    };
    struct variants *variants = variants_create();
    struct optimizer *optimizer = NULL;
    struct step_result r;
    struct lrate lrate;

    assert_non_null(variants);
    must(b, variants_add(variants, &vo, BUILD_TRAIN, b->batch[0].n, &b->err));
    must(b, variants_bind(variants, b->state, &b->err));
    lrate_init(&lrate, b->spec, 1);
    must(b, optimizer_create(b->spec, b->state, &flat, 1, &lrate, &optimizer,
                             &b->err));
    struct step step = {
        .state = b->state,
        .variants = variants,
        .optimizer = optimizer,
        .flat = flat,
        .threads = 1,
    };
    must(b, step_compute(&step, &b->window, &r, &b->err));
    assert_true(r.found_inf);
    must(b, step_digest((float)r.loss, b->state, text, &b->err));
    optimizer_destroy(&optimizer);
    variants_destroy(&variants);
}

/* Of two micro-batches with dropout and running statistics, one of which
 * has a target too far away for any dtype: the rerun has the bits of the step. */
static void
test_diagnosis_rerun_has_the_bits_of_the_step(void **unused)
{
    static const float x[] = {1, 2, 3, 5, 7, 6, 4, 1};
    static const float t[] = {0, 1, 3e38f, 3};
    static const char *const dtypes[] = {"float16", "bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 3 * N_BACKENDS; i++) {
        char text[1024], want[DIGEST_TEXT_BYTES], got[DIGEST_TEXT_BYTES];
        struct rerun_result r;
        struct bench b;
        snprintf(text, sizeof(text),
                 HEAD "'seed': 5, 'model': [{'name': 'fc1', 'linear': "
                      "{'out_features': 8}}, {'name': 'bn', 'batch_norm1d': "
                      "{}}, {'dropout': {'p': 0.5}}, {'name': 'fc2', "
                      "'linear': {'out_features': 1}}], 'loss': 'mse', 'amp': "
                      "{'dtype': '%s', 'scaler': {'init_scale': 8}}}",
                 dtypes[i % 3]);
        start(&b, backends[i / 3], text, 4, 2, x, t, false, 2);
        digest_step(&b, backends[i / 3], want);
        const struct rerun_case c = rerun_window(b.state, &b.window);
        const struct rerun_policy own = rerun_own_policy(b.rerun);
        must(&b, rerun_run(b.rerun, &c, &own, NULL, NULL, &r, &b.err));
        assert_false(r.finite);
        struct state seen = *b.state;
        seen.grads = (float *)(uintptr_t)rerun_grads(b.rerun);
        must(&b, step_digest(r.loss, &seen, got, &b.err));
        assert_string_equal(got, want);
        stop(&b);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diagnosis_c08_cure_is_smallest),
        cmocka_unit_test(test_diagnosis_cure_has_the_spec_regions),
        cmocka_unit_test(test_diagnosis_of_sound_numbers),
        cmocka_unit_test(test_diagnosis_scale_is_the_largest),
        cmocka_unit_test(test_diagnosis_label_past_the_check),
        cmocka_unit_test(test_diagnosis_ignored_label),
        cmocka_unit_test(test_diagnosis_c26_micro_batch),
        cmocka_unit_test(test_diagnosis_sample_by_halving),
        cmocka_unit_test(test_diagnosis_samples_together),
        cmocka_unit_test(test_diagnosis_leaves_state_and_bits),
        cmocka_unit_test(test_diagnosis_rerun_has_the_bits_of_the_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
