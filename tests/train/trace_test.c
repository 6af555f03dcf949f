/* SPDX-License-Identifier: Apache-2.0 */
/* A skip leaves no trace, on the very first step too: for every optimizer, for
 * several at once, with batch norm, an average of weights and windows of
 * several batches. And what one optimizer skips, another need not. */
#include "tests/train/harness.h"
#include "tests/train/setups.h"

#include <math.h>

/* ---- a model with a running statistic -------------------------------------*/

#define N_ROWS 12

/* Rows 0 .. 3 make the first window; one of them is bad when `bad` is set. The
 * second window has rows 4 .. 7. first: where the data starts. */
static void
write_data(struct harness *h, int first, bool bad)
{
    float x[N_ROWS][3], t[N_ROWS];
    const int n = N_ROWS - first;
    const int64_t xdim[2] = {n, 3}, tdim[2] = {n, 1};

    for (int i = 0; i < N_ROWS; i++) {
        for (int k = 0; k < 3; k++)
            x[i][k] = sinf((float)(7 * i + 3 * k + 1));
        t[i] = cosf((float)(5 * i));
    }
    if (bad)
        x[2][1] = NAN;
    harness_npy_f32(h, "x.npy", 2, xdim, x[first]);
    harness_npy_f32(h, "t.npy", 2, tdim, &t[first]);
}

static void
make_job(struct harness *h, int number, const char *dtype, int iterations)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "{'name': 't', 'seed': 3, 'threads': 1, 'data': {'train': "
             "{'format': 'npy', 'input': 'x.npy', 'target': 't.npy'}, "
             "'batch_size': 2, 'shuffle': false}, 'model': [{'name': 'body', "
             "'linear': {'out_features': 5}}, {'name': 'bn', 'batch_norm1d': "
             "{}}, 'relu', {'name': 'head', 'linear': {'out_features': 1}}], "
             "'loss': 'mse', 'optimizer': {'sgd': {'lr': 0.05}}, "
             "'schedule': {'linear': {'total_updates': 50}}, "
             "'amp': {'dtype': '%s', 'scaler': false}, 'train': {'epochs': 1, "
             "'accumulate': 2, 'clip_grad_norm': 1, 'max_iterations': %d}}",
             dtype, iterations);
    harness_spec(h, text);
    setups_use(h->spec, number);
    h->spec->train.ema_decay = 0.75;
}

/* What a skip may not touch; the rest is counters. */
static void
assert_same_state(const struct state *a, const struct state *b)
{
    const size_t n = (size_t)a->param_elems * sizeof(float);
    const size_t m = (size_t)a->buffer_elems * sizeof(float);

    assert_int_equal(a->param_elems, b->param_elems);
    assert_memory_equal(a->weights, b->weights, n);
    assert_memory_equal(a->ema, b->ema, n);
    assert_memory_equal(a->buffers, b->buffers, m);
    for (int i = 0; i < STATE_MAX_MOMENTS; i++) {
        assert_true((a->moment[i] == NULL) == (b->moment[i] == NULL));
        if (a->moment[i] != NULL)
            assert_memory_equal(a->moment[i], b->moment[i], n);
    }
    assert_int_equal(a->batches_tracked, b->batches_tracked);
    assert_int_equal(a->count.updates, b->count.updates);
    assert_memory_equal(a->optim_steps, b->optim_steps, sizeof(a->optim_steps));
    /* Half copies are made when this changes. */
    assert_int_equal(a->weights_version, b->weights_version);
}

static void
test_trace_first_step_is_skipped(void **unused)
{
    const char *const dtypes[] = {"float32", "float16", "bfloat16"};

    (void)unused;
    for (int number = 0; number < SETUPS_N; number++)
        for (int d = 0; d < 3; d++) {
            struct harness before, after;
            harness_init(&before);
            write_data(&before, 0, true);
            make_job(&before, number, dtypes[d], 1);
            harness_order(&before, 0, REPORT_ABANDON);
            assert_int_equal(harness_run(&before, NULL), 0);
            harness_init(&after);
            write_data(&after, 0, true);
            make_job(&after, number, dtypes[d], 1);
            assert_int_equal(harness_run(&after, NULL), 0);
            const struct state *s = engine_state(after.engine);
            assert_same_state(engine_state(before.engine), s);
            assert_int_equal(s->count.iteration, 1);
            assert_int_equal(s->count.skips, 1);
            assert_int_equal(s->count.data_position, 1);
            assert_true(isnan(engine_mean_loss(after.engine)));
            harness_fini(&before);
            harness_fini(&after);
        }
}

