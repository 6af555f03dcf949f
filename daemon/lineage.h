/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineage: a job's latest numbers when it leaves a line of its history.
 *
 * Loss, scale, evaluations and checkpoint that a client sees are those of the
 * live line. When a job goes back they are forgotten, and what the live line
 * still has of evaluations is read from the store. Called by flow on the
 * loop's thread; changes no state and stores nothing.
 */
#ifndef DAEMON_LINEAGE_H
#define DAEMON_LINEAGE_H

#include "daemon/daemon.h"

/* Numbers of a line that is left: unknown until the worker says them. */
void lineage_forget(struct job *job);

/* Reads the latest and the best evaluation of the live line; to be called when
 * the worker's start has been stored. */
void lineage_refresh(struct daemon *d, struct job *job);

#endif
