/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joblist: the JOB words of a command line as single job references.
 *
 * "12,15-18" becomes 12, 15, 16, 17, 18; "@" (my last) and "name:foo" stay
 * what they are, the daemon resolves them. Owns its strings. Pure.
 */
#ifndef CTL_JOBLIST_H
#define CTL_JOBLIST_H

#include "proto/err.h"

#define JOBLIST_MAX 10000

struct joblist {
    char **ref; /* owned strings */
    int n;
};

/* Adds what one word names. ERR_USAGE says what is wrong with it. */
int joblist_add(struct joblist *list, const char *word, struct err *err);
void joblist_fini(struct joblist *list);

#endif
