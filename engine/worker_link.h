/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_link: all that reaches a worker from outside: fd 3 and signals.
 *
 * Owns the socket to the daemon, a signalfd and the one thread that waits on
 * both; that thread sends beats (every second, on news, in answer to pings)
 * and never makes the training wait: a full socket drops beats. Orders are
 * bits that the engine's thread picks up between two steps. SIGTERM and the
 * end of the connection mean stop, SIGINT abandon. Knows no event and no file.
 */
#ifndef ENGINE_WORKER_LINK_H
#define ENGINE_WORKER_LINK_H

#include "proto/codec.h"

#include <stdint.h>

struct worker_link;

/* Call it first, while there is one thread: signals are blocked from then on
 * and read by the link alone. The descriptor is taken over. */
int worker_link_open(int fd, struct worker_link **out, struct err *err);

/* Waits for the start frame; strings of *start live in *doc. ERR_INTERRUPTED
 * when told to end before it came, ERR_PROTO for anything else than it. */
int worker_link_wait_start(struct worker_link *link, struct view_start *start,
                           struct codec_doc **doc, struct err *err);

/* Sends checkin and starts the thread. */
int worker_link_checkin(struct worker_link *link,
                        const struct view_checkin *checkin, struct err *err);

/* Bits of engine/run/report.h: REPORT_CHECKPOINT once, the others for good. */
unsigned worker_link_orders(struct worker_link *link);

/* What the next beats say; wakes the thread to send one when news is set. */
void worker_link_progress(struct worker_link *link, int64_t iteration,
                          int64_t events_bytes, bool news);

/* What was wrong with what came in, if anything: ERR_PROTO. */
int worker_link_error(struct worker_link *link, struct err *err);

/* Sends a last beat as far as the socket takes it; ends the thread. */
void worker_link_close(struct worker_link **link);

#endif
