/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adopt: checkpoints that are on disk but were never told of.
 *
 * A worker that dies between the rename that commits a checkpoint and the
 * event leaves a whole checkpoint that no row knows. Looks through the job's
 * directory for those of the latest attempt (name right, manifest there) and
 * lists them; verifying them is the next worker's business, as ever.
 */
#ifndef DAEMON_ADOPT_H
#define DAEMON_ADOPT_H

#include "daemon/daemon.h"

/* n: how many were found. */
typedef void adopt_fn(void *ctx, int n);
void adopt_checkpoints(struct daemon *d, struct job *job, adopt_fn *done,
                       void *ctx);

#endif
