/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help: usage texts and completions, made from the table of verbs.
 */
#ifndef CTL_HELP_H
#define CTL_HELP_H

#include <stdbool.h>
#include <stdio.h>

struct cmd;

void help_put_program(FILE *f);
void help_put_verb(FILE *f, const struct cmd *cmd);

/* Verbs whose name begins with an underscore are for scripts only. */
bool help_is_hidden(const struct cmd *cmd);

/* One candidate a line for the last of n words after "trainctl". */
void help_put_completions(FILE *f, int n, const char *const *words);

#endif
