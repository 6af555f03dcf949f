/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any spec: models, optimizers and settings drawn from a seed. Each trains
 * three updates on the definition of the kernels and on the fast ones, must
 * come to the same within rounding, go on from a checkpoint with the same
 * bits, and its memory plan may not let one value overwrite another that is
 * still wanted.
 *
 *     random_graph_test [SEED]     one of them, and its spec
 */
#include "tests/train/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pass/recompute.h"
#include "tests/kernels/check.h"
#include "tests/support/shadow.h"

#define N_SEEDS   60
#define N_SAMPLES 24
#define BATCH     4
#define UPDATES   3

/* ---- a spec from a seed --------------------------------------------------- */

struct draw {
    struct check_rng rng;
    char text[8192];
    size_t n;
    bool image;         /* [C, H, W], else [K] */
    int channels, size; /* of images: square; K is channels */
    int depth;
};

static void put(struct draw *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
put(struct draw *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof(d->text) - d->n, fmt, ap);
    va_end(ap);
    assert_true(d->n < sizeof(d->text));
}

static int
below(struct draw *d, int n)
{
    return (int)((check_random(&d->rng) >> 20) % (uint64_t)n);
}

static const char *
pick(struct draw *d, const char *const *list, int n)
{
    return list[below(d, n)];
}

#define PICK(d, list) pick(d, list, (int)(sizeof(list) / sizeof((list)[0])))

/* Layers that keep the shape of anything, of images, of rows. */
static const char *const anywhere[] = {
    "'relu'",
    "{'gelu': {}}",
    "{'gelu': {'approximate': 'tanh'}}",
    "'tanh'",
    "'sigmoid'",
    "'silu'",
    "'softplus'",
    "'prelu'",
    "'identity'",
    "{'dropout': {'p': 0.25}}",
    "{'add': {'value': 0.5}}",
    "{'mul': {'value': -1.5}}",
    "{'div': {'value': 2}}",
    "{'sub': {'value': 0.25}}",
    "{'sequential': ['sigmoid', {'pow': {'exponent': 2}}]}",
    "{'sequential': ['softplus', {'add': {'value': 0.5}}, 'log']}",
    "{'sequential': ['tanh', 'exp']}",
    "{'sequential': ['sigmoid', {'add': {'value': 0.5}}, 'rsqrt']}",
    "{'sequential': ['sigmoid', {'add': {'value': 0.5}}, 'reciprocal']}",
};
static const char *const of_images[] = {
    "'batch_norm2d'",
    "{'group_norm': {'num_groups': 2}}",
    "{'max_pool2d': {'kernel_size': 3, 'stride': 1, 'padding': 1}}",
    "{'avg_pool2d': {'kernel_size': 3, 'stride': 1, 'padding': 1}}",
};
static const char *const of_rows[] = {
    "'layer_norm'",
    "'rms_norm'",
    "'batch_norm1d'",
    "{'softmax': {'dim': -1}}",
    "{'log_softmax': {'dim': -1}}",
    "{'cumsum': {'dim': -1}}",
};

static void put_layer(struct draw *d);

/* Image of c channels of the same size. */
static void
put_conv(struct draw *d, int c)
{
    const int k = 1 + 2 * below(d, 2);

    put(d,
        "{'conv2d': {'out_channels': %d, 'kernel_size': %d, 'padding': %d, "
        "'groups': %d, 'bias': %s}}",
        c, k, k / 2, c % 2 == 0 && d->channels % 2 == 0 ? 1 + below(d, 2) : 1,
        below(d, 2) ? "true" : "false");
    d->channels = c;
}

static void
put_product(struct draw *d, int c)
{
    if (d->image) {
        put_conv(d, c);
        return;
    }
    put(d, "{'linear': {'out_features': %d}}", c);
    d->channels = c;
}

static void
put_resize(struct draw *d)
{
    const int how = below(d, 4);

    if (!d->image) {
        put_product(d, 2 + 2 * below(d, 4));
    } else if (how == 0 && d->size >= 4) {
        put(d, "{'max_pool2d': {'kernel_size': 2}}");
        d->size /= 2;
    } else if (how == 1 && d->size <= 4) {
        put(d, "{'upsample': {'scale_factor': 2, 'mode': '%s'}}",
            below(d, 2) ? "bilinear" : "nearest");
        d->size *= 2;
    } else if (how == 2 && d->size <= 4) {
        put(d, "{'conv_transpose2d': {'out_channels': 4, 'kernel_size': 2, "
               "'stride': 2}}");
        d->channels = 4;
        d->size *= 2;
    } else {
        put(d, "{'adaptive_avg_pool2d': {'output_size': %d}}", d->size);
    }
}

