/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainctl as a program, against a scripted daemon: what goes wrong on the
 * socket, and the exit codes of trainctl(1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/fake_daemon.h"

#define ARGS(...)                                                              \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }
#define SCRIPT(...)                                                            \
    (const struct fake_step[])                                                 \
    {                                                                          \
        __VA_ARGS__,                                                           \
        {                                                                      \
            FAKE_END, NULL                                                     \
        }                                                                      \
    }

#define JOB(id, state, code)                                                   \
    "{\"id\":" #id ",\"name\":\"net\",\"user\":\"ann\",\"state\":\"" state     \
    "\",\"reason\":\"\",\"iteration\":7,\"updates\":6,\"skips\":1,"            \
    "\"total_iterations\":10,\"attempt\":1,\"scale\":32768,\"exit_"            \
    "code\":" #code "}"
#define OK(id, item) "{\"id\":" #id ",\"ok\":true,\"item\":" item "}"

static const struct fake_run *
run_script(const struct fake_step *script, const char *const *args)
{
    return fake_daemon_run(&(struct fake_setup){.script = script}, args);
}

static void
assert_holds(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void
assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("\"%s\" is in: %s", part, text);
}

/* ---- the socket ----------------------------------------------------------*/

static void
test_trainctl_no_daemon(void **state)
{
    const struct fake_run *r =
        fake_daemon_run(&(struct fake_setup){0}, ARGS("ping"));

    (void)state;
    assert_int_equal(r->exit_code, 69);
    assert_holds(r->err, "/ctl.sock: No such file or directory");
    assert_holds(r->err, "traind --user");
    assert_string_equal(r->out, "");
}

static void
test_trainctl_other_protocol(void **state)
{
    const struct fake_run *r =
        run_script(SCRIPT({FAKE_ACCEPT, NULL},
                          {FAKE_SAY, "{\"hello\":\"traind\",\"proto_min\":7,"
                                     "\"proto_max\":9,\"version\":\"8.1\"}"},
                          {FAKE_HANG, NULL}),
                   ARGS("ping"));

    (void)state;
    assert_int_equal(r->exit_code, 76);
    assert_holds(r->err, "protocol 7 to 9");
}

static void
test_trainctl_silent_daemon(void **state)
{
    const struct fake_run *r =
        run_script(SCRIPT({FAKE_ACCEPT, NULL}, {FAKE_HANG, NULL}),
                   ARGS("--timeout", "0.3", "ping"));

    (void)state;
    assert_int_equal(r->exit_code, 69);
    assert_holds(r->err, "/ctl.sock accepts but did not answer within 0.3 s");
    assert_true(r->ms >= 300 && r->ms < 5000);
}

static void
test_trainctl_silent_after_hello(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"status\""}, {FAKE_HANG, NULL}),
        ARGS("status", "17", "--timeout", "0.3"));

    (void)state;
    assert_int_equal(r->exit_code, 69);
    assert_holds(r->err, "did not answer within 0.3 s");
}

static void
test_trainctl_half_an_answer(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"ping\""},
               {FAKE_SAY_PART, OK(1, "{\"version\":\"9.9\",\"pid\":1}")}),
        ARGS("ping"));

    (void)state;
    assert_int_equal(r->exit_code, 69);
    assert_holds(r->err,
                 "closed the connection before its answer was complete");
    assert_string_equal(r->out, "");
}

static void
test_trainctl_garbage(void **state)
{
    const struct fake_run *r =
        run_script(SCRIPT({FAKE_ACCEPT, NULL},
                          {FAKE_SAY_RAW, "HTTP/1.1 400 Bad Request\r\n\r\n"}),
                   ARGS("ping"));

    (void)state;
    assert_int_equal(r->exit_code, 76);
}

