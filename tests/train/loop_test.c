/* SPDX-License-Identifier: Apache-2.0 */
/* What happens around the steps: order of events, orders, best and retention,
 * failing checkpoints, the budget of replays. */
#include "tests/train/harness.h"

#include "engine/base/failpoint.h"
#include "engine/run/loop.h"

#include <math.h>

#define N 24

static void
make_job(struct harness *h, const char *rest)
{
    float x[N * 4];
    int64_t y[N];
    const int64_t dim[2] = {N, 4};
    char text[2048];

    for (int i = 0; i < N; i++) {
        y[i] = i % 3;
        for (int k = 0; k < 4; k++)
            x[i * 4 + k] = sinf((float)(i * 7 + k * 3)) + (float)(y[i] * k);
    }
    harness_init(h);
    harness_npy_f32(h, "x.npy", 2, dim, x);
    harness_npy_i64(h, "y.npy", N, y);
    snprintf(text, sizeof(text),
             "{'name': 't', 'seed': 3, 'threads': 1, 'data': {'train': "
             "{'format': 'npy', 'input': 'x.npy', 'target': 'y.npy'}, "
             "'validation': {'format': 'npy', 'input': 'x.npy', 'target': "
             "'y.npy'}, 'batch_size': 8, 'shuffle': true}, 'model': "
             "[{'name': 'fc', 'linear': {'out_features': 3}}], 'loss': "
             "'cross_entropy', %s}",
             rest);
    harness_spec(h, text);
}

static int
rank_of(enum event_kind kind)
{
    switch (kind) {
    case EVENT_STEP: return 0;
    case EVENT_SCALE: return 1;
    case EVENT_INCIDENT: return 2;
    case EVENT_GUARD: return 3;
    case EVENT_EVALUATION: return 4;
    case EVENT_CHECKPOINT: return 5;
    case EVENT_CHECKPOINT_PRUNED: return 6;
    case EVENT_STARTED:
    case EVENT_CHECKPOINT_FAILED:
    case EVENT_WARNING:
    case EVENT_INCIDENT_PRUNED:
    case EVENT_FINISHED: break;
    }
    fail_msg("unexpected %s", event_kind_name(kind));
    return -1;
}

static void
test_loop_order_of_events(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'adam': {'lr': 0.05}}, 'amp': {'dtype': "
                 "'float16', 'scaler': {'init_scale': 16777216, "
                 "'growth_interval': 1}}, 'train': {'epochs': 8}, 'evaluate': "
                 "{'every_updates': 2}, 'checkpoint': {'every_updates': 2, "
                 "'keep': 1}, 'guard': [{'when': {'consecutive_skips': 2}, "
                 "'do': 'continue'}]");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.events[0].e.kind, EVENT_STARTED);
    assert_true(harness_count(&h, EVENT_GUARD) >= 1);
    assert_true(harness_count(&h, EVENT_INCIDENT) > 1);
    assert_true(harness_count(&h, EVENT_EVALUATION) > 1);
    assert_true(harness_count(&h, EVENT_CHECKPOINT_PRUNED) > 1);
    int64_t updates = 0, skips = 0;
    for (int i = 1, last = 9; i < h.n_events; i++) {
        const struct event *e = &h.events[i].e;
        const int rank = rank_of(e->kind);
        if (rank == 0) {
            updates += !e->u.step.skipped;
            skips += e->u.step.skipped;
        } else {
            assert_true(rank > last);
        }
        last = rank;
        assert_int_equal(e->updates, updates);
        assert_int_equal(e->skips, skips);
        assert_int_equal(e->iteration, updates + skips);
    }
    assert_int_equal(h.n_syncs, harness_count(&h, EVENT_CHECKPOINT));
    harness_fini(&h);
}