/* Two branches of one shape from one value, and what joins them. */
static void
put_branches(struct draw *d)
{
    static const char *const joins[] = {"'add'", "'sub'", "'mul'", "'cat'"};
    const int c = d->channels, join = below(d, 4);

    put(d, "{'sequential': [{'name': 'from', 'identity': {}}, {'name': 'a', "
           "'sequential': [");
    put_product(d, c);
    put(d, "]}, {'name': 'b', 'input': 'from', 'sequential': [");
    put_layer(d);
    put(d, ", ");
    put_product(d, c);
    put(d, "]}, {'input': ['a', 'b'], %s: {%s}}]}", joins[join],
        join == 3 ? "'dim': 1" : "");
    if (join == 3)
        d->channels = 2 * c;
}

/* One that may change channels but not the size of images. */
static void
put_layer(struct draw *d)
{
    const int how = below(d, 10);

    if (how < 4) {
        put(d, "%s", PICK(d, anywhere));
    } else if (how < 6) {
        put(d, "%s", d->image ? PICK(d, of_images) : PICK(d, of_rows));
    } else if (how < 8 || d->depth >= 2) {
        put_product(d, 2 + 2 * below(d, 3));
    } else {
        const int c = d->channels;

        d->depth++;
        if (how == 8) {
            put_branches(d);
        } else {
            put(d, "{'residual': [");
            put_layer(d);
            put(d, ", ");
            put_product(d, c);
            put(d, "]}");
        }
        d->depth--;
    }
}

static void
put_model(struct draw *d)
{
    const int n = 2 + below(d, 4);

    put(d, "'model': [");
    for (int i = 0; i < n; i++) {
        /* Blocks of their own names, for recomputation. */
        put(d, "{'name': 'block%d', 'sequential': [", i);
        put_layer(d);
        put(d, ", ");
        put_layer(d);
        put(d, "]}, ");
        if (below(d, 3) == 0) {
            put_resize(d);
            put(d, ", ");
        }
    }
    put(d, "'flatten', 'layer_norm', {'name': 'head', 'linear': "
           "{'out_features': 3}}], ");
}

/* An eps so large that a gradient which is nothing but rounding moves nothing;
 * Lion, which steps by signs, is not among them. */
static const char *const optimizers[] = {
    "{'sgd': {'lr': 0.05, 'momentum': 0.9, 'nesterov': true}}",
    "{'sgd': {'lr': 0.05, 'weight_decay': 0.1}}",
    "{'adam': {'lr': 0.01, 'eps': 0.01}}",
    "{'adamw': {'lr': 0.01, 'eps': 0.01, 'weight_decay': 0.1}}",
    "{'adagrad': {'lr': 0.01, 'eps': 0.01}}",
    "{'rmsprop': {'lr': 0.001, 'eps': 0.01, 'momentum': 0.5}}",
    "[{'match': ['head.*'], 'sgd': {'lr': 0.05}}, {'adam': {'lr': 0.01, "
    "'eps': 0.01}}]",
};

static void
put_settings(struct draw *d, const char *dtype)
{
    const int accumulate = 1 + below(d, 2);

    put(d, "'optimizer': %s, ", PICK(d, optimizers));
    put(d, "'amp': {'dtype': '%s', 'scaler': {'init_scale': 64}}, ", dtype);
    put(d, "'train': {'epochs': 9, 'max_iterations': %d, 'accumulate': %d",
        UPDATES, accumulate);
    if (below(d, 2))
        put(d, ", 'clip_grad_norm': 0.5");
    if (below(d, 2))
        put(d, ", 'ema': {'decay': 0.9}");
    if (below(d, 2))
        put(d, ", 'recompute': ['block*']");
    put(d, "}, 'checkpoint': {'keep': 9}}");
}

static void
draw_spec(struct draw *d, int seed)
{
    static const char *const dtypes[] = {"float32", "bfloat16", "float16"};

    memset(d, 0, sizeof(*d));
    d->rng.state = (uint64_t)seed * 0x9E3779B97F4A7C15u + 7;
    check_random(&d->rng);
    d->image = below(d, 2);
    d->channels = d->image ? 2 : 6;
    d->size = 4;
    put(d,
        "{'name': 'random', 'seed': %d, 'threads': 1, 'data': {'train': "
        "{'format': 'npy', 'input': 'x.npy', 'target': 'y.npy'}, "
        "'batch_size': %d}, 'loss': 'cross_entropy', ",
        seed, BATCH);
    put_model(d);
    put_settings(d, dtypes[seed % 3]);
}

/* ---- running it ---------------------------------------------------------- */

static void
make_data(struct harness *h, bool image)
{
    const int64_t dim[4] = {N_SAMPLES, image ? 2 : 6, 4, 4};
    const int size = image ? 32 : 6;
    float x[N_SAMPLES * 32];
    int64_t y[N_SAMPLES];

    for (int i = 0; i < N_SAMPLES; i++) {
        y[i] = i % 3;
        for (int k = 0; k < size; k++)
            x[i * size + k] =
                sinf((float)(i * 7 + k * 3)) + 0.25f * (float)y[i];
    }
    harness_npy_f32(h, "x.npy", image ? 4 : 2, dim, x);
    harness_npy_i64(h, "y.npy", N_SAMPLES, y);
}

struct result {
    double loss[UPDATES];
    float *weights; /* owned */
    int64_t n;
};

