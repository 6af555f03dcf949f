/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "tests/kernels/check.h"

/* Both backends answer to the same tests. */
static const char *const names[] = {"reference", "cpu"};

static const int64_t sizes[] = {0,
                                1,
                                17,
                                KERNEL_CHUNK,
                                KERNEL_CHUNK + 1,
                                70001,
                                1030 * (int64_t)KERNEL_CHUNK + 5};
#define N_SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))
#define BIG     (N_SIZES - 1) /* more chunks than one wave; used with care */

static struct kernel_flat
flat(int backend)
{
    return backend_flat(backend_find(names[backend]));
}

/* Random up to FRESH elements, then those again. */
#define FRESH 100003

static void
fill(struct check_buf *b, int64_t n, uint64_t seed)
{
    struct check_rng rng = {seed};
    const int64_t fresh = n < FRESH ? n : FRESH;
    const struct tensor_desc t = tensor_make(DTYPE_F32, 1, &fresh);

    check_buf_make(b, (size_t)n * sizeof(float));
    check_fill(b->data, &t, CHECK_NORMAL, &rng, NULL, 0);
    for (int64_t i = fresh; i < n; i++)
        ((float *)b->data)[i] = ((float *)b->data)[i - fresh];
}

/* ---- unscale ------------------------------------------------------------- */

static void
test_flat_unscale_values(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < N_SIZES; s++) {
            const int64_t n = sizes[s];
            struct kernel_unscale r = {true, -1};
            struct check_buf g, old;
            double sum = 0;

            fill(&g, n, 1);
            fill(&old, n, 1);
            flat(b).unscale(g.data, n, 0.25f, 2, &r);
            for (int64_t i = 0; i < n; i++) {
                const float v = ((const float *)old.data)[i] * 0.25f;

                assert_true(((const float *)g.data)[i] == v);
                sum += (double)v * (double)v;
            }
            assert_false(r.found_inf);
            /* What n additions in a row may lose. */
            assert_true(fabs(r.sum_squares - sum) <= (double)n * 0x1p-53 * sum);
            assert_true(check_buf_intact(&g));
            check_buf_free(&g);
            check_buf_free(&old);
        }
}

/* A non-finite value is found wherever it stands, before and after the
 * product; nothing else is called one. */
static void
test_flat_unscale_found_inf(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    const int64_t n = 2 * KERNEL_CHUNK + 37;
    const int64_t at[] = {0, 15, 16, KERNEL_CHUNK - 1, KERNEL_CHUNK, n - 1};

    (void)state;
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 6; i++)
                for (int inverse = 0; inverse < 3; inverse++) {
                    static const float inverses[] = {1, 0.5f, 0};
                    struct kernel_unscale r = {false, 0};
                    struct check_buf g;

                    fill(&g, n, 2);
                    ((float *)g.data)[at[i]] = bad[k];
                    flat(b).unscale(g.data, n, inverses[inverse], 2, &r);
                    assert_true(r.found_inf);
                    check_buf_free(&g);
                }
}

static void
test_flat_unscale_overflow_of_product(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        struct kernel_unscale r;
        _Alignas(64) float g[4] = {3e38f, 1, 0, -3e38f};

        flat(b).unscale(g, 4, 1, 1, &r); /* the largest numbers are finite */
        assert_false(r.found_inf);
        assert_true(isfinite(r.sum_squares));
        flat(b).unscale(g, 4, 2, 1, &r);
        assert_true(r.found_inf);
        g[0] = g[3] = 0;
        flat(b).unscale(g, 4, INFINITY, 1, &r); /* T11: scale 2^-128 */
        assert_true(r.found_inf);
    }
}

/* inverse 1 leaves every bit, signalling NaN and subnormals too. */
static void
test_flat_unscale_by_one(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        _Alignas(64)
            uint32_t g[4] = {0x7f800001, 0x00000001, 0x80000000, 0x3f800000};
        const uint32_t old[4] = {0x7f800001, 0x00000001, 0x80000000,
                                 0x3f800000};
        struct kernel_unscale r;

        flat(b).unscale((float *)g, 4, 1, 1, &r);
        assert_memory_equal(g, old, sizeof(old));
        assert_true(r.found_inf);
    }
}

