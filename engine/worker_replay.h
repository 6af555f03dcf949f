/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_replay: traind-worker --replay DIR and --ranges CHECKPOINT --spec SPEC,
 * for trainctl.
 *
 * Runs a kept incident again, or the iteration that a checkpoint would go on
 * with, and writes JSON lines to standard output: a record "replay", then a
 * record "range" for each tensor (proto/views.def). DIR is all that a replay
 * reads: no data set, no job, no daemon. Opens files with its own rights and
 * writes none.
 */
#ifndef ENGINE_WORKER_REPLAY_H
#define ENGINE_WORKER_REPLAY_H

#include "proto/dtype.h"

#define WORKER_REPLAY_MAX_REGIONS 64

struct worker_replay_args {
    const char *incident;          /* a directory, or NULL: */
    const char *checkpoint, *spec; /* a directory and a file */
    const char *backend;           /* NULL: as recorded */
    int threads;                   /* 0: as recorded */
    bool has_dtype, has_scale;     /* else as recorded */
    enum dtype dtype;
    float scale;
    const char *region[WORKER_REPLAY_MAX_REGIONS]; /* besides the spec's */
    int n_regions;
};

/* Takes one option of the command line: the long option's name and its value.
 * False when it is none of these, or the value is wrong. */
bool worker_replay_take(struct worker_replay_args *args, const char *name,
                        const char *value);

/* The exit status: 0, 1 when a replay without changes does not give the bits
 * of the step that failed, or that of an error. */
int worker_replay(const struct worker_replay_args *args);

#endif
