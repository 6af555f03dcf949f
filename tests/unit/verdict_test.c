/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence in, verdict, sentence and cure out: numerics, section 4. */
#include "engine/diagnose/verdict.h"

#include "tests/support/bytes.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct evidence e;
static struct verdict v;
static struct spec spec;
static struct spec_group group;

/* Something that float16 could not hold, in the pass. */
static void
begin(enum event_pass pass)
{
    struct location *w = &e.where;

    memset(&e, 0, sizeof(e));
    memset(&spec, 0, sizeof(spec));
    w->located = true;
    w->pass = pass;
    w->op = "linear";
    w->role = e.fp32_where.role = e.fp32_where.op = "";
    w->dtype = DTYPE_F16;
    w->rank = 2;
    w->index[0] = 2;
    w->what = EVENT_POS_INF;
    w->sample = 7;
    snprintf(w->layer, sizeof(w->layer), "fc1");
    snprintf(w->tensor, sizeof(w->tensor), "fc1.out");
    e.scale = 65536;
    e.lr = 0.5;
    e.finite_scale = (double)NAN;
    spec.amp.dtype = DTYPE_F16;
}

static void
judge(enum event_verdict want)
{
    verdict_judge(&spec, &e, &v);
    assert_int_equal(v.verdict, want);
    assert_true(strlen(v.sentence) > 20);
}

static void
says(const char *what)
{
    if (strstr(v.sentence, what) == NULL)
        fail_msg("\"%s\" is not in: %s", what, v.sentence);
}

static void
add_region(const char *name)
{
    assert_true(strlen(name) < EVENT_NAME_MAX);
    memcpy(e.region[e.n_regions++], name, strlen(name) + 1);
}

static void
test_verdict_forward_overflow(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.fp32_finite = e.bf16_finite = EVENT_YES;
    e.has_fp32_value = true;
    e.fp32_value = 66304;
    e.n_guilty = e.n_samples = 1;
    e.samples[0] = 7;
    add_region("fc1");
    add_region("fc2");
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(
        v.sentence,
        "\"fc1.out\" (linear) overflows float16 at [2,0]: in float32 it is "
        "66304 there, and float16 ends at 65504. No loss scale helps. Sample 7 "
        "causes it. With fc1, fc2 in float32 it is finite, in bfloat16 too.");
    assert_string_equal(v.cure,
                        "{\"amp\":{\"fp32_regions\":[\"fc1\",\"fc2\"]}}");
}

/* Lists that are not told in full say how much they leave out. */
static void
test_verdict_shortens_lists(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.fp32_finite = e.bf16_finite = EVENT_YES;
    for (int i = 0; i < EVENT_MAX_SAMPLES; i++)
        e.samples[i] = i + 1;
    e.n_samples = e.n_guilty = 4;
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    says(" 4 samples cause it: 1, 2, 3, 4. ");
    e.n_samples = EVENT_MAX_SAMPLES;
    e.n_guilty = 20;
    for (int i = 0; i < 30; i++)
        add_region("encoder.block");
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    says(" 20 samples cause it: 1, 2, 3, 4 and 16 more. ");
    says(" encoder.block, encoder.block and 20 more in float32 it is finite, ");
}

/* Without a set that cures, what else does; bfloat16 only if it was tried. */
static void
test_verdict_cures_without_regions(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.fp32_finite = e.bf16_finite = EVENT_YES;
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(v.cure, "{\"amp\":{\"dtype\":\"bfloat16\"}}");
    e.bf16_finite = EVENT_NO;
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(v.cure, "{\"amp\":{\"dtype\":\"float32\"}}");
    e.bf16_finite = EVENT_NOT_ASKED;
    e.where.dtype = DTYPE_BF16;
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_string_equal(v.cure, "{\"amp\":{\"dtype\":\"float32\"}}");
    says("overflows bfloat16");
}

/* The pass decides, not the scale: the loss itself is forward, its product
 * with the scale is not. */