static void
test_trainctl_refusal(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"job\":\"17\""},
               {FAKE_SAY, "{\"id\":1,\"ok\":false,\"error\":{\"name\":"
                          "\"denied\",\"code\":-11,\"message\":"
                          "\"job 17 is \\u001b[31mbob's\"}}"}),
        ARGS("status", "17"));

    (void)state;
    assert_int_equal(r->exit_code, 77);
    assert_lacks(r->err, "\033");
    assert_holds(r->err, "trainctl: job 17 is ");
}

/* ---- what the output may hold --------------------------------------------*/

#define NOTICE(kind, text)                                                     \
    "{\"id\":2,\"notice\":{\"kind\":\"" kind "\",\"text\":\"" text             \
    "\",\"iteration\":7,\"state\":\"running\"}}"

static const struct fake_step hostile_script[] = {
    FAKE_GREET,
    {FAKE_HEAR, "\"status\""},
    {FAKE_SAY, OK(1, JOB(17, "running", -1))},
    {FAKE_HEAR, "\"follow\""},
    {FAKE_SAY, NOTICE("skip", "\\u001b]0;owned\\u0007 \\u202e \\n caf\\u00e9")},
    {FAKE_SAY, OK(2, JOB(17, "completed", 0))},
    {FAKE_HEAR, "\"metrics\""},
    {FAKE_SAY, "{\"id\":3,\"ok\":true,\"items\":[],\"more\":false}"},
    {FAKE_HEAR, "\"scale\""},
    {FAKE_SAY, "{\"id\":4,\"ok\":true,\"items\":[],\"more\":false}"},
    {FAKE_HANG, NULL},
    {FAKE_END, NULL},
};

static void
test_trainctl_hostile_notice(void **state)
{
    const struct fake_run *r = fake_daemon_run(
        &(struct fake_setup){.script = hostile_script, .locale = "C.UTF-8"},
        ARGS("watch", "17"));

    (void)state;
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "\\x1b]0;owned\\x07 \\u202e \\n caf\xc3\xa9\n");
    assert_lacks(r->out, "\033");
    assert_holds(r->out, "completed");
}

static void
test_trainctl_plain_locale(void **state)
{
    const struct fake_run *r = fake_daemon_run(
        &(struct fake_setup){.script = hostile_script}, ARGS("watch", "17"));

    (void)state;
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "caf\\xc3\\xa9\n");
    for (const char *c = r->out; *c != '\0'; c++)
        assert_true((unsigned char)*c < 0x80);
}

static const struct fake_step list_script[] = {
    FAKE_GREET,
    {FAKE_HEAR, "\"list\""},
    {FAKE_SAY, "{\"id\":1,\"ok\":true,\"more\":true,\"items\":[" JOB(
                   1, "running", -1) "," JOB(2, "queued", -1) "]}"},
    {FAKE_HEAR, "\"after\":2"},
    {FAKE_SAY, "{\"id\":2,\"ok\":true,\"more\":false,\"items\":[" JOB(
                   3, "queued", -1) "]}"},
    {FAKE_END, NULL},
};

static void
test_trainctl_pages(void **state)
{
    const struct fake_run *r = run_script(list_script, ARGS("list"));

    (void)state;
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "ID  NAME  USER  STATE    PROGRESS  SKIPS\n"
                                " 1  net   ann   running  70% 7/10      1\n"
                                " 2  net   ann   queued   70% 7/10      1\n"
                                " 3  net   ann   queued   70% 7/10      1\n");
    r = run_script(list_script, ARGS("list", "--json"));
    assert_int_equal(strncmp(r->out, "[\n{\"id\":", 8), 0);
    assert_holds(r->out, "},\n{");
    assert_holds(r->out, "}\n]\n");
    r = run_script(list_script, ARGS("--parsable", "list"));
    assert_int_equal(strncmp(r->out, "1|net|0|ann|running|", 20), 0);
}

static void
test_trainctl_stuck_pages(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"after\":5"},
               {FAKE_SAY, "{\"id\":1,\"ok\":true,\"more\":true,\"items\":[" JOB(
                              5, "running", -1) "]}"}),
        ARGS("list", "--after", "5"));

    (void)state;
    assert_int_equal(r->exit_code, 76);
    assert_holds(r->err, "the pages do not move on");
}