/* The history of the scale follows from the recorded skips alone. */
static void
test_loop_scale_history_recomputes(void **unused)
{
    struct spec_scaler settings;
    struct scaler s;
    struct harness h;
    enum scaler_change change;

    (void)unused;
    make_job(&h, "'optimizer': {'adam': {'lr': 0.05}}, 'amp': {'dtype': "
                 "'float16', 'scaler': {'init_scale': 16777216, "
                 "'growth_interval': 3}}, 'train': {'epochs': 20}");
    assert_int_equal(harness_run(&h, NULL), 0);
    settings = h.spec->amp.scaler;
    scaler_init(&s, &settings);
    const int n = harness_count(&h, EVENT_STEP);
    for (int i = 0, told = 0; i < n; i++) {
        const bool skipped = harness_event(&h, EVENT_STEP, i)->u.step.skipped;
        const float before = s.scale;
        assert_true(harness_event(&h, EVENT_STEP, i)->u.step.scale ==
                    (double)s.scale);
        assert_int_equal(scaler_unscaled(&s, 0, skipped, NULL), 0);
        assert_int_equal(scaler_update(&s, &change, NULL), 0);
        if (!skipped && change != SCALER_GREW)
            continue;
        const struct event *e = harness_event(&h, EVENT_SCALE, told++);
        assert_int_equal(e->iteration, i + 1);
        assert_true(e->u.scale.before == (double)before);
        assert_true(e->u.scale.after == (double)s.scale);
        assert_int_equal(e->u.scale.growth_tracker, s.growth_tracker);
    }
    assert_true(engine_state(h.engine)->scaler.scale == s.scale);
    harness_fini(&h);
}

static void
test_loop_stop_before_first_step(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.1}}, 'train': {'epochs': 2}, "
                 "'amp': {'dtype': 'float32'}");
    harness_order(&h, 0, REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_STOPPED);
    assert_int_equal(harness_count(&h, EVENT_STEP), 0);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 0);
    harness_fini(&h);
}

static void
test_loop_abandon_leaves_no_checkpoint(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.1}}, 'train': {'epochs': 2}, "
                 "'amp': {'dtype': 'float32'}, 'checkpoint': "
                 "{'every_updates': 2}");
    harness_order(&h, 2, REPORT_ABANDON | REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_STOPPED);
    assert_int_equal(harness_count(&h, EVENT_STEP), 2);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 0);
    harness_fini(&h);
}

static void
test_loop_demand_makes_one(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.1}}, 'train': {'epochs': 2}, "
                 "'amp': {'dtype': 'float32'}, 'checkpoint': "
                 "{'every_updates': 3}");
    harness_order(&h, 2, REPORT_CHECKPOINT);
    harness_order(&h, 3, REPORT_CHECKPOINT);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 3);
    for (int i = 0; i < 3; i++) {
        const struct event *e = harness_event(&h, EVENT_CHECKPOINT, i);
        assert_int_equal(e->iteration, i < 2 ? i + 2 : 6);
        assert_int_equal(e->u.checkpoint.cause, i < 2 ? EVENT_CHECKPOINT_DEMAND
                                                      : EVENT_CHECKPOINT_END);
    }
    harness_fini(&h);
}

/* C70: a stop in the middle of an evaluation saves, and is no best. */
static void
test_loop_stop_during_evaluation(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.1}}, 'train': {'epochs': 1}, "
                 "'amp': {'dtype': 'float32'}, 'checkpoint': {'best': "
                 "'loss'}");
    /* The last iteration's evaluation: looked for between its batches. */
    harness_order(&h, 3, REPORT_STOP);
    h.order[0].iteration = 3;
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_STOPPED);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 1);
    const struct event *e = harness_event(&h, EVENT_CHECKPOINT, 0);
    assert_int_equal(e->u.checkpoint.cause, EVENT_CHECKPOINT_STOP);
    assert_false(e->u.checkpoint.best);
    h.n_orders = 0;
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    /* Evaluated now, best, so kept under this attempt's name. */
    e = harness_event(&h, EVENT_CHECKPOINT, 1);
    assert_non_null(e);
    assert_string_equal(e->u.checkpoint.name, "it000000003-a2");
    assert_true(e->u.checkpoint.best);
    harness_fini(&h);
}

