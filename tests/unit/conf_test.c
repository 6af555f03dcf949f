/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int
parse(const char *text, struct conf *conf, struct err *err)
{
    conf_default(conf);
    err_clear(err);
    return conf_parse(conf, text, strlen(text), "t.conf", err);
}

static void
test_conf_defaults(void **ctx)
{
    struct conf conf;

    (void)ctx;
    conf_default(&conf);
    assert_int_equal(conf.control_max_clients, 128);
    assert_int_equal(conf.control_max_message, 4 << 20);
    assert_int_equal(conf.db_commit_interval, 250);
    assert_int_equal(conf.jobs_kill_grace, 10000);
    assert_int_equal(conf.jobs_max_lost_attempts, 3);
    assert_true(conf.jobs_requeue_on_restart);
    assert_int_equal(conf.control_mode, 0600);
    assert_int_equal(conf.control_visibility, CONF_OWN);
    assert_int_equal(conf.logs_level, LOG_LEVEL_INFO);
}

static void
test_conf_reads_all_types(void **ctx)
{
    static const char text[] = "# comment\r\n"
                               "; another\n"
                               "\n"
                               "[control]\n"
                               "  socket = /a path/with = sign\n"
                               "mode=0660\n"
                               "visibility = public\n"
                               "max_message = 1 MiB\n"
                               "[jobs]\n"
                               "requeue_on_restart = no\n"
                               "kill_grace = 2min\n"
                               "[logs]\n"
                               "level = debug\n"
                               "[db]\n"
                               "commit_interval = 5ms";
    struct conf conf;
    struct err err;

    (void)ctx;
    assert_int_equal(parse(text, &conf, &err), 0);
    assert_string_equal(conf.control_socket, "/a path/with = sign");
    assert_int_equal(conf.control_mode, 0660);
    assert_int_equal(conf.control_visibility, CONF_PUBLIC);
    assert_int_equal(conf.control_max_message, 1 << 20);
    assert_false(conf.jobs_requeue_on_restart);
    assert_int_equal(conf.jobs_kill_grace, 120000);
    assert_int_equal(conf.logs_level, LOG_LEVEL_DEBUG);
    assert_int_equal(conf.db_commit_interval, 5);
}

static void
test_conf_refuses_with_a_sentence(void **ctx)
{
    static const struct {
        const char *text, *want;
    } row[] = {
        {"[contrl]\n", "t.conf:1: unknown section contrl; did you mean "
                       "control?"},
        {"[zzz]\n", "t.conf:1: unknown section zzz"},
        {"\n[jobs]\nkill_grac = 1s\n",
         "t.conf:3: unknown key kill_grac; did you mean kill_grace?"},
        {"[jobs]\nsocket = x\n", "t.conf:2: unknown key socket"},
        {"a = b\n", "t.conf:1: key a before any [section]"},
        {"[jobs\n", "t.conf:1: a section ends in ]"},
        {"[jobs]\nnonsense\n", "t.conf:2: neither [section] nor key = value"},
        {"[jobs]\nkill_grace = 10\n",
         "t.conf:2: jobs.kill_grace: expected a number with its unit (B KiB "
         "MiB GiB TiB; ms s min h d), not \"10\""},
        {"[jobs]\nkill_grace = soon\n",
         "t.conf:2: jobs.kill_grace: expected a time such as 10s, not "
         "\"soon\""},
        {"[jobs]\nkill_grace = -1s\n",
         "t.conf:2: jobs.kill_grace: expected a smaller number, not \"-1s\""},
        {"[jobs]\nkill_grace = 2h\n",
         "t.conf:2: jobs.kill_grace: expected 0 ms to 3600000 ms, not \"2h\""},
        {"[control]\nmode = 660\n",
         "t.conf:2: control.mode: expected an octal mode such as 0660, not "
         "\"660\""},
        {"[control]\nmax_clients = 0\n",
         "t.conf:2: control.max_clients: expected 1 to 10000, not \"0\""},
        {"[jobs]\nrequeue_on_restart = maybe\n",
         "t.conf:2: jobs.requeue_on_restart: expected yes or no, not "
         "\"maybe\""},
        {"[jobs]\nmax_queued = 5\nmax_queued = 6\n",
         "t.conf:3: jobs.max_queued is set in line 2 already"},
        {"[control]\nmax_message = 99999999999999999TiB\n",
         "t.conf:2: control.max_message: expected a smaller number, not "
         "\"99999999999999999TiB\""},
        {"[control]\nmax_clients = 99999999999999999999\n",
         "t.conf:2: control.max_clients: expected a whole number, not "
         "\"99999999999999999999\""},
    };
    struct conf conf;
    struct err err;

    (void)ctx;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        assert_int_equal(parse(row[i].text, &conf, &err), ERR_CONFIG);
        assert_string_equal(err.msg, row[i].want);
    }
}

static void
test_conf_refuses_nul_and_long_values(void **ctx)
{
    char text[2000] = "[control]\ngroup = ";
    struct conf conf;
    struct err err;

    (void)ctx;
    conf_default(&conf);
    assert_int_equal(conf_parse(&conf, "[jobs]\n\0\n", 9, "t", &err),
                     ERR_CONFIG);
    assert_string_equal(err.msg, "t:2: a NUL byte");
    memset(text + strlen(text), 'x', 100);
    assert_int_equal(parse(text, &conf, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "at most 63 bytes"));
}

static void
test_conf_files(void **ctx)
{
    char path[] = "/tmp/traind-conf-XXXXXX";
    int fd = mkstemp(path);
    struct conf conf;
    struct err err;

    (void)ctx;
    assert_true(fd >= 0);
    conf_default(&conf);
    assert_int_equal(write(fd, "[jobs]\nmax_queued=7\n", 20), 20);
    assert_int_equal(conf_load(&conf, path, true, &err), 0);
    assert_int_equal(conf.jobs_max_queued, 7);
    close(fd);
    unlink(path);
    assert_int_equal(conf_load(&conf, path, false, &err), 0);
    assert_int_equal(conf_load(&conf, path, true, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(conf_load(&conf, "/tmp", true, &err), ERR_CONFIG);
}

/* The manual names every key. */
static void
test_conf_manual_is_complete(void **ctx)
{
    const char *source = getenv("TRAIND_SOURCE");
    char path[1024], line[256], needle[128], *manual;
    struct conf conf;
    FILE *f;
    size_t n;

    (void)ctx;
    assert_non_null(source);
    snprintf(path, sizeof(path), "%s/daemon/traind.conf.5", source);
    f = fopen(path, "r");
    assert_non_null(f);
    manual = calloc(1, 65536);
    n = fread(manual, 1, 65535, f);
    assert_true(n > 0);
    fclose(f);
    conf_default(&conf);
    for (int i = 0; conf_describe(&conf, i, line, sizeof(line)); i++) {
        char *dot = strchr(line, '.');

        *strchr(line, ' ') = '\0';
        snprintf(needle, sizeof(needle), ".It Ic %.100s", dot + 1);
        if (strstr(manual, needle) == NULL)
            print_error("traind.conf.5 lacks %s\n", line);
        assert_non_null(strstr(manual, needle));
    }
    free(manual);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conf_defaults),
        cmocka_unit_test(test_conf_reads_all_types),
        cmocka_unit_test(test_conf_refuses_with_a_sentence),
        cmocka_unit_test(test_conf_refuses_nul_and_long_values),
        cmocka_unit_test(test_conf_files),
        cmocka_unit_test(test_conf_manual_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