static void
test_trainctl_broken_pipe(void **state)
{
    const struct fake_run *r = fake_daemon_run(
        &(struct fake_setup){.script = list_script, .out = FAKE_BROKEN},
        ARGS("list"));

    (void)state;
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->err, "");
}

static void
test_trainctl_full_disk(void **state)
{
    const struct fake_run *r = fake_daemon_run(
        &(struct fake_setup){.script = list_script, .out = FAKE_FULL},
        ARGS("list"));

    (void)state;
    assert_int_equal(r->exit_code, 74);
    assert_holds(r->err, "standard output: No space left on device");
}

/* ---- waiting -------------------------------------------------------------*/

static void
test_trainctl_wait_across_restart(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"job\":\"@\""},
               {FAKE_SAY, OK(1, JOB(17, "running", -1))},
               {FAKE_HEAR, "\"job\":\"17\""}, {FAKE_CLOSE, NULL}, FAKE_GREET,
               {FAKE_HEAR, "\"job\":\"17\""},
               {FAKE_SAY, OK(1, JOB(17, "running", -1))}, {FAKE_HANG, NULL},
               FAKE_GREET, {FAKE_HEAR, "\"wait\""},
               {FAKE_SAY, OK(1, JOB(17, "failed", 9))}),
        ARGS("wait", "@"));

    (void)state;
    assert_int_equal(r->exit_code, 9);
    assert_string_equal(r->out, "job 17 \"net\": failed\n");
    assert_holds(r->err, "trying again");
}

static void
test_trainctl_wait_different_results(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"status\""},
               {FAKE_SAY, OK(1, JOB(4, "running", -1))},
               {FAKE_HEAR, "\"status\""},
               {FAKE_SAY, OK(2, JOB(5, "running", -1))},
               {FAKE_HEAR, "\"wait\""}, {FAKE_SAY, OK(3, JOB(4, "done", 0))},
               {FAKE_HEAR, "\"wait\""}, {FAKE_SAY, OK(4, JOB(5, "failed", 1))}),
        ARGS("wait", "4-5", "--json"));

    (void)state;
    assert_int_equal(r->exit_code, 10);
    assert_holds(r->out, "[\n{");
}

static void
test_trainctl_wait_timeout(void **state)
{
    const struct fake_run *r =
        run_script(SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"status\""},
                          {FAKE_SAY, OK(1, JOB(4, "running", -1))},
                          {FAKE_HEAR, "\"wait\""}, {FAKE_HANG, NULL}),
                   ARGS("wait", "4", "--timeout", "0.2"));

    (void)state;
    assert_int_equal(r->exit_code, 124);
    assert_holds(r->err, "job 4 is not done yet");
}

static void
test_trainctl_interrupted_watch(void **state)
{
    const struct fake_run *r =
        run_script(SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"status\""},
                          {FAKE_SAY, OK(1, JOB(17, "running", -1))},
                          {FAKE_HEAR, "\"follow\""}, {FAKE_SIGNAL, NULL},
                          {FAKE_HANG, NULL}),
                   ARGS("watch", "17"));

    (void)state;
    assert_int_equal(r->exit_code, 130);
    assert_holds(r->err, "job 17 goes on");
}

static void
test_trainctl_gives_credit(void **state)
{
    struct fake_step script[80];
    int n = 0;

    (void)state;
    memcpy(script, hostile_script, 5 * sizeof(script[0]));
    for (n = 5; n < 5 + 32; n++)
        script[n] = (struct fake_step){FAKE_SAY, NOTICE("progress", "")};
    script[n++] = (struct fake_step){FAKE_HEAR, "{\"id\":2,\"credit\":32}"};
    memcpy(script + n, hostile_script + 6, 7 * sizeof(script[0]));
    const struct fake_run *r = run_script(script, ARGS("watch", "17", "-q"));
    assert_int_equal(r->exit_code, 0);
}

