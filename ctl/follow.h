/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow: a job's notices as they come, until it is final.
 *
 * Takes notices by credit, so that a slow terminal holds up nobody. Shows a
 * progress bar and a line for each event, or hands every notice to the output
 * (json lines, parsable). Goes on after a restart of the daemon.
 */
#ifndef CTL_FOLLOW_H
#define CTL_FOLLOW_H

#include "ctl/session.h"

/* lines: where lines for a person go. final: the job as it ended. On
 * ERR_CANCELLED the job goes on. */
int follow_job(struct session *s, int64_t job, FILE *lines,
               struct call_held_job *final, struct err *err);

#endif
