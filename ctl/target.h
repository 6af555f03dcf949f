/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target: a file that appears whole or not at all.
 *
 * Owns a temporary file beside the one that was asked for; target_commit()
 * gives it its name, target_abandon() removes it. "-" is standard output,
 * where there is nothing to give back. Written with the caller's own rights.
 */
#ifndef CTL_TARGET_H
#define CTL_TARGET_H

#include "proto/err.h"

#include <limits.h>
#include <stdbool.h>

struct target {
    char path[PATH_MAX];
    char temporary[PATH_MAX + 16];
    int fd;
    bool force; /* replace a file that is there */
};

/* A file of the working directory for a job: its name, made a file's (other's
 * where nothing is left of it), and suffix. */
void target_name(const char *job, const char *other, const char *suffix,
                 char out[NAME_MAX + 1]);

/* ERR_EXISTS, ERR_DENIED, ERR_IO, ERR_USAGE (too long). */
int target_open(struct target *t, const char *path, bool force,
                struct err *err);
bool target_is_stdout(const struct target *t);
/* The sentence of a write that was refused. */
int target_refuse(const struct target *t, int errnum, struct err *err);
int target_commit(struct target *t, struct err *err);
/* Does nothing after target_commit(). */
void target_abandon(struct target *t);

#endif
