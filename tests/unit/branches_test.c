/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a job's attempts: what is joined, what is told, what is safe. */
#include "ctl/branches.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
add_attempt(struct branches *b, int64_t number, int64_t start, int64_t end,
            double step_us, const char *difference)
{
    struct view_attempt v;

    view_init(VIEW_ID_attempt, &v);
    v.attempt = number;
    v.start_iteration = start;
    v.end_iteration = end;
    v.updates = isnan(step_us) ? 0 : end - start;
    v.mean_step_us = step_us;
    v.policy_changed = difference[0] != '\0';
    v.difference = difference;
    v.state = "stopped";
    assert_true(branches_add_attempt(b, &v));
}

static void
add_incident(struct branches *b, int64_t attempt, int64_t iteration,
             const char *verdict, const char *layer)
{
    struct view_incident v;

    view_init(VIEW_ID_incident, &v);
    v.attempt = attempt;
    v.iteration = iteration;
    v.verdict = verdict;
    v.layer = layer;
    v.tensor = "x";
    assert_true(branches_add_incident(b, &v));
}

static void
expect(struct branches *b, const struct view_job *job, bool utf8,
       const char *want)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    branches_draw(b, job, utf8, f);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

static struct view_job
make_job(void)
{
    struct view_job job;

    view_init(VIEW_ID_job, &job);
    job.id = 12;
    job.name = "cnn";
    job.state = "completed";
    job.dtype = "float16";
    job.attempt = 2;
    job.rollbacks = 1;
    job.iteration = 2345;
    job.updates = 2340;
    job.skips = 5;
    return job;
}

static void
test_branches_tell_the_story(void **state)
{
    struct branches b = {0};
    struct view_job job = make_job();
    struct view_guard guard;
    struct view_went_back back;

    (void)state;
    add_attempt(&b, 1, 0, 512, 30000, "");
    add_attempt(&b, 2, 500, 2345, 33000, "amp.fp32_regions [] -> [conv2]");
    view_init(VIEW_ID_went_back, &back);
    back.attempt = 1;
    back.from_iteration = 512;
    back.to_iteration = 500;
    back.checkpoint = "it000000500-a1";
    back.cause = "guard: verdict";
    back.difference = "amp.fp32_regions [] -> [conv2]";
    assert_true(branches_add_return(&b, &back));
    view_init(VIEW_ID_guard, &guard);
    guard.attempt = 1;
    guard.iteration = 512;
    guard.condition = "verdict";
    guard.text = "2 in a row";
    guard.action = "rollback";
    assert_true(branches_add_guard(&b, &guard));
    add_incident(&b, 1, 3, "scale_overflow", "head");
    add_incident(&b, 1, 511, "forward_overflow", "conv2");
    add_incident(&b, 1, 512, "forward_overflow", "conv2");
    add_incident(&b, 2, 700, "", "");
    add_incident(&b, 2, 701, "bad_input", "");
    expect(&b, &job, false,
           "job 12 cnn: completed in float16, 2 attempts, 1 rollback\n"
           "|-- attempt 1: iterations 0 to 512, 512 updates, 30 ms per update, "
           "stopped\n"
           "|   3  incident: scale_overflow at head\n"
           "|   511..512  2 incidents: forward_overflow at conv2\n"
           "|   512  guard verdict: 2 in a row: rollback\n"
           "|   512  back to 500 (it000000500-a1): guard: verdict; 12 "
           "iterations abandoned\n"
           "|        with amp.fp32_regions [] -> [conv2]\n"
           "|-- attempt 2: iterations 500 to 2345, 1845 updates, 33 ms per "
           "update (+10.0 %), stopped\n"
           "|   policy changed: amp.fp32_regions [] -> [conv2]\n"
           "|   700  incident: not explained\n"
           "|   701  incident: bad_input of x\n"
           "`-- iteration 2345 = 2340 updates + 5 skips\n");
    branches_fini(&b);
}

