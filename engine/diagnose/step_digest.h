/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_digest: what a step computed, as 32 hex digits.
 *
 * XXH3-128 of the bits of the loss and of every parameter's unscaled gradient,
 * in the order of the parameters and without the gaps between them. Two runs
 * of an iteration have the same one when they did the same arithmetic. Every
 * NaN counts as one NaN: which of them an instruction gives is no result.
 * Called between step_compute() and step_commit(); reads, never writes.
 */
#ifndef ENGINE_DIAGNOSE_STEP_DIGEST_H
#define ENGINE_DIAGNOSE_STEP_DIGEST_H

#include "engine/base/digest.h"
#include "engine/run/state.h"

/* ERR_NOMEM. */
int step_digest(float loss, const struct state *state,
                char text[DIGEST_TEXT_BYTES], struct err *err);

#endif
