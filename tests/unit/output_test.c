/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/layout.h"
#include "ctl/output.h"

static int64_t samples[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

/* Two events of a loss scale; names as no daemon of ours would write them. */
static void
fill_events(struct view_scale event[2])
{
    view_init(VIEW_ID_scale, &event[0]);
    event[0].iteration = 20;
    event[0].live = true;
    event[0].cause = "skip";
    event[0].before = 65536;
    event[0].after = 0.1;
    event[0].samples = (struct view_i64s){samples, 10};
    view_init(VIEW_ID_scale, &event[1]);
    event[1].iteration = 1234;
    event[1].cause = "a|b,\"c\"\\\033\n";
    event[1].before = NAN;
    event[1].after = INFINITY;
}

static void
assert_output(const struct output_ops *ops, const struct output_layout *layout,
              bool utf8, const void *views, size_t size, int n,
              const char *wanted)
{
    char *text = NULL;
    size_t len = 0;
    struct output out = {.ops = ops, .utf8 = utf8, .utc = true};

    out.f = open_memstream(&text, &len);
    assert_non_null(out.f);
    assert_int_equal(output_begin(&out, layout, NULL), 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(
            output_row(&out, (const char *)views + (size_t)i * size, NULL), 0);
    assert_int_equal(output_end(&out, NULL), 0);
    fclose(out.f);
    assert_string_equal(text, wanted);
    free(text);
}

static void
test_output_text(void **state)
{
    struct view_scale event[2];

    (void)state;
    fill_events(event);
    assert_output(&output_text, &layout_skips, false, event, sizeof(event[0]),
                  2,
                  "ITERATION  UPDATES  BEFORE  AFTER  ATTEMPT  TIME  SAMPLES"
                  "                  LINE\n"
                  "       20        0   65536    0.1        0  -     "
                  "3 1 4 1 5 9 2 6 +2 more\n"
                  "     1234        0       -    inf        0  -"
                  "                              abandoned\n");
    assert_output(&output_text, &layout_skips, false, event, sizeof(event[0]),
                  0, "");
}

/* Widths are columns, not bytes. */
static void
test_output_text_wide(void **state)
{
    struct view_checkpoint c[2];

    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (int i = 0; i < 2; i++) {
        view_init(VIEW_ID_checkpoint, &c[i]);
        c[i].id = i;
        c[i].live = true;
        c[i].state = "good";
        c[i].name = i == 0 ? "\xe6\x97\xa5\xe6\x9c\xac" : "plain name";
    }
    assert_output(&output_text, &layout_checkpoints, true, c, sizeof(c[0]), 2,
                  "ID  NAME        ITERATION  UPDATES  SKIPS  STATE  SIZE  "
                  "TIME\n"
                  " 0  \xe6\x97\xa5\xe6\x9c\xac                0        0"
                  "      0  good    0 B  -\n"
                  " 1  plain name          0        0      0  good    0 B"
                  "  -\n");
}

static void
test_output_parsable(void **state)
{
    struct view_scale event[2];

    (void)state;
    fill_events(event);
    assert_output(
        &output_parsable, &layout_scale, false, event, sizeof(event[0]), 2,
        "0|20|0|0|1|skip|65536|0.1|0|3 1 4 1 5 9 2 6 5 3|0|0|\n"
        "0|1234|0|0|0|a\\x7cb,\"c\"\\\\\\x1b\\n|NaN|Infinity|0||0|0|\n");
}

static void
test_output_csv(void **state)
{
    struct view_scale event[2];

    (void)state;
    fill_events(event);
    assert_output(
        &output_csv, &layout_scale, false, event, sizeof(event[0]), 2,
        "row,iteration,updates,attempt,live,cause,before,after,growth_tracker,"
        "samples,t_us,partial,optimizers\n"
        "0,20,0,0,1,skip,65536,0.1,0,3 1 4 1 5 9 2 6 5 3,0,0,\n"
        "0,1234,0,0,0,\"a|b,\"\"c\"\"\\\\x1b\\n\",NaN,Infinity,0,,0,0,\n");
}

static void
test_output_incident_words(void **state)
{
    struct view_incident v[2];
    int64_t index[] = {0, 17};

    (void)state;
    view_init(VIEW_ID_incident, &v[0]);
    v[0].live = v[0].replayed = v[0].located = true;
    v[0].iteration = 5;
    v[0].pass = "forward";
    v[0].layer = "fc1";
    v[0].op = "linear";
    v[0].dtype = "float16";
    v[0].index = (struct view_i64s){index, 2};
    v[0].what = "+inf";
    v[0].scale = 65536;
    v[0].sample = 0;
    view_init(VIEW_ID_incident, &v[1]);
    v[1].live = true;
    v[1].id = 1;
    v[1].sample = -1;
    v[1].scale = 32768;
    assert_output(&output_text, &layout_incidents, false, v, sizeof(v[0]), 2,
                  "ID  ITERATION  PASS     LAYER  OP              DTYPE    "
                  "INDEX   WHAT  SCALE  SAMPLE\n"
                  " 0          5  forward  fc1    linear          float16  "
                  "[0,17]  +inf  65536       0\n"
                  " 1          0                  (not replayed)"
                  "                         32768\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_text),
        cmocka_unit_test(test_output_text_wide),
        cmocka_unit_test(test_output_parsable),
        cmocka_unit_test(test_output_csv),
        cmocka_unit_test(test_output_incident_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
