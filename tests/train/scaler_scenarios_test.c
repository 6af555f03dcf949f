/* SPDX-License-Identifier: Apache-2.0 */
/* What a scaler has to go through in real training, with real gradients: the
 * situations that PyTorch tests its GradScaler in, worked out for this engine.
 * The trajectories of the scale alone are in tests/unit/scaler_test.c. */
#include "tests/train/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/scaler.h"
#include "engine/run/step.h"
#include "kernels/backend.h"
#include "tests/kernels/check.h"

#define NEAR(a, b, tol) assert_true(fabs((double)(a) - (b)) <= (tol))

static struct scaler
make_scaler(double scale, int64_t interval)
{
    const struct spec_scaler settings = {.enabled = true,
                                         .dynamic = true,
                                         .init_scale = scale,
                                         .growth_factor = 2,
                                         .backoff_factor = 0.5,
                                         .growth_interval = interval};
    struct scaler s;

    scaler_init(&s, &settings);
    return s;
}

static void
end_iteration(struct scaler *s, bool found_inf)
{
    enum scaler_change change;
    bool apply;
    struct err err;

    assert_int_equal(scaler_unscaled(s, 0, found_inf, &err), 0);
    assert_int_equal(scaler_step(s, 0, &apply, &err), 0);
    assert_int_equal(apply, !found_inf);
    assert_int_equal(scaler_update(s, &change, &err), 0);
}

/* ---- one gradient through the kernels of a backend ------------------------ */

static void
run_kernel(const struct backend *backend, struct kernel_sig *sig,
           const void *const *in, void *out)
{
    static const struct kernel_step step = {.iteration = 1};
    struct kernel_call call = {.sig = sig, .out = {out}, .step = &step};
    const struct kernel *k;
    struct check_buf workspace;
    struct err err;

    sig->threads = 1;
    sig->n_in = op_info(sig->op)->n_in;
    sig->n_out = op_info(sig->op)->n_out;
    for (int i = 0; i < sig->n_in; i++)
        call.in[i] = in[i];
    k = backend_find_kernel(backend, sig, NULL, &err);
    assert_non_null(k);
    if (k->prepare != NULL)
        assert_int_equal(k->prepare(sig, &call.state, &err), 0);
    check_buf_make(&workspace, k->workspace_bytes != NULL
                                   ? k->workspace_bytes(sig, call.state)
                                   : 0);
    call.workspace = workspace.data;
    k->run(&call);
    if (k->release != NULL)
        k->release(call.state);
    check_buf_free(&workspace);
}

static void
cast(const struct backend *backend, enum dtype from, const void *x,
     enum dtype to, void *y)
{
    struct kernel_sig sig = {.op = OP_CAST};

    sig.in[0] = tensor_make(from, 0, NULL);
    sig.out[0] = tensor_make(to, 0, NULL);
    run_kernel(backend, &sig, &x, y);
}

/* T2: the gradient is the input times the scale, in float16. */
static void
test_scenario_t2_float16_gradients(void **unused)
{
    static const float inputs[] = {5, 20000, 5, 40000};
    static const float grads[] = {20, INFINITY, 10, INFINITY};
    static const float scales[] = {4, 2, 2, 1};
    static const int64_t trackers[] = {1, 0, 1, 0};

    (void)unused;
    for (int b = 0; backend_at(b) != NULL; b++) {
        struct scaler s = make_scaler(4, 2000);

        for (int i = 0; i < 4; i++) {
            _Alignas(64) float scaled[16] = {inputs[i] * s.scale};
            _Alignas(64) float grad[16] = {0};
            _Alignas(64) uint16_t half[32] = {0};
            const struct kernel_flat flat = backend_flat(backend_at(b));
            struct kernel_unscale found;

            cast(backend_at(b), DTYPE_F32, scaled, DTYPE_F16, half);
            cast(backend_at(b), DTYPE_F16, half, DTYPE_F32, grad);
            assert_true(grad[0] == grads[i]);
            flat.unscale(grad, 1, scaler_inverse(&s), 1, &found);
            assert_int_equal(found.found_inf, isinf(grads[i]));
            assert_true(isinf(grads[i]) || grad[0] == inputs[i]);
            end_iteration(&s, found.found_inf);
            assert_true(s.scale == scales[i]);
            assert_int_equal(s.growth_tracker, trackers[i]);
        }
    }
}

