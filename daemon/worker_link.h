/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_link: the conversation with one worker over its socketpair.
 *
 * Owns our end. Frames go out (start, order) and come in (checkin, beat); what
 * is queued outwards is bounded, and a worker that reads nothing loses orders
 * rather than growing the daemon. A frame that is none breaks the link. Knows
 * no process and no job: supervisor.c decides. Loop's thread.
 */
#ifndef DAEMON_WORKER_LINK_H
#define DAEMON_WORKER_LINK_H

#include "proto/err.h"
#include "proto/view.h"

#include <uv.h>

struct worker_link;

struct worker_link_hooks {
    void (*checkin)(void *ctx, const struct view_checkin *checkin);
    void (*beat)(void *ctx, const struct view_beat *beat);
    /* The worker wrote something that is no report of ours. */
    void (*garbage)(void *ctx, const struct err *err);
    void *ctx;
};

/* fd is the link's from then on, even on failure. NULL: err says why. */
struct worker_link *worker_link_create_take(uv_loop_t *loop, int fd,
                                            const struct worker_link_hooks *h,
                                            struct err *err);
/* No hook is called after it. */
void worker_link_destroy(struct worker_link **link);

void worker_link_start(struct worker_link *link,
                       const struct view_start *start);
/* false: the worker reads nothing, the order is dropped. */
bool worker_link_order(struct worker_link *link, const char *order,
                       int64_t token);

#endif
