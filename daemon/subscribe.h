/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribe: clients that follow a job.
 *
 * Owns the request of each follower until the job's end. A notice costs a unit
 * of credit. Progress is only ever the latest, at most every min_interval_ms;
 * without credit it is left out and counted. Everything else waits in a queue
 * of SUBSCRIBE_QUEUE notices; beyond that the oldest go, counted too. So the
 * memory of a follower that never reads is bounded. Driven by flow.c and a
 * timer.
 */
#ifndef DAEMON_SUBSCRIBE_H
#define DAEMON_SUBSCRIBE_H

#include "daemon/job.h"
#include "daemon/request.h"

#define SUBSCRIBE_QUEUE 256

struct subscription;
struct subscribe {
    struct subscription *head; /* owned */
    uv_timer_t tick;
    int64_t dropped; /* notices of all followers, ever */
};

void subscribe_init(struct subscribe *s, uv_loop_t *loop);
/* Refuses whoever still follows; the loop has to run once more. */
void subscribe_fini(struct subscribe *s);

/* The request follows the job from now on, beginning with its state. */
void subscribe_add(struct subscribe *s, struct request *request,
                   const struct job *job);
/* More credit for a request; one that is none is ignored. */
void subscribe_credit(struct subscribe *s, const struct session *session,
                      int64_t id, int64_t n);

void subscribe_changed(struct subscribe *s, const struct job *job);
void subscribe_event(struct subscribe *s, const struct job *job,
                     const struct event *event);

#endif
