/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice: one line about a job, for those who follow it.
 *
 * Pure: made of a job and a stored event; owns its text, so that it can wait.
 */
#ifndef DAEMON_NOTICE_H
#define DAEMON_NOTICE_H

#include "daemon/job.h"

struct notice {
    const char *kind, *state; /* constants */
    char text[480];
    int64_t iteration, updates, skips, total_iterations;
    double loss, scale, lr, accuracy, iterations_per_s, eta_s;
};

/* kind "state", or "end" when it is final. */
void notice_from_state(struct notice *notice, const struct job *job);
void notice_from_progress(struct notice *notice, const struct job *job);
/* false: not worth a notice. */
bool notice_from_event(struct notice *notice, const struct job *job,
                       const struct event *event);

/* Strings are borrowed from the notice. */
void notice_view(const struct notice *notice, struct view_notice *out);

#endif