static void
test_verdict_of_each_pass(void **unused)
{
    static const struct {
        enum event_pass pass;
        const char *op;
        enum event_verdict want;
    } cases[] = {
        {EVENT_PASS_FORWARD, "conv2d", EVENT_VERDICT_FORWARD_OVERFLOW},
        {EVENT_PASS_LOSS, "mse", EVENT_VERDICT_FORWARD_OVERFLOW},
        {EVENT_PASS_LOSS, "scale_loss", EVENT_VERDICT_BACKWARD_OVERFLOW},
        {EVENT_PASS_BACKWARD, "linear_dx", EVENT_VERDICT_BACKWARD_OVERFLOW},
        {EVENT_PASS_UNSCALE, "", EVENT_VERDICT_BACKWARD_OVERFLOW},
        {EVENT_PASS_INPUT, "", EVENT_VERDICT_BAD_INPUT},
        {EVENT_PASS_OPTIMIZER, "adam", EVENT_VERDICT_OPTIMIZER},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].pass);
        e.where.op = cases[i].op;
        e.fp32_finite = EVENT_YES;
        e.scale_asked = !verdict_is_forward(&e.where);
        judge(cases[i].want);
    }
}

/* A smaller scale explains it: nothing to cure. */
static void
test_verdict_scale_overflow(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_BACKWARD);
    e.scale_asked = true;
    e.finite_scale = 4096;
    e.fp32_finite = EVENT_YES;
    spec.amp.scaler.dynamic = true;
    judge(EVENT_VERDICT_SCALE_OVERFLOW);
    says("loss scale 65536");
    says("with the scale 4096 everything is");
    assert_string_equal(v.cure, "");
    assert_string_equal(v.regions, "");
    /* Nobody backs a static one off. */
    spec.amp.scaler.dynamic = false;
    judge(EVENT_VERDICT_SCALE_OVERFLOW);
    says("static");
    assert_string_equal(v.cure, "{\"amp\":{\"scaler\":{\"init_scale\":4096}}}");
}

static void
one_sgd(void)
{
    group.lr = 0.5;
    spec.n_optim = 1;
    spec.optim[0].kind = SPEC_OPTIMIZER_SGD;
    spec.optim[0].group = &group;
    spec.optim[0].n_group = 1;
}

/* Told where float32 fails; the rate is a suggestion, and only where a key of
 * the spec is meant. */
static void
test_verdict_divergence(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.fp32_finite = EVENT_NO;
    e.fp32_where = e.where;
    snprintf(e.fp32_where.tensor, EVENT_NAME_MAX, "fc9.out");
    judge(EVENT_VERDICT_DIVERGENCE);
    says("\"fc9.out\"");
    says("in float32 too");
    says("learning rate (0.5)");
    assert_string_equal(v.cure, "");
    one_sgd();
    judge(EVENT_VERDICT_DIVERGENCE);
    assert_string_equal(v.cure, "{\"optimizer\":{\"sgd\":{\"lr\":0.05}}}");
    says("not proven");
    spec.n_optim = 2;
    judge(EVENT_VERDICT_DIVERGENCE);
    assert_string_equal(v.cure, "");
}

static void
test_verdict_optimizer(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_OPTIMIZER);
    one_sgd();
    e.where.op = "sgd";
    e.where.role = "moment";
    snprintf(e.where.tensor, EVENT_NAME_MAX, "fc1.weight.v");
    judge(EVENT_VERDICT_OPTIMIZER);
    says("made the moment \"fc1.weight.v\" +inf at [2,0]");
    says("not proven");
    assert_string_equal(v.cure, "{\"optimizer\":{\"sgd\":{\"lr\":0.05}}}");
    /* No optimizer makes a running statistic. */
    e.where.op = "";
    e.where.role = "running statistic";
    judge(EVENT_VERDICT_OPTIMIZER);
    says("the running statistic");
    assert_null(strstr(v.sentence, "lr"));
    assert_string_equal(v.cure, "");
}