/* Incidents come in the order of iterations, those of two lines mixed. */
static void
test_branches_join_within_a_line(void **state)
{
    struct branches b = {0};

    (void)state;
    for (int64_t i = 51; i <= 60; i++) {
        add_incident(&b, 1, i, "scale_overflow", "head");
        add_incident(&b, 2, i, "scale_overflow", "head");
    }
    add_incident(&b, 2, 62, "scale_overflow", "head");
    assert_int_equal(b.n_marks, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.mark[i].attempt, i + 1);
        assert_int_equal(b.mark[i].iteration, 51);
        assert_int_equal(b.mark[i].last, 60);
        assert_int_equal(b.mark[i].n, 10);
    }
    assert_int_equal(b.mark[2].iteration, 62);
    branches_fini(&b);
}

/* Nothing is known of it yet; names of strangers; to the very start. */
static void
test_branches_of_odd_rows(void **state)
{
    struct branches b = {0};
    struct view_job job = make_job();
    struct view_went_back back;

    (void)state;
    job.name = "a\x1b[31mb";
    add_attempt(&b, 1, 0, 0, (double)NAN, "");
    view_init(VIEW_ID_went_back, &back);
    back.attempt = 1;
    back.cause = "by a person";
    assert_true(branches_add_return(&b, &back));
    expect(&b, &job, false,
           "job 12 a\\x1b[31mb: completed in float16, 2 attempts, 1 "
           "rollback\n"
           "|-- attempt 1: iterations 0 to 0, 0 updates, stopped\n"
           "|   0  back to 0 (the start): by a person; 0 iterations "
           "abandoned\n"
           "`-- iteration 2345 = 2340 updates + 5 skips\n");
    branches_fini(&b);
    expect(&b, &job, true,
           "job 12 a\\x1b[31mb: completed in float16, 2 attempts, 1 "
           "rollback\n"
           "\u2514\u2500\u2500 iteration 2345 = 2340 updates + 5 skips\n");
}

static void
expect_report(const struct branches *b, const char *want)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    branches_report(b, false, f);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

/* What it cost is only told where both policies made updates; where nothing
 * was changed there is nothing to say. */
static void
test_branches_report(void **state)
{
    struct branches b = {0};
    struct view_went_back back;

    (void)state;
    add_attempt(&b, 1, 0, 0, (double)NAN, "");
    add_attempt(&b, 2, 0, 512, 30000, "");
    expect_report(&b, "");
    view_init(VIEW_ID_went_back, &back);
    back.attempt = 2;
    back.from_iteration = 512;
    back.to_iteration = 500;
    back.cause = "guard\n\x1b[2J";
    assert_true(branches_add_return(&b, &back));
    expect_report(&b, "what was changed on the way:\n"
                      "  iteration 512: back to 500\n"
                      "  why: guard\\n\\x1b[2J\n");
    b.back[0].policy_changed = true;
    strcpy(b.back[0].difference, "dtype float32");
    expect_report(&b, "what was changed on the way:\n"
                      "  iteration 512: back to 500, from there on dtype "
                      "float32\n"
                      "  why: guard\\n\\x1b[2J\n"
                      "  cost: unknown, only one policy made updates\n");
    add_attempt(&b, 3, 500, 600, 27000, "dtype float32");
    add_attempt(&b, 4, 600, 600, (double)NAN, "");
    expect_report(&b, "what was changed on the way:\n"
                      "  iteration 512: back to 500, from there on dtype "
                      "float32\n"
                      "  why: guard\\n\\x1b[2J\n"
                      "  cost: 30 ms per update before, 27 ms after "
                      "(-10.0 %)\n");
    branches_fini(&b);
}

/* Many rows: the lists grow and lose none. */
static void
test_branches_grow(void **state)
{
    struct branches b = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        add_incident(&b, 1, 2 * i, "bad_input", i % 2 == 0 ? "a" : "b");
    assert_int_equal(b.n_marks, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(b.mark[i].iteration, 2 * i);
    branches_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches_tell_the_story),
        cmocka_unit_test(test_branches_join_within_a_line),
        cmocka_unit_test(test_branches_of_odd_rows),
        cmocka_unit_test(test_branches_report),
        cmocka_unit_test(test_branches_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
