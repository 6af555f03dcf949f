/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shutdown: from the first signal to an empty loop.
 *
 * SIGTERM or SIGINT: nothing starts any more, workers checkpoint and stop,
 * their jobs are queued again, and when all of that is committed the loop is
 * left. A second one: workers stop without checkpoints. A third: they are
 * killed. Whatever happens, it ends within the graces of the configuration.
 */
#ifndef DAEMON_SHUTDOWN_H
#define DAEMON_SHUTDOWN_H

#include "daemon/daemon.h"

struct shutdown;

/* Installs the signal handlers. Calls done on the loop when nothing is left
 * to wait for. NULL: no memory. */
typedef void shutdown_fn(struct daemon *d);
struct shutdown *shutdown_create(struct daemon *d, shutdown_fn *done);
void shutdown_destroy(struct shutdown **shutdown);

#endif