static void
test_verdict_bad_input(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_INPUT);
    e.where.op = "";
    e.where.what = EVENT_NAN;
    e.n_guilty = 20;
    e.n_samples = EVENT_MAX_SAMPLES;
    for (int i = 0; i < EVENT_MAX_SAMPLES; i++)
        e.samples[i] = 7 + i;
    judge(EVENT_VERDICT_BAD_INPUT);
    says("of sample 7 is NaN at [2,0]");
    says("20 samples cause it: 7, 8, 9, 10 and 16 more.");
    assert_string_equal(v.cure, "");
    e.where.is_label = true;
    e.where.label = 12;
    e.where.n_classes = 10;
    judge(EVENT_VERDICT_BAD_INPUT);
    says("has the label 12, and the model tells 10 classes apart: 0 to 9");
}

static void
test_verdict_none(void **unused)
{
    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.where.located = false;
    judge(EVENT_VERDICT_NONE);
    assert_string_equal(v.cure, "");
}

/* The longest names: the sentence ends in time, the cure is JSON in full, with
 * the spec's regions first and none of them twice. */
static void
test_verdict_of_long_names(void **unused)
{
    static char name[VERDICT_MAX_REGIONS][EVENT_NAME_MAX];
    static const char *own[] = {"head", name[3]};

    (void)unused;
    begin(EVENT_PASS_FORWARD);
    e.fp32_finite = e.bf16_finite = EVENT_YES;
    memset(e.where.tensor, 't', EVENT_NAME_MAX - 1);
    for (int i = 0; i < VERDICT_MAX_REGIONS; i++) {
        memset(name[i], 'a' + i % 26, EVENT_NAME_MAX - 1);
        name[i][EVENT_NAME_MAX - 2] = (char)('0' + i % 10);
        name[i][EVENT_NAME_MAX - 3] = (char)('0' + i / 10);
        add_region(name[i]);
    }
    spec.amp.fp32_regions = own;
    spec.amp.n_fp32_regions = 2;
    judge(EVENT_VERDICT_FORWARD_OVERFLOW);
    assert_true(strlen(v.sentence) < EVENT_TEXT_MAX);
    says("tt...\" (linear)");
    says("aa... and 63 more in float32 it is finite");
    assert_string_equal(v.sentence + strlen(v.sentence) - 5, " too.");
    json_t *root = json_loads(v.cure, 0, NULL);
    json_t *list =
        json_object_get(json_object_get(root, "amp"), "fp32_regions");
    assert_int_equal(json_array_size(list), VERDICT_MAX_REGIONS + 1);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "head");
    assert_string_equal(json_string_value(json_array_get(list, 1)), name[3]);
    assert_string_equal(json_string_value(json_array_get(list, 64)), name[63]);
    json_decref(root);
}

/* Names of two-byte characters, and no room for all that is to be said: no
 * character is cut in halves, and dots say that there was more. */
static void
test_verdict_cuts_between_characters(void **unused)
{
    static char op[EVENT_TEXT_MAX];

    (void)unused;
    for (int odd = 0; odd < 2; odd++) {
        begin(EVENT_PASS_FORWARD);
        e.fp32_finite = EVENT_YES;
        memset(e.where.tensor, 't', sizeof(e.where.tensor));
        for (size_t i = (size_t)odd; i + 2 < sizeof(e.where.tensor); i += 2)
            memcpy(e.where.tensor + i, "\u00e4", 3);
        e.where.op = op;
        memset(op, 'o', sizeof(op) - 1);
        for (size_t i = (size_t)odd; i + 2 < sizeof(op); i += 2)
            memcpy(op + i, "\u00f6", 3);
        judge(EVENT_VERDICT_FORWARD_OVERFLOW);
        says("\u00e4...\" (");
        assert_string_equal(v.sentence + strlen(v.sentence) - 5, "\u00f6...");
        assert_true(strlen(v.sentence) >= EVENT_TEXT_MAX - 3);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict_forward_overflow),
        cmocka_unit_test(test_verdict_shortens_lists),
        cmocka_unit_test(test_verdict_cures_without_regions),
        cmocka_unit_test(test_verdict_of_each_pass),
        cmocka_unit_test(test_verdict_scale_overflow),
        cmocka_unit_test(test_verdict_divergence),
        cmocka_unit_test(test_verdict_optimizer),
        cmocka_unit_test(test_verdict_bad_input),
        cmocka_unit_test(test_verdict_none),
        cmocka_unit_test(test_verdict_of_long_names),
        cmocka_unit_test(test_verdict_cuts_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