static int
count_directories(const struct harness *h)
{
    char command[256];
    int n = -1;

    snprintf(command, sizeof(command), "ls %s/checkpoints | wc -l", h->dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* The newest `keep` and the best stay. The learning rate is such that the
 * first evaluation is the best. */
static void
test_loop_retention_keeps_best(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'schedule': {'step': "
                 "{'step_size': 2, 'gamma': 1000}}, 'train': {'epochs': 4}, "
                 "'amp': {'dtype': 'float32'}, 'evaluate': {'every_updates': "
                 "2}, 'checkpoint': {'every_updates': 1, 'keep': 2, 'best': "
                 "'loss'}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_true(harness_event(&h, EVENT_EVALUATION, 0)->u.evaluation.best);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 12);
    const struct event *best = NULL;
    for (int i = 0; i < 12; i++) {
        const struct event *e = harness_event(&h, EVENT_CHECKPOINT, i);
        assert_int_equal(e->u.checkpoint.has_metric, (i + 1) % 2 == 0);
        if (e->u.checkpoint.best)
            best = e;
    }
    assert_non_null(best);
    assert_string_equal(best->u.checkpoint.name, "it000000002-a1");
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_PRUNED), 9);
    assert_int_equal(count_directories(&h), 3);
    for (int i = 0; i < 9; i++)
        assert_string_not_equal(harness_event(&h, EVENT_CHECKPOINT_PRUNED, i)
                                    ->u.checkpoint_pruned.name,
                                "it000000002-a1");
    harness_fini(&h);
}

/* The one resumed from goes when two newer ones are there. */
static void
test_loop_retention_after_resume(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.01}}, 'train': {'epochs': 2}, "
                 "'amp': {'dtype': 'float32'}, 'checkpoint': "
                 "{'every_updates': 1, 'keep': 1}");
    harness_order(&h, 3, REPORT_STOP);
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(count_directories(&h), 1);
    harness_forget(&h);
    harness_order(&h, 4, REPORT_STOP);
    assert_int_equal(harness_run(&h, "it000000003-a1"), 0);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_PRUNED), 0);
    assert_int_equal(count_directories(&h), 2);
    harness_forget(&h);
    assert_int_equal(harness_run(&h, "it000000004-a2"), 0);
    assert_int_equal(count_directories(&h), 2); /* -a1 was not ours to judge */
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_PRUNED), 2);
    harness_fini(&h);
}

/* A checkpoint that fails in mid-run is told, and training goes on. */
static void
test_loop_failed_checkpoint_goes_on(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 0.1}}, 'train': {'epochs': 2}, "
                 "'amp': {'dtype': 'float32'}, 'checkpoint': "
                 "{'every_updates': 2}");
    assert_true(failpoint_arm("ckpt.before_rename:2=ENOSPC"));
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_COMPLETED);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT), 2);
    assert_int_equal(harness_count(&h, EVENT_CHECKPOINT_FAILED), 1);
    assert_int_equal(count_directories(&h), 2);
    /* At the end it is the model that is lost. */
    harness_reset(&h);
    assert_true(failpoint_arm("ckpt.before_rename:3=ENOSPC"));
    assert_int_equal(harness_run(&h, NULL), ERR_NOSPACE);
    assert_int_equal(h.outcome, EVENT_OUTCOME_FAILED);
    /* On a stop it is said, but a stop it is. */
    harness_reset(&h);
    harness_order(&h, 3, REPORT_STOP);
    assert_true(failpoint_arm("ckpt.before_rename:2=ENOSPC"));
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(h.outcome, EVENT_OUTCOME_STOPPED);
    assert_int_equal(h.err.code, ERR_NOSPACE);
    failpoint_arm(NULL);
    harness_fini(&h);
}

/* A first skip long after: replays may take a share of the time only. */
static void
test_loop_replay_budget(void **unused)
{
    float x[40], t[40] = {0};
    const int64_t dim[2] = {40, 1};
    struct harness h;

    (void)unused;
    /* Ten skips in five streaks, then good ones and a streak of two. */
    for (int i = 0; i < 40; i++)
        x[i] = i < 20 ? (i % 4 < 2 ? NAN : 1) : (i >= 36 && i < 38 ? NAN : 1);
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, x);
    harness_npy_f32(&h, "t.npy", 2, dim, t);
    harness_spec(&h,
                 "{'name': 't', 'threads': 1, 'data': {'train': {'format': "
                 "'npy', 'input': 'x.npy', 'target': 't.npy'}, 'batch_size': "
                 "1, 'shuffle': false}, 'model': [{'linear': {'out_features': "
                 "1}}], 'loss': 'mse', 'optimizer': {'sgd': {'lr': 0}}, "
                 "'amp': {'dtype': 'float32'}, 'train': {'epochs': 1}}");
    /* Time passes only when it is looked at, so replays take a large share. */
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(harness_count(&h, EVENT_INCIDENT), 12);
    for (int i = 0; i < 12; i++)
        assert_int_equal(
            harness_event(&h, EVENT_INCIDENT, i)->u.incident.replayed, i < 8);
    harness_fini(&h);
}

