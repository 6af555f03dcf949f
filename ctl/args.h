/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args: command line words to options and arguments.
 *
 * Owns the list of what was given. Options may stand anywhere, as --name
 * VALUE, --name=VALUE or -x; "--" ends them. Two scopes: the program's options
 * (before or after the verb) and the verb's (after it), so that a verb may
 * give a name of its own meaning. Prints nothing. The strings are argv's.
 */
#ifndef CTL_ARGS_H
#define CTL_ARGS_H

#include "proto/err.h"

#include <stdbool.h>
#include <stdint.h>

/* A table of these ends with name NULL. */
struct args_option {
    const char *name;  /* without the dashes */
    char letter;       /* 'q' for -q, 0 = none */
    const char *value; /* what help calls its value; NULL: a flag */
    const char *doc;
};

struct args;

/* globals is borrowed. NULL: no memory. */
struct args *args_create(const struct args_option *globals);
void args_destroy(struct args **args);

/* Takes the program's options from words up to the first other word, the verb;
 * *used counts what was taken. ERR_USAGE. */
int args_take_globals(struct args *args, int n, char *const *words, int *used,
                      struct err *err);

/* Takes all words; options is the verb's table, borrowed. ERR_USAGE. */
int args_take(struct args *args, const struct args_option *options, int n,
              char *const *words, struct err *err);

/* Words that are no options. */
int args_n(const struct args *args);
const char *args_at(const struct args *args, int i);

/* Last value of the verb's option, or NULL. Asking for an option that is not
 * in the table, or a flag, is a program error; so below. */
const char *args_value(const struct args *args, const char *name);
/* Value i (0, 1, ...) of an option that may be repeated, or NULL. */
const char *args_nth(const struct args *args, const char *name, int i);
bool args_flag(const struct args *args, const char *name);
/* The value as an integer within [min, max], or `absent` when not given. */
int args_i64(const struct args *args, const char *name, int64_t absent,
             int64_t min, int64_t max, int64_t *out, struct err *err);
/* Seconds, fractions allowed, as milliseconds. */
int args_seconds(const struct args *args, const char *name, int64_t absent_ms,
                 int64_t *out_ms, struct err *err);

/* The same of the program's options. */
const char *args_global_value(const struct args *args, const char *name);
bool args_global_flag(const struct args *args, const char *name);
int args_global_seconds(const struct args *args, const char *name,
                        int64_t absent_ms, int64_t *out_ms, struct err *err);

#endif
