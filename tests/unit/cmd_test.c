/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of verbs against its manual, and what exit codes come of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/cmd.h"
#include "ctl/help.h"
#include "ctl/link.h"
#include "ctl/retry.h"
#include "ctl/session.h"

static char *manual; /* owned; the whole text */

static int
read_manual(void **state)
{
    char path[4096];
    size_t n = 0;
    FILE *f;

    (void)state;
    snprintf(path, sizeof(path), "%s/ctl/trainctl.1", getenv("TRAIND_SOURCE"));
    f = fopen(path, "r");
    manual = malloc(65536);
    if (f == NULL || manual == NULL)
        return -1;
    n = fread(manual, 1, 65535, f);
    manual[n] = '\0';
    return fclose(f);
}

static int
free_manual(void **state)
{
    (void)state;
    free(manual);
    return 0;
}

/* The item of the verb: from its .It Cm to the next one or heading. */
static char *
verb_section(const char *name)
{
    char heading[64];
    const char *start = manual, *end;

    snprintf(heading, sizeof(heading), "\n.It Cm %s", name);
    size_t len = strlen(heading);
    do {
        start = strstr(start + 1, heading);
    } while (start != NULL && start[len] != '\n' && start[len] != ' ');
    if (start == NULL)
        return NULL;
    end = strstr(start + 1, "\n.It Cm ");
    const char *part = strstr(start + 1, "\n.Ss ");
    if (part != NULL && (end == NULL || part < end))
        end = part;
    return end != NULL ? strndup(start, (size_t)(end - start)) : strdup(start);
}

/* "\n.It Fl [x , ]-name[ Ar VALUE]\n" */
static bool
has_option(const char *text, const struct args_option *o)
{
    char item[128], letter[8] = "";

    if (o->letter != 0)
        snprintf(letter, sizeof(letter), "%c , ", o->letter);
    snprintf(item, sizeof(item), "\n.It Fl %s-%s%s%s\n", letter, o->name,
             o->value != NULL ? " Ar " : "", o->value != NULL ? o->value : "");
    return strstr(text, item) != NULL;
}

static void
test_cmd_manual_has_every_option(void **state)
{
    (void)state;
    for (const struct args_option *o = cmd_globals; o->name != NULL; o++)
        if (!has_option(manual, o))
            fail_msg("--%s is not in the manual", o->name);
    for (int i = 0; cmd_table[i] != NULL; i++) {
        const struct cmd *cmd = cmd_table[i];
        if (help_is_hidden(cmd))
            continue;
        char *section = verb_section(cmd->name);
        if (section == NULL) {
            fail_msg("%s is not in the manual", cmd->name);
            return;
        }
        const char *shared = strstr(manual, "share these:");
        for (const struct args_option *o = cmd->options;
             o != NULL && o->name != NULL; o++)
            if (!has_option(section, o) && !has_option(shared, o))
                fail_msg("%s --%s is not in the manual", cmd->name, o->name);
        free(section);
    }
}

/* And the other way round: no verb that there is not. */
static void
test_cmd_manual_has_no_other(void **state)
{
    const char *at = manual;
    int n = 0;

    (void)state;
    while ((at = strstr(at, "\n.It Cm ")) != NULL) {
        char name[64];
        assert_int_equal(sscanf(at, "\n.It Cm %63s", name), 1);
        if (cmd_find(name) == NULL)
            fail_msg("the manual has a verb %s", name);
        at++;
        n++;
    }
    assert_true(n > 20);
}

/* Exit codes of the errors stand in the manual. */
static void
test_cmd_manual_has_exit_codes(void **state)
{
    static const int code[] = {
#define ERR(name, number, exit_code, http, line) exit_code,
#include "proto/errors.def"
#undef ERR
    };

    (void)state;
    for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++) {
        char item[16];
        snprintf(item, sizeof(item), "\n.It %d\n", code[i]);
        if (strstr(manual, item) == NULL)
            fail_msg("exit status %d is not in the manual", code[i]);
    }
}

static void
test_cmd_help_shows_all(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    (void)state;
    assert_non_null(f);
    help_put_program(f);
    for (int i = 0; cmd_table[i] != NULL; i++)
        help_put_verb(f, cmd_table[i]);
    fclose(f);
    for (int i = 0; cmd_table[i] != NULL; i++) {
        for (const struct args_option *o = cmd_table[i]->options;
             o != NULL && o->name != NULL; o++)
            assert_non_null(strstr(text, o->name));
        if (!help_is_hidden(cmd_table[i]))
            assert_non_null(strstr(text, cmd_table[i]->name));
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 80);
    free(text);
}

