/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of small models: a listing, twins, marks, micro-batches.
 * `ranges_test --update` writes tests/golden/ranges.txt anew. */
#include "engine/diagnose/ranges.h"
#include "engine/graph/build.h"

#include "tests/train/harness.h"

#include <math.h>

#define LISTING "tests/golden/ranges.txt"

static bool updating;

/* A model over rows of numbers, and one window of it. */
struct bench {
    struct spec *spec;
    struct build_data data;
    struct state *state;
    struct prefetch_batch batch[2];
    struct prefetch_window window;
    struct ranges *ranges;
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

/* n samples of width numbers to targets numbers, in n_batches. */
static void
start(struct bench *b, const char *spec, int64_t n, int64_t width,
      int64_t targets, const float *x, const float *t, int n_batches)
{
    static const int64_t ids[16];
    const int64_t each = (n + n_batches - 1) / n_batches;
    struct graph *graph;
    struct err err;

    memset(b, 0, sizeof(*b));
    parse(b, spec);
    b->data = (struct build_data){.rank = 1,
                                  .dim = {width},
                                  .target_elems = targets,
                                  .target_rank = 1,
                                  .target_dim = {targets}};
    err_clear(&err);
    if (build_graph(b->spec, &b->data, BUILD_TRAIN, each, &graph, &err) != 0 ||
        state_create(graph, 0, &b->state, &err) != 0)
        fail_msg("%s", err.msg);
    b->state->seed = b->spec->seed;
    state_init_weights(b->state, graph);
    scaler_init(&b->state->scaler, &b->spec->amp.scaler);
    graph_destroy(&graph);
    for (int i = 0; i < n_batches; i++) {
        const int64_t first = i * each;
        b->batch[i] =
            (struct prefetch_batch){x + first * width, t + first * targets, ids,
                                    n - first < each ? n - first : each};
    }
    b->window = (struct prefetch_window){
        .at = {.n_batches = n_batches, .n_samples = n},
        .batch = b->batch,
        .n_count = n * targets,
        .ids = ids,
    };
}

static void
measure(struct bench *b)
{
    const struct ranges_options o = {b->spec, b->data,
                                     backend_find("reference"), 1};
    struct err err;

    ranges_destroy(&b->ranges);
    err_clear(&err);
    if (ranges_measure(&o, b->state, &b->window, &b->ranges, &err) != 0)
        fail_msg("%s", err.msg);
}

static void
stop(struct bench *b)
{
    ranges_destroy(&b->ranges);
    state_destroy(&b->state);
    spec_destroy(&b->spec);
}

static const struct ranges_row *
find_row(const struct bench *b, const char *tensor)
{
    for (int i = 0; i < ranges_n(b->ranges); i++)
        if (strcmp(ranges_at(b->ranges, i)->tensor, tensor) == 0)
            return ranges_at(b->ranges, i);
    fail_msg("there is no %s", tensor);
    return NULL;
}

static float *
weights_of(struct bench *b, const char *name)
{
    for (int i = 0; i < b->state->n_params; i++)
        if (strcmp(b->state->param[i].name, name) == 0)
            return b->state->weights + b->state->param[i].offset;
    fail_msg("there is no %s", name);
    return NULL;
}

#define HEAD                                                                   \
    "{'seed': 3, 'threads': 1, 'data': {'train': {'format': 'npy', 'input': "  \
    "'x', 'target': 'y'}, 'batch_size': 8}, 'loss': 'mse', 'optimizer': "      \
    "{'sgd': {'lr': 0.1}}, "

/* ---- the listing ----------------------------------------------------------*/

static void
print_row(FILE *f, const struct ranges_row *r)
{
    char shape[128];

    fprintf(f,
            "%-8s %-5s %-14s %-22s %-12s %-12.6g %-12.6g %3lld %-6.4g %-9.5g "
            "%-12.6g %-12.6g %3lld %s\n",
            event_pass_name(r->pass), r->layer, r->op, r->tensor,
            tensor_format(&r->desc, shape, sizeof(shape)), r->largest,
            r->smallest, (long long)r->n_nonfinite, r->flushed, r->headroom,
            r->fp32_largest, r->fp32_smallest, (long long)r->fp32_nonfinite,
            ranges_mark_name(r->mark));
}

static void
test_ranges_listing(void **unused)
{
    float x[4 * 5], t[4 * 2];
    struct bench b;
    char *text = NULL;
    size_t n = 0, n_want;

    (void)unused;
    for (int i = 0; i < 20; i++)
        x[i] = (float)(i - 7) * 0.25f;
    for (int i = 0; i < 8; i++)
        t[i] = (float)i;
    x[3] = 3e4f;
    start(&b,
          HEAD "'model': [{'name': 'fc1', 'linear': {'out_features': 3}}, "
               "{'name': 'ln', 'layer_norm': {}}, 'gelu', {'name': 'fc2', "
               "'linear': {'out_features': 2}}], 'amp': {'dtype': 'float16', "
               "'scaler': {'init_scale': 4096}}}",
          4, 5, 2, x, t, 1);
    measure(&b);
    FILE *f = open_memstream(&text, &n);
    for (int i = 0; i < ranges_n(b.ranges); i++)
        print_row(f, ranges_at(b.ranges, i));
    fclose(f);
    if (updating)
        bytes_write_file(LISTING, text, n);
    uint8_t *want = bytes_read_file(LISTING, &n_want);
    if (n != n_want || memcmp(text, want, n) != 0)
        fail_msg("differs from " LISTING ":\n%s", text);
    free(want);
    free(text);
    stop(&b);
}

/* ---- twins ----------------------------------------------------------------*/

/* In small whole numbers float16 is exact, so every twin is the same: a sum
 * that was taken for one of its parts would not be. */
static void
check_exact(const char *spec)
{
    float x[8 * 4], t[8 * 4];
    struct bench b;
    int n_backward = 0;

    for (int i = 0; i < 32; i++) {
        x[i] = (float)(i % 3);
        t[i] = (float)(i % 2);
    }
    start(&b, spec, 8, 4, 4, x, t, 1);
    for (int64_t i = 0; i < b.state->param_elems; i++)
        b.state->weights[i] = (float)(i % 3 - 1);
    b.state->scaler.scale = 64;
    measure(&b);
    for (int i = 0; i < ranges_n(b.ranges); i++) {
        const struct ranges_row *r = ranges_at(b.ranges, i);

        if (!r->has_twin)
            continue;
        if (r->largest != r->fp32_largest || r->smallest != r->fp32_smallest)
            if (!isnan(r->smallest) || !isnan(r->fp32_smallest))
                fail_msg("%s: %g to %g, in float32 %g to %g", r->tensor,
                         r->smallest, r->largest, r->fp32_smallest,
                         r->fp32_largest);
        assert_true(r->flushed == 0);
        n_backward += r->pass == EVENT_PASS_BACKWARD;
    }
    assert_true(n_backward >= 6);
    assert_true(find_row(&b, "fc1.weight.grad")->has_twin);
    assert_true(find_row(&b, "fc2.out.grad")->has_twin);
    assert_true(find_row(&b, "fc1.out")->has_twin);
    stop(&b);
}

static void
test_ranges_twins_are_the_same_sum(void **unused)
{
    (void)unused;
    /* 1.out is used in float16 and, by the product, in float32 */
    check_exact(HEAD
                "'model': [{'name': 'fc1', 'linear': {'out_features': 4}}, "
                "'relu', {'name': 'fc2', 'linear': {'out_features': 4}}, "
                "{'name': 'sum', 'input': ['1', 'fc2'], 'add': {}}], "
                "'amp': {'dtype': 'float16', 'fp32_regions': ['fc1']}}");
    check_exact(HEAD
                "'model': [{'name': 'fc1', 'linear': {'out_features': 4}}, "
                "{'name': 'r', 'residual': [{'name': 'a', 'linear': "
                "{'out_features': 4}}, 'relu', {'name': 'b', 'linear': "
                "{'out_features': 4}}]}, {'name': 'fc2', 'linear': "
                "{'out_features': 4}}], 'amp': {'dtype': 'float16', "
                "'fp32_regions': ['r']}}");
    check_exact(HEAD
                "'model': [{'name': 'fc1', 'linear': {'out_features': 4}}, "
                "{'name': 'r', 'residual': [{'name': 'a', 'linear': "
                "{'out_features': 4}}]}, {'name': 'fc2', 'linear': "
                "{'out_features': 4}}], 'amp': {'dtype': 'float16', "
                "'fp32_regions': ['r.a', 'fc1']}}");
}

/* ---- marks ----------------------------------------------------------------*/

#define LINE_MODEL                                                             \
    "'model': [{'name': 'fc', 'linear': {'out_features': 1, 'bias': "          \
    "false}}], "

/* y = w x with one weight, and a target; 4 samples. */
static void
check_marks(float w, float x, float t, float scale, const char *tensor,
            enum ranges_mark mark)
{
    const float xs[4] = {x, x, x, x}, ts[4] = {t, t, t, t};
    struct bench b;

