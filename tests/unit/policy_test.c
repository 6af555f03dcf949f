/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "proto/spec_policy.h"

static const char *regions[] = {"head", "fc1"}, *swapped[] = {"fc1", "head"};

static struct spec
make(void)
{
    return (struct spec){.amp = {.dtype = DTYPE_F16,
                                 .scaler = {.enabled = true,
                                            .dynamic = true,
                                            .init_scale = 65536,
                                            .growth_factor = 2,
                                            .backoff_factor = 0.5,
                                            .growth_interval = 2000,
                                            .min_scale = 1,
                                            .max_scale = 0},
                                 .fp32_regions = regions,
                                 .n_fp32_regions = 2}};
}

/* Does this spec give the text of make(), or another one? */
static bool
same_policy(const struct spec *spec, const char *backend, int threads)
{
    const struct spec plain = make();
    char *a = policy_format(&plain, "cpu", 2);
    char *b = policy_format(spec, backend, threads);

    assert_non_null(a);
    assert_non_null(b);
    const bool same = strcmp(a, b) == 0;
    free(a);
    free(b);
    return same;
}

static double
floor_of(const struct spec *spec)
{
    char *text = policy_format(spec, "cpu", 2);
    double floor;

    assert_non_null(text);
    floor = spec_policy_scale_floor(text);
    free(text);
    return floor;
}

/* What is written here is read by those who only have the text. */
static void
test_policy_tells_the_floor_of_the_scale(void **unused)
{
    struct spec spec = make();

    (void)unused;
    assert_true(floor_of(&spec) == 1);
    spec.amp.scaler.min_scale = 128.5;
    assert_true(floor_of(&spec) == 128.5);
    spec.amp.scaler.min_scale = 0;
    assert_true(isnan(floor_of(&spec)));
    spec.amp.scaler.min_scale = 1;
    spec.amp.scaler.dynamic = false;
    assert_true(isnan(floor_of(&spec)));
    spec.amp.scaler.enabled = false;
    assert_true(isnan(floor_of(&spec)));
    assert_true(isnan(spec_policy_scale_floor("")));
    assert_true(isnan(spec_policy_scale_floor("{\"scaler\":7}")));
}

/* In a child, as oneDNN makes its mind up once: what runs on an old processor,
 * or on another library, is another policy. */
static void
test_policy_sees_another_processor(void **unused)
{
    const struct spec spec = make();
    int status = -1;
    const pid_t child = fork();

    (void)unused;
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
        const char *text = policy_format(&spec, "cpu", 2);
        const char *none = policy_format(&spec, "reference", 2);
        _exit(strstr(text, "oneDNN ") == NULL ||
              strstr(text, ", sse41\"") == NULL ||
              strstr(none, "\"kernels\":\"\"") == NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void
test_policy_says_all(void **unused)
{
    static const char *const parts[] = {
        "\"backend\":\"cpu\"",
        "\"dtype\":\"float16\"",
        "\"fp32_regions\":[\"fc1\",\"head\"]",
        "\"growth_interval\":2000",
        "\"init_scale\":65536.0",
        "\"libc\":\"",
        "\"libraries\":{\"kernels\":\"oneDNN ",
        "\"max_scale\":0.0",
        "\"op_list\":{\"hash\":\"",
        "\"threads\":2",
        "\"version\":",
        "\"wgrad_rounding\":\"fp32\"",
    };
    const struct spec spec = make();
    char *text = policy_format(&spec, "cpu", 2);

    (void)unused;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("%s is not in %s", parts[i], text);
    assert_null(strchr(text, '\n'));
    free(text);
}

static void
test_policy_order_of_regions_is_nothing(void **unused)
{
    struct spec spec = make();

    (void)unused;
    spec.amp.fp32_regions = swapped;
    assert_true(same_policy(&spec, "cpu", 2));
}

static void
test_policy_sees_every_change(void **unused)
{
    struct spec spec = make();

    (void)unused;
    assert_false(same_policy(&spec, "cpu", 1));
    assert_false(same_policy(&spec, "reference", 2));
    spec.amp.dtype = DTYPE_BF16;
    assert_false(same_policy(&spec, "cpu", 2));
    spec = make();
    spec.amp.n_fp32_regions = 1;
    assert_false(same_policy(&spec, "cpu", 2));
    spec = make();
    spec.amp.wgrad_rounding = SPEC_WGRAD_PYTORCH;
    assert_false(same_policy(&spec, "cpu", 2));
    spec = make();
    spec.amp.scaler.growth_interval = 1999;
    assert_false(same_policy(&spec, "cpu", 2));
    spec.amp.scaler.enabled = false;
    assert_false(same_policy(&spec, "cpu", 2));
}

static void
on_difference(void *ctx, const char *text)
{
    strcat(ctx, text);
    strcat(ctx, "; ");
}

static void
test_policy_names_differences(void **unused)
{
    struct spec spec = make();
    char *here = policy_format(&spec, "cpu", 2), *there, text[2048] = "";

    (void)unused;
    policy_compare(here, here, on_difference, text);
    assert_string_equal(text, "");
    spec.amp.dtype = DTYPE_BF16;
    spec.amp.scaler.growth_interval = 1999;
    there = policy_format(&spec, "cpu", 4);
    policy_compare(here, there, on_difference, text);
    assert_string_equal(text, "dtype: \"float16\" here, \"bfloat16\" recorded; "
                              "scaler.growth_interval: 2000 here, 1999 "
                              "recorded; threads: 2 here, 4 recorded; ");
    text[0] = '\0';
    policy_compare("{\"a\":{\"b\":1}}", "{\"a\":{\"c\":[]}}", on_difference,
                   text);
    assert_string_equal(text, "a.b: 1 here, none recorded; a.c: none here, [] "
                              "recorded; ");
    text[0] = '\0';
    policy_compare("{", here, on_difference, text);
    assert_string_equal(text, "");
    free(here);
    free(there);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_sees_another_processor),
        cmocka_unit_test(test_policy_says_all),
        cmocka_unit_test(test_policy_tells_the_floor_of_the_scale),
        cmocka_unit_test(test_policy_order_of_regions_is_nothing),
        cmocka_unit_test(test_policy_sees_every_change),
        cmocka_unit_test(test_policy_names_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
