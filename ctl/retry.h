/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retry: waiting for jobs across restarts of the daemon.
 *
 * A lost connection is tried again with growing pauses, told about once, until
 * the deadline. Only for requests that may be asked twice.
 */
#ifndef CTL_RETRY_H
#define CTL_RETRY_H

#include "ctl/session.h"

#define RETRY_FIRST_MS 100
#define RETRY_MAX_MS   5000

struct retry {
    int64_t pause_ms; /* the next one; 0 = first */
    bool told;
};

/* The error means that the daemon is gone or going, not that it refused. */
bool retry_is_worth(int code);

/* After an error that is worth it: closes the link, pauses, connects again.
 * 0: connected; ERR_TIMEOUT: deadline (-1 = none) passed, err still holds the
 * last trouble; others are final. */
int retry_link(struct retry *retry, struct session *s, int64_t deadline_ms,
               struct err *err);
/* An answer came: the next loss begins anew. */
void retry_forget(struct retry *retry);

/* Waits until the job is final, by the wait message. ERR_TIMEOUT beyond the
 * deadline; ERR_CANCELLED when interrupted. */
int retry_await_job(struct session *s, int64_t job, int64_t deadline_ms,
                    struct call_held_job *out, struct err *err);

#endif
