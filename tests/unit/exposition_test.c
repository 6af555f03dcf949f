/* SPDX-License-Identifier: Apache-2.0 */
/* The two formats, letter by letter. */
#include "daemon/exposition.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct exposition_family
    plain = {"t_queue_seconds", EXPOSITION_GAUGE, "seconds", "", "A gauge."},
    counter = {"t_read_bytes_total", EXPOSITION_COUNTER, "bytes", "job,verdict",
               "A counter."},
    info = {"t_build_info", EXPOSITION_INFO, "", "version", "An info."},
    histogram = {"t_wait_seconds", EXPOSITION_HISTOGRAM, "seconds", "handler",
                 "A histogram."};

static void
put_all(struct exposition *e)
{
    static const double le[] = {0.25, 1, 5};
    struct exposition_histogram h = {.le = le, .n = 3};

    exposition_put(e, &plain, NULL, 0.5);
    exposition_put(e, &counter, (const char *const[]){"1", "none"}, 3);
    exposition_put(e, &counter, (const char *const[]){"2", "none"}, 1e15);
    exposition_put(e, &info, (const char *const[]){"1.2"}, 1);
    exposition_observe(&h, 0.25); /* a bound is inside */
    exposition_observe(&h, 0.3);
    exposition_observe(&h, 7);
    exposition_observe(&h, (double)NAN);
    exposition_put_histogram(e, &histogram, (const char *const[]){"/x"}, &h);
}

static void
expect(bool openmetrics, void (*fill)(struct exposition *), const char *want)
{
    struct exposition e = {.openmetrics = openmetrics};
    size_t len;
    char *got;

    fill(&e);
    got = exposition_take(&e, &len);
    assert_non_null(got);
    assert_string_equal(got, want);
    assert_int_equal(len, strlen(want));
    free(got);
}

static void
test_exposition_text_format(void **ctx)
{
    (void)ctx;
    expect(false, put_all,
           "# HELP t_queue_seconds A gauge.\n"
           "# TYPE t_queue_seconds gauge\n"
           "t_queue_seconds 0.5\n"
           "# HELP t_read_bytes_total A counter.\n"
           "# TYPE t_read_bytes_total counter\n"
           "t_read_bytes_total{job=\"1\",verdict=\"none\"} 3\n"
           "t_read_bytes_total{job=\"2\",verdict=\"none\"} 1000000000000000\n"
           "# HELP t_build_info An info.\n"
           "# TYPE t_build_info gauge\n"
           "t_build_info{version=\"1.2\"} 1\n"
           "# HELP t_wait_seconds A histogram.\n"
           "# TYPE t_wait_seconds histogram\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"0.25\"} 1\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"1\"} 2\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"5\"} 2\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"+Inf\"} 3\n"
           "t_wait_seconds_sum{handler=\"/x\"} 7.55\n"
           "t_wait_seconds_count{handler=\"/x\"} 3\n");
}

static void
test_exposition_openmetrics(void **ctx)
{
    (void)ctx;
    expect(true, put_all,
           "# HELP t_queue_seconds A gauge.\n"
           "# TYPE t_queue_seconds gauge\n"
           "# UNIT t_queue_seconds seconds\n"
           "t_queue_seconds 0.5\n"
           "# HELP t_read_bytes A counter.\n"
           "# TYPE t_read_bytes counter\n"
           "# UNIT t_read_bytes bytes\n"
           "t_read_bytes_total{job=\"1\",verdict=\"none\"} 3\n"
           "t_read_bytes_total{job=\"2\",verdict=\"none\"} 1000000000000000\n"
           "# HELP t_build An info.\n"
           "# TYPE t_build info\n"
           "t_build_info{version=\"1.2\"} 1\n"
           "# HELP t_wait_seconds A histogram.\n"
           "# TYPE t_wait_seconds histogram\n"
           "# UNIT t_wait_seconds seconds\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"0.25\"} 1\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"1.0\"} 2\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"5.0\"} 2\n"
           "t_wait_seconds_bucket{handler=\"/x\",le=\"+Inf\"} 3\n"
           "t_wait_seconds_sum{handler=\"/x\"} 7.55\n"
           "t_wait_seconds_count{handler=\"/x\"} 3\n"
           "# EOF\n");
}

static void
put_odd_labels(struct exposition *e)
{
    static const char *const values[] = {
        "a\\b\"c\nd",      /* what has to be escaped */
        "\xc3\xa4\xff{}=", /* what stays, and a byte that is no UTF-8 */
        "\xe2\x82",        /* a character cut off at its end */
        "",
    };

    for (size_t i = 0; i < 4; i++)
        exposition_put(e, &info, &values[i], 1);
}

static void
test_exposition_escapes_labels(void **ctx)
{
    (void)ctx;
    expect(false, put_odd_labels,
           "# HELP t_build_info An info.\n"
           "# TYPE t_build_info gauge\n"
           "t_build_info{version=\"a\\\\b\\\"c\\nd\"} 1\n"
           "t_build_info{version=\"\xc3\xa4\xef\xbf\xbd{}=\"} 1\n"
           "t_build_info{version=\"\xef\xbf\xbd\xef\xbf\xbd\"} 1\n"
           "t_build_info{version=\"\"} 1\n");
}

static void
put_numbers(struct exposition *e)
{
    static const double v[] = {0,
                               -3,
                               1e-7,
                               16777216,
                               1e16,
                               1e300,
                               -(double)INFINITY,
                               (double)INFINITY};

    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        exposition_put(e, &plain, NULL, v[i]);
}

static void
test_exposition_spells_numbers(void **ctx)
{
    (void)ctx;
    expect(false, put_numbers,
           "# HELP t_queue_seconds A gauge.\n"
           "# TYPE t_queue_seconds gauge\n"
           "t_queue_seconds 0\n"
           "t_queue_seconds -3\n"
           "t_queue_seconds 1e-07\n"
           "t_queue_seconds 16777216\n"
           "t_queue_seconds 1e+16\n"
           "t_queue_seconds 1e+300\n"
           "t_queue_seconds -Inf\n"
           "t_queue_seconds +Inf\n");
}

static void
put_unknown(struct exposition *e)
{
    exposition_put(e, &plain, NULL, (double)NAN);
    exposition_put(e, &counter, (const char *const[]){"1", "x"}, (double)NAN);
}

static void
test_exposition_leaves_out_what_is_unknown(void **ctx)
{
    (void)ctx;
    expect(false, put_unknown, ""); /* not even its header */
    expect(true, put_unknown, "# EOF\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exposition_text_format),
        cmocka_unit_test(test_exposition_openmetrics),
        cmocka_unit_test(test_exposition_escapes_labels),
        cmocka_unit_test(test_exposition_spells_numbers),
        cmocka_unit_test(test_exposition_leaves_out_what_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
