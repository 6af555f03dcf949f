/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers of flat_rules.c and the moving average: against the formulas
 * in double over several updates, against values worked out by hand, on any
 * number of threads, within their bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/kernels/check.h"

static const char *const names[] = {"reference", "cpu"};
static const int64_t sizes[] = {0, 1, 17, KERNEL_CHUNK + 1, 70001};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))
#define UPDATES 4

/* Weight and up to three numbers of state. */
struct numbers {
    double w, s[3];
};

struct rule {
    const char *name;
    int n_state;
    void (*run)(const struct kernel_flat *flat, float *w, const float *g,
                float *const s[3], int64_t n, float clip, int64_t t,
                int threads);
    void (*step)(struct numbers *x, double g, int64_t t); /* in double */
};

/* ---- Adagrad ------------------------------------------------------------- */

static const struct kernel_adagrad adagrad = {
    .lr = 0.05, .lr_decay = 0.1, .weight_decay = 0.01, .eps = 1e-10};

static void
run_adagrad(const struct kernel_flat *flat, float *w, const float *g,
            float *const s[3], int64_t n, float clip, int64_t t, int threads)
{
    struct kernel_adagrad p = adagrad;

    p.t = t;
    flat->adagrad(w, g, s[0], n, clip, &p, threads);
}

static void
step_adagrad(struct numbers *x, double g, int64_t t)
{
    g += adagrad.weight_decay * x->w;
    x->s[0] += g * g;
    x->w -= adagrad.lr / (1 + (double)(t - 1) * adagrad.lr_decay) * g /
            (sqrt(x->s[0]) + adagrad.eps);
}

/* ---- RMSprop ------------------------------------------------------------- */

static const struct kernel_rmsprop rmsprop[4] = {
    {.lr = 0.01, .alpha = 0.99, .eps = 1e-8, .weight_decay = 0.01},
    {.lr = 0.01, .alpha = 0.9, .eps = 1e-8, .momentum = 0.9},
    {.lr = 0.01, .alpha = 0.9, .eps = 0.1, .centered = true},
    {.lr = 0.01,
     .alpha = 0.9,
     .eps = 0.1,
     .weight_decay = 0.01,
     .momentum = 0.9,
     .centered = true},
};

static void
run_rmsprop(const struct kernel_flat *flat, float *w, const float *g,
            float *const s[3], int64_t n, float clip, int threads, int which)
{
    const struct kernel_rmsprop *p = &rmsprop[which];

    flat->rmsprop(w, g, s[0], p->momentum != 0 ? s[1] : NULL,
                  p->centered ? s[2] : NULL, n, clip, p, threads);
}

static void
step_rmsprop(struct numbers *x, double g, int which)
{
    const struct kernel_rmsprop *p = &rmsprop[which];
    double variance;

    g += p->weight_decay * x->w;
    x->s[0] = p->alpha * x->s[0] + (1 - p->alpha) * g * g;
    variance = x->s[0];
    if (p->centered) {
        x->s[2] = p->alpha * x->s[2] + (1 - p->alpha) * g;
        variance -= x->s[2] * x->s[2];
    }
    g /= sqrt(variance) + p->eps;
    if (p->momentum != 0)
        g = x->s[1] = p->momentum * x->s[1] + g;
    x->w -= p->lr * g;
}

#define RMSPROP(i)                                                             \
    static void run_rmsprop_##i(const struct kernel_flat *flat, float *w,      \
                                const float *g, float *const s[3], int64_t n,  \
                                float clip, int64_t t, int threads)            \
    {                                                                          \
        (void)t;                                                               \
        run_rmsprop(flat, w, g, s, n, clip, threads, i);                       \
    }                                                                          \
    static void step_rmsprop_##i(struct numbers *x, double g, int64_t t)       \
    {                                                                          \
        (void)t;                                                               \
        step_rmsprop(x, g, i);                                                 \
    }

RMSPROP(0)
RMSPROP(1)
RMSPROP(2)
RMSPROP(3)

/* ---- Lion, the average --------------------------------------------------- */

static const struct kernel_lion lion = {
    .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};

static void
run_lion(const struct kernel_flat *flat, float *w, const float *g,
         float *const s[3], int64_t n, float clip, int64_t t, int threads)
{
    (void)t;
    flat->lion(w, g, s[0], n, clip, &lion, threads);
}

static void
step_lion(struct numbers *x, double g, int64_t t)
{
    const double c = lion.beta1 * x->s[0] + (1 - lion.beta1) * g;

    (void)t;
    x->w -= lion.lr * ((c > 0) - (c < 0) + lion.weight_decay * x->w);
    x->s[0] = lion.beta2 * x->s[0] + (1 - lion.beta2) * g;
}

/* w averages g. */
static void
run_ema(const struct kernel_flat *flat, float *w, const float *g,
        float *const s[3], int64_t n, float clip, int64_t t, int threads)
{
    (void)s;
    (void)clip;
    (void)t;
    flat->ema(w, g, n, 0.9, threads);
}

