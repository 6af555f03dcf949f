/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program: another of traind's programs, run with the user's own rights.
 *
 * Finds it beside trainctl or where it is installed, gives it bytes on its
 * standard input and hands over what it writes. Its standard error is ours.
 * Nothing of the daemon's is used: no path from a message is ever executed.
 */
#ifndef CTL_PROGRAM_H
#define CTL_PROGRAM_H

#include "proto/err.h"

#include <stddef.h>

/* ERR_CONFIG "traind-worker is neither in ... nor in ...". */
int program_find(const char *name, char *out, size_t size, struct err *err);

/* Bytes of its standard output, as they come; negative ends the reading. */
typedef int program_output_fn(void *ctx, const char *bytes, size_t n,
                              struct err *err);

/* Runs argv (argv[0] is the path, the last NULL) and waits. The exit status,
 * 128 + a signal's number, or a negative error; then it has been ended. */
int program_run(char *const *argv, const char *input, size_t n_input,
                program_output_fn *fn, void *ctx, struct err *err);

#endif