static void
test_trainctl_json_stream(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"status\""},
               {FAKE_SAY, OK(1, JOB(17, "running", -1))},
               {FAKE_HEAR, "\"follow\""}, {FAKE_SAY, NOTICE("skip", "a\\nb")},
               {FAKE_SAY, OK(2, JOB(17, "completed", 0))}),
        ARGS("watch", "17", "--json"));
    const char *second = strchr(r->out, '\n');

    (void)state;
    assert_int_equal(r->exit_code, 0);
    assert_int_equal(strncmp(r->out, "{\"kind\":\"skip\",", 15), 0);
    assert_non_null(second);
    assert_int_equal(strncmp(second, "\n{\"id\":17,", 10), 0);
    assert_string_equal(strchr(second + 1, '\n'), "\n");
}

static void
test_trainctl_exit_codes_of_many(void **state)
{
    const struct fake_run *r = run_script(
        SCRIPT(FAKE_GREET, {FAKE_HEAR, "\"cancel\""},
               {FAKE_SAY, OK(1, JOB(4, "cancelled", 3))},
               {FAKE_HEAR, "\"reason\":\"too slow\""},
               {FAKE_SAY, "{\"id\":2,\"ok\":false,\"error\":{\"name\":"
                          "\"notfound\",\"code\":-12,\"message\":"
                          "\"no job 5\"}}"}),
        ARGS("cancel", "4,5", "--reason", "too slow"));

    (void)state;
    assert_int_equal(r->exit_code, 10);
    assert_string_equal(r->out, "job 4 \"net\": cancelled\n");
    assert_string_equal(r->err, "trainctl: 5: no job 5\n");
}

static void
test_trainctl_usage(void **state)
{
    static const char *const wrong[][4] = {
        {"watch", "twelve"}, {"status", "9-3"},
        {"cancel"},          {"wiat", "1"},
        {"list", "--al"},    {"wait", "1", "--timeout"},
        {"scale", "1-2"},    {"rollback", "1", "--to", "first"},
        {"ping", "1"},       {"list", "--after", "x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *args[5] = {wrong[i][0], wrong[i][1], wrong[i][2],
                               wrong[i][3]};
        const struct fake_run *r =
            fake_daemon_run(&(struct fake_setup){0}, args);
        assert_int_equal(r->exit_code, 2);
        assert_string_equal(r->out, "");
        assert_int_equal(strncmp(r->err, "trainctl: ", 10), 0);
    }
}

static int
teardown(void **state)
{
    (void)state;
    fake_daemon_fini();
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainctl_no_daemon),
        cmocka_unit_test(test_trainctl_other_protocol),
        cmocka_unit_test(test_trainctl_silent_daemon),
        cmocka_unit_test(test_trainctl_silent_after_hello),
        cmocka_unit_test(test_trainctl_half_an_answer),
        cmocka_unit_test(test_trainctl_garbage),
        cmocka_unit_test(test_trainctl_refusal),
        cmocka_unit_test(test_trainctl_hostile_notice),
        cmocka_unit_test(test_trainctl_plain_locale),
        cmocka_unit_test(test_trainctl_pages),
        cmocka_unit_test(test_trainctl_stuck_pages),
        cmocka_unit_test(test_trainctl_broken_pipe),
        cmocka_unit_test(test_trainctl_full_disk),
        cmocka_unit_test(test_trainctl_wait_across_restart),
        cmocka_unit_test(test_trainctl_wait_different_results),
        cmocka_unit_test(test_trainctl_wait_timeout),
        cmocka_unit_test(test_trainctl_interrupted_watch),
        cmocka_unit_test(test_trainctl_gives_credit),
        cmocka_unit_test(test_trainctl_json_stream),
        cmocka_unit_test(test_trainctl_exit_codes_of_many),
        cmocka_unit_test(test_trainctl_usage),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
