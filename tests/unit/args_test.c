/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ctl/args.h"
#include "ctl/cmd.h"

static const struct args_option globals[] = {
    {"json", 0, NULL, ""},
    {"timeout", 0, "SEC", ""},
    {"quiet", 'q', NULL, ""},
    {0},
};
static const struct args_option options[] = {
    {"set", 0, "K=V", ""},
    {"follow", 'f', NULL, ""},
    {"timeout", 0, "SEC", ""},
    {"tail", 0, "N", ""},
    {0},
};

#define MAX_WORDS 12

/* Parses words (ending in NULL); *args is for the caller to destroy. */
static int
parse(const char *const *words, struct args **args, struct err *err)
{
    char *copy[MAX_WORDS];
    int n = 0;

    for (; words[n] != NULL; n++) {
        assert_true(n < MAX_WORDS);
        copy[n] = (char *)(uintptr_t)words[n]; /* never written to */
    }
    *args = args_create(globals);
    assert_non_null(*args);
    return args_take(*args, options, n, copy, err);
}

#define PARSE(args, err, ...)                                                  \
    parse((const char *const[]){__VA_ARGS__, NULL}, args, err)

static void
test_args_anywhere(void **state)
{
    struct args *args;
    int64_t ms = 0, n = 0;

    (void)state;
    assert_int_equal(PARSE(&args, NULL, "a", "--set", "x=1", "-q", "b",
                           "--set=y=--z", "-f", "--", "--json", "-"),
                     0);
    assert_int_equal(args_n(args), 4);
    assert_string_equal(args_at(args, 2), "--json");
    assert_string_equal(args_at(args, 3), "-");
    assert_string_equal(args_nth(args, "set", 0), "x=1");
    assert_string_equal(args_nth(args, "set", 1), "y=--z");
    assert_null(args_nth(args, "set", 2));
    assert_string_equal(args_value(args, "set"), "y=--z");
    assert_true(args_flag(args, "follow") && args_global_flag(args, "quiet"));
    assert_false(args_global_flag(args, "json"));
    assert_int_equal(args_i64(args, "tail", -1, 0, 9, &n, NULL), 0);
    assert_int_equal(n, -1);
    assert_int_equal(args_seconds(args, "timeout", 7, &ms, NULL), 0);
    assert_int_equal(ms, 7);
    args_destroy(&args);
}

/* The verb's --timeout is not the program's. */
static void
test_args_scopes(void **state)
{
    static char timeout[] = "--timeout", three[] = "3", verb[] = "wait";
    char *words[] = {timeout, three, verb};
    struct args *args = args_create(globals);
    int64_t ms = 0;
    int used = 0;

    (void)state;
    assert_int_equal(args_take_globals(args, 3, words, &used, NULL), 0);
    assert_int_equal(used, 2);
    char *rest[] = {timeout, three};
    three[0] = '5';
    assert_int_equal(args_take(args, options, 2, rest, NULL), 0);
    assert_int_equal(args_seconds(args, "timeout", -1, &ms, NULL), 0);
    assert_int_equal(ms, 5000);
    assert_non_null(args_global_value(args, "timeout"));
    args_destroy(&args);
}

static void
test_args_refuses(void **state)
{
    static const struct {
        const char *word, *sentence;
    } wrong[] = {
        {"--flolow", "unknown option --flolow; did you mean --follow?"},
        {"--zzzzzz", "unknown option --zzzzzz"},
        {"--follow=1", "--follow takes no value"},
        {"--set", "--set needs a value: K=V"},
        {"-fq", "unknown option -fq"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct args *args;
        struct err err = {0};
        assert_int_equal(PARSE(&args, &err, wrong[i].word), ERR_USAGE);
        assert_string_equal(err.msg, wrong[i].sentence);
        args_destroy(&args);
    }
}

static void
test_args_numbers(void **state)
{
    static const char *const wrong[] = {"",   "x",  "1x",
                                        "10", "-1", "99999999999999999999"};
    struct args *args;
    int64_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(PARSE(&args, NULL, "--tail", wrong[i]), 0);
        assert_int_equal(args_i64(args, "tail", 0, 0, 9, &n, NULL), ERR_USAGE);
        args_destroy(&args);
    }
    static const char *const odd[] = {"-1", "nan", "inf", "1s", ""};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(PARSE(&args, NULL, "--timeout", odd[i]), 0);
        assert_int_equal(args_seconds(args, "timeout", 0, &n, NULL), ERR_USAGE);
        args_destroy(&args);
    }
    assert_int_equal(PARSE(&args, NULL, "--timeout", "0.0001"), 0);
    assert_int_equal(args_seconds(args, "timeout", 0, &n, NULL), 0);
    assert_int_equal(n, 1);
    args_destroy(&args);
}

static void
test_args_every_verb_is_well_formed(void **state)
{
    (void)state;
    for (int i = 0; cmd_table[i] != NULL; i++) {
        const struct cmd *cmd = cmd_table[i];
        assert_non_null(cmd->run);
        assert_non_null(cmd->synopsis);
        assert_true(cmd->doc[0] != '\0');
        assert_true(cmd->max_args == CMD_ANY || cmd->max_args >= cmd->min_args);
        assert_ptr_equal(cmd_find(cmd->name), cmd);
        for (const struct args_option *o = cmd->options;
             o != NULL && o->name != NULL; o++) {
            assert_true(o->doc[0] != '\0');
            for (const struct args_option *p = o + 1; p->name != NULL; p++)
                assert_string_not_equal(o->name, p->name);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args_anywhere),
        cmocka_unit_test(test_args_scopes),
        cmocka_unit_test(test_args_refuses),
        cmocka_unit_test(test_args_numbers),
        cmocka_unit_test(test_args_every_verb_is_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
