/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune: checkpoints of abandoned lines, once a job has ended.
 *
 * A worker never touches them, for somebody may still want to go back there.
 * When the job is final the newest `checkpoint.keep` of them stay and the rest
 * is removed, on a thread of libuv's pool, and marked pruned. The live line is
 * not touched, and nothing is removed while it has no good checkpoint.
 */
#ifndef DAEMON_PRUNE_H
#define DAEMON_PRUNE_H

#include "daemon/daemon.h"

/* job may go away after the call. */
void prune_abandoned(struct daemon *d, const struct job *job);

#endif