/* A scale so small that its inverse is infinite (no floor): finite gradients
 * are spoiled by unscaling itself, 0 becomes NaN, and both are found. */
static void
test_scenario_spoiled_by_unscaling(void **unused)
{
    static const float grads[] = {1e-30f, 0, -0.0f, -1};

    (void)unused;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int i = 0; i < 4; i++) {
            struct scaler s = make_scaler(0x1p-128, 2000);
            const struct kernel_flat flat = backend_flat(backend_at(b));
            _Alignas(64) float g[16] = {grads[i]};
            struct kernel_unscale found;

            assert_true(isinf(scaler_inverse(&s)));
            flat.unscale(g, 1, scaler_inverse(&s), 1, &found);
            assert_true(found.found_inf);
            /* The largest power whose inverse is finite spoils nothing here. */
            s = make_scaler(0x1p-127, 2000);
            g[0] = grads[i] == -1 ? -0.5f : grads[i];
            flat.unscale(g, 1, scaler_inverse(&s), 1, &found);
            assert_false(found.found_inf);
        }
}

/* One non-finite number anywhere in the block is found, wherever chunks and
 * threads end, and the whole block is unscaled all the same. */
static void
test_scenario_whole_block_is_scanned(void **unused)
{
    const int64_t n = 2 * KERNEL_CHUNK + 37;
    const int64_t places[] = {
        0, 1, 15, 16, KERNEL_CHUNK - 1, KERNEL_CHUNK, 2 * KERNEL_CHUNK, n - 1};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    struct check_buf buf;

    (void)unused;
    check_buf_make(&buf, (size_t)n * sizeof(float));
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 6; k++) {
                const struct kernel_flat flat = backend_flat(backend_at(b));
                struct kernel_unscale found;
                float *g = buf.data;

                for (int64_t j = 0; j < n; j++)
                    g[j] = 8;
                g[places[i]] = bad[k % 3];
                flat.unscale(g, n, 0.25f, k < 3 ? 1 : 3, &found);
                assert_true(found.found_inf);
                for (int64_t j = 0; j < n; j++)
                    assert_true(j == places[i] ? !isfinite(g[j]) : g[j] == 2);
            }
    assert_true(check_buf_intact(&buf));
    check_buf_free(&buf);
}

/* A token that occurs twice: its rows are summed in float32, where the sum
 * fits though it would overflow float16; +inf and -inf make NaN. */
static void
test_scenario_embedding_duplicates(void **unused)
{
    static const int32_t ids[] = {2, 0, 2, 2};
    static const struct {
        float row[4];
        float sum;
    } rows[] = {{{60000, 1, 60000, 60000}, 180000},
                {{INFINITY, 1, -INFINITY, 2}, NAN},
                {{0x1p-24f, 1, 0x1p-24f, -0x1p-23f}, 0}};

    (void)unused;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int i = 0; i < 3; i++) {
            const struct kernel_flat flat = backend_flat(backend_at(b));
            struct kernel_sig sig = {.op = OP_EMBEDDING_BWD};
            _Alignas(64) float dy[16] = {0}, dw[16] = {0};
            _Alignas(64) int32_t id[16] = {0};
            struct kernel_unscale found;

            memcpy(dy, rows[i].row, sizeof(rows[i].row));
            memcpy(id, ids, sizeof(ids));
            sig.in[0] = tensor_make(DTYPE_F32, 2, (int64_t[]){4, 1});
            sig.in[1] = tensor_make(DTYPE_I32, 1, (int64_t[]){4});
            sig.out[0] = tensor_make(DTYPE_F32, 2, (int64_t[]){3, 1});
            run_kernel(backend_at(b), &sig, (const void *const[]){dy, id}, dw);
            assert_true(dw[0] == 1 && dw[1] == 0);
            assert_true(isnan(rows[i].sum) ? isnan(dw[2])
                                           : dw[2] == rows[i].sum);
            flat.unscale(dw, 3, 0.5f, 1, &found);
            assert_int_equal(found.found_inf, isnan(rows[i].sum));
        }
}

