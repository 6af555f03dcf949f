/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_policy: how two policies differ, as a sentence for people.
 *
 * A policy is the JSON text of what may change the bits of a run (see struct
 * event, started); a change is a spec fragment that was merged in between,
 * which also says what a policy does not show, such as a learning rate. Pure.
 */
#ifndef PROTO_SPEC_POLICY_H
#define PROTO_SPEC_POLICY_H

#include <stdbool.h>

#define SPEC_POLICY_DIFFERENCE_MAX 1024

/* "dtype float16 -> bfloat16; fp32_regions [] -> [conv2]" into out, cut where
 * it is too long; "" and false when nothing differs. before and change may be
 * "": nothing is known of what was before, nothing was changed. Text that is
 * no JSON object counts as "". */
bool spec_policy_difference(const char *before, const char *after,
                            const char *change,
                            char out[SPEC_POLICY_DIFFERENCE_MAX]);

/* Below which a moving loss scale does not fall (amp.scaler.min_scale); NaN:
 * it may fall to 0, or it does not move. */
double spec_policy_scale_floor(const char *policy);

#endif
