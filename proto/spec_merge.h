/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_merge: changes of a spec after it was submitted.
 *
 * A change is a fragment of a spec, as in {"amp": {"fp32_regions": ["fc1"]}}:
 * its objects merge into those of the text, everything else replaces what is
 * there. The effective spec of a job is the text that was submitted with all
 * fragments in order. Fragments come from people, from diagnoses and, through
 * the file of events, from workers: nothing of them is trusted. Pure.
 */
#ifndef PROTO_SPEC_MERGE_H
#define PROTO_SPEC_MERGE_H

#include "proto/err.h"
#include "proto/spec.h"

#define SPEC_MERGE_MAX_BYTES  (64 * 1024) /* of a fragment */
#define SPEC_MERGE_MAX_VALUES 256         /* in it */

/*
 * The text with the fragment in it: malloc'd, every other byte as it was. A
 * bare word stands for the object that it is short for ("sgd" is {"sgd": {}},
 * a guard's word or list its mode or rules, a scaler's true or false whether it
 * is enabled); another kind of schedule replaces the one there. ERR_SPEC with a
 * sentence and *out NULL: a fragment that is no JSON object, has keys that no
 * spec has, is too large, or puts an object onto a list or a number. Whether
 * the result is a good spec spec_parse() says.
 */
int spec_merge(const char *text, size_t len, const char *fragment, char **out,
               struct err *err);

/* "path=value" (as for spec_set()) as a fragment, malloc'd. Text is the spec
 * that it is meant for: where the path leads into a list, the fragment holds
 * that list whole. ERR_USAGE, ERR_SPEC. */
int spec_merge_set(const char *text, size_t len, const char *assignment,
                   char **fragment, struct err *err);

/* A list of float32 regions is complete for the spec that its cure was found
 * under; another may have more by now. The fragment that gives `after` those of
 * `before` as well, malloc'd; "" where it has them all; NULL: no memory. */
char *spec_merge_regions(const struct spec *before, const struct spec *after);

/*
 * What differs between two specs, defaults written out, as a sentence's part:
 * "amp.dtype: \"float16\" -> \"bfloat16\", ..."; "" where nothing does. *out is
 * malloc'd. ERR_SPEC with a sentence that names the key: one differs that a
 * job keeps from its submission to its end. What may change: amp, guard,
 * diagnose, schedule, train.clip_grad_norm, and of optimizers lr, eps, betas,
 * momentum and weight_decay.
 */
int spec_difference(const struct spec *before, const struct spec *after,
                    char **out, struct err *err);

#endif
