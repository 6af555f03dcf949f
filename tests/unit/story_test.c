/* SPDX-License-Identifier: Apache-2.0 */
/* One incident in words: what is known, what is not, and long words. */
#include "ctl/story.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *text; /* what was told last */

static int
forget(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

/* No terminal: 80 columns. */
static void
tell(const struct view_incident *v, bool utf8)
{
    size_t size = 0;
    struct session s = {.out = {.utf8 = utf8}};

    forget(NULL);
    s.out.f = open_memstream(&text, &size);
    assert_non_null(s.out.f);
    story_put_incident(&s, v);
    assert_int_equal(fclose(s.out.f), 0);
}

static void
assert_tells(const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

static struct view_incident
make_incident(void)
{
    static const int64_t index[] = {2, 0};
    struct view_incident v;

    view_init(VIEW_ID_incident, &v);
    v.id = 4;
    v.job = 12;
    v.iteration = 31;
    v.updates = 30;
    v.attempt = 1;
    v.live = v.replayed = v.located = true;
    v.pass = "forward";
    v.layer = "fc1";
    v.op = "linear";
    v.tensor = "fc1.out";
    v.dtype = "float16";
    v.index = (struct view_i64s){index, 2};
    v.what = "+inf";
    v.scale = 65536;
    v.data_position = 7;
    v.trigger = "skip";
    v.runs = 9;
    v.cost_us = 1500;
    return v;
}

static void
test_story_of_an_overflow(void **state)
{
    static const int64_t samples[] = {3, 5};
    struct view_incident v = make_incident();

    (void)state;
    v.verdict = "forward_overflow";
    v.sentence = "\"fc1.out\" (linear) overflows float16 at [2,0]: in float32 "
                 "it is 66304 there, and float16 ends at 65504.";
    v.has_fp32_value = true;
    v.fp32_value = 66304;
    v.samples = (struct view_i64s){samples, 2};
    v.n_guilty = 2;
    v.fp32_finite = v.alone_finite = "yes";
    v.bf16_finite = "no";
    v.regions = "fc1";
    v.cure = "{\"amp\":{\"fp32_regions\":[\"fc1\"]}}";
    v.name = "it000000031-a1";
    v.path = "/s/jobs/12/incidents/it000000031-a1";
    v.kept_bytes = 2048;
    tell(&v, false);
    assert_string_equal(
        text,
        "incident 4 of job 12: iteration 31, 30 updates, attempt 1\n"
        "verdict: forward_overflow: a value of the forward pass is too large "
        "for the dtype\n"
        "\n"
        "  \"fc1.out\" (linear) overflows float16 at [2,0]: in float32 it is "
        "66304 there,\n"
        "  and float16 ends at 65504.\n"
        "\n"
        "         where: forward, layer fc1, operation linear, tensor "
        "fc1.out[2,0], float16\n"
        "         value: +inf\n"
        "    in float32: 66304\n"
        "          when: micro-batch 0, loss scale 65536, window 7 of the "
        "data\n"
        "    noticed by: skip\n"
        "       samples: 3 5\n"
        "     questions: finite in float32?                           yes\n"
        "                finite in bfloat16?                          no\n"
        "                finite at a smaller loss scale?              not "
        "asked\n"
        "                finite with fc1 alone in float32?            yes\n"
        "                smallest set of float32 layers that cures?   fc1\n"
        "          cure: {\"amp\":{\"fp32_regions\":[\"fc1\"]}}\n"
        "      apply it: trainctl rollback 12 --cure 4 "
        "--accept-policy-change\n"
        "          kept: /s/jobs/12/incidents/it000000031-a1, 2.0 KiB\n"
        "  run it again: trainctl replay 4\n"
        "     diagnosis: 9 runs, 1.5 ms\n");
}

/* Nothing was found, or nothing was asked; an evaluation has no window. */
static void
test_story_without_a_verdict(void **state)
{
    struct view_incident v;

    (void)state;
    view_init(VIEW_ID_incident, &v);
    v.id = 1;
    v.job = 2;
    v.data_position = -1;
    v.trigger = "metric";
    tell(&v, false);
    assert_string_equal(
        text, "incident 1 of job 2: iteration 0, 0 updates, attempt 0 (on an "
              "abandoned line)\n"
              "no verdict: it was not replayed\n"
              "          when: an evaluation\n"
              "    noticed by: metric\n");
    v.replayed = true;
    tell(&v, false);
    assert_tells("no verdict: run again, everything was finite\n");
    assert_tells("     diagnosis: 0 runs, 0.0 ms\n");
}

static void
test_story_of_a_scale(void **state)
{
    struct view_incident v = make_incident();

    (void)state;
    v.verdict = "scale_overflow";
    v.finite_scale = 16384;
    tell(&v, false);
    assert_tells("finite at a smaller loss scale?              yes, at 16384");
    v.verdict = "backward_overflow";
    v.finite_scale = (double)NAN;
    tell(&v, false);
    assert_tells("finite at a smaller loss scale?              no\n");
    assert_string_equal(story_meaning("forward_overflow"),
                        "a value of the forward pass is too large for the "
                        "dtype");
    assert_string_equal(story_meaning("of tomorrow"), "");
}

/* More samples cause it than are named. */
static void
test_story_of_many_samples(void **state)
{
    static const int64_t samples[] = {1, 2, 3};
    struct view_incident v = make_incident();

    (void)state;
    v.samples = (struct view_i64s){samples, 3};
    v.n_guilty = 40;
    tell(&v, false);
    assert_tells("       samples: 1 2 3 ... (40 cause it)\n");
    v.n_guilty = 3;
    tell(&v, false);
    assert_tells("       samples: 1 2 3\n");
}

/* A word that no line holds is cut between characters; strangers' text comes
 * out harmless. */
static void
test_story_of_long_words(void **state)
{
    char word[203], want[90];
    struct view_incident v = make_incident();

    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        memset(word, 'w', sizeof(word));
        for (size_t i = (size_t)odd; i < 200; i += 2)
            memcpy(word + i, "\u00e4", 2);
        word[200 + odd] = '\0';
        v.sentence = word;
        v.layer = "a\x1b[31mb";
        tell(&v, true);
        snprintf(want, sizeof(want), "\n  %.*s\n", 76 + odd, word);
        assert_tells(want);
        assert_tells("layer a\\x1b[31mb,");
        assert_null(strstr(text, "\\x"
                                 "c3"));
        assert_null(strchr(text, '\x1b'));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_story_of_an_overflow, forget),
        cmocka_unit_test_teardown(test_story_without_a_verdict, forget),
        cmocka_unit_test_teardown(test_story_of_a_scale, forget),
        cmocka_unit_test_teardown(test_story_of_many_samples, forget),
        cmocka_unit_test_teardown(test_story_of_long_words, forget),
    };

    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
