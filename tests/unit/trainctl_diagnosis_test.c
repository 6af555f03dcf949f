/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainctl's verbs about what went wrong: explain, guards, lineage, rollback,
 * against a scripted daemon.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_daemon.h"

#define ARGS(...)                                                              \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

#define JOB(id)                                                                \
    "{\"id\":" #id ",\"name\":\"net\",\"state\":\"running\",\"dtype\":"        \
    "\"float16\",\"iteration\":62,\"updates\":50,\"skips\":12,"                \
    "\"attempt\":2,\"rollbacks\":1,\"exit_code\":-1}"
#define OK(id, item) "{\"id\":" #id ",\"ok\":true,\"item\":" item "}"
#define ITEMS(id, items)                                                       \
    "{\"id\":" #id ",\"ok\":true,\"more\":false,\"items\":[" items "]}"
#define INCIDENT(id, attempt, iteration, verdict)                              \
    "{\"id\":" #id ",\"job\":3,\"iteration\":" #iteration                      \
    ",\"attempt\":" #attempt ",\"layer\":\"fc1\",\"tensor\":\"fc1.out\","      \
    "\"verdict\":\"" verdict "\",\"trigger\":\"skip\"}"
#define BOTH(a, b) a "," b
#define GUARD                                                                  \
    "{\"row\":1,\"iteration\":60,\"updates\":50,\"attempt\":1,\"live\":true,"  \
    "\"rule\":1,\"condition\":\"consecutive_skips\",\"text\":\"10 in a row\"," \
    "\"value\":10,\"bound\":10,\"action\":\"rollback\",\"t_us\":5}"

static const struct fake_run *
run_script(const struct fake_step *script, const char *const *args)
{
    return fake_daemon_run(
        &(struct fake_setup){.script = script,
                             .directory = fake_daemon_directory()},
        args);
}

static void
assert_holds(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void
assert_refused(const char *const *args, const char *part)
{
    const struct fake_run *r = run_script(NULL, args);

    assert_int_equal(r->exit_code, 2);
    assert_string_equal(r->out, "");
    assert_holds(r->err, part);
}

/* ---- explain -------------------------------------------------------------*/

static void
test_explain_a_number(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"verb\":\"incident\",\"args\":{\"incident\":4}"},
        {FAKE_SAY, OK(1, INCIDENT(4, 1, 31, "forward_overflow"))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(script, ARGS("explain", "4"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "incident 4 of job 3: iteration 31,");
    assert_holds(r->out, "verdict: forward_overflow: a value of the forward");
    r = run_script(script, ARGS("explain", "4", "--json"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "\"verdict\": \"forward_overflow\"");
}

/* The last one that has a verdict, on whatever line; without any, the last. */
static void
test_explain_the_last(void **state)
{
    struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"job\":\"3\",\"all_lines\":true"},
        {FAKE_SAY, ITEMS(1, BOTH(INCIDENT(4, 1, 31, "scale_overflow"),
                                 INCIDENT(5, 1, 32, "")))},
        {FAKE_HEAR, "\"incident\":4"},
        {FAKE_SAY, OK(2, INCIDENT(4, 1, 31, "scale_overflow"))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("explain", "--job", "3"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "incident 4 of job 3");
    script[3].text =
        ITEMS(1, BOTH(INCIDENT(4, 1, 31, ""), INCIDENT(5, 1, 32, "")));
    script[4].text = "\"incident\":5";
    script[5].text = OK(2, INCIDENT(5, 1, 32, ""));
    r = run_script(script, ARGS("explain", "--job", "3"));
    assert_holds(r->out, "no verdict: it was not replayed");
}

static void
test_explain_refuses(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"job\":\"@\""},
        {FAKE_SAY, ITEMS(1, "")},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(script, ARGS("explain"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "job @ has no incidents");
    assert_refused(ARGS("explain", "4", "--job", "3"),
                   "an incident's number and --job exclude each other");
    assert_refused(ARGS("explain", "@"), "\"@\" is no incident's number");
    assert_refused(ARGS("explain", "4x"), "--job 4x");
}

/* ---- guards --------------------------------------------------------------*/

static void
test_guards(void **state)
{
    struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"verb\":\"guards\",\"args\":{\"job\":\"3\","
                    "\"all_lines\":true,\"from\":10,\"to\":70"},
        {FAKE_SAY, ITEMS(1, GUARD)},
        {FAKE_END, NULL},
    };
    const char *const *args =
        ARGS("guards", "3", "--all-lines", "--from", "10", "--to", "70");

    (void)state;
    const struct fake_run *r = run_script(script, args);
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "consecutive_skips");
    assert_holds(r->out, "10 in a row");
    assert_holds(r->out, "rollback");
    r = run_script(script, ARGS("guards", "3", "--all-lines", "--from", "10",
                                "--to", "70", "--csv"));
    assert_string_equal(
        r->out, "row,iteration,updates,attempt,live,rule,condition,text,"
                "value,bound,action,change,t_us\n"
                "1,60,50,1,1,1,consecutive_skips,10 in a row,10,10,rollback,,"
                "5\n");
    script[3].text = ITEMS(1, "");
    r = run_script(script, args);
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "");
    assert_string_equal(r->err, "no guard has fired\n");
}

