/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_sample: traind-worker --sample WEIGHTS --spec SPEC, for trainctl.
 *
 * Reads a prompt from standard input, writes what the model goes on with to
 * standard output as it comes. For data of format text both are bytes; for
 * tokens both are ids, parted by white space. Opens two files with its own
 * rights and writes none.
 */
#ifndef ENGINE_WORKER_SAMPLE_H
#define ENGINE_WORKER_SAMPLE_H

#include <stdint.h>

#define WORKER_SAMPLE_MAX_PROMPT (1024 * 1024) /* bytes */

struct worker_sample_args {
    const char *weights, *spec; /* paths; both must be there */
    int64_t n_tokens;           /* >= 0 */
    double temperature;         /* >= 0 */
    int64_t top_k;              /* >= 0 */
    uint64_t seed;
};

/* The exit status. */
int worker_sample(const struct worker_sample_args *args);

#endif
