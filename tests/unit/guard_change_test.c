/* SPDX-License-Identifier: Apache-2.0 */
/* What a rollback changes, and when it is none. */
#include "tests/support/guards.h"

#include "proto/spec_merge.h"

#include <stdio.h>
#include <stdlib.h>

static struct spec_guard *
add_ladder(struct guards *r)
{
    struct spec_guard *g = NULL;

    for (int i = 0; i < 3; i++) {
        g = guards_add_rule(r, SPEC_CONDITION_VERDICT, EVENT_ACTION_ROLLBACK);
        g->verdict = EVENT_VERDICT_FORWARD_OVERFLOW;
        g->limit = 2;
        g->with.kind = i == 0 ? SPEC_CHANGE_FP32_REGION : SPEC_CHANGE_DTYPE;
        g->with.dtype = i == 1 ? DTYPE_BF16 : DTYPE_F32;
    }
    return g;
}

/* The rungs of guard: auto, each where the one before is in effect. */
static void
test_guard_ladder(void **state)
{
    const char *regions[] = {"block", "he\"ad"};
    static const struct {
        enum dtype dtype;
        int n_regions;
        const char *diagnosed;
        int rule; /* that acts */
        const char *change;
    } rungs[] = {
        {DTYPE_F16, 0, "fc1", 0, "{\"amp\":{\"fp32_regions\":[\"fc1\"]}}"},
        {DTYPE_F16, 2, "fc1", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"he\\\"ad\",\"fc1\"]}}"},
        {DTYPE_F16, 1, "block.0", 1,
         "{\"amp\":{\"dtype\":\"bfloat16\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_F16, 1, "blocks", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"blocks\"]}}"},
        {DTYPE_F16, 0, NULL, 1,
         "{\"amp\":{\"dtype\":\"bfloat16\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_BF16, 1, "fc1", 0,
         "{\"amp\":{\"fp32_regions\":[\"block\",\"fc1\"]}}"},
        {DTYPE_BF16, 1, "block", 2,
         "{\"amp\":{\"dtype\":\"float32\",\"scaler\":{\"enabled\":false}}}"},
        {DTYPE_F32, 0, "fc1", -1, NULL},
    };
    struct guards r;

    (void)state;
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++) {
        guards_begin(&r, rungs[i].dtype);
        add_ladder(&r);
        r.spec.amp.fp32_regions = regions;
        r.spec.amp.n_fp32_regions = rungs[i].n_regions;
        guards_open(&r, 2);
        assert_false(guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW,
                                      rungs[i].diagnosed));
        assert_true(guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW,
                                     rungs[i].diagnosed));
        if (rungs[i].rule < 0) {
            guards_expect(
                &r, 0, EVENT_ACTION_FAIL,
                "2 diagnosed incidents in a row had verdict "
                "forward_overflow, the last at fc1; going back would change "
                "nothing: all layers run in float32 already");
            assert_string_equal(r.f.to, "");
        } else {
            assert_int_equal(r.f.rule, rungs[i].rule);
            assert_int_equal(r.f.action, EVENT_ACTION_ROLLBACK);
            assert_string_equal(r.f.change, rungs[i].change);
            assert_string_equal(r.f.to, "last");
            assert_true(isnan(r.f.scale) && r.f.n_skip_windows == 0);
        }
        guards_close(&r);
    }
}

