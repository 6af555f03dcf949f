/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options: the command line of traind, and where things are by default.
 *
 * Reads arguments and environment into plain strings; makes no directory but
 * the one of the socket in user mode, which must be the user's alone.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include "daemon/conf.h"
#include "daemon/daemon.h"

enum options_action {
    OPTIONS_RUN,
    OPTIONS_CHECK_CONFIG,
    OPTIONS_HELP,
    OPTIONS_VERSION
};
struct options {
    enum options_action action;
    bool system;
    const char *state_dir, *socket, *config, *worker; /* NULL: not given */
};

extern const char *const options_usage;

/* ERR_USAGE. */
int options_parse(int argc, char **argv, struct options *out, struct err *err);

/* The configuration: file over defaults, options over file, then the usual
 * places for what nobody set. */
int options_load_conf(const struct options *options, struct conf *conf,
                      struct err *err);

/* Makes the socket's directory if it is one of the usual places. */
int options_prepare_socket_dir(const struct options *options,
                               const struct conf *conf, struct err *err);

/* traind-worker, traind-exec: beside this program, else in libexec. */
int options_find_program(const char *name, char *out, size_t size,
                         struct err *err);

#endif