/* ---- lineage -------------------------------------------------------------*/

/* Two lines with the same streak in both, and another verdict. */
#define STREAKS                                                                \
    BOTH(BOTH(INCIDENT(1, 1, 51, "scale_overflow"),                            \
              INCIDENT(7, 2, 51, "scale_overflow")),                           \
         BOTH(BOTH(INCIDENT(2, 1, 52, "scale_overflow"),                       \
                   INCIDENT(8, 2, 52, "scale_overflow")),                      \
              BOTH(INCIDENT(9, 2, 53, "divergence"),                           \
                   INCIDENT(3, 1, 60, "scale_overflow"))))
static const struct fake_step lineage_script[] = {
    FAKE_GREET,
    {FAKE_HEAR, "\"verb\":\"status\""},
    {FAKE_SAY, OK(1, JOB(3))},
    {FAKE_HEAR, "\"verb\":\"attempts\""},
    {FAKE_SAY,
     ITEMS(2, "{\"attempt\":1,\"state\":\"stopped\",\"end_iteration\":60},"
              "{\"attempt\":2,\"state\":\"running\",\"start_iteration\":50,"
              "\"end_iteration\":62,\"cause\":\"a|b\"}")},
    {FAKE_HEAR, "\"verb\":\"rollbacks\""},
    {FAKE_SAY, ITEMS(3, "{\"row\":1,\"job\":3,\"attempt\":1,"
                        "\"from_iteration\":60,\"to_iteration\":50,"
                        "\"checkpoint\":\"it000000050-a1\",\"cause\":"
                        "\"guard\",\"uid\":-1}")},
    {FAKE_HEAR, "\"verb\":\"guards\""},
    {FAKE_SAY, ITEMS(4, GUARD)},
    {FAKE_HEAR, "\"verb\":\"incidents\",\"args\":{\"job\":\"3\","
                "\"all_lines\":true"},
    {FAKE_SAY, ITEMS(5, STREAKS)},
    {FAKE_END, NULL},
};

