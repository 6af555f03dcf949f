/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change: what comes with a rollback: another policy, windows of data to pass
 * over, a loss scale.
 *
 * Works out what a job's row will hold and what the record says, from what a
 * person or a guard asks for. Refuses what the spec would not allow; nothing
 * of the job changes here. Pure.
 */
#ifndef DAEMON_CHANGE_H
#define DAEMON_CHANGE_H

#include "daemon/checkpoints.h"
#include "daemon/job.h"

#define CHANGE_MAX_WINDOWS 1000000 /* passed over by one rollback */

struct change_ask {
    const char *cause;                 /* "by a person", "guard: ..." */
    int64_t uid;                       /* -1: a guard */
    const struct checkpoints_item *to; /* NULL: the start */
    const char *fragment;              /* of a cure or a guard; "": none */
    struct view_strs set;              /* path=value, applied after it */
    int64_t skip_batches;              /* windows after the checkpoint */
    struct view_i64s windows;          /* pairs, as of a guard */
    double scale;                      /* NaN: the checkpoint's */
};

struct change {
    char *changes, *skip_windows; /* owned: for the row */
    char *fragment;               /* owned: all of it merged into one */
    char *difference; /* owned: of the effective policy; "": it stays */
    char cause[EVENT_TEXT_MAX];
    double scale;
    bool policy_changed;
};

/* ERR_USAGE, ERR_SPEC or ERR_STATE with a sentence. fini in any case. */
int change_make(const struct store_job *row, const struct change_ask *ask,
                struct change *out, struct err *err);
/* One that was made, from another checkpoint: of ask only `to` and
 * skip_batches count. row: as it was before the change; changes: with it. Fills
 * out's changes and skip_windows. fini in any case. */
int change_move(const struct store_job *row, const char *changes,
                const struct change_ask *ask, struct change *out,
                struct err *err);
void change_fini(struct change *change);

/* The spec that the job runs under, malloc'd. */
int change_effective(const struct store_job *row, char **text, struct err *err);
/* Its guard.max_rollbacks; 0 when it cannot be read. */
int64_t change_max_rollbacks(const struct store_job *row);

/* Fills in what the view says of the policy, from the row's changes. */
void change_show(struct job *job);

/* Numbers of a JSON list of integers; NULL and n 0 where there are none, or no
 * memory. malloc'd. */
int64_t *change_read_windows(const char *list, int *n);

#endif