/* Skip, then two updates: as if the first window had not been there. */
static void
test_trace_updates_after_a_skip(void **unused)
{
    const char *const dtypes[] = {"float32", "float16", "bfloat16"};

    (void)unused;
    for (int number = 0; number < SETUPS_N; number++)
        for (int d = 0; d < 3; d++) {
            struct harness with, without;
            harness_init(&with);
            write_data(&with, 0, true);
            make_job(&with, number, dtypes[d], 3);
            assert_int_equal(harness_run(&with, NULL), 0);
            harness_init(&without);
            write_data(&without, 4, true);
            make_job(&without, number, dtypes[d], 2);
            assert_int_equal(harness_run(&without, NULL), 0);
            const struct state *s = engine_state(with.engine);
            assert_same_state(engine_state(without.engine), s);
            assert_int_equal(s->count.iteration, 3);
            assert_int_equal(s->count.updates, 2);
            assert_true(engine_mean_loss(with.engine) ==
                        engine_mean_loss(without.engine));
            for (int i = 0; i < 2; i++) {
                const struct event *a = harness_event(&with, EVENT_STEP, i + 1);
                const struct event *b = harness_event(&without, EVENT_STEP, i);
                assert_true(a->u.step.lr == b->u.step.lr);
                assert_true(a->u.step.loss == b->u.step.loss);
                assert_true(a->u.step.grad_norm == b->u.step.grad_norm);
            }
            harness_fini(&with);
            harness_fini(&without);
        }
}

/* Windows after the skip do move what a skip may not: nothing is frozen. */
static void
test_trace_updates_move_all(void **unused)
{
    (void)unused;
    for (int number = 0; number < SETUPS_N; number++) {
        struct harness one, two;
        harness_init(&one);
        write_data(&one, 0, false);
        make_job(&one, number, "float32", 1);
        assert_int_equal(harness_run(&one, NULL), 0);
        harness_init(&two);
        write_data(&two, 0, false);
        make_job(&two, number, "float32", 2);
        assert_int_equal(harness_run(&two, NULL), 0);
        const struct state *a = engine_state(one.engine);
        const struct state *b = engine_state(two.engine);
        for (int i = 0; i < a->n_params; i++) {
            const struct state_tensor *t = &a->param[i];
            const size_t n = (size_t)t->n_elems * sizeof(float);
            /* A bias before batch norm has no gradient to speak of. */
            if (strcmp(t->name, "body.bias") == 0)
                continue;
            assert_true(
                memcmp(a->weights + t->offset, b->weights + t->offset, n) != 0);
            assert_true(memcmp(a->ema + t->offset, b->ema + t->offset, n) != 0);
            for (int m = 0; m < t->n_moments; m++)
                assert_true(memcmp(a->moment[m] + t->offset,
                                   b->moment[m] + t->offset, n) != 0);
        }
        for (int i = 0; i < a->n_optim; i++)
            assert_int_equal(b->optim_steps[i], 2);
        assert_int_equal(b->batches_tracked, 4);
        harness_fini(&one);
        harness_fini(&two);
    }
}

/* ---- one optimizer skips, the other steps ---------------------------------*/

/* y = head(body(x)) with x 1e30 and body 1e-30: the gradient of body
 * overflows, that of head is 1 x scale. */
static void
make_two(struct harness *h, int n, const float *x, const char *train)
{
    static const char *head[] = {"head.*"};
    const float body = 1e-30f, w = 1e10f, t[4] = {0};
    const int64_t dim[2] = {n, 1};
    const struct harness_tensor tensors[] = {{"body.weight", 2, {1, 1}, &body},
                                             {"head.weight", 2, {1, 1}, &w}};
    char text[1024];

    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_f32(h, "t.npy", 2, dim, t);
    harness_weights(h, "w.safetensors", tensors, 2);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 't.npy'}, 'batch_size': 1, "
             "'shuffle': false}, 'initial_weights': 'w.safetensors', 'model': "
             "[{'name': 'body', 'linear': {'out_features': 1, 'bias': false}}, "
             "{'name': 'head', 'linear': {'out_features': 1, 'bias': false}}], "
             "'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.5}}, 'schedule': "
             "{'linear': {'total_updates': 4}}, 'amp': {'dtype': 'float32', "
             "'scaler': {'enabled': true, 'init_scale': 16}}, "
             "'train': {'epochs': 1%s}}",
             train);
    harness_spec(h, text);
    h->spec->optim[1] = h->spec->optim[0];
    h->spec->optim[0].kind = SPEC_OPTIMIZER_ADAM;
    h->spec->optim[0].group = &setups_group[SPEC_OPTIMIZER_ADAM];
    h->spec->optim[1].match = head;
    h->spec->optim[1].n_match = 1;
    h->spec->n_optim = 2;
    h->spec->train.ema_decay = 0.5;
}

