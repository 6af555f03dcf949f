/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act: verbs that change a job and get its view back.
 */
#ifndef CTL_ACT_H
#define CTL_ACT_H

#include "ctl/session.h"

/* Prints what became of a job: job 17 "name": STATE, REASON. */
void act_tell_job(const struct session *s, const struct view_job *job);
/* "STATE, REASON", or the reason alone where it begins with the state. */
void act_describe(const struct view_job *job, char *out, size_t n);

/* Sends a message with a job_ref for every JOB and tells what came of it. */
int act_on_jobs(struct session *s, enum message_id message, struct err *err);

#endif
