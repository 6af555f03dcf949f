/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datacheck: the data of a spec, looked at before the job is queued.
 *
 * Runs traind-worker --check-data with the user's own rights, where there is
 * one beside trainctl: it opens the files and checks sizes, labels, tokens,
 * the model's shapes and its initial weights. Without one, the job's own worker will find out. The
 * daemon never opens what a client names.
 */
#ifndef CTL_DATACHECK_H
#define CTL_DATACHECK_H

#include "ctl/specfile.h"

/* file has been checked. The number of faults handed to fn, or negative. */
int datacheck_run(struct session *s, const struct specfile *file,
                  specfile_fault_fn *fn, void *ctx, struct err *err);

#endif
