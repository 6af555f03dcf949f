/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_log: events as lines for a person, on the worker's standard output.
 *
 * What `trainctl logs` shows: start, evaluations, checkpoints, located
 * incidents, warnings, the end. Steps and plain skips are told by the events
 * file only.
 */
#ifndef ENGINE_WORKER_LOG_H
#define ENGINE_WORKER_LOG_H

#include "proto/event.h"

#include <stdio.h>

void worker_log_event(FILE *out, const struct event *event);

#endif