static void
test_guard_rollbacks_are_bounded(void **state)
{
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    add_ladder(&r);
    guards_open(&r, 3);
    guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1");
    assert_true(guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    guards_expect(
        &r, 0, EVENT_ACTION_FAIL,
        "2 diagnosed incidents in a row had verdict forward_overflow, the "
        "last at fc1; guards went back 3 times, and guard.max_rollbacks "
        "allows 3");
    assert_string_equal(r.f.change, "");
    guards_close(&r);
}

/* The diagnosis of a streak that is over cures another one no more. */
static void
test_guard_cure_of_the_streak(void **state)
{
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    g = guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS,
                        EVENT_ACTION_ROLLBACK);
    g->limit = 2;
    g->with.kind = SPEC_CHANGE_FP32_REGION;
    guards_open(&r, 0);
    assert_false(guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    assert_false(guards_ok(&r));
    assert_false(guards_miss(&r));
    assert_true(guards_miss(&r));
    guards_expect(
        &r, 0, EVENT_ACTION_FAIL,
        "2 updates in a row were skipped; none was diagnosed; going back "
        "would change nothing: no diagnosis names layers for float32");
    assert_false(guards_ok(&r));
    assert_false(guards_miss_with(&r, EVENT_VERDICT_FORWARD_OVERFLOW, "fc1"));
    assert_true(guards_miss(&r));
    assert_int_equal(r.f.action, EVENT_ACTION_ROLLBACK);
    assert_string_equal(r.f.change, "{\"amp\":{\"fp32_regions\":[\"fc1\"]}}");
    guards_close(&r);
}

static void
test_guard_named_regions(void **state)
{
    const char *regions[] = {"a", "b"};
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    g = guards_add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_ROLLBACK);
    g->above = 2;
    g->to_best = true;
    g->with.kind = SPEC_CHANGE_FP32_REGION;
    g->with.regions = regions;
    g->with.n_regions = 2;
    r.spec.amp.fp32_regions = regions;
    r.spec.amp.n_fp32_regions = 1;
    guards_open(&r, 0);
    assert_true(guards_step(&r, false, 3));
    assert_string_equal(r.f.change,
                        "{\"amp\":{\"fp32_regions\":[\"a\",\"b\"]}}");
    assert_string_equal(r.f.to, "best");
    r.spec.amp.n_fp32_regions = 2;
    assert_true(guards_step(&r, false, 3));
    guards_expect(
        &r, 0, EVENT_ACTION_FAIL,
        "the loss of an update was 3, above 2; going back would change "
        "nothing: a and others run in float32 already");
    guards_close(&r);
}

static void
test_guard_skip_batches(void **state)
{
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    g = guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS,
                        EVENT_ACTION_ROLLBACK);
    g->limit = 3;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    g = guards_add_rule(&r, SPEC_CONDITION_VERDICT, EVENT_ACTION_ROLLBACK);
    g->verdict = EVENT_VERDICT_BAD_INPUT;
    g->limit = 4;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    g = guards_add_rule(&r, SPEC_CONDITION_LOSS_ABOVE, EVENT_ACTION_ROLLBACK);
    g->above = 2;
    g->with.kind = SPEC_CHANGE_SKIP_BATCHES;
    guards_open(&r, 0);
    guards_ok(&r);
    r.position = 7;
    guards_miss(&r);
    r.position = 9; /* 8 was passed over */
    guards_miss(&r);
    assert_true(guards_miss(&r));
    assert_int_equal(r.f.n_skip_windows, 2);
    assert_true(r.f.skip_windows[0] == 7 && r.f.skip_windows[1] == 4);
    assert_string_equal(r.f.change, "");
    guards_ok(&r);
    r.position = 20;
    guards_miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    guards_miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    guards_ok(&r);
    guards_miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL);
    assert_true(guards_miss_with(&r, EVENT_VERDICT_BAD_INPUT, NULL));
    assert_int_equal(r.f.rule, 1);
    assert_int_equal(r.f.n_skip_windows, 4);
    assert_true(r.f.skip_windows[0] == 20 && r.f.skip_windows[1] == 2 &&
                r.f.skip_windows[2] == 23 && r.f.skip_windows[3] == 2);
    r.position = 40;
    assert_true(guards_step(&r, false, 3));
    assert_int_equal(r.f.n_skip_windows, 2);
    assert_true(r.f.skip_windows[0] == 40 && r.f.skip_windows[1] == 1);
    guards_close(&r);
}

/* The smaller one of what the checkpoint has and what there is now. */
static void
test_guard_lower_scale(void **state)
{
    struct spec_guard *g;
    struct guards r;

    (void)state;
    guards_begin(&r, DTYPE_F16);
    g = guards_add_rule(&r, SPEC_CONDITION_CONSECUTIVE_SKIPS,
                        EVENT_ACTION_ROLLBACK);
    g->with.kind = SPEC_CHANGE_LOWER_SCALE;
    g->with.factor = 0.25;
    guards_open(&r, 0); /* begins at 1024 */
    r.scale = 4096;
    assert_true(guards_miss(&r));
    assert_true(r.f.scale == 256);
    assert_string_equal(r.f.change, "");
    guard_note_checkpoint(r.guard, 2048);
    assert_true(guards_miss(&r));
    assert_true(r.f.scale == 512);
    g->to_best = true; /* which may be the first one */
    assert_true(guards_miss(&r));
    assert_true(r.f.scale == 256);
    r.scale = 2;
    assert_true(guards_miss(&r));
    assert_true(r.f.scale == 1); /* the floor, but lower */
    r.scale = 1;
    assert_true(guards_miss(&r));
    assert_int_equal(r.f.action, EVENT_ACTION_FAIL);
    assert_non_null(strstr(r.f.text, "the scale is at its floor, 1"));
    r.spec.amp.scaler.dynamic = false;
    r.scale = 512;
    assert_true(guards_miss(&r));
    assert_true(isnan(r.f.scale));
    assert_string_equal(r.f.change,
                        "{\"amp\":{\"scaler\":{\"init_scale\":128.0}}}");
    r.spec.amp.scaler.enabled = false;
    assert_true(guards_miss(&r));
    assert_non_null(strstr(r.f.text, "there is no loss scale"));
    guards_close(&r);
}

