/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call: one request over the link and its answer.
 *
 * A refusal comes back as the daemon's error code and sentence; its faults
 * can be read from link_client() until the next call. Views are borrowed from
 * the client until the next call; held_job is a copy to keep.
 */
#ifndef CTL_CALL_H
#define CTL_CALL_H

#include "ctl/link.h"

/* A job's view that outlives the answer it came in. */
struct call_held_job {
    struct view_job job;   /* borrows from doc */
    struct codec_doc *doc; /* owned */
};
int call_hold_job(struct call_held_job *held, const struct view_job *job,
                  struct err *err);
void call_held_job_fini(struct call_held_job *held);

/* A ONE or LATER message; out is the reply's view. ONE has the link's time to
 * answer, LATER as long as it takes. */
int call_one(struct link *link, enum message_id message, const void *args,
             void *out, struct err *err);
/* The same up to a deadline of the caller's: ERR_TIMEOUT beyond it; the link
 * is of no use afterwards. */
int call_one_by(struct link *link, enum message_id message, const void *args,
                int64_t deadline_ms, void *out, struct err *err);

/* The next notice or the reply of a STREAM that was asked for; a refusal is
 * its error. As link_wait() otherwise. */
int call_await(struct link *link, int64_t deadline_ms, enum client_news *news,
               struct err *err);

/* Called for each record; a negative code ends the walk. */
typedef int call_row_fn(void *ctx, const void *view, struct err *err);
/* A MANY message, page after page. */
int call_many(struct link *link, enum message_id message, const void *args,
              call_row_fn *row, void *ctx, struct err *err);

#endif