/* Cases C24 and C12: the norm is that of the unscaled gradients. */
static void
test_flat_unscale_norm_and_clip(void **state)
{
    static const float scaled[2][2] = {{3072, 4096}, {307.2f, 409.6f}};
    static const double norm[] = {5, 0.5};
    static const double clipped[2][2] = {{0.6, 0.8}, {0.3, 0.4}};

    (void)state;
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 2; k++) {
            _Alignas(64) float g[2] = {scaled[k][0], scaled[k][1]};
            _Alignas(64) float w[2] = {0, 0};
            const struct kernel_sgd sgd = {.lr = 1};
            struct kernel_unscale r;
            double clip;

            flat(b).unscale(g, 2, 1.0f / 1024, 1, &r);
            assert_true(fabs(sqrt(r.sum_squares) - norm[k]) < 1e-6);
            clip = fmin(1, 1 / sqrt(r.sum_squares));
            flat(b).sgd(w, g, NULL, 2, (float)clip, &sgd, 1);
            for (int i = 0; i < 2; i++)
                assert_true(fabs(-(double)w[i] - clipped[k][i]) < 1e-6);
        }
    for (int b = 0; b < 2; b++) {
        _Alignas(64) float c[5] = {256, 256, 256, 256, 256};
        struct kernel_unscale r;

        flat(b).unscale(c, 5, 1, 1, &r);
        assert_true(fabs(sqrt(r.sum_squares) - 572.4334022399462) < 1e-9);
    }
}

/* ---- optimizers ---------------------------------------------------------- */

/* torch.optim.SGD in double for one element; *buf the momentum. */
static double
sgd_double(double w, double g, double *buf, double clip,
           const struct kernel_sgd *p)
{
    const double momentum = (double)p->momentum;

    g = g * clip + p->weight_decay * w;
    if (momentum != 0) {
        *buf = p->first ? g : momentum * *buf + (1 - (double)p->dampening) * g;
        g = p->nesterov ? g + momentum * *buf : *buf;
    }
    return w - p->lr * g;
}

static void
check_sgd(int backend, const struct kernel_sgd *p, float clip, int64_t n)
{
    struct check_buf w, g, m, w_old, m_old;

    fill(&w, n, 3);
    fill(&w_old, n, 3);
    fill(&g, n, 4);
    fill(&m, n, 5);
    fill(&m_old, n, 5);
    flat(backend).sgd(w.data, g.data, p->momentum != 0 ? m.data : NULL, n, clip,
                      p, 2);
    for (int64_t i = 0; i < n; i++) {
        const double before = check_get(w_old.data, DTYPE_F32, i);
        double buf = check_get(m_old.data, DTYPE_F32, i);
        const double want = sgd_double(before, check_get(g.data, DTYPE_F32, i),
                                       &buf, (double)clip, p);
        /* A handful of roundings of terms no larger than 8. */
        const double tolerance = 8 * 8 * 0x1p-24;

        assert_true(fabs(check_get(w.data, DTYPE_F32, i) - want) <= tolerance);
        if (p->momentum != 0)
            assert_true(fabs(check_get(m.data, DTYPE_F32, i) - buf) <=
                        tolerance);
    }
    assert_true(check_buf_intact(&w) && check_buf_intact(&m));
    check_buf_free(&w);
    check_buf_free(&g);
    check_buf_free(&m);
    check_buf_free(&w_old);
    check_buf_free(&m_old);
}

static void
test_flat_sgd(void **state)
{
    static const struct kernel_sgd settings[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.01f},
        {.lr = 0.1f, .momentum = 0.9f, .first = true},
        {.lr = 0.1f, .momentum = 0.9f},
        {.lr = 0.1f,
         .momentum = 0.9f,
         .dampening = 0.5f,
         .weight_decay = 0.01f},
        {.lr = 0.1f, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f},
        {.lr = 0.1f, .momentum = 0.9f, .nesterov = true, .first = true},
    };

    (void)state;
    for (int b = 0; b < 2; b++)
        for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++)
            for (int s = 0; s < BIG; s++) {
                check_sgd(b, &settings[k], 1, sizes[s]);
                check_sgd(b, &settings[k], 0.375f, sizes[s]);
            }
}

/* Clip 1 and no decay: exactly w - lr g. */
static void
test_flat_sgd_exact(void **state)
{
    const struct kernel_sgd p = {.lr = 0.1f};
    _Alignas(64) float w[3] = {1, -2, 0.5f};
    _Alignas(64) const float g[3] = {0.3f, 1e-8f, -7};

    (void)state;
    flat(0).sgd(w, g, NULL, 3, 1, &p, 1);
    assert_true(w[0] == 1 - 0.1f * 0.3f);
    assert_true(w[1] == -2 - 0.1f * 1e-8f);
    assert_true(w[2] == 0.5f + 0.1f * 7);
}

