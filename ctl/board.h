/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board: a directory of TensorBoard's event files, one for each attempt.
 *
 * Owns the directory while it is written: a lock keeps others out, and a
 * directory with event files of anything else is refused. Names sort in the
 * order of attempts. A board that is live has its files under their names at
 * once and only ever whole records in them; another has them under hidden
 * names until board_commit(). Knows nothing about where rows come from.
 */
#ifndef CTL_BOARD_H
#define CTL_BOARD_H

#include "ctl/tfevents.h"

#include <limits.h>

#define BOARD_NAME_MAX 96

struct board {
    char dir[PATH_MAX];
    char suffix[32];  /* of this job's files */
    int dir_fd;       /* -1: not open */
    int fd;           /* the file being written, -1 = none */
    bool live, force; /* force: replace this job's files */
    bool made_dir, committed;
    int64_t *attempts; /* owned: those that have a file */
    int n_attempts;
    struct tfevents events; /* not written yet */
};

/* Makes the directory if there is none. ERR_EXISTS when it holds event files
 * (with force: of anything but this job), ERR_AGAIN while another writes
 * there, ERR_DENIED, ERR_IO. */
int board_open(struct board *b, const char *dir, int64_t job, bool live,
               bool force, struct err *err);

/* A file for the attempt: version, and the start of a session at `step`. */
int board_begin(struct board *b, int64_t attempt, int64_t t_us, int64_t step,
                struct err *err);
void board_put(struct board *b, int64_t t_us, int64_t step,
               const struct tfevents_scalar *scalars, int n);
/* What was put is in the file. */
int board_flush(struct board *b, struct err *err);

/* Files that are not live get their names. */
int board_commit(struct board *b, struct err *err);
/* Removes what has no name yet, and lets the directory go. */
void board_close(struct board *b);

#endif
