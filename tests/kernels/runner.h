/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner: one case on one backend: memory, kernel, one or more runs.
 *
 * Prepares what the engine would prepare, with guards around every block, and
 * tells whether anything outside the outputs was touched.
 */
#ifndef TESTS_KERNELS_RUNNER_H
#define TESTS_KERNELS_RUNNER_H

#include "kernels/backend.h"
#include "tests/kernels/cases.h"

struct runner {
    struct kcase c; /* sig.threads as asked */
    const struct kernel *kernel;
    const char *table;
    void *state;
    struct check_buf in[OP_MAX_IN], in_copy[OP_MAX_IN], out[OP_MAX_OUT];
    struct check_buf workspace;
    struct kernel_step step;
};

/* Finds and prepares the kernel and fills the inputs from seed; false with a
 * sentence in err. */
bool runner_open(struct runner *r, const struct backend *backend,
                 const struct kcase *c, int threads, uint64_t seed,
                 struct err *err);
void runner_close(struct runner *r);

/* Poisons outputs and workspace, then runs once. in_place: output i shares the
 * memory of its input, where ops.def allows; inputs are refilled after. */
void runner_run(struct runner *r, bool in_place);

/* Whether this case may run in place. */
bool runner_may_alias(const struct runner *r);

/* Guards whole and inputs unchanged. */
bool runner_intact(const struct runner *r);

#endif