static void
assert_completions(const char *wanted, int n, const char *const *words)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    assert_non_null(f);
    help_put_completions(f, n, words);
    fclose(f);
    assert_string_equal(text, wanted);
    free(text);
}

static void
test_cmd_completions(void **state)
{
    (void)state;
    assert_completions("skips\n", 1, (const char *const[]){"sk"});
    assert_completions("checkpoint\ncheckpoints\n", 2,
                       (const char *const[]){"help", "check"});
    assert_completions("--wait\n", 2, (const char *const[]){"submit", "--w"});
    assert_completions("--timeout\n--timeout\n", 3,
                       (const char *const[]){"wait", "1", "--ti"});
    assert_completions("", 2, (const char *const[]){"watch", "1"});
}

static void
test_cmd_refuse_suggests(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(cmd_refuse("sumbit", &err), ERR_USAGE);
    assert_string_equal(err.msg, "no verb \"sumbit\"; did you mean submit?");
    assert_int_equal(cmd_refuse("qqqqqq", &err), ERR_USAGE);
    assert_null(strstr(err.msg, "did you mean"));
}

static void
test_cmd_exit_codes_merge(void **state)
{
    (void)state;
    assert_int_equal(session_merge_exit(-1, 3), 3);
    assert_int_equal(session_merge_exit(3, 3), 3);
    assert_int_equal(session_merge_exit(0, 3), SESSION_EXIT_DIFFER);
    assert_int_equal(session_merge_exit(SESSION_EXIT_DIFFER, 0),
                     SESSION_EXIT_DIFFER);
    assert_true(retry_is_worth(ERR_UNREACHABLE) && retry_is_worth(ERR_AGAIN));
    assert_false(retry_is_worth(ERR_NOTFOUND) || retry_is_worth(ERR_VERSION) ||
                 retry_is_worth(ERR_DENIED) || retry_is_worth(ERR_CANCELLED));
}

static void
test_cmd_socket_places(void **state)
{
    char directory[] = "/tmp/cmd-test-XXXXXX", own[64], wanted[96], longer[200];
    struct link_paths paths;
    int user = geteuid() == 0 ? 1 : 0; /* the system's first for root */

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(own, sizeof(own), "%s/traind-%u", directory, geteuid());
    unsetenv("TRAIND_SOCKET");
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", directory, 1);
    assert_int_equal(link_search(NULL, &paths, NULL), 0);
    assert_int_equal(paths.n, 1);
    assert_string_equal(paths.path[0], "/run/traind/ctl.sock");

    assert_int_equal(symlink(directory, own), 0); /* somebody's trap */
    assert_int_equal(link_search(NULL, &paths, NULL), 0);
    assert_int_equal(paths.n, 1);
    assert_int_equal(unlink(own), 0);
    assert_int_equal(mkdir(own, 0700), 0);
    setenv("XDG_RUNTIME_DIR", directory, 1);
    assert_int_equal(link_search(NULL, &paths, NULL), 0);
    assert_int_equal(paths.n, 3);
    snprintf(wanted, sizeof(wanted), "%s/traind/ctl.sock", directory);
    assert_string_equal(paths.path[user], wanted);
    snprintf(wanted, sizeof(wanted), "%s/ctl.sock", own);
    assert_string_equal(paths.path[user + 1], wanted);

    setenv("TRAIND_SOCKET", "/x/y", 1);
    assert_int_equal(link_search(NULL, &paths, NULL), 0);
    assert_int_equal(paths.n, 1);
    assert_string_equal(paths.path[0], "/x/y");
    assert_int_equal(link_search("/z", &paths, NULL), 0);
    assert_string_equal(paths.path[0], "/z");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(link_search(longer, &paths, NULL), ERR_USAGE);
    rmdir(own);
    rmdir(directory);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cmd_manual_has_every_option),
        cmocka_unit_test(test_cmd_manual_has_no_other),
        cmocka_unit_test(test_cmd_manual_has_exit_codes),
        cmocka_unit_test(test_cmd_help_shows_all),
        cmocka_unit_test(test_cmd_completions),
        cmocka_unit_test(test_cmd_refuse_suggests),
        cmocka_unit_test(test_cmd_exit_codes_merge),
        cmocka_unit_test(test_cmd_socket_places),
    };

    return cmocka_run_group_tests(tests, read_manual, free_manual);
}