static void
step_ema(struct numbers *x, double g, int64_t t)
{
    (void)t;
    x->w = 0.9 * x->w + (1 - 0.9) * g;
}

static const struct rule rules[] = {
    {"adagrad", 1, run_adagrad, step_adagrad},
    {"rmsprop", 3, run_rmsprop_0, step_rmsprop_0},
    {"rmsprop with momentum", 3, run_rmsprop_1, step_rmsprop_1},
    {"rmsprop centered", 3, run_rmsprop_2, step_rmsprop_2},
    {"rmsprop with both", 3, run_rmsprop_3, step_rmsprop_3},
    {"lion", 1, run_lion, step_lion},
    {"ema", 0, run_ema, step_ema},
};
#define N_RULES (int)(sizeof(rules) / sizeof(rules[0]))

/* ---- against double ------------------------------------------------------ */

static void
fill(struct check_buf *b, int64_t n, uint64_t seed)
{
    struct check_rng rng = {seed};
    const struct tensor_desc t = tensor_make(DTYPE_F32, 1, &n);

    check_buf_make(b, (size_t)n * sizeof(float));
    check_fill(b->data, &t, CHECK_NORMAL, &rng, NULL, 0);
}

static double
get(const struct check_buf *b, int64_t i)
{
    return check_get(b->data, DTYPE_F32, i);
}

/* Runs UPDATES updates; x goes along in double. Lion's sign may differ where
 * its argument is within rounding of 0: such elements are left out (NaN). */
static void
run_rule(const struct rule *r, int backend, int64_t n, int threads,
         struct check_buf *w, struct check_buf s[3], struct numbers *x)
{
    const struct kernel_flat flat = backend_flat(backend_find(names[backend]));
    const float clip = r->run == run_ema ? 1 : 0.375f;
    float *const state[3] = {s[0].data, s[1].data, s[2].data};

    for (int64_t t = 1; t <= UPDATES; t++) {
        struct check_buf g;

        fill(&g, n, 20 + (uint64_t)t);
        for (int64_t i = 0; i < n && r->run == run_lion; i++)
            if (fabs(lion.beta1 * x[i].s[0] +
                     (1 - lion.beta1) * get(&g, i) * (double)clip) < 1e-6)
                x[i].w = (double)NAN;
        r->run(&flat, w->data, g.data, state, n, clip, t, threads);
        for (int64_t i = 0; i < n; i++)
            r->step(&x[i], get(&g, i) * (double)clip, t);
        assert_true(check_buf_intact(&g));
        check_buf_free(&g);
    }
}

static void
check_rule(const struct rule *r, int backend, int64_t n, int threads)
{
    struct numbers *x = calloc((size_t)n + 1, sizeof(*x));
    struct check_buf w, s[3];

    assert_non_null(x);
    fill(&w, n, 6);
    for (int k = 0; k < 3; k++) {
        check_buf_make(&s[k], (size_t)n * sizeof(float));
        memset(s[k].data, 0, s[k].bytes);
    }
    for (int64_t i = 0; i < n; i++)
        x[i].w = get(&w, i);
    run_rule(r, backend, n, threads, &w, s, x);
    for (int64_t i = 0; i < n; i++) {
        /* Weights, sums and steps below 8, a few roundings an update. */
        const double tolerance = UPDATES * 4 * 8 * 0x1p-24;

        if (!isnan(x[i].w) && fabs(get(&w, i) - x[i].w) > tolerance)
            fail_msg("%s: w[%lld] is %.9g, not %.9g", r->name, (long long)i,
                     get(&w, i), x[i].w);
        for (int k = 0; k < r->n_state; k++)
            if (fabs(get(&s[k], i) - x[i].s[k]) > tolerance)
                fail_msg("%s: state %d[%lld] is %.9g, not %.9g", r->name, k,
                         (long long)i, get(&s[k], i), x[i].s[k]);
    }
    assert_true(check_buf_intact(&w));
    for (int k = 0; k < 3; k++) {
        assert_true(check_buf_intact(&s[k]));
        check_buf_free(&s[k]);
    }
    check_buf_free(&w);
    free(x);
}

static void
test_flat_rules_values(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int r = 0; r < N_RULES; r++)
            for (int i = 0; i < N_SIZES; i++) {
                check_rule(&rules[r], b, sizes[i], 1);
                check_rule(&rules[r], b, sizes[i], 3);
            }
}

/* ---- by hand ------------------------------------------------------------- */

static void
assert_near(float got, double want)
{
    if (fabs((double)got - want) > 1e-7 * fmax(1, fabs(want)))
        fail_msg("%.9g, not %.9g", (double)got, want);
}