struct adam_state {
    double w, m, v;
};

/* torch.optim.Adam and AdamW in double. */
static void
adam_double(struct adam_state *s, double g, double clip,
            const struct kernel_adam *p)
{
    const double b1 = p->beta1, b2 = p->beta2;
    const double bc1 = 1 - pow(b1, (double)p->t);
    const double bc2 = 1 - pow(b2, (double)p->t);

    g *= clip;
    if (p->decoupled)
        s->w *= 1 - p->lr * p->weight_decay;
    else
        g += p->weight_decay * s->w;
    s->m = b1 * s->m + (1 - b1) * g;
    s->v = b2 * s->v + (1 - b2) * g * g;
    s->w -= p->lr / bc1 * s->m / (sqrt(s->v) / sqrt(bc2) + p->eps);
}

/* Several updates, the reference going along in double. */
static void
check_adam(int backend, bool decoupled, float clip, int64_t n)
{
    struct kernel_adam p = {.lr = 1e-2,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .weight_decay = 0.01,
                            .decoupled = decoupled};
    struct adam_state *s = calloc((size_t)n + 1, sizeof(*s));
    struct check_buf w, g, m, v;

    assert_non_null(s);
    fill(&w, n, 6);
    check_buf_make(&m, (size_t)n * sizeof(float));
    check_buf_make(&v, (size_t)n * sizeof(float));
    memset(m.data, 0, m.bytes);
    memset(v.data, 0, v.bytes);
    for (int64_t i = 0; i < n; i++)
        s[i].w = check_get(w.data, DTYPE_F32, i);
    for (p.t = 1; p.t <= 4; p.t++) {
        fill(&g, n, 10 + (uint64_t)p.t);
        flat(backend).adam(w.data, g.data, m.data, v.data, n, clip, &p, 2);
        for (int64_t i = 0; i < n; i++)
            adam_double(&s[i], check_get(g.data, DTYPE_F32, i), (double)clip,
                        &p);
        check_buf_free(&g);
    }
    for (int64_t i = 0; i < n; i++) {
        /* Weights and sums below 8, four updates. */
        const double tolerance = 4 * 4 * 8 * 0x1p-24;

        assert_true(fabs(check_get(w.data, DTYPE_F32, i) - s[i].w) <=
                    tolerance);
        assert_true(fabs(check_get(m.data, DTYPE_F32, i) - s[i].m) <=
                    tolerance);
        assert_true(fabs(check_get(v.data, DTYPE_F32, i) - s[i].v) <=
                    tolerance);
    }
    assert_true(check_buf_intact(&w) && check_buf_intact(&m) &&
                check_buf_intact(&v));
    check_buf_free(&w);
    check_buf_free(&m);
    check_buf_free(&v);
    free(s);
}

static void
test_flat_adam(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < BIG; s++)
            for (int decoupled = 0; decoupled < 2; decoupled++) {
                check_adam(b, decoupled, 1, sizes[s]);
                check_adam(b, decoupled, 0.25f, sizes[s]);
            }
}

/* What PyTorch 1.13.1 leaves after one update of defaults with gradient 1:
 * moments of exactly float(1 - 0.9) and float(1 - 0.999). */
static void
test_flat_adam_moments_are_pytorchs(void **state)
{
    const struct kernel_adam p = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 1};

    (void)state;
    for (int b = 0; b < 2; b++) {
        _Alignas(64) float w[1] = {1}, m[1] = {0}, v[1] = {0}, g[1] = {1};

        flat(b).adam(w, g, m, v, 1, 1, &p, 1);
        assert_true(m[0] == 0.1f);
        assert_true(v[0] == 0.001f);
    }
}

/* Case C14: zero gradients move nothing, small ones move by lr. */
static void
test_flat_adam_small_gradients(void **state)
{
    struct kernel_adam p = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

    (void)state;
    for (int b = 0; b < 2; b++) {
        static const float start[3] = {1, -2, 0.5f};
        _Alignas(64) float w[3] = {1, -2, 0.5f};
        _Alignas(64) float m[3] = {0}, v[3] = {0}, g[3] = {0};

        for (p.t = 1; p.t <= 3; p.t++)
            flat(b).adam(w, g, m, v, 3, 1, &p, 1);
        assert_memory_equal(w, start, sizeof(w));
        p.t = 1;
        g[0] = g[1] = g[2] = 1e-4f;
        flat(b).adam(w, g, m, v, 3, 1, &p, 1);
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)w[i] - (double)start[i] +
                             0.0009999000099990003) <= 1.5e-7);
    }
}

