/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile: what a restarted daemon makes of the jobs it finds.
 *
 * Loads every job that is not final. For one whose worker belonged to an
 * earlier daemon: waits until that very process (pid, start ticks, boot id) is
 * gone, kills what outlives its grace, stores the rest of its events, adopts
 * checkpoints, and lets flow.c decide as for any ended attempt: an order that
 * was under way is carried through. The daemon is ready only after the last of
 * these decisions is committed.
 */
#ifndef DAEMON_RECONCILE_H
#define DAEMON_RECONCILE_H

#include "daemon/daemon.h"

/* Reads the table into d->jobs. */
int reconcile_load(struct daemon *d, struct err *err);

typedef void reconcile_fn(struct daemon *d);
/* Calls done once, perhaps at once. */
void reconcile_start(struct daemon *d, reconcile_fn *done);

#endif