    start(&b, HEAD LINE_MODEL "'amp': {'dtype': 'float16'}}", 4, 1, 1, xs, ts,
          1);
    weights_of(&b, "fc.weight")[0] = w;
    b.state->scaler.scale = scale;
    measure(&b);
    assert_string_equal(ranges_mark_name(find_row(&b, tensor)->mark),
                        ranges_mark_name(mark));
    stop(&b);
}

static void
test_ranges_marks(void **unused)
{
    (void)unused;
    check_marks(1, 16376, 0, 1, "fc.out", RANGES_FINE); /* 65504 / 4 */
    check_marks(1, 16384, 0, 1, "fc.out", RANGES_HEADROOM);
    check_marks(2, 40000, 0, 1, "fc.out", RANGES_OVERFLOW);
    check_marks(1, 1, 1 + 0x1p-23f, 1, "fc.out.grad", RANGES_FINE);
    /* 2 (1 - t) / 4: 2^-24 is the last that float16 has. */
    check_marks(1, 1, 1 + 0x1p-10f, 0x1p-14f, "fc.out.grad", RANGES_FLUSHED);
    check_marks(1, 1, 1 + 0x1p-10f, 0x1p-13f, "fc.out.grad", RANGES_FINE);
}

/* A share of 1 % is fine, more is not. */
static void
test_ranges_flushed_share(void **unused)
{
    enum { N = 200 };
    static float x[N], t[N];
    struct bench b;

    (void)unused;
    for (int few = 1; few <= 3; few++) {
        for (int i = 0; i < N; i++) {
            x[i] = 1;
            t[i] = i < few ? 1 + 0x1p-20f : 2;
        }
        start(&b,
              "{'data': {'train': {'format': 'npy', 'input': 'x', 'target': "
              "'y'}, 'batch_size': 200}, 'loss': 'mse', 'optimizer': {'sgd': "
              "{'lr': 0.1}}, " LINE_MODEL "'amp': {'dtype': 'float16'}}",
              N, 1, 1, x, t, 1);
        weights_of(&b, "fc.weight")[0] = 1;
        b.state->scaler.scale = 1;
        measure(&b);
        const struct ranges_row *r = find_row(&b, "fc.out.grad");
        assert_true(r->flushed == (double)few / N);
        assert_int_equal(r->mark, few <= 2 ? RANGES_FINE : RANGES_FLUSHED);
        assert_true(r->fp32_smallest > 0 && r->fp32_smallest < 0x1p-24);
        stop(&b);
    }
}

/* ---- micro-batches --------------------------------------------------------*/

static void
test_ranges_joins_micro_batches(void **unused)
{
    const float x[6] = {1, 2, 3, 4, 5, 70000}, t[6] = {0};
    struct bench b;

    (void)unused;
    start(&b,
          HEAD LINE_MODEL "'amp': {'dtype': 'float16'}, 'train': "
                          "{'accumulate': 2}}",
          5, 1, 1, x, t, 2); /* 3 and 2 */
    weights_of(&b, "fc.weight")[0] = 8;
    b.state->scaler.scale = 1;
    measure(&b);
    const struct ranges_row *r = find_row(&b, "fc.out");
    assert_true(r->largest == 40 && r->smallest == 8);
    assert_int_equal(r->n_nonfinite, 0);
    assert_true(r->fp32_largest == 40 && r->fp32_smallest == 8);
    assert_int_equal(r->desc.dim[0], 3);
    /* What accumulates is what it is at the end: 2/5 (8+32+72+128+200). */
    r = find_row(&b, "fc.weight.grad");
    assert_true(fabs(r->largest - 176) < 0.2 && r->largest == r->smallest);
    assert_true(ranges_outcome(b.ranges)->finite);
    b.batch[1].input = x + 4; /* 5 and 70000 */
    measure(&b);
    assert_int_equal(find_row(&b, "fc.out")->n_nonfinite, 1);
    assert_int_equal(find_row(&b, "fc.out")->fp32_nonfinite, 0);
    assert_true(find_row(&b, "fc.out")->fp32_largest == 560000);
    assert_false(ranges_outcome(b.ranges)->finite);
    stop(&b);
}

/* The state is only read. */
static void
test_ranges_leaves_the_state(void **unused)
{
    const float x[4] = {1, 2, 3, 4}, t[4] = {0};
    struct bench b;

    (void)unused;
    start(&b, HEAD LINE_MODEL "'amp': {'dtype': 'bfloat16'}}", 4, 1, 1, x, t,
          1);
    struct state before = *b.state;
    const float w = weights_of(&b, "fc.weight")[0];
    measure(&b);
    assert_memory_equal(&before, b.state, sizeof(before));
    assert_true(w == weights_of(&b, "fc.weight")[0]);
    assert_true(b.state->grads[0] == 0);
    stop(&b);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_listing),
        cmocka_unit_test(test_ranges_twins_are_the_same_sum),
        cmocka_unit_test(test_ranges_marks),
        cmocka_unit_test(test_ranges_flushed_share),
        cmocka_unit_test(test_ranges_joins_micro_batches),
        cmocka_unit_test(test_ranges_leaves_the_state),
    };

    updating = argc == 2 && strcmp(argv[1], "--update") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
