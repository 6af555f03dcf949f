/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoints: the listed checkpoints of one job, all of them, and choices
 * among them.
 *
 * Gathers the rows from the store page by page; the choices are pure functions
 * of the list. "Good" is what the list says: the worker verifies before it
 * resumes. Loop's thread.
 */
#ifndef DAEMON_CHECKPOINTS_H
#define DAEMON_CHECKPOINTS_H

#include "daemon/store.h"

#define CHECKPOINTS_NAME_MAX 64

struct checkpoints_item {
    int64_t id, iteration, updates, skips, attempt;
    bool live, good, best;
    double metric;
    char name[CHECKPOINTS_NAME_MAX];
};
struct checkpoints {
    struct checkpoints_item *v; /* by iteration, then id */
    int n, cap;
};

/* list is borrowed during the call. */
typedef void checkpoints_fn(void *ctx, int rc, const struct checkpoints *list,
                            const struct err *err);
void checkpoints_gather(struct store *store, int64_t job, checkpoints_fn *done,
                        void *ctx);

/* Newest or best good one of the live line; NULL: none. */
const struct checkpoints_item *checkpoints_last(const struct checkpoints *list);
const struct checkpoints_item *checkpoints_best(const struct checkpoints *list);
const struct checkpoints_item *checkpoints_find(const struct checkpoints *list,
                                                int64_t id);
const struct checkpoints_item *
checkpoints_find_name(const struct checkpoints *list, const char *name);

/* What a rollback names: "last", "best", a number or a name. ERR_NOTFOUND,
 * ERR_CKPT (not good any more). */
const struct checkpoints_item *
checkpoints_choose(const struct checkpoints *list, const char *to,
                   struct err *err);

/* The file name pattern: "it000000500-a1". */
bool checkpoints_parse_name(const char *name, int64_t *iteration,
                            int64_t *attempt);

#endif
