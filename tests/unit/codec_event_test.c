/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"

static const int64_t samples[] = {0, 59999, 7};
static const int64_t table[] = {9, 1, 0, 12};

/* One event of every kind with awkward values. */
static struct event
make(enum event_kind kind)
{
    struct event e = {.seq = 12,
                      .t_us = 1700000000000001,
                      .kind = kind,
                      .iteration = 100,
                      .updates = 97,
                      .skips = 3};

    switch (kind) {
    case EVENT_STARTED:
        e.u.started.checkpoint = "000100";
        e.u.started.total_iterations = 2345;
        e.u.started.iterations_per_epoch = 469;
        e.u.started.n_parameters = 421642;
        e.u.started.state_bytes = 5059704;
        e.u.started.activation_bytes = 1 << 30;
        e.u.started.policy = "{\"dtype\":\"float16\"}";
        break;
    case EVENT_STEP:
        e.u.step.skipped = true;
        e.u.step.loss = (double)NAN;
        e.u.step.grad_norm = HUGE_VAL;
        e.u.step.lr = 1e-3;
        e.u.step.scale = 65536;
        e.u.step.samples = 128;
        e.u.step.step_us = 20417;
        break;
    case EVENT_SCALE:
        e.u.scale.cause = EVENT_SCALE_SKIP;
        e.u.scale.before = 65536;
        e.u.scale.after = 32768;
        e.u.scale.growth_tracker = 4;
        e.u.scale.samples = samples;
        e.u.scale.n_samples = 3;
        e.u.scale.partial = true;
        e.u.scale.optimizers = "1 adam";
        break;
    case EVENT_INCIDENT:
        e.u.incident.replayed = true;
        e.u.incident.located = true;
        e.u.incident.pass = EVENT_PASS_BACKWARD;
        e.u.incident.layer = "head";
        e.u.incident.op = "linear";
        e.u.incident.tensor = "grad_input";
        e.u.incident.dtype = DTYPE_F16;
        e.u.incident.rank = 4;
        e.u.incident.index[1] = 31;
        e.u.incident.index[3] = 27;
        e.u.incident.what = EVENT_NEG_INF;
        e.u.incident.scale = 65536;
        e.u.incident.micro_batch = 1;
        e.u.incident.sample = -1;
        e.u.incident.trigger = EVENT_TRIGGER_METRIC;
        e.u.incident.verdict = EVENT_VERDICT_BACKWARD_OVERFLOW;
        e.u.incident.sentence = "the gradient of \"head\" overflows";
        e.u.incident.cure = "{\"amp\":{\"fp32_regions\":[\"head\"]}}";
        e.u.incident.fp32_finite = EVENT_YES;
        e.u.incident.alone_finite = EVENT_NO;
        e.u.incident.finite_scale = (double)NAN;
        e.u.incident.regions = "head, 3";
        e.u.incident.has_fp32_value = true;
        e.u.incident.fp32_value = 66304;
        e.u.incident.samples = samples;
        e.u.incident.n_samples = 3;
        e.u.incident.n_guilty = 40;
        e.u.incident.data_position = 99;
        e.u.incident.name = "it000000100-a1";
        e.u.incident.kept_bytes = 123456;
        e.u.incident.runs = 9;
        e.u.incident.cost_us = 71000;
        break;
    case EVENT_EVALUATION:
        e.u.evaluation.loss = 0.25;
        e.u.evaluation.accuracy = (double)NAN;
        e.u.evaluation.top_k = 0.75;
        e.u.evaluation.perplexity = HUGE_VAL;
        e.u.evaluation.n = 10000;
        e.u.evaluation.ema = true;
        e.u.evaluation.n_classes = 2;
        e.u.evaluation.confusion = table;
        e.u.evaluation.incomplete = true;
        e.u.evaluation.best = false;
        break;
    case EVENT_CHECKPOINT:
        e.u.checkpoint.name = "000100";
        e.u.checkpoint.cause = EVENT_CHECKPOINT_DEMAND;
        e.u.checkpoint.bytes = 5061234;
        e.u.checkpoint.duration_us = 31415;
        e.u.checkpoint.has_metric = true;
        e.u.checkpoint.best = true;
        e.u.checkpoint.metric = 0.9012;
        e.u.checkpoint.digest = "00ff";
        break;
    case EVENT_CHECKPOINT_FAILED:
        e.u.checkpoint_failed.name = "";
        e.u.checkpoint_failed.text = "/x/\xc3\xa9: No space left on device";
        break;
    case EVENT_CHECKPOINT_PRUNED: e.u.checkpoint_pruned.name = "000050"; break;
    case EVENT_WARNING:
        e.u.warning.text = "line\nbreak \"quoted\"";
        e.u.warning.value = 0.125;
        break;
    case EVENT_FINISHED:
        e.u.finished.outcome = EVENT_OUTCOME_FAILED;
        e.u.finished.error = ERR_NUMERICS;
        e.u.finished.text = "consecutive skips";
        e.u.finished.to = "last";
        e.u.finished.change = "{\"amp\":{\"dtype\":\"bfloat16\"}}";
        e.u.finished.scale = 1024;
        e.u.finished.skip_windows = samples;
        e.u.finished.n_skip_windows = 2;
        break;
    case EVENT_GUARD:
        e.u.guard.rule = 2;
        e.u.guard.condition = "skip_share";
        e.u.guard.text = "31 of the last 50 iterations were skipped";
        e.u.guard.value = 0.62;
        e.u.guard.bound = 0.5;
        e.u.guard.action = EVENT_ACTION_ROLLBACK;
        e.u.guard.change = "{}";
        break;
    case EVENT_INCIDENT_PRUNED:
        e.u.incident_pruned.name = "it000000100-a1";
        break;
    }
    return e;
}

