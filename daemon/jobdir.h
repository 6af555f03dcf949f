/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobdir: the directories of a job, and who owns them.
 *
 *   <state>/jobs/<id>/                       the daemon's; others may pass
 *     spec.json                              as submitted
 *     attempts/<n>/                          the submitter's
 *       stdout stderr events.jsonl exit.json
 *     checkpoints/                           the submitter's
 *
 * The daemon touches nothing but what it made, never through a link. Only one
 * worker at a time works in a job's directory.
 */
#ifndef DAEMON_JOBDIR_H
#define DAEMON_JOBDIR_H

#include "proto/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JOBDIR_MAX 2048

/* Paths; out has JOBDIR_MAX bytes. */
void jobdir_path(char *out, const char *state_dir, int64_t job);
void jobdir_attempt_path(char *out, const char *job_dir, int64_t attempt,
                         const char *file); /* "" = the directory */
void jobdir_checkpoint_path(char *out, const char *job_dir, const char *name);

/* Makes <state> and <state>/jobs. shared: other users must be able to pass. */
int jobdir_init(const char *state_dir, bool shared, struct err *err);

struct jobdir_owner {
    bool change; /* false: everything stays the daemon's */
    uid_t uid;
    gid_t gid;
};
/* Makes what attempt n needs and is missing. */
int jobdir_make(const char *job_dir, int64_t attempt, const char *spec,
                const struct jobdir_owner *owner, struct err *err);

/* Removes one checkpoint of an abandoned line. Slow: not on the loop. */
int jobdir_remove_checkpoint(const char *job_dir, const char *name,
                             struct err *err);

#endif