static void
test_trace_each_steps_on_its_own(void **unused)
{
    const float x[] = {1e30f, NAN, 1, 1e30f};
    struct harness h;

    (void)unused;
    make_two(&h, 4, x, "");
    assert_int_equal(harness_run(&h, NULL), 0);
    const struct state *s = engine_state(h.engine);
    /* 0: body skips; 1: both skip; 2: both step; 3: body skips. */
    assert_int_equal(s->count.iteration, 4);
    assert_int_equal(s->count.updates, 3);
    assert_int_equal(s->count.skips, 1);
    assert_int_equal(s->optim_steps[0], 1);
    assert_int_equal(s->optim_steps[1], 3);
    /* One backoff an iteration, however many skip. */
    assert_true(s->scaler.scale == 2.0f);
    assert_int_equal(harness_count(&h, EVENT_SCALE), 3);
    for (int i = 0; i < 3; i++) {
        const struct event *e = harness_event(&h, EVENT_SCALE, i);
        assert_true(e->u.scale.after == e->u.scale.before / 2);
        assert_int_equal(e->u.scale.partial, i != 1);
        assert_string_equal(e->u.scale.optimizers,
                            i == 1 ? "0 adam, 1 sgd" : "0 adam");
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(harness_event(&h, EVENT_STEP, i)->u.step.skipped,
                         i == 1);
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 3);
    harness_fini(&h);
}

/* The head's only update is by 0.5 x 1: its own place in the schedule, its own
 * gradient. The body's weight, moments and average stay. */
static void
test_trace_partial_leaves_the_other_alone(void **unused)
{
    const float x[] = {1e30f};
    struct harness h;

    (void)unused;
    make_two(&h, 1, x, "");
    assert_int_equal(harness_run(&h, NULL), 0);
    const struct state *s = engine_state(h.engine);
    assert_true(harness_param(&h, "body.weight")[0] == 1e-30f);
    assert_true(s->ema[s->param[0].offset] == 1e-30f);
    for (int m = 0; m < 2; m++)
        assert_true(s->moment[m][s->param[0].offset] == 0);
    assert_true(harness_param(&h, "head.weight")[0] == 1e10f - 0.5f * 1);
    assert_int_equal(s->count.updates, 1);
    assert_int_equal(s->optim_steps[0], 0);
    harness_fini(&h);
}

/* An infinite common norm would make zeros of the other's gradients, a NaN
 * worse: the norm is that of who steps. */
static void
test_trace_partial_clips_by_what_steps(void **unused)
{
    const float x[] = {1e30f};
    struct harness h;

    (void)unused;
    make_two(&h, 1, x, ", 'clip_grad_norm': 1e6");
    h.spec->optim[1].group[0].lr = 1e9;
    assert_int_equal(harness_run(&h, NULL), 0);
    /* |gradient| is 1, below the bound. */
    assert_true(harness_param(&h, "head.weight")[0] == 1e10f - 1e9f);
    assert_true(!isfinite(harness_event(&h, EVENT_STEP, 0)->u.step.grad_norm));
    harness_fini(&h);
}

/* ---- C33: the average ignores skips ---------------------------------------*/

static void
test_trace_c33_average(void **unused)
{
    /* w: 1 -> 0.5, skipped, 0.5 -> 0.25; the gradient of |w x| is x. */
    const float x[] = {0.5f, NAN, 0.25f}, t[] = {-10, -10, -10};
    const float w = 1;
    const int64_t dim[2] = {3, 1};
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};
    struct harness h;

    (void)unused;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, x);
    harness_npy_f32(&h, "t.npy", 2, dim, t);
    harness_weights(&h, "w.safetensors", &tensor, 1);
    harness_spec(&h,
                 "{'name': 't', 'threads': 1, 'data': {'train': {'format': "
                 "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'batch_size': "
                 "1, 'shuffle': false}, 'initial_weights': 'w.safetensors', "
                 "'model': [{'name': 'fc', 'linear': {'out_features': 1, "
                 "'bias': false}}], 'loss': 'l1', 'optimizer': {'sgd': "
                 "{'lr': 1}}, 'amp': {'dtype': 'float32'}, 'train': "
                 "{'epochs': 1}}");
    h.spec->train.ema_decay = 0.9;
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_true(harness_param(&h, "fc.weight")[0] == 0.25f);
    assert_true(fabs((double)engine_state(h.engine)->ema[0] - 0.88) < 1e-6);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_first_step_is_skipped),
        cmocka_unit_test(test_trace_updates_after_a_skip),
        cmocka_unit_test(test_trace_updates_move_all),
        cmocka_unit_test(test_trace_each_steps_on_its_own),
        cmocka_unit_test(test_trace_partial_leaves_the_other_alone),
        cmocka_unit_test(test_trace_partial_clips_by_what_steps),
        cmocka_unit_test(test_trace_c33_average),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
