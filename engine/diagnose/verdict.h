/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict: what was wrong with an iteration, out of what was found.
 *
 * Pure: evidence in, verdict, a sentence for a researcher and a cure out.
 * Numerics, section 4, has the table. Asks nothing and runs nothing.
 */
#ifndef ENGINE_DIAGNOSE_VERDICT_H
#define ENGINE_DIAGNOSE_VERDICT_H

#include "engine/diagnose/locate.h"
#include "proto/spec.h"

#define VERDICT_MAX_REGIONS 64
#define VERDICT_CURE_MAX    12288

struct evidence {
    struct location where;
    float scale;
    double lr;
    /* Answers; see struct event. */
    enum event_answer fp32_finite, bf16_finite, alone_finite;
    double finite_scale; /* NaN: none, or not asked */
    bool scale_asked;    /* smaller scales were tried */
    struct location
        fp32_where; /* where in float32, if it is not finite there */
    bool has_fp32_value;
    float fp32_value;
    /* The smallest set that cures, without the spec's own; 0: none known. */
    char region[VERDICT_MAX_REGIONS][EVENT_NAME_MAX];
    int n_regions;
    int64_t samples[EVENT_MAX_SAMPLES];
    int n_samples;
    int64_t n_guilty;
    bool samples_asked;
    bool samples_no_need; /* not finite without any sample either */
};

struct verdict {
    enum event_verdict verdict;
    char sentence[EVENT_TEXT_MAX];
    char cure[VERDICT_CURE_MAX];    /* a spec fragment, or "" */
    char regions[VERDICT_CURE_MAX]; /* "fc1, fc2" */
};

/* Does the value come from before the gradients? Then no scale matters. */
bool verdict_is_forward(const struct location *where);

void verdict_judge(const struct spec *spec, const struct evidence *e,
                   struct verdict *out);

#endif
