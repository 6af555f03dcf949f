/* SPDX-License-Identifier: Apache-2.0 */
/* What makes an incident, and how many are diagnosed: skips, losses,
 * evaluations, what an update leaves; budgets under an injected clock. */
#include "tests/train/harness.h"

#include <math.h>

#define N_STEPS 64 /* after so many updates the weights are looked at */

#define HEAD                                                                   \
    "{'name': 't', 'threads': 1, 'data': {'train': {'format': 'npy', "         \
    "'input': 'x.npy', 'target': 't.npy'}, %s 'shuffle': false}, "             \
    "'initial_weights': {'path': 'w.safetensors', 'partial': true}, "          \
    "'guard': 'off', "
#define FC "{'name': 'fc', 'linear': {'out_features': 1, 'bias': false}}"

/* One weight w over n numbers x and targets t. */
static void
make_line(struct harness *h, const char *x_name, const char *t_name, int64_t n,
          const float *x, const float *t)
{
    const int64_t dim[2] = {n, 1};

    harness_npy_f32(h, x_name, 2, dim, x);
    harness_npy_f32(h, t_name, 2, dim, t);
}

static void
make_weight(struct harness *h, float w)
{
    const struct harness_tensor tensor = {"fc.weight", 2, {1, 1}, &w};

    harness_weights(h, "w.safetensors", &tensor, 1);
}

__attribute__((format(printf, 2, 3))) static void
spec(struct harness *h, const char *fmt, ...)
{
    char text[2048];
    va_list args;

    va_start(args, fmt);
    assert_true(vsnprintf(text, sizeof(text), fmt, args) < (int)sizeof(text));
    va_end(args);
    harness_spec(h, text);
}

static const struct event *
only_incident(const struct harness *h)
{
    assert_int_equal(harness_count(h, EVENT_INCIDENT), 1);
    return harness_event(h, EVENT_INCIDENT, 0);
}

/* ---- what an update leaves ------------------------------------------------*/

/* 64 updates with gradients of zero, but for the last one. A state that is not
 * finite cannot be kept, so the run fails at its end. */
static const struct event *
run_64(struct harness *h, float last, const char *optimizer, const char *amp)
{
    float x[N_STEPS] = {0}, t[N_STEPS];

    for (int i = 0; i < N_STEPS; i++)
        t[i] = -10;
    x[N_STEPS - 1] = last;
    harness_init(h);
    make_line(h, "x.npy", "t.npy", N_STEPS, x, t);
    make_weight(h, 0);
    spec(h,
         HEAD "'model': [" FC "], 'loss': 'l1', 'optimizer': %s, 'amp': "
              "{'dtype': '%s'}, 'train': {'epochs': 1}}",
         "'batch_size': 1,", optimizer, amp);
    assert_int_equal(harness_run(h, NULL), ERR_NUMERICS);
    assert_int_equal(engine_state(h->engine)->count.skips, 0);
    const struct event *e = only_incident(h);
    assert_int_equal(e->u.incident.trigger, EVENT_TRIGGER_WEIGHTS);
    assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_OPTIMIZER);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_OPTIMIZER);
    assert_string_equal(e->u.incident.layer, "fc");
    assert_int_equal(e->u.incident.data_position, N_STEPS - 1);
    return e;
}

static void
test_incidents_weight_of_an_update(void **unused)
{
    static const char *const dtypes[] = {"float32", "bfloat16"};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct harness h;
        const struct event *e =
            run_64(&h, 100, "{'sgd': {'lr': 3e38}}", dtypes[i]);
        assert_string_equal(e->u.incident.tensor, "fc.weight");
        assert_string_equal(e->u.incident.op, "sgd");
        assert_int_equal(e->u.incident.what, EVENT_NEG_INF);
        assert_non_null(strstr(e->u.incident.sentence,
                               "made the weight \"fc.weight\" -inf at [0,0]"));
        assert_string_equal(e->u.incident.cure,
                            "{\"optimizer\":{\"sgd\":{\"lr\":3e+37}}}");
        assert_non_null(strstr(e->u.incident.sentence, "not proven"));
        harness_fini(&h);
    }
}

/* The weight stays finite: m / sqrt(inf) is 0. It would never move again, and
 * nobody would know why. */
static void
test_incidents_moment_of_an_update(void **unused)
{
    struct harness h;

    (void)unused;
    const struct event *e =
        run_64(&h, 1e25f, "{'adam': {'lr': 0.1}}", "float32");
    assert_string_equal(e->u.incident.tensor, "fc.weight.v");
    assert_string_equal(e->u.incident.op, "adam");
    assert_int_equal(e->u.incident.what, EVENT_POS_INF);
    assert_true(isfinite(harness_param(&h, "fc.weight")[0]));
    assert_non_null(strstr(e->u.incident.sentence,
                           "made the moment \"fc.weight.v\" +inf at [0,0]"));
    harness_fini(&h);
}