/* ---- one after the other --------------------------------------------------*/

/* The guard of a spec's text meets the overflow twice. */
static void
overflow_twice(const char *text, int64_t rollbacks, const char *region,
               struct guards *r)
{
    struct spec_faults faults;
    struct spec *spec;

    if (spec_parse(text, strlen(text), &spec, &faults) != 0)
        fail_msg("%s: %s", faults.list[0].path, faults.list[0].message);
    guards_begin(r, spec->amp.dtype);
    r->spec = *spec;
    guards_open(r, rollbacks);
    assert_false(guards_miss_with(r, EVENT_VERDICT_FORWARD_OVERFLOW, region));
    assert_true(guards_miss_with(r, EVENT_VERDICT_FORWARD_OVERFLOW, region));
    spec_destroy(&spec);
}

/* guard: auto, where nothing helps: each change merges into the spec, makes a
 * spec that stands, and is not made twice. */
static void
test_guard_walks_the_ladder(void **state)
{
    static const struct {
        const char *region, *change;
    } rungs[] = {
        {"a", "{\"amp\":{\"fp32_regions\":[\"a\"]}}"},
        {"b", "{\"amp\":{\"fp32_regions\":[\"a\",\"b\"]}}"},
        {"a",
         "{\"amp\":{\"dtype\":\"bfloat16\",\"scaler\":{\"enabled\":false}}}"},
        {"b",
         "{\"amp\":{\"dtype\":\"float32\",\"scaler\":{\"enabled\":false}}}"},
    };
    static const char *const forms[] = {"", ", \"scaler\": true",
                                        ", \"scaler\": {\"init_scale\": 8}"};

    (void)state;
    for (size_t form = 0; form < 3; form++) {
        char first[1024], *text;
        struct guards r;
        struct err err;

        snprintf(first, sizeof(first),
                 "{\"data\": {\"train\": {\"format\": \"idx\", \"input\": "
                 "\"x\", \"target\": \"y\"}, \"batch_size\": 8}, \"model\": "
                 "[{\"name\": \"a\", \"linear\": {\"out_features\": 2}}, "
                 "{\"name\": \"b\", \"linear\": {\"out_features\": 2}}], "
                 "\"loss\": \"mse\", \"optimizer\": \"adam\", \"amp\": "
                 "{\"dtype\": \"float16\"%s}, \"guard\": {\"mode\": "
                 "\"auto\", \"max_rollbacks\": 9}}",
                 forms[form]);
        text = strdup(first);
        for (int i = 0; i < 4; i++) {
            char *next;

            overflow_twice(text, i, rungs[i].region, &r);
            assert_int_equal(r.f.action, EVENT_ACTION_ROLLBACK);
            assert_string_equal(r.f.change, rungs[i].change);
            assert_int_equal(
                spec_merge(text, strlen(text), r.f.change, &next, &err), 0);
            guards_close(&r);
            free(text);
            text = next;
        }
        overflow_twice(text, 4, "a", &r);
        assert_int_equal(r.f.action, EVENT_ACTION_FAIL);
        assert_non_null(strstr(r.f.text, "all layers run in float32 already"));
        assert_false(r.spec.amp.scaler.enabled);
        guards_close(&r);
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_ladder),
        cmocka_unit_test(test_guard_rollbacks_are_bounded),
        cmocka_unit_test(test_guard_cure_of_the_streak),
        cmocka_unit_test(test_guard_named_regions),
        cmocka_unit_test(test_guard_skip_batches),
        cmocka_unit_test(test_guard_lower_scale),
        cmocka_unit_test(test_guard_walks_the_ladder),
    };

    return cmocka_run_group_tests_name("guard_change", tests, NULL, NULL);
}
