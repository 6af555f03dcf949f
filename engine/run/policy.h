/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy: the effective numerics of an attempt, as one line of JSON.
 *
 * Everything that may change the bits of a run without being its data, model
 * or seed: dtype, op list, scaler, fp32 regions, rounding of weight gradients,
 * backend, threads. Equal policies give equal texts, so whoever holds two
 * texts can tell a continuation from a new experiment. Pure.
 */
#ifndef ENGINE_RUN_POLICY_H
#define ENGINE_RUN_POLICY_H

#include "proto/spec.h"

/* malloc'd; NULL: no memory. */
char *policy_format(const struct spec *spec, const char *backend, int threads);

/* xxh3-64 of the spec's canonical text: what a checkpoint is bound to. */
uint64_t policy_hash_spec(const struct spec *spec);

#endif
