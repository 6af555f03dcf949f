/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines: which attempt made which iteration, on each line of a job's history.
 *
 * An attempt goes on from a checkpoint of an earlier one, so attempts are a
 * tree; the line of an attempt is its own iterations behind those of its
 * parent up to where it began. Pure; fed with what the daemon lists.
 */
#ifndef CTL_LINES_H
#define CTL_LINES_H

#include <stdbool.h>
#include <stdint.h>

struct lines_attempt {
    int64_t attempt, parent; /* parent 0: none, it began from scratch */
    int64_t start;           /* iterations done when it began */
    int64_t start_us;        /* wall clock */
};
struct lines {
    struct lines_attempt *v; /* owned, ascending */
    int n;
};

/* Attempts ascend; a parent that is no earlier attempt is none. false: no
 * memory. */
bool lines_add(struct lines *l, const struct lines_attempt *attempt);
void lines_fini(struct lines *l);

/* Number of the last one, 0 = none. */
int64_t lines_last(const struct lines *l);

/* The attempt that made an iteration on the line of `line`; 0 = none. An
 * iteration that has not been made yet is line's own. */
int64_t lines_at(const struct lines *l, int64_t line, int64_t iteration);

/* Up to which iteration, at most `upto`, lines a and b are one. */
int64_t lines_fork(const struct lines *l, int64_t a, int64_t b, int64_t upto);

/* Up to which iteration attempt's own ones are on the line of `line`: -1 = none
 * are, INT64_MAX for line itself. */
int64_t lines_limit(const struct lines *l, int64_t line, int64_t attempt);

#endif
