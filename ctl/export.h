/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export: the formats of "trainctl export", a file each.
 *
 * cmd_export.c reads which one is wanted and holds the options that do not go
 * with it; here each takes its own options from the session. All write with
 * the caller's rights, and what they write appears whole or not at all, but
 * for events that are followed: those are whole records. Private to the verb.
 */
#ifndef CTL_EXPORT_H
#define CTL_EXPORT_H

#include "ctl/session.h"

struct export_job {
    const struct view_job *view; /* borrowed */
    char ref[24];                /* its number */
    const char *to;              /* --to, NULL: not given */
};

/* A checkpoint's weights. */
int export_weights(struct session *s, const struct export_job *job,
                   struct err *err);

/* One list of the job's history, in a form that has a line for each row;
 * suffix: of the file's default name. */
int export_rows(struct session *s, const struct export_job *job,
                const struct output_ops *ops, const char *suffix,
                struct err *err);
/* The words of --what, for help: "metrics, scale, ...". */
#define EXPORT_WHAT                                                            \
    "metrics (default), scale, skips, incidents, evaluations, checkpoints, "   \
    "guards or rollbacks"

/* A directory of TensorBoard's event files. */
int export_board(struct session *s, const struct export_job *job,
                 struct err *err);

#endif
