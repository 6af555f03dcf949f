/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainctl: words of the command line to a verb, its outcome to an exit code.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/help.h"
#include "ctl/session.h"

#define EXIT_USAGE  2
#define EXIT_SIGNAL 128 /* + its number, as a shell would say */

static int
check_count(const struct cmd *cmd, const struct args *args, struct err *err)
{
    int n = args_n(args);

    if (n < cmd->min_args)
        return err_set(err, ERR_USAGE, "%s needs %s; see \"trainctl help %s\"",
                       cmd->name, cmd->synopsis, cmd->name);
    if (cmd->max_args != CMD_ANY && n > cmd->max_args)
        return err_set(err, ERR_USAGE,
                       "%s: \"%s\" is one word too many; see "
                       "\"trainctl help %s\"",
                       cmd->name, args_at(args, cmd->max_args), cmd->name);
    return 0;
}

static int
run_verb(const struct cmd *cmd, const struct args *args, struct err *err)
{
    struct session s;
    int rc = session_init(&s, cmd, args, err);

    if (rc == 0)
        rc = cmd->run(&s, err);
    if (rc == ERR_CANCELLED) {
        int signo = session_take_signal(&s);
        if (signo != 0)
            rc = EXIT_SIGNAL + signo; /* the verb has said what goes on */
    }
    if (rc < 0) {
        session_warn(&s, "%s", err->msg);
        rc = err_exit_code(rc);
    }
    session_fini(&s);
    return rc;
}

/* Finds the verb and takes its words. An exit code, or negative. */
static int
run_words(struct args *args, int n, char *const *words, struct err *err)
{
    const struct cmd *cmd;
    int used = 0;
    int rc = args_take_globals(args, n, words, &used, err);

    if (rc < 0)
        return rc;
    if (args_global_flag(args, "version")) {
        puts("trainctl " TRAIND_VERSION);
        return 0;
    }
    if (used == n) {
        bool asked = args_global_flag(args, "help");
        help_put_program(asked ? stdout : stderr);
        return asked ? 0 : EXIT_USAGE;
    }
    cmd = cmd_find(words[used]);
    if (cmd == NULL)
        return cmd_refuse(words[used], err);
    rc = args_take(args, cmd->options, n - used - 1, words + used + 1, err);
    if (rc == 0 && args_global_flag(args, "help")) {
        help_put_verb(stdout, cmd);
        return 0;
    }
    if (rc == 0)
        rc = check_count(cmd, args, err);
    return rc < 0 ? rc : run_verb(cmd, args, err);
}

static bool
reader_left(void)
{
    struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0;
}

/* What did not reach its reader is no success, unless the reader left. */
static int
flush_output(int code)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || reader_left())
        return code;
    fprintf(stderr, "trainctl: standard output: %s\n",
            errno != 0 ? strerror(errno) : "write error");
    return err_exit_code(ERR_IO);
}

int
main(int argc, char **argv)
{
    struct args *args = args_create(cmd_globals);
    struct err err = {0};
    int rc;

    setlocale(LC_CTYPE, "");
    if (args == NULL)
        rc = err_set(&err, ERR_NOMEM, "out of memory");
    else
        rc = run_words(args, argc > 0 ? argc - 1 : 0, argv + 1, &err);
    if (rc < 0) { /* before there was a session */
        fprintf(stderr, "trainctl: ");
        format_put_safe(stderr, err.msg, false);
        fprintf(stderr, "\n");
        rc = err_exit_code(rc);
    }
    args_destroy(&args);
    return flush_output(rc);
}
