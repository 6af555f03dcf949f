/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_exit: the attempt's last word, exit.json.
 *
 *   {"attempt":1,"outcome":"completed","error":"ok","text":"","exit_code":0,
 *    "iteration":500,"updates":498,"skips":2}
 *
 * Written after the FINISHED event, under another name, fsync'd, renamed: it
 * is there whole or not at all.
 */
#ifndef ENGINE_WORKER_EXIT_H
#define ENGINE_WORKER_EXIT_H

#include "proto/err.h"
#include "proto/event.h"

/* 0 completed, 75 stopped, else by the error. */
int worker_exit_code(const struct event *finished);

/* The event is the FINISHED one; directory is the attempt's. */
int worker_exit_write(const char *directory, int64_t attempt,
                      const struct event *finished, struct err *err);

#endif