/* Written, read and written again: the same line, so the same event. */
static void
test_codec_event_round_trip(void **state)
{
    (void)state;
    for (int kind = EVENT_STARTED; kind <= EVENT_INCIDENT_PRUNED; kind++) {
        struct event in = make((enum event_kind)kind), out;
        struct codec_doc *doc;
        struct err err = {0};
        size_t n, n2;
        char *line = codec_write_event(&in, &n), *again;

        assert_null(strchr(line, '\n'));
        assert_int_equal(strlen(line), n);
        if (codec_read_event(line, n, &out, &doc, &err) != 0)
            fail_msg("%s: %s", line, err.msg);
        assert_int_equal(out.seq, 12);
        assert_int_equal(out.t_us, 1700000000000001);
        assert_int_equal(out.kind, kind);
        assert_int_equal(out.iteration, 100);
        assert_int_equal(out.updates, 97);
        assert_int_equal(out.skips, 3);
        again = codec_write_event(&out, &n2);
        assert_string_equal(line, again);
        free(line);
        free(again);
        codec_doc_close(&doc);
    }
}

static struct codec_doc *
read_line(char *line, struct event *out)
{
    struct codec_doc *doc = NULL;

    assert_int_equal(codec_read_event(line, strlen(line), out, &doc, NULL), 0);
    free(line);
    return doc;
}

static void
test_codec_event_fields(void **state)
{
    struct event in = make(EVENT_INCIDENT), out;
    struct codec_doc *doc = read_line(codec_write_event(&in, NULL), &out);

    (void)state;
    assert_int_equal(out.u.incident.pass, EVENT_PASS_BACKWARD);
    assert_string_equal(out.u.incident.tensor, "grad_input");
    assert_int_equal(out.u.incident.dtype, DTYPE_F16);
    assert_int_equal(out.u.incident.rank, 4);
    assert_int_equal(out.u.incident.index[3], 27);
    assert_int_equal(out.u.incident.what, EVENT_NEG_INF);
    assert_int_equal(out.u.incident.sample, -1);
    codec_doc_close(&doc);

    in = make(EVENT_SCALE);
    doc = read_line(codec_write_event(&in, NULL), &out);
    assert_int_equal(out.u.scale.n_samples, 3);
    assert_memory_equal(out.u.scale.samples, samples, sizeof(samples));
    assert_true(out.u.scale.partial);
    assert_string_equal(out.u.scale.optimizers, "1 adam");
    codec_doc_close(&doc);

    in = make(EVENT_EVALUATION);
    doc = read_line(codec_write_event(&in, NULL), &out);
    assert_true(isnan(out.u.evaluation.accuracy));
    assert_true(out.u.evaluation.top_k == 0.75);
    assert_true(isinf(out.u.evaluation.perplexity));
    assert_true(out.u.evaluation.ema);
    assert_int_equal(out.u.evaluation.n_classes, 2);
    assert_memory_equal(out.u.evaluation.confusion, table, sizeof(table));
    codec_doc_close(&doc);

    in = make(EVENT_STEP);
    doc = read_line(codec_write_event(&in, NULL), &out);
    assert_true(isnan(out.u.step.loss));
    assert_true(isinf(out.u.step.grad_norm));
    assert_true(out.u.step.skipped);
    codec_doc_close(&doc);
}

