/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger: rows of jobs on their way into the store.
 *
 * Called by job.c only. Each write is one row and one event; when the store
 * cannot take it (disk full, locked), it is kept and tried again every second,
 * in order, until it can: a decided state is never forgotten and nobody acts
 * on it before. Tells the owner of the table about every committed change.
 * Loop's thread; owns a timer.
 */
#ifndef DAEMON_LEDGER_H
#define DAEMON_LEDGER_H

#include "daemon/job.h"

struct ledger_hooks {
    /* A transition is committed; job->stored is the new state. */
    void (*changed)(void *ctx, struct job *job, enum job_state from);
    /* Any write is committed; comes after changed. */
    void (*written)(void *ctx, struct job *job);
    /* The store cannot take a write now; it is tried again. */
    void (*refused)(void *ctx, struct job *job);
    /* Its last write is committed and its state is final: nobody needs the
     * job in memory any more. */
    void (*gone)(void *ctx, struct job *job);
    void *ctx;
};

struct ledger *ledger_create(uv_loop_t *loop, struct store *store,
                             const struct ledger_hooks *hooks);
/* Forgets what is still unwritten. */
void ledger_destroy(struct ledger **ledger);

void ledger_write(struct ledger *ledger, struct job *job, bool transition,
                  const char *kind, const struct job_change *change);

/* Writes not committed yet; the text says why the last one was refused ("" if
 * none was). */
int ledger_pending(const struct ledger *ledger);
const char *ledger_trouble(const struct ledger *ledger);

#endif