/* ---- state --------------------------------------------------------------- */

/* Saved and loaded in the middle of anything, it goes on as if it had not. */
static void
test_scenario_state_round_trip(void **unused)
{
    struct check_rng rng = {99};

    (void)unused;
    for (int round = 0; round < 50; round++) {
        struct scaler a = make_scaler(0x1p10, 1 + round % 7), b;
        struct err err;

        for (int i = 0; i < 40; i++)
            end_iteration(&a, check_random(&rng) % 4 == 0);
        b = make_scaler(3, 1);
        assert_int_equal(scaler_unscaled(&b, 0, true, &err), 0);
        assert_int_equal(scaler_load(&b, a.scale, a.growth_factor,
                                     a.backoff_factor, a.growth_interval,
                                     a.growth_tracker, &err),
                         0);
        for (int i = 0; i < 40; i++) {
            const bool found_inf = check_random(&rng) % 4 == 0;

            end_iteration(&a, found_inf);
            end_iteration(&b, found_inf);
            assert_true(a.scale == b.scale);
            assert_int_equal(a.growth_tracker, b.growth_tracker);
        }
    }
}

/* ---- through the engine -------------------------------------------------- */

#define HEAD                                                                   \
    "{'name': 't', 'seed': 1, 'threads': 1, 'data': {'train': {'format': "     \
    "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'batch_size': %d, "          \
    "'shuffle': false}, 'initial_weights': 'w.safetensors', "

/* y = w2 w1 x in one dimension. */
static void
make_chain(struct harness *h, int n, const float *x, const float *t, float w1,
           float w2)
{
    const int64_t dim[2] = {n, 1};
    const struct harness_tensor tensors[] = {{"a.weight", 2, {1, 1}, &w1},
                                             {"b.weight", 2, {1, 1}, &w2}};

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_f32(h, "t.npy", 2, dim, t);
    harness_weights(h, "w.safetensors", tensors, 2);
}

#define CHAIN                                                                  \
    "'model': [{'name': 'a', 'linear': {'out_features': 1, 'bias': false}}, "  \
    "{'name': 'b', 'linear': {'out_features': 1, 'bias': false}}], "           \
    "'loss': 'l1', "

static void
chain_spec(struct harness *h, int batch_size, const char *rest)
{
    char text[2048];
    const int n = snprintf(text, sizeof(text), HEAD, batch_size);

    snprintf(text + n, sizeof(text) - (size_t)n, CHAIN "%s}", rest);
    harness_spec(h, text);
}

/* Two optimizers, one scaler. In the first iteration the gradient of a alone
 * overflows (w2 x = 2 x 2^127): b steps, a does not, and its Adam is still at
 * t = 0; the scale backs off once. In the second both step. */
static void
test_scenario_two_optimizers(void **unused)
{
    const float x[] = {0x1p127f, 1}, t[] = {-10, -10};
    struct harness h;
    const struct state *s;

    (void)unused;
    make_chain(&h, 2, x, t, 0x1p-127f, 2);
    chain_spec(&h, 1,
               "'optimizer': [{'match': ['a.*'], 'adam': {'lr': 0.5}}, "
               "{'sgd': {'lr': 0.25}}], 'amp': {'dtype': 'bfloat16', "
               "'wgrad_rounding': 'fp32', 'scaler': {'enabled': true, "
               "'init_scale': 1}}, 'train': {'epochs': 1, "
               "'max_iterations': 1}");
    assert_int_equal(harness_run(&h, NULL), 0);
    s = engine_state(h.engine);
    assert_true(harness_param(&h, "a.weight")[0] == 0x1p-127f);
    assert_true(harness_param(&h, "b.weight")[0] == 2 - 0.25f * 1);
    assert_int_equal(s->optim_steps[0], 0);
    assert_int_equal(s->optim_steps[1], 1);
    assert_int_equal(s->count.updates, 1);
    assert_true(s->scaler.scale == 1); /* at its floor */
    harness_fini(&h);
}