/* A variance that float32 cannot hold, in a norm that gives zeros for it. */
static void
test_incidents_running_statistic(void **unused)
{
    float x[2 * N_STEPS], t[2 * N_STEPS];
    struct harness h;

    (void)unused;
    for (int i = 0; i < 2 * N_STEPS; i++) {
        x[i] = i == 2 * N_STEPS - 1 ? 1e25f : (float)(i % 2);
        t[i] = 0;
    }
    harness_init(&h);
    make_line(&h, "x.npy", "t.npy", 2 * N_STEPS, x, t);
    make_weight(&h, 0.5f);
    spec(&h,
         HEAD "'model': [{'name': 'bn', 'batch_norm1d': {}}, " FC
              "], 'loss': 'l1', 'optimizer': {'sgd': {'lr': 0.001}}, 'amp': "
              "{'dtype': 'float32'}, 'train': {'epochs': 1}}",
         "'batch_size': 2,");
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    const struct event *e = only_incident(&h);
    assert_int_equal(e->u.incident.trigger, EVENT_TRIGGER_WEIGHTS);
    assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_OPTIMIZER);
    assert_string_equal(e->u.incident.tensor, "bn.running_var");
    assert_string_equal(e->u.incident.layer, "bn");
    assert_string_equal(e->u.incident.op, "");
    assert_string_equal(e->u.incident.cure, "");
    assert_non_null(
        strstr(e->u.incident.sentence,
               "the running statistic \"bn.running_var\" became +inf at [0]"));
    harness_fini(&h);
}

/* An eps that is zero in float32, and a gradient that is. The skip that
 * follows is put down to the update before it. */
static void
test_incidents_eps_underflow(void **unused)
{
    static const char *const dtypes[] = {"float16", "bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 3; i++) {
        const float x[2] = {0, 1}, t[2] = {-10, -10};
        struct harness h;
        harness_init(&h);
        make_line(&h, "x.npy", "t.npy", 2, x, t);
        make_weight(&h, 1);
        spec(&h,
             HEAD
             "'model': [" FC "], 'loss': 'l1', 'optimizer': {'adam': "
             "{'lr': 0.1, 'eps': 1e-50}}, 'amp': {'dtype': '%s', 'scaler': "
             "{'init_scale': 1024}}, "
             "'train': {'epochs': 1}}",
             "'batch_size': 1,", dtypes[i]);
        assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
        const struct event *e = only_incident(&h);
        assert_int_equal(e->u.incident.trigger, EVENT_TRIGGER_SKIP);
        assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_OPTIMIZER);
        assert_string_equal(e->u.incident.tensor, "fc.weight");
        assert_int_equal(e->u.incident.what, EVENT_NAN);
        assert_non_null(strstr(e->u.incident.sentence, "eps is too small"));
        harness_fini(&h);
    }
}

/* ---- losses and evaluations -----------------------------------------------*/

/* The loss is infinite, its gradient is a sign: applied, and told. */
static void
test_incidents_loss_alone(void **unused)
{
    const float x[2] = {1, 1}, t[2] = {-3e38f, 0};
    struct harness h;

    (void)unused;
    harness_init(&h);
    make_line(&h, "x.npy", "t.npy", 2, x, t);
    make_weight(&h, 3e38f);
    spec(&h,
         HEAD "'model': [" FC "], 'loss': 'l1', 'optimizer': {'sgd': {'lr': "
              "0.1}}, 'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}",
         "'batch_size': 1,");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(engine_state(h.engine)->count.updates, 2);
    const struct event *e = only_incident(&h);
    assert_int_equal(e->u.incident.trigger, EVENT_TRIGGER_LOSS);
    assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_DIVERGENCE);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_LOSS);
    assert_int_equal(e->u.incident.fp32_finite, EVENT_NO);
    assert_int_equal(e->u.incident.n_guilty, 1);
    assert_int_equal(e->u.incident.samples[0], 0);
    harness_fini(&h);
}

/* Only the third sample of the validation set is bad. */
static const struct event *
evaluate(struct harness *h, const char *amp, float bad, float w)
{
    const float x[2] = {1, 1}, t[3] = {0, 0, 0}, v[3] = {1, 1, bad};

    harness_init(h);
    make_line(h, "x.npy", "t.npy", 2, x, t);
    make_line(h, "vx.npy", "vt.npy", 3, v, t);
    make_weight(h, w);
    spec(h,
         HEAD "'model': [" FC "], 'loss': 'l1', 'optimizer': {'sgd': {'lr': "
              "0}}, 'amp': {'dtype': '%s'}, 'train': {'epochs': 1}, "
              "'evaluate': {'metrics': ['loss']}}",
         "'validation': {'format': 'npy', 'input': 'vx.npy', 'target': "
         "'vt.npy'}, 'batch_size': 2,",
         amp);
    assert_int_equal(harness_run(h, NULL), 0);
    assert_int_equal(engine_state(h->engine)->count.skips, 0);
    const struct event *e = only_incident(h);
    assert_int_equal(e->u.incident.trigger, EVENT_TRIGGER_METRIC);
    assert_int_equal(e->u.incident.sample, 2);
    assert_int_equal(e->u.incident.n_guilty, 1);
    assert_int_equal(e->u.incident.samples[0], 2);
    assert_int_equal(e->u.incident.data_position, -1);
    return e;
}

