/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights: which checkpoint of a job is meant, and where its weights lie.
 *
 * For the verbs that read weights with the user's own rights. Asks the daemon;
 * opens nothing.
 */
#ifndef CTL_WEIGHTS_H
#define CTL_WEIGHTS_H

#include <limits.h>

#include "ctl/session.h"

#define WEIGHTS_OPTION                                                         \
    {                                                                          \
        "checkpoint", 0, "WHICH", "last (default), best, a number or name"     \
    }

#define WEIGHTS_EMA_OPTION                                                     \
    {                                                                          \
        "ema", 0, NULL, "the averaged weights, where the job keeps them"       \
    }

struct weights {
    bool ema;            /* set before: the average is wanted */
    char name[PATH_MAX]; /* of the checkpoint */
    char path[PATH_MAX]; /* its safetensors file */
};

/* which: the value of --checkpoint, NULL for the last. ERR_NOTFOUND, ERR_CKPT
 * when that one is no good any more. ref names the job in sentences too. */
int weights_find(struct session *s, const char *ref, const char *which,
                 struct weights *out, struct err *err);

#endif
