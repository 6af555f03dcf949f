/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary: a job in words and numbers, for status and at the end of watch.
 *
 * Text output only; writes to the session's output.
 */
#ifndef CTL_SUMMARY_H
#define CTL_SUMMARY_H

#include "ctl/session.h"

/* Everything that the job's view says. */
void summary_put_job(const struct session *s, const struct view_job *job);
/* That, the curves of loss and scale, and where the files are. */
int summary_put_result(struct session *s, const struct view_job *job,
                       struct err *err);

#endif