/* How a line looks is what other programs rely on. */
static void
test_codec_event_line(void **state)
{
    struct event in = make(EVENT_SCALE);
    char *line = codec_write_event(&in, NULL);

    (void)state;
    assert_string_equal(
        line, "{\"seq\":12,\"t_us\":1700000000000001,\"kind\":\"scale\","
              "\"iteration\":100,\"updates\":97,\"skips\":3,\"cause\":\"skip\","
              "\"before\":65536.0,\"after\":32768.0,\"growth_tracker\":4,"
              "\"samples\":[0,59999,7],\"partial\":true,"
              "\"optimizers\":\"1 adam\"}");
    free(line);
}

static void
test_codec_event_bad(void **state)
{
#define HEAD "{\"seq\":1,\"t_us\":1,\"iteration\":1,\"updates\":1,\"skips\":0,"
    static const struct {
        const char *line, *sentence;
    } rows[] = {
        {"{}", "event.seq must be an integer, 0 or more"},
        {"{\"seq\":-1}", "event.seq must be an integer, 0 or more"},
        {"{\"seq\":1.5}", "event.seq must be an integer, 0 or more"},
        {"{\"seq\":9223372036854775807}",
         "event.seq must be an integer, 0 or more"},
        {HEAD "\"x\":1}", "event.kind must be a string"},
        {HEAD "\"kind\":\"stepp\"}", "unknown kind of event \"stepp\""},
        {HEAD "\"kind\":\"step\",\"loss\":\"nan\"}",
         "step.loss is not what it should be"},
        {HEAD "\"kind\":\"step\",\"samples\":1.5}",
         "step.samples is not what it should be"},
        {HEAD "\"kind\":\"scale\",\"cause\":\"whim\"}",
         "scale.cause is not what it should be"},
        {HEAD "\"kind\":\"scale\",\"samples\":[\"a\"]}",
         "scale.samples is not what it should be"},
        {HEAD "\"kind\":\"evaluation\",\"confusion\":[1,2,3]}",
         "evaluation.confusion is not what it should be"},
        {HEAD "\"kind\":\"incident\",\"index\":[1,2,3,4,5,6,7]}",
         "incident.index is not what it should be"},
        {HEAD "\"kind\":\"incident\",\"dtype\":\"float8\"}",
         "incident.dtype is not what it should be"},
        {HEAD "\"kind\":\"finished\",\"error\":99999999999}",
         "finished.error is not what it should be"},
        {"[]", "a list where an object should be"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct event out;
        struct codec_doc *doc;
        struct err err;

        assert_int_equal(codec_read_event(rows[i].line, strlen(rows[i].line),
                                          &out, &doc, &err),
                         ERR_PROTO);
        assert_null(doc);
        assert_string_equal(err.msg, rows[i].sentence);
    }
}

/* A line that a crash cut short is never taken for an event. */
static void
test_codec_event_truncated(void **state)
{
    struct event in = make(EVENT_INCIDENT), out;
    struct codec_doc *doc;
    struct err err;
    size_t n;
    char *line = codec_write_event(&in, &n);

    (void)state;
    for (size_t k = 0; k < n; k++)
        assert_int_equal(codec_read_event(line, k, &out, &doc, &err),
                         ERR_PROTO);
    memset(line + n / 2, 0, n / 2); /* a hole after a crash */
    assert_int_equal(codec_read_event(line, n, &out, &doc, &err), ERR_PROTO);
    free(line);
}

/* Old lines lack what was invented later; new ones have more. */
static void
test_codec_event_ages(void **state)
{
    const char *line = HEAD "\"kind\":\"step\",\"brand_new\":{}}";
    struct event out;
    struct codec_doc *doc;

    (void)state;
    assert_int_equal(codec_read_event(line, strlen(line), &out, &doc, NULL), 0);
    assert_true(isnan(out.u.step.loss));
    assert_false(out.u.step.skipped);
    codec_doc_close(&doc);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codec_event_round_trip),
        cmocka_unit_test(test_codec_event_fields),
        cmocka_unit_test(test_codec_event_line),
        cmocka_unit_test(test_codec_event_bad),
        cmocka_unit_test(test_codec_event_truncated),
        cmocka_unit_test(test_codec_event_ages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