static void
test_lineage_drawn(void **state)
{
    (void)state;
    const struct fake_run *r = run_script(lineage_script, ARGS("lineage", "3"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(
        r->out,
        "job 3 net: running in float16, 2 attempts, 1 rollback\n"
        "|-- attempt 1: iterations 0 to 60, 0 updates, stopped\n"
        "|   51..52  2 incidents: scale_overflow at fc1\n"
        "|   60  incident: scale_overflow at fc1\n"
        "|   60  guard consecutive_skips: 10 in a row: rollback\n"
        "|   60  back to 50 (it000000050-a1): guard; 10 iterations abandoned\n"
        "|-- attempt 2: iterations 50 to 62, 0 updates, running\n"
        "|   51..52  2 incidents: scale_overflow at fc1\n"
        "|   53  incident: divergence at fc1\n"
        "`-- iteration 62 = 50 updates + 12 skips\n");
}

/* Every line says which list it is of; streaks are one line. */
static void
test_lineage_parsable(void **state)
{
    static const struct {
        const char *begin, *end;
    } want[] = {
        {"attempts|1|stopped|", "|NaN"},
        {"attempts|2|running|", "|NaN"},
        {"rollbacks|1|3|1|60|50|it000000050-a1|guard|-1|", "|0"},
        {"guards|1|60|50|1|1|1|consecutive_skips|10 in a row|", "|5"},
        {"incidents|1|3|51|0|1|", "|52|2"},
        {"incidents|7|3|51|0|2|", "|52|2"},
        {"incidents|9|3|53|0|2|", "|53|1"},
        {"incidents|3|3|60|0|1|", "|60|1"},
    };

    (void)state;
    const struct fake_run *r =
        run_script(lineage_script, ARGS("lineage", "3", "--parsable"));
    assert_int_equal(r->exit_code, 0);
    const char *line = r->out;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const char *end = strchr(line, '\n');
        const size_t n = strlen(want[i].end);
        assert_non_null(end);
        assert_int_equal(strncmp(line, want[i].begin, strlen(want[i].begin)),
                         0);
        assert_int_equal(strncmp(end - n, want[i].end, n), 0);
        line = end + 1;
    }
    assert_string_equal(line, "");
    assert_holds(r->out, "|a\\x7cb|");
}

static void
test_lineage_json(void **state)
{
    (void)state;
    const struct fake_run *r =
        run_script(lineage_script, ARGS("lineage", "3", "--json"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "{\"attempts\": [\n{\"attempt\":1,");
    assert_holds(r->out, "]\n,\n\"rollbacks\": [\n{\"row\":1,");
    assert_holds(r->out, "]\n,\n\"guards\": [\n{\"row\":1,");
    assert_holds(r->out, "]\n,\n\"incidents\": [\n{\"id\":1,");
}

/* ---- rollback ------------------------------------------------------------*/

static void
test_rollback_sends_its_flags(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR,
         "\"args\":{\"job\":\"3\",\"to\":\"start\",\"dry_run\":false,"
         "\"set\":[\"amp.dtype=bfloat16\",\"schedule.warmup=1\"],"
         "\"skip_batches\":2,\"scale\":1024.0,\"cure\":7,"
         "\"accept_policy_change\":true}"},
        {FAKE_SAY, OK(1, "{\"job\":3,\"iteration\":0,\"from_iteration\":60,"
                         "\"abandoned\":60,\"state\":\"queued\","
                         "\"difference\":\"amp.dtype: float16 -> bfloat16\","
                         "\"policy_changed\":true}")},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(
        script,
        ARGS("rollback", "3", "--to", "start", "--set", "amp.dtype=bfloat16",
             "--set", "schedule.warmup=1", "--skip-batches", "2", "--scale",
             "1024", "--cure", "7", "--accept-policy-change"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out,
                        "job 3 went back from iteration 60 to 0, the start: 60 "
                        "iterations left behind; queued\n"
                        "a new policy from there on: amp.dtype: float16 -> "
                        "bfloat16\n");
}

/* Nothing asked for: the last checkpoint, and no change. */
static void
test_rollback_sends_defaults(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"to\":\"last\",\"dry_run\":false,\"set\":[],"
                    "\"skip_batches\":0,\"scale\":\"NaN\",\"cure\":0,"
                    "\"accept_policy_change\":false}"},
        {FAKE_SAY,
         "{\"id\":1,\"ok\":false,\"error\":{\"name\":\"state\",\"code\":-13,"
         "\"message\":\"this changes the policy; "
         "--accept-policy-change\"}}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(script, ARGS("rollback", "3"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "--accept-policy-change");
}

static void
test_rollback_refuses(void **state)
{
    (void)state;
    assert_refused(ARGS("rollback", "3", "--to", "first"),
                   "--to first: last, best, start,");
    assert_refused(ARGS("rollback", "3", "--to", "it12-b1"), "--to it12-b1:");
    assert_refused(ARGS("rollback", "3", "--scale", "0"),
                   "--scale 0: a number above 0");
    assert_refused(ARGS("rollback", "3", "--scale", "inf"), "--scale inf");
    assert_refused(ARGS("rollback", "3", "--scale", "2x"), "--scale 2x");
    assert_refused(ARGS("rollback", "3", "--cure", "0"), "--cure 0");
    assert_refused(ARGS("rollback", "3", "--skip-batches", "-1"),
                   "--skip-batches -1");
    assert_refused(ARGS("rollback", "3-4"), "one job at a time");
}

static int
end(void **state)
{
    (void)state;
    fake_daemon_fini();
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain_a_number),
        cmocka_unit_test(test_explain_the_last),
        cmocka_unit_test(test_explain_refuses),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_lineage_drawn),
        cmocka_unit_test(test_lineage_parsable),
        cmocka_unit_test(test_lineage_json),
        cmocka_unit_test(test_rollback_sends_its_flags),
        cmocka_unit_test(test_rollback_sends_defaults),
        cmocka_unit_test(test_rollback_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
