/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock: one daemon per state directory.
 *
 * flock(2) on <state>/lock; the kernel lets go of it however the holder dies.
 * The file's body (pid, start, version) is for people and for the sentence
 * that a second daemon prints; nobody trusts the pid in it. The file is never
 * removed: removing it would let two daemons hold two locks.
 */
#ifndef DAEMON_LOCK_H
#define DAEMON_LOCK_H

#include "proto/err.h"

/* 0 and *fd, or ERR_AGAIN (held; the sentence says by whom), ERR_IO. */
int lock_acquire(const char *state_dir, int *fd, struct err *err);
void lock_release(int *fd);

#endif
