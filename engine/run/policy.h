/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy: the effective numerics of an attempt, as one line of JSON.
 *
 * Everything that may change the bits of a run without being its data, model
 * or seed: dtype, op list, scaler, fp32 regions, rounding of weight gradients,
 * backend, threads, and the libraries and instructions underneath, so that a
 * run that goes on elsewhere says so. Equal policies give equal texts. Reads
 * its arguments and what this machine is, nothing else.
 */
#ifndef ENGINE_RUN_POLICY_H
#define ENGINE_RUN_POLICY_H

#include "proto/spec.h"

/* malloc'd; NULL: no memory. */
char *policy_format(const struct spec *spec, const char *backend, int threads);

/* Calls fn for each leaf in which two texts of policies differ, with "threads: 2
 * here, 4 recorded"; a text that is none has no leaves. */
typedef void policy_difference_fn(void *ctx, const char *text);
void policy_compare(const char *here, const char *recorded,
                    policy_difference_fn *fn, void *ctx);

/* Is a text from elsewhere a policy, and that of this spec? What it says of
 * the machine is not looked at. ERR_SPEC. */
int policy_check(const char *text, const struct spec *spec, struct err *err);

/* xxh3-64 of the spec's canonical text: what a checkpoint is bound to. */
uint64_t policy_hash_spec(const struct spec *spec);

#endif