static void
test_incidents_metric_of_bad_data(void **unused)
{
    static const char *const dtypes[] = {"float16", "bfloat16", "float32"};

    (void)unused;
    for (int i = 0; i < 3; i++) {
        struct harness h;
        const struct event *e = evaluate(&h, dtypes[i], NAN, 1);
        assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_BAD_INPUT);
        assert_string_equal(e->u.incident.tensor, "x");
        harness_fini(&h);
    }
}

static void
test_incidents_metric_that_overflows(void **unused)
{
    struct harness h;

    (void)unused;
    const struct event *e = evaluate(&h, "float16", 1000, 100);
    assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(e->u.incident.tensor, "fc.out");
    assert_true(e->u.incident.has_fp32_value);
    assert_true(e->u.incident.fp32_value == 100000);
    assert_string_equal(e->u.incident.cure,
                        "{\"amp\":{\"fp32_regions\":[\"fc\"]}}");
    harness_fini(&h);
}

/* ---- the budget -----------------------------------------------------------*/

#define N_ITER      3000
#define STORM       2000 /* from here on all is bad */
#define BETWEEN     10   /* before, every so many; and a streak at the start */
#define N_FIRST     3
#define MAX_REPLAYS 2
#define SHARE       0.01
#define IS_BAD(i)   ((i) < N_FIRST || (i) >= STORM || (i) % BETWEEN == 0)
#define OPENS(i)    ((i) == 0 || !IS_BAD((i)-1))

static void
run_storm(struct harness *h, double share)
{
    static float x[N_ITER], t[N_ITER];

    for (int i = 0; i < N_ITER; i++)
        x[i] = IS_BAD(i) ? NAN : 1;
    harness_init(h);
    make_line(h, "x.npy", "t.npy", N_ITER, x, t);
    make_weight(h, 1);
    spec(h,
         HEAD "'model': [" FC "], 'loss': 'l1', 'optimizer': {'sgd': {'lr': "
              "0}}, 'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}, "
              "'diagnose': {'max_replays': %d, 'replay_share': %g}}",
         "'batch_size': 1,", MAX_REPLAYS, share);
    assert_int_equal(harness_run(h, NULL), 0);
}

/* No incident is lost, what is replayed opens a streak, and all of it together
 * stays within the share of the time. */
static void
test_incidents_budget(void **unused)
{
    int64_t spent = 0, last_cost = 0;
    int n = 0, n_replayed = 0;
    struct harness h;

    (void)unused;
    run_storm(&h, SHARE);
    const int64_t start_us = harness_event(&h, EVENT_STARTED, 0)->t_us;
    for (int i = 0; i < N_ITER; i++) {
        if (!IS_BAD(i))
            continue;
        const struct event *e = harness_event(&h, EVENT_INCIDENT, n++);
        assert_non_null(e);
        assert_int_equal(e->u.incident.data_position, i);
        assert_int_equal(e->u.incident.cost_us > 0, e->u.incident.replayed);
        if (n <= MAX_REPLAYS) {
            assert_true(e->u.incident.replayed);
        } else if (e->u.incident.replayed) {
            assert_true(OPENS(i));
            n_replayed++;
            /* Kept at every moment, not only in the end; what one takes is
             * foreseen as what the last one took. */
            assert_true((double)(spent + last_cost) <=
                        SHARE * (double)(e->t_us - start_us));
        } else {
            assert_int_equal(e->u.incident.verdict, EVENT_VERDICT_NONE);
            assert_non_null(strstr(e->u.incident.sentence, "not replayed"));
        }
        spent += e->u.incident.cost_us;
        if (e->u.incident.replayed)
            last_cost = e->u.incident.cost_us;
    }
    assert_null(harness_event(&h, EVENT_INCIDENT, n));
    assert_true(n_replayed >= 5);
    assert_true(n_replayed < (STORM - N_FIRST) / BETWEEN);
    assert_true((double)spent <= SHARE * (double)h.clock_us);
    harness_fini(&h);
}

static void
test_incidents_no_share(void **unused)
{
    struct harness h;

    (void)unused;
    run_storm(&h, 0);
    for (int i = 0; harness_event(&h, EVENT_INCIDENT, i) != NULL; i++)
        assert_int_equal(
            harness_event(&h, EVENT_INCIDENT, i)->u.incident.replayed,
            i < MAX_REPLAYS);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incidents_weight_of_an_update),
        cmocka_unit_test(test_incidents_moment_of_an_update),
        cmocka_unit_test(test_incidents_running_statistic),
        cmocka_unit_test(test_incidents_eps_underflow),
        cmocka_unit_test(test_incidents_loss_alone),
        cmocka_unit_test(test_incidents_metric_of_bad_data),
        cmocka_unit_test(test_incidents_metric_that_overflows),
        cmocka_unit_test(test_incidents_budget),
        cmocka_unit_test(test_incidents_no_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