static struct result
train_on(struct harness *h, const char *backend)
{
    struct result r = {.weights = NULL};
    const struct state *s;

    harness_reset(h);
    h->backend = backend;
    if (harness_run(h, NULL) != 0)
        fail_msg("%s", h->err.msg);
    s = engine_state(h->engine);
    assert_int_equal(s->count.updates, UPDATES);
    for (int i = 0; i < UPDATES; i++)
        r.loss[i] = (double)harness_event(h, EVENT_STEP, i)->u.step.loss;
    r.n = s->param_elems;
    r.weights = malloc((size_t)r.n * sizeof(float));
    assert_non_null(r.weights);
    memcpy(r.weights, s->weights, (size_t)r.n * sizeof(float));
    return r;
}

/* Rounding of the data type, times what some twenty layers and three updates
 * may make of it. */
static double
tolerance_of(const char *text)
{
    return strstr(text, "'float32'") != NULL   ? 0x1p-23 * 512
           : strstr(text, "'float16'") != NULL ? 0x1p-11 * 32
                                               : 0x1p-8 * 32;
}

static void
check_backends(struct harness *h, const char *text)
{
    struct result a = train_on(h, "reference"), b = train_on(h, "cpu");
    const double tolerance = tolerance_of(text);
    double far = 0, size = 0;

    for (int i = 0; i < UPDATES; i++)
        if (fabs(a.loss[i] - b.loss[i]) > tolerance * fabs(a.loss[i]))
            fail_msg("loss %d: %.9g on the reference, %.9g on cpu:\n%s", i,
                     a.loss[i], b.loss[i], text);
    assert_int_equal(a.n, b.n);
    for (int64_t i = 0; i < a.n; i++) {
        const double d = (double)a.weights[i] - (double)b.weights[i];

        far += d * d;
        size += (double)a.weights[i] * (double)a.weights[i];
    }
    if (sqrt(far) > tolerance * sqrt(size))
        fail_msg("weights: off by %.3g of %.3g:\n%s", sqrt(far), sqrt(size),
                 text);
    free(a.weights);
    free(b.weights);
}

static void
check_resume(struct harness *h, const char *text)
{
    struct harness_snapshot whole, resumed;
    char name[128];
    int n;

    harness_reset(h);
    assert_int_equal(harness_run(h, NULL), 0);
    whole = harness_snapshot(h);
    harness_reset(h);
    harness_order(h, 2, REPORT_STOP);
    assert_int_equal(harness_run(h, NULL), 0);
    n = harness_count(h, EVENT_CHECKPOINT);
    assert_true(n > 0);
    snprintf(name, sizeof(name), "%s",
             harness_event(h, EVENT_CHECKPOINT, n - 1)->u.checkpoint.name);
    h->n_orders = 0;
    assert_int_equal(harness_run(h, name), 0);
    resumed = harness_snapshot(h);
    if (whole.n != resumed.n ||
        memcmp(whole.bytes, resumed.bytes, whole.n) != 0)
        fail_msg("other bits after a resume:\n%s", text);
    free(whole.bytes);
    free(resumed.bytes);
}

/* The program of a whole batch, as the engine makes it. */
static void
check_plan(const struct harness *h, bool image)
{
    static const struct build_data rows = {MODEL_ROWS(6), MODEL_CLASSES};
    static const struct build_data images = {MODEL_IMAGES(2, 4), MODEL_CLASSES};
    struct recompute_options again = {NULL, 0};
    struct graph *g = NULL, *out = NULL;
    const char **blocks = NULL;
    struct program *p;
    struct err err;

    assert_int_equal(build_graph(h->spec, image ? &images : &rows, BUILD_TRAIN,
                                 BATCH, &g, &err),
                     0);
    g = model_autocast(g, h->spec->amp.dtype, NULL);
    g = model_autodiff(g, false, h->spec->train.accumulate > 1);
    assert_int_equal(build_find_blocks(h->spec, &blocks, &again.n_blocks, &err),
                     0);
    again.block = blocks;
    assert_int_equal(recompute_apply(g, &again, &out, &err), 0);
    graph_destroy(&g);
    p = model_program(out, false);
    shadow_check(p, false);
    program_destroy(&p);
    free(blocks);
}

static void
check_seed(int seed, bool show)
{
    struct harness h;
    struct draw d;

    draw_spec(&d, seed);
    if (show)
        printf("%s\n", d.text);
    harness_init(&h);
    make_data(&h, d.image);
    harness_spec(&h, d.text);
    check_backends(&h, d.text);
    check_resume(&h, d.text);
    check_plan(&h, d.image);
    harness_fini(&h);
}

static int only_seed = -1;

static void
test_random_graph_seeds(void **state)
{
    (void)state;
    for (int seed = 0; seed < N_SEEDS; seed++)
        if (only_seed < 0 || seed == only_seed)
            check_seed(seed, only_seed >= 0);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graph_seeds),
    };

    if (argc > 1)
        only_seed = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