/* Gradient 2, then 1: 1 - 0.1, then less 0.1 / 1.5 / sqrt(5). */
static void
test_flat_rules_adagrad_by_hand(void **state)
{
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    struct kernel_adagrad p = {.lr = 0.1, .lr_decay = 0.5, .t = 1};
    _Alignas(64) float w[1] = {1}, g[1] = {2}, sum[1] = {0};

    (void)state;
    flat.adagrad(w, g, sum, 1, 1, &p, 1);
    assert_near(w[0], 0.9);
    assert_near(sum[0], 4);
    p.t = 2;
    g[0] = 1;
    flat.adagrad(w, g, sum, 1, 1, &p, 1);
    assert_near(w[0], 0.9 - 0.1 / 1.5 / sqrt(5));
    assert_near(sum[0], 5);
}

/* alpha 0.75, gradient 2: the square is 1, so the step is lr x 2. */
static void
test_flat_rules_rmsprop_by_hand(void **state)
{
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    struct kernel_rmsprop p = {.lr = 0.125, .alpha = 0.75, .momentum = 0.5};
    _Alignas(64) float w[1] = {1}, g[1] = {2}, sq[1] = {0}, m[1] = {0};
    _Alignas(64) float mean[1] = {0};

    (void)state;
    flat.rmsprop(w, g, sq, m, NULL, 1, 1, &p, 1);
    assert_near(sq[0], 1);
    assert_near(m[0], 2);
    assert_near(w[0], 0.75);
    /* Square 0.75 + 1 = 1.75, momentum 1 + 2 / sqrt(1.75). */
    flat.rmsprop(w, g, sq, m, NULL, 1, 1, &p, 1);
    assert_near(sq[0], 1.75);
    assert_near(w[0], 0.75 - 0.125 * (1 + 2 / sqrt(1.75)));
    /* Centered: mean 0.5, variance 1 - 0.25. */
    p = (struct kernel_rmsprop){.lr = 0.125, .alpha = 0.75, .centered = true};
    w[0] = 1;
    sq[0] = 0;
    flat.rmsprop(w, g, sq, NULL, mean, 1, 1, &p, 1);
    assert_near(mean[0], 0.5);
    assert_near(w[0], 1 - 0.125 * 2 / sqrt(0.75));
}

/* A gradient that never changes has no variance: eps is what divides, and
 * nothing becomes NaN however it is rounded. */
static void
test_flat_rules_rmsprop_constant_gradient(void **state)
{
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    const struct kernel_rmsprop p = {
        .lr = 1e-3, .alpha = 0.5, .eps = 1e-3, .centered = true};
    _Alignas(64) float w[64], g[64], sq[64] = {0}, mean[64] = {0};

    (void)state;
    for (int i = 0; i < 64; i++) {
        w[i] = 0;
        g[i] = 0.1f + 0.01f * (float)i;
    }
    for (int t = 0; t < 200; t++)
        flat.rmsprop(w, g, sq, NULL, mean, 64, 1, &p, 1);
    for (int i = 0; i < 64; i++)
        assert_true(isfinite(w[i]));
}

/* Step by lr, decay on its own, no step where there is no direction. */
static void
test_flat_rules_lion_by_hand(void **state)
{
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    const struct kernel_lion p = {
        .lr = 0.25, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.5};
    _Alignas(64) float w[3] = {1, 1, 1}, g[3] = {4, -4, 0}, m[3] = {0, 0, 0};

    (void)state;
    flat.lion(w, g, m, 3, 1, &p, 1);
    assert_near(w[0], 0.875 - 0.25);
    assert_near(w[1], 0.875 + 0.25);
    assert_near(w[2], 0.875);
    assert_near(m[0], 1);
    /* The direction is that of 0.5 m + 0.5 g: m wins over -0.5. */
    g[0] = -0.5f;
    flat.lion(w, g, m, 3, 1, &p, 1);
    assert_near(w[0], 0.625 * 0.875 - 0.25);
    assert_near(m[0], 0.75 - 0.125);
}

/* What is constant stays, however long: decay and 1 - decay, each rounded,
 * would not add up to 1. */
static void
test_flat_rules_ema_keeps_constants(void **state)
{
    const struct kernel_flat flat = backend_flat(backend_find("cpu"));
    _Alignas(64) float ema[2] = {0.3f, 1}, w[2] = {0.3f, 3};

    (void)state;
    flat.ema(ema, w, 2, 0.5, 1);
    assert_true(ema[0] == 0.3f);
    assert_true(ema[1] == 2);
    for (int i = 0; i < 100000; i++)
        flat.ema(ema, w, 2, 0.9999, 1);
    assert_true(ema[0] == 0.3f);
    /* Half a place of 3 divided by 1 - decay is where it comes to rest. */
    assert_true(fabs((double)ema[1] - 3) <= 0x1p-23 / 1e-4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_rules_values),
        cmocka_unit_test(test_flat_rules_adagrad_by_hand),
        cmocka_unit_test(test_flat_rules_rmsprop_by_hand),
        cmocka_unit_test(test_flat_rules_rmsprop_constant_gradient),
        cmocka_unit_test(test_flat_rules_lion_by_hand),
        cmocka_unit_test(test_flat_rules_ema_keeps_constants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