/* Weights that an update blew up are the optimizer's doing. */
static void
test_loop_names_the_optimizer(void **unused)
{
    struct harness h;

    (void)unused;
    make_job(&h, "'optimizer': {'sgd': {'lr': 1e38, 'weight_decay': 1e30}}, "
                 "'train': {'epochs': 1}, 'amp': {'dtype': 'float32'}");
    /* Nothing finite is left to keep, so the job fails at its end. */
    assert_int_equal(harness_run(&h, NULL), ERR_NUMERICS);
    assert_int_equal(h.outcome, EVENT_OUTCOME_FAILED);
    const struct event *e = harness_event(&h, EVENT_INCIDENT, 0);
    assert_non_null(e);
    assert_true(e->u.incident.located);
    assert_int_equal(e->u.incident.pass, EVENT_PASS_OPTIMIZER);
    assert_string_equal(e->u.incident.tensor, "fc.weight");
    assert_string_equal(e->u.incident.layer, "fc");
    assert_string_equal(e->u.incident.op, "sgd");
    harness_fini(&h);
}

/* A set in which nothing counts: loss 0, gradients 0, an update all the same,
 * and an evaluation that has no value is never best. */
static void
test_loop_empty_window(void **unused)
{
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t y[4] = {-100, -100, -100, -100}, dim[2] = {4, 2};
    struct harness h;

    (void)unused;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 2, dim, x);
    harness_npy_i64(&h, "y.npy", 4, y);
    harness_spec(&h,
                 "{'name': 't', 'threads': 1, 'data': {'train': {'format': "
                 "'npy', 'input': 'x.npy', 'target': 'y.npy'}, 'validation': "
                 "{'format': 'npy', 'input': 'x.npy', 'target': 'y.npy'}, "
                 "'batch_size': 2}, 'model': [{'name': 'fc', 'linear': "
                 "{'out_features': 2}}], 'loss': {'cross_entropy': "
                 "{'ignore_index': -100}}, 'optimizer': {'sgd': {'lr': 1}}, "
                 "'amp': {'dtype': 'float16'}, 'train': {'epochs': 1}, "
                 "'checkpoint': {'best': 'loss'}}");
    assert_int_equal(harness_run(&h, NULL), 0);
    assert_int_equal(engine_state(h.engine)->count.updates, 2);
    for (int i = 0; i < 2; i++) {
        const struct event *e = harness_event(&h, EVENT_STEP, i);
        assert_true(e->u.step.loss == 0 && e->u.step.grad_norm == 0);
    }
    const struct event *e = harness_event(&h, EVENT_EVALUATION, 0);
    assert_true(isnan(e->u.evaluation.loss));
    assert_false(e->u.evaluation.best);
    harness_fini(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_order_of_events),
        cmocka_unit_test(test_loop_scale_history_recomputes),
        cmocka_unit_test(test_loop_stop_before_first_step),
        cmocka_unit_test(test_loop_abandon_leaves_no_checkpoint),
        cmocka_unit_test(test_loop_demand_makes_one),
        cmocka_unit_test(test_loop_stop_during_evaluation),
        cmocka_unit_test(test_loop_retention_keeps_best),
        cmocka_unit_test(test_loop_retention_after_resume),
        cmocka_unit_test(test_loop_failed_checkpoint_goes_on),
        cmocka_unit_test(test_loop_replay_budget),
        cmocka_unit_test(test_loop_names_the_optimizer),
        cmocka_unit_test(test_loop_empty_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