/* Four micro-batches under any scale are one batch of four: to the bit, since
 * every sum here is exact. */
static void
test_scenario_accumulation(void **unused)
{
    const float x[] = {1, 2, 3, 4, 2, 3, 1, 2}, t[] = {9, 9, 9, 9, 9, 9, 9, 9};
    float want[2] = {0, 0};

    (void)unused;
    for (int run = 0; run < 4; run++) {
        static const char *const rest[] = {
            "'optimizer': {'sgd': {'lr': 0.125, 'momentum': 0.5}}, 'amp': "
            "{'dtype': 'float16', 'scaler': {'init_scale': 1}}, 'train': "
            "{'epochs': 1}",
            "'optimizer': {'sgd': {'lr': 0.125, 'momentum': 0.5}}, 'amp': "
            "{'dtype': 'float16', 'scaler': {'init_scale': 1024}}, 'train': "
            "{'epochs': 1}",
            "'optimizer': {'sgd': {'lr': 0.125, 'momentum': 0.5}}, 'amp': "
            "{'dtype': 'float16', 'scaler': {'init_scale': 1}}, 'train': "
            "{'epochs': 1, 'accumulate': 4}",
            "'optimizer': {'sgd': {'lr': 0.125, 'momentum': 0.5}}, 'amp': "
            "{'dtype': 'float16', 'scaler': {'init_scale': 1024}}, 'train': "
            "{'epochs': 1, 'accumulate': 4}"};
        struct harness h;

        make_chain(&h, 8, x, t, 0.5f, 1);
        chain_spec(&h, run < 2 ? 4 : 1, rest[run]);
        assert_int_equal(harness_run(&h, NULL), 0);
        assert_int_equal(engine_state(h.engine)->count.updates, 2);
        if (run == 0) {
            want[0] = harness_param(&h, "a.weight")[0];
            want[1] = harness_param(&h, "b.weight")[0];
            assert_true(want[0] != 0.5f && want[1] != 1);
        }
        assert_true(harness_param(&h, "a.weight")[0] == want[0]);
        assert_true(harness_param(&h, "b.weight")[0] == want[1]);
        harness_fini(&h);
    }
}

/* Clipping sees unscaled gradients: any scale gives the same weights. */
static void
test_scenario_clipping(void **unused)
{
    const float x[] = {3, 4}, t[] = {900, 900};
    double want = 0;

    (void)unused;
    for (int i = 0; i < 3; i++) {
        char rest[512];
        struct harness h;

        make_chain(&h, 2, x, t, 1, 1);
        snprintf(rest, sizeof(rest),
                 "'optimizer': {'sgd': {'lr': 1}}, 'amp': {'dtype': "
                 "'float16', 'scaler': {'init_scale': %d}}, 'train': "
                 "{'epochs': 1, 'clip_grad_norm': 0.5}",
                 1 << (4 * i));
        chain_spec(&h, 2, rest);
        assert_int_equal(harness_run(&h, NULL), 0);
        /* Both gradients are -3.5; the norm 3.5 sqrt 2 becomes 0.5. */
        NEAR(harness_param(&h, "a.weight")[0], 1 + 0.5 / sqrt(2), 1e-6);
        NEAR(harness_event(&h, EVENT_STEP, 0)->u.step.grad_norm, 3.5 * sqrt(2),
             1e-5);
        if (i == 0)
            want = (double)harness_param(&h, "a.weight")[0];
        assert_true((double)harness_param(&h, "a.weight")[0] == want);
        harness_fini(&h);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenario_t2_float16_gradients),
        cmocka_unit_test(test_scenario_spoiled_by_unscaling),
        cmocka_unit_test(test_scenario_whole_block_is_scanned),
        cmocka_unit_test(test_scenario_embedding_duplicates),
        cmocka_unit_test(test_scenario_state_round_trip),
        cmocka_unit_test(test_scenario_two_optimizers),
        cmocka_unit_test(test_scenario_accumulation),
        cmocka_unit_test(test_scenario_clipping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
