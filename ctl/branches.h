/* SPDX-License-Identifier: Apache-2.0 */
/*
 * branches: how a job came to where it is, drawn as a tree of lines.
 *
 * Attempts in their order; in each what was seen (incidents, joined where they
 * follow on each other, and guards), and how it was left: a rollback, and how
 * many iterations that abandoned. A changed policy is told with what it costs
 * in time per update. Pure: lists in, lines out; they own copies.
 */
#ifndef CTL_BRANCHES_H
#define CTL_BRANCHES_H

#include "proto/view.h"

#include <stdbool.h>
#include <stdio.h>

#define BRANCHES_TEXT 512

struct branches_attempt {
    int64_t attempt, start, end, updates;
    double mean_step_us;
    bool policy_changed;
    char state[32], cause[BRANCHES_TEXT], difference[BRANCHES_TEXT];
};
/* Something at an iteration of an attempt. */
struct branches_mark {
    int64_t attempt, iteration, last; /* last: of several in a row */
    int64_t n;
    bool is_guard;
    char text[BRANCHES_TEXT];
};
struct branches_return {
    int64_t attempt, from, to;
    bool policy_changed;
    char checkpoint[64], cause[BRANCHES_TEXT], difference[BRANCHES_TEXT];
};
struct branches {
    struct branches_attempt *attempt; /* owned, as all below */
    struct branches_mark *mark;
    struct branches_return *back;
    int n_attempts, n_marks, n_returns;
};

/* Called in the order that the daemon lists them; false: no memory. */
bool branches_add_attempt(struct branches *b, const struct view_attempt *v);
bool branches_add_incident(struct branches *b, const struct view_incident *v);
bool branches_add_guard(struct branches *b, const struct view_guard *v);
bool branches_add_return(struct branches *b, const struct view_went_back *v);
void branches_fini(struct branches *b);

/* Lines to f; text of strangers is made safe. utf8: lines of a tree instead
 * of ASCII. */
void branches_draw(struct branches *b, const struct view_job *job, bool utf8,
                   FILE *f);

/* What was changed on the way, why, and what it costs in time per update, in
 * words; nothing where nothing was. */
void branches_report(const struct branches *b, bool utf8, FILE *f);

#endif