/* ---- the first non-finite ------------------------------------------------ */

static void
test_flat_find_nonfinite(void **state)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const int64_t n = 3 * KERNEL_CHUNK + 11;
    const int64_t at[] = {0, 1, KERNEL_CHUNK - 1, KERNEL_CHUNK, n - 1};

    (void)state;
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < 3; k++) {
            struct check_rng rng = {3};
            const struct tensor_desc t = tensor_make(types[k], 1, &n);
            struct check_buf x;

            check_buf_make(&x, tensor_n_bytes(&t));
            check_fill(x.data, &t, CHECK_WIDE, &rng, NULL, 0);
            assert_int_equal(flat(b).find_nonfinite(x.data, types[k], n, 2),
                             -1);
            assert_int_equal(flat(b).find_nonfinite(x.data, types[k], 0, 2),
                             -1);
            /* From the back, so that the first wins over what stands there. */
            for (int i = 4; i >= 0; i--) {
                convert_put(x.data, types[k], at[i],
                            i % 2 == 0 ? NAN : -INFINITY);
                assert_int_equal(flat(b).find_nonfinite(x.data, types[k], n, 2),
                                 at[i]);
            }
            check_buf_free(&x);
        }
}

static void
test_flat_find_nonfinite_double(void **state)
{
    _Alignas(64) double x[5] = {1e308, -1e308, 0, 0x1p-1074, 1};

    (void)state;
    assert_int_equal(flat(0).find_nonfinite(x, DTYPE_F64, 5, 1), -1);
    x[3] = INFINITY;
    assert_int_equal(flat(0).find_nonfinite(x, DTYPE_F64, 5, 1), 3);
}

/* ---- threads ------------------------------------------------------------- */

static void
test_flat_threads_keep_bits(void **state)
{
    const int64_t n = sizes[BIG];
    struct check_buf g[2], w[2], m[2], v[2];
    struct kernel_unscale r[2];
    const struct kernel_adam p = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 2};

    (void)state;
    for (int b = 0; b < 2; b++) {
        for (int k = 0; k < 2; k++) {
            const int threads = k == 0 ? 1 : 3;

            fill(&g[k], n, 1);
            fill(&w[k], n, 2);
            fill(&m[k], n, 3);
            fill(&v[k], n, 4);
            for (int64_t i = 0; i < n; i++)
                ((float *)v[k].data)[i] = fabsf(((float *)v[k].data)[i]);
            flat(b).unscale(g[k].data, n, 1.0f / 3, threads, &r[k]);
            flat(b).adam(w[k].data, g[k].data, m[k].data, v[k].data, n, 1, &p,
                         threads);
        }
        assert_memory_equal(&r[0].sum_squares, &r[1].sum_squares,
                            sizeof(double));
        assert_memory_equal(g[0].data, g[1].data, g[0].bytes);
        assert_memory_equal(w[0].data, w[1].data, w[0].bytes);
        assert_memory_equal(m[0].data, m[1].data, m[0].bytes);
        assert_memory_equal(v[0].data, v[1].data, v[0].bytes);
        for (int k = 0; k < 2; k++) {
            check_buf_free(&g[k]);
            check_buf_free(&w[k]);
            check_buf_free(&m[k]);
            check_buf_free(&v[k]);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_unscale_values),
        cmocka_unit_test(test_flat_unscale_found_inf),
        cmocka_unit_test(test_flat_unscale_overflow_of_product),
        cmocka_unit_test(test_flat_unscale_by_one),
        cmocka_unit_test(test_flat_unscale_norm_and_clip),
        cmocka_unit_test(test_flat_sgd),
        cmocka_unit_test(test_flat_sgd_exact),
        cmocka_unit_test(test_flat_adam),
        cmocka_unit_test(test_flat_adam_moments_are_pytorchs),
        cmocka_unit_test(test_flat_adam_small_gradients),
        cmocka_unit_test(test_flat_find_nonfinite),
        cmocka_unit_test(test_flat_find_nonfinite_double),
        cmocka_unit_test(test_flat_threads_keep_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
